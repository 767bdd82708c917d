\set aid random(1, 100000)
SELECT current_setting('truth.pause') AS pause \gset
\sleep :pause ms
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
