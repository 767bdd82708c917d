\set d random(1, 149000)
SELECT placed AS since, placed + interval '8 h' AS until FROM orders WHERE id = :d \gset
SELECT count(*), sum(total) FROM orders WHERE placed >= :since AND placed < :until;
