\set customer random(1, 100)
\set page random(0, 99)
SELECT number, text FROM note WHERE customer = :customer AND number > :page * 10 ORDER BY number LIMIT 10;
