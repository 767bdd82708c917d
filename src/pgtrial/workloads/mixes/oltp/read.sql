-- The balance of the branch of a random account: one row.
\set aid random(1, 100000 * :scale)
SELECT branch.bbalance
FROM pgbench_accounts AS account
JOIN pgbench_branches AS branch USING (bid)
WHERE account.aid = :aid;
