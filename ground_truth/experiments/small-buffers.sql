-- 500 pages of the table, each of them anywhere, with as many of the index.
SELECT sum(abalance)
FROM pgbench_accounts
WHERE aid = ANY (ARRAY(SELECT 1 + floor(random() * 100000 * :scale)::integer FROM generate_series(1, 500)));
