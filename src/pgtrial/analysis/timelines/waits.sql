-- Average sessions over the polls of a second, by who they are and what they are at: "sessions.active" of the load with
-- the wait as the object, "type/event" ("/" without one), other states of the load and autovacuum workers without an
-- object, and everybody else without a name, so that it is known when was polled. Parallel workers are of the last
-- kind: their work is part of the leader's transaction.
WITH wanted AS (
    SELECT unnest(?::BIGINT[]) AS run, unnest(?::VARCHAR[]) AS filename,
           unnest(?::DOUBLE[]) AS since, unnest(?::DOUBLE[]) AS until
),
polled AS (
    SELECT run, t, polls, sessions, wait_type, wait_event,
           CASE
               WHEN backend_type = 'autovacuum worker' THEN 'sessions.autovacuum'
               WHEN backend_type <> 'client backend' OR NOT starts_with(application, 'pgtrial/') THEN ''
               WHEN state IN ('active', 'idle') THEN 'sessions.' || state
               WHEN starts_with(state, 'idle in transaction') THEN 'sessions.idle_in_transaction'
               ELSE ''
           END AS metric
    FROM read_parquet(?, filename = true)
    JOIN wanted USING (filename)
    WHERE t BETWEEN since AND until
)
SELECT run, metric, CASE metric WHEN 'sessions.active' THEN wait_type || '/' || wait_event ELSE '' END AS object,
       t, sum(sessions) / max(polls) AS value
FROM polled
GROUP BY ALL
