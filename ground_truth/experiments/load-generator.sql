SELECT current_setting('truth.busy') AS busy \gset
\if :busy
-- A Zipfian number with a parameter near 1 takes pgbench many tries.
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\set n random_zipfian(1, 10, 1.001)
\endif
\set aid random(1, 100000)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
