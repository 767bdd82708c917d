-- One row for a random account into the history table.
-- One random number makes its reference, its account, and that account's teller and branch.
\set reference random(1, 2000000000)
\set aid :reference % (100000 * :scale) + 1
\set tid (:aid - 1) / 10000 + 1
\set bid (:aid - 1) / 100000 + 1
\set delta random(-5000, 5000)
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, reference)
VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP, :reference);
