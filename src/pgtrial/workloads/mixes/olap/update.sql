-- One random account: lock it unless another session holds it, and change its balance.
\set aid random(1, 100000 * :scale)
\set delta random(-5000, 5000)
UPDATE pgbench_accounts
SET abalance = abalance + :delta
WHERE aid IN (SELECT aid FROM pgbench_accounts WHERE aid = :aid FOR UPDATE SKIP LOCKED);
