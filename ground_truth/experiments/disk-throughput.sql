-- A piece of the table that hardly any other transaction reads, so that it does not lie in a cache.
\set first random(1, 5900000)
SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :first AND :first + 20000;
