-- Run once, before the snapshot is taken, beside pgbench's tables: ten rows that every session changes, and a table
-- whose rows come and go at random places of an index, so that many pages are new to the WAL after each checkpoint.
-- Vacuum does not shorten them, for which it would lock out everybody.
CREATE TABLE hot (id integer PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10, vacuum_truncate = off);
INSERT INTO hot
SELECT n, 0
FROM generate_series(1, 10) AS n;

CREATE TABLE entry (reference integer NOT NULL, payload text NOT NULL) WITH (vacuum_truncate = off);
INSERT INTO entry
SELECT abs(hashint4(n)::bigint) % 300000 + 1, repeat('x', 100)
FROM generate_series(1, 300000) AS n;
CREATE INDEX entry_reference ON entry (reference);
