-- The columns of the Parquet files of a run; times are seconds since the epoch, latencies seconds.
--
-- transactions.parquet: one row per load level, second and scenario, of the measured time only. Latencies of a run of
-- slices are without the time in which the arm stood still. Of a load on files a row is of a job, and a transaction is a
-- request to a file. The last second has also what of transactions that ended later lies inside.
CREATE TABLE transactions (
    level        INTEGER NOT NULL,   -- load level
    second       INTEGER NOT NULL,   -- whole seconds of measured time since its start; in a run of slices only the counted
                                 -- parts of its own slices are measured time, one after the other
    scenario     VARCHAR NOT NULL,
    count        BIGINT NOT NULL,    -- transactions that succeeded
    inside       DOUBLE,         -- the same, but one that began before the measured time or ended after it counts with the
                                 -- part of its time that lies inside; missing where the beginnings are not known
    latency_sum  DOUBLE,         -- s, of those; missing of a load that tells of no latencies
    failed       BIGINT NOT NULL,    -- given up after a serialization failure or a deadlock
    skipped      BIGINT NOT NULL,    -- open loop: not begun because already too late
    late         BIGINT NOT NULL,    -- above the latency limit
    retried      BIGINT,         -- succeeded after at least one retry
    retries      BIGINT,
    lag_sum      DOUBLE,         -- s, open loop: start after schedule
    buckets      INTEGER[],      -- latency histogram: bucket indexes (model/histogram.py), empty where only means are told …
    bucket_counts BIGINT[]       -- … and how many transactions fell into each
);

-- slices.parquet, of a run of slices only: one row per level, slice, part and scenario, without those that are empty.
CREATE TABLE slices (
    level        INTEGER NOT NULL,
    slice        INTEGER NOT NULL,   -- its number, as in the table slice of state.sqlite
    part         INTEGER NOT NULL,   -- quarter of its counted time, 0 to 3; -1: the time before that
    scenario     VARCHAR NOT NULL,
    count        BIGINT NOT NULL,
    latency_sum  DOUBLE
);

-- samples.parquet: every reading. A missed reading has no row.
CREATE TABLE samples (
    t            DOUBLE NOT NULL,
    metric       VARCHAR NOT NULL,   -- source.quantity
    object       VARCHAR NOT NULL,   -- device, database, backend type and context, … ; '' where there is only one
    value        DOUBLE NOT NULL
);

-- waits.parquet: sampled sessions, summed over the polls of one second.
CREATE TABLE waits (
    t            DOUBLE NOT NULL,    -- time of the first poll of that second
    polls        INTEGER NOT NULL,   -- polls in that second; sessions / polls is the average number
    backend_type VARCHAR NOT NULL,
    application  VARCHAR NOT NULL,   -- "pgtrial/<scenario>" for the load's own sessions
    state        VARCHAR NOT NULL,   -- active, idle in transaction, …
    wait_type    VARCHAR NOT NULL,   -- '' when it does not wait
    wait_event   VARCHAR NOT NULL,
    query        VARCHAR NOT NULL,   -- its text with numbers and strings replaced, first 80 characters
    sessions     INTEGER NOT NULL
);

-- statements.parquet: what pg_stat_statements has counted of the load's database by then, at the begin and the end of the
-- run and every ten seconds; without that extension there is no file. Only statements that a client sent; what those
-- inside of functions do is in the counts of the statement that called the function.
CREATE TABLE statements (
    t            DOUBLE,
    queryid      VARCHAR,        -- '' where the sampler has no right to see it
    calls        BIGINT,         -- this and all that follows: since some start, so the run's own is a difference
    rows         BIGINT,
    exec_time    DOUBLE,         -- s
    shared_blks_hit     BIGINT,
    shared_blks_read    BIGINT,
    shared_blks_dirtied BIGINT,
    shared_blks_written BIGINT,
    temp_blks_read      BIGINT,
    temp_blks_written   BIGINT,
    wal_bytes    BIGINT,         -- B
    query        VARCHAR         -- its text with numbers and strings replaced, first 240 characters; '' where it is not
                                 -- known: those are read at the end, and the server may have forgotten it by then
);

-- A watched server's folder has samples, waits and statements as above, and their sums over whole minutes and hours; t is
-- the beginning. What was not read is in no sum: a missing row, or fewer seconds, is a gap and no zero.
CREATE TABLE sample_sums (
    t            DOUBLE NOT NULL,
    metric       VARCHAR NOT NULL,
    object       VARCHAR NOT NULL,
    count        BIGINT NOT NULL,    -- readings; of a counter pieces of steps between two readings
    total        DOUBLE NOT NULL,    -- sum of the readings; of a counter its increase, each step spread evenly over its time
    seconds      DOUBLE,         -- of a counter: for how long its increase is known; missing of a gauge
    low          DOUBLE,         -- lowest and highest reading of a gauge
    high         DOUBLE
);

-- Polls have a row in sample_sums: metric sessions.polls, of which total is their number.
CREATE TABLE wait_sums (
    t            DOUBLE NOT NULL,
    backend_type VARCHAR NOT NULL,
    application  VARCHAR NOT NULL,
    state        VARCHAR NOT NULL,
    wait_type    VARCHAR NOT NULL,
    wait_event   VARCHAR NOT NULL,
    query        VARCHAR NOT NULL,
    sessions     BIGINT NOT NULL     -- summed over the polls
);

-- A statement without a row was not called, where sample_sums has seconds of pg_stat_statements.calls. The step between
-- two readings stands where its middle lies.
CREATE TABLE statement_sums (
    t            DOUBLE NOT NULL,
    queryid      VARCHAR NOT NULL,
    seconds      DOUBLE NOT NULL,
    calls        BIGINT NOT NULL,
    rows         BIGINT NOT NULL,
    exec_time    DOUBLE NOT NULL,    -- s
    shared_blks_hit     BIGINT NOT NULL,
    shared_blks_read    BIGINT NOT NULL,
    shared_blks_dirtied BIGINT NOT NULL,
    shared_blks_written BIGINT NOT NULL,
    temp_blks_read      BIGINT NOT NULL,
    temp_blks_written   BIGINT NOT NULL,
    wal_bytes    BIGINT,         -- B; missing of PostgreSQL 12, which does not count it
    query        VARCHAR NOT NULL
);
