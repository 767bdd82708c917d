-- One database per result folder, made whole or not at all. Times are seconds since the epoch (UTC). Rows are appended; what happened is not edited.
BEGIN;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE arm (
    position INTEGER PRIMARY KEY,            -- 0 is the control
    name     TEXT NOT NULL UNIQUE,
    role     TEXT NOT NULL CHECK (role IN ('control', 'candidate', 'placebo')),
    settings TEXT NOT NULL,                  -- JSON object: PostgreSQL setting -> value as declared
    knobs    TEXT NOT NULL                   -- JSON list of [knob, name, value]: what else it sets
) STRICT;

CREATE TABLE load_level (
    level   INTEGER PRIMARY KEY,
    clients INTEGER NOT NULL,
    rate    REAL
) STRICT;

CREATE TABLE slot (
    number   INTEGER PRIMARY KEY,
    block    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    arm      TEXT NOT NULL REFERENCES arm (name)
) STRICT;

CREATE TABLE run (
    id      INTEGER PRIMARY KEY,
    slot    INTEGER NOT NULL REFERENCES slot (number),
    attempt INTEGER NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('running', 'done', 'invalid', 'interrupted')),
    started REAL NOT NULL,
    ended   REAL,
    reason  TEXT NOT NULL DEFAULT '',
    UNIQUE (slot, attempt)
) STRICT;

CREATE TABLE phase (
    run     INTEGER NOT NULL REFERENCES run (id),
    name    TEXT NOT NULL,
    level   INTEGER,                         -- load level, for the measure phase
    started REAL NOT NULL,
    ended   REAL NOT NULL
) STRICT;

CREATE TABLE slice (                         -- of a run that shared its block's time with other arms
    run     INTEGER NOT NULL REFERENCES run (id),
    level   INTEGER NOT NULL,
    number  INTEGER NOT NULL,                -- position in the block's sequence, over all arms
    started REAL NOT NULL,                   -- the arm's server and load begin or go on
    counted REAL NOT NULL,                   -- end of the guard time
    ended   REAL NOT NULL,                   -- they stand still, or the next slice of the arm begins
    PRIMARY KEY (run, level, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    id   INTEGER PRIMARY KEY,
    t    REAL NOT NULL,
    run  INTEGER REFERENCES run (id),
    kind TEXT NOT NULL,
    data TEXT NOT NULL                       -- JSON object
) STRICT;

CREATE TABLE setting (                       -- pg_settings as read back in each run
    run         INTEGER NOT NULL REFERENCES run (id),
    name        TEXT NOT NULL,
    value       TEXT NOT NULL,               -- as SHOW prints it
    source      TEXT NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE setting_change (                -- every setting that was set, with the value before
    id        INTEGER PRIMARY KEY,
    t         REAL NOT NULL,
    run       INTEGER REFERENCES run (id),
    knob      TEXT NOT NULL,
    name      TEXT NOT NULL,
    old_value TEXT,
    new_value TEXT NOT NULL
) STRICT;

CREATE TABLE fingerprint (                   -- facts of the world; run is NULL for the experiment as a whole
    run    INTEGER REFERENCES run (id),
    moment TEXT CHECK (moment IN ('before', 'after')),  -- the load of the run; NULL for the whole
    name   TEXT NOT NULL,
    value  TEXT NOT NULL
) STRICT;

CREATE TABLE caveat (                        -- limits on trust that were known while measuring
    run      INTEGER REFERENCES run (id),
    code     TEXT NOT NULL,
    severity TEXT NOT NULL,
    text     TEXT NOT NULL,
    hint     TEXT NOT NULL,
    said     TEXT                            -- JSON: variant and values, by which the catalogue has the sentences
) STRICT;

INSERT INTO meta VALUES ('format', '{format}');

COMMIT;
