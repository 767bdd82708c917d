-- Ten rows for random accounts into the history table, in one transaction.
-- One random number per row makes its reference, its account, and that account's teller and branch.
\set r1 random(1, 2000000000)
\set r2 random(1, 2000000000)
\set r3 random(1, 2000000000)
\set r4 random(1, 2000000000)
\set r5 random(1, 2000000000)
\set r6 random(1, 2000000000)
\set r7 random(1, 2000000000)
\set r8 random(1, 2000000000)
\set r9 random(1, 2000000000)
\set r10 random(1, 2000000000)
\set accounts 100000 * :scale
\set delta random(-5000, 5000)
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, reference)
SELECT (aid - 1) / 10000 + 1, (aid - 1) / 100000 + 1, aid, :delta::integer, CURRENT_TIMESTAMP, reference
FROM unnest(ARRAY[:r1, :r2, :r3, :r4, :r5, :r6, :r7, :r8, :r9, :r10]::integer[]) AS new (reference)
CROSS JOIN LATERAL (VALUES (reference % :accounts::bigint + 1)) AS account (aid);
