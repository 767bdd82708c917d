\set customer random(1, 100)
\set page random(0, 99)
SELECT number, text FROM note WHERE customer = :customer ORDER BY number LIMIT 10 OFFSET :page * 10;
