-- Run once, before the snapshot is taken: what pgtrial's mixes need of the history table. An indexed column, so that
-- every row costs a random place in an index as well as the end of a table.
ALTER TABLE pgbench_history ADD COLUMN reference integer;
CREATE INDEX pgbench_history_reference ON pgbench_history (reference);
