\set sensor random(0, 99)
SELECT avg(value) FROM measure WHERE taken >= '2025-10-01' AND sensor = :sensor;
