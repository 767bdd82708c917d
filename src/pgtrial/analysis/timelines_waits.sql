-- Average sessions over the polls of a second, by who they are and what they are at: "sessions.active" of the load with
-- the wait as the object, "type/event" ("/" without one), other states of the load and autovacuum workers without an
-- object, and everybody else without a name, so that it is known when was polled. Parallel workers are of the last
-- kind: their work is part of the leader's transaction.
WITH polled AS (
    SELECT t, polls, sessions, wait_type, wait_event,
           CASE
               WHEN backend_type = 'autovacuum worker' THEN 'sessions.autovacuum'
               WHEN backend_type <> 'client backend' OR NOT starts_with(application, 'pgtrial/') THEN ''
               WHEN state IN ('active', 'idle') THEN 'sessions.' || state
               WHEN starts_with(state, 'idle in transaction') THEN 'sessions.idle_in_transaction'
               ELSE ''
           END AS metric
    FROM read_parquet(?)
    WHERE t BETWEEN ? AND ?
)
SELECT metric, CASE metric WHEN 'sessions.active' THEN wait_type || '/' || wait_event ELSE '' END AS object,
       t, sum(sessions) / max(polls) AS value
FROM polled
GROUP BY ALL
