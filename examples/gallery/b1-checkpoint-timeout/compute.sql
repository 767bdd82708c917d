-- Work for the CPU: two thousand accounts are read from shared_buffers and digested.
\set first random(1, 100000 * :scale - 1999)
SELECT bid, count(*), sum(abalance), max(md5(filler || aid::text))
FROM pgbench_accounts
WHERE aid BETWEEN :first AND :first + 1999
GROUP BY bid;
