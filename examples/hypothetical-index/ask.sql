-- What the planner would do with an index that is not there: its plan, and the size that hypopg guesses.
\set ON_ERROR_STOP on
CREATE EXTENSION IF NOT EXISTS hypopg;
EXPLAIN SELECT count(*), sum(amount) FROM booking WHERE customer = 4711;
SELECT indexname, pg_size_pretty(hypopg_relation_size(indexrelid))
FROM hypopg_create_index('CREATE INDEX ON booking (customer)');
EXPLAIN SELECT count(*), sum(amount) FROM booking WHERE customer = 4711;
