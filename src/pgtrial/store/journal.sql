-- One database per machine and user. Times are seconds since the epoch (UTC). A row is written before a host is changed,
-- completed once the change is confirmed, and again when it has been undone; no entry is ever removed.
BEGIN;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE entry (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    t                 REAL NOT NULL,
    host              TEXT NOT NULL,         -- "local" or the ssh:// address
    boot_id           TEXT NOT NULL,         -- of that host
    folder            TEXT NOT NULL,         -- result folder, absolute
    run               INTEGER,               -- in that folder's state; NULL for a change that outlasts runs
    knob              TEXT NOT NULL,
    name              TEXT NOT NULL,
    old               TEXT NOT NULL,         -- JSON object: item -> value, or the digest of a long one; empty where there was nothing
    new               TEXT NOT NULL,         -- JSON object
    old_text          TEXT NOT NULL,         -- the two as a person reads them
    new_text          TEXT NOT NULL,
    got               TEXT,                  -- JSON object read back after the change; NULL until it is confirmed
    owner_pid         INTEGER NOT NULL,      -- the pgtrial that made the change, on the machine of this file
    owner_start_ticks INTEGER NOT NULL,      -- field 22 of /proc/pid/stat: a pid alone may be somebody else's by now
    owner_boot_id     TEXT NOT NULL,
    outcome           TEXT,                  -- how undoing ended; NULL and 'failed' are still to be undone
    text              TEXT NOT NULL DEFAULT '',
    ended             REAL,
    seal              TEXT                   -- SHA-256 of the row without how undoing ended, see journal_values.py
) STRICT;

{long_values};

INSERT INTO meta VALUES ('format', '{format}');

COMMIT;
