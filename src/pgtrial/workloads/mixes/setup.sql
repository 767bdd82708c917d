-- Both mixes, once after the tables are made: an indexed column in the history table, so that every history row costs
-- a random place in an index as well as the end of a table; no foreign keys on it, so that it costs nothing else.
ALTER TABLE pgbench_history
    DROP CONSTRAINT IF EXISTS pgbench_history_aid_fkey,
    DROP CONSTRAINT IF EXISTS pgbench_history_bid_fkey,
    DROP CONSTRAINT IF EXISTS pgbench_history_tid_fkey,
    ADD COLUMN IF NOT EXISTS reference integer;
CREATE INDEX IF NOT EXISTS pgbench_history_reference ON pgbench_history (reference);
