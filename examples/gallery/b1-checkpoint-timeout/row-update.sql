-- One of ten rows is changed, and its lock kept while two thousand accounts are digested: whoever wants the same row
-- waits for the transaction that has it.
\set id random(1, 10)
\set first random(1, 100000 * :scale - 1999)
BEGIN;
UPDATE hot SET n = n + 1 WHERE id = :id;
SELECT bid, count(*), sum(abalance), max(md5(filler || aid::text))
FROM pgbench_accounts
WHERE aid BETWEEN :first AND :first + 1999
GROUP BY bid;
END;
