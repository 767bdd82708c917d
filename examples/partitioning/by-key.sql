\set id random(1, 400000)
SELECT value FROM measure WHERE id = :id;
