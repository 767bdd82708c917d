\set d random(1, 149000)
\set e :d + 500
SELECT state, count(*) FROM orders WHERE id BETWEEN :d AND :e GROUP BY state;
