-- Average number of sessions of the load over the polls of every measured window: by scenario (the name behind
-- "pgtrial/" by which its sessions call themselves), state, wait and, of those that do not idle, statement. A window
-- that was polled but had no session of the load has one row without a state.
WITH polled AS (
    SELECT run, level, sum(polls) AS polls
    FROM (SELECT DISTINCT run, level, t, polls FROM sampled)
    GROUP BY ALL
),
mine AS (
    SELECT run, level, substr(application, length('pgtrial/') + 1) AS scenario, state, wait_type, wait_event, query,
           sum(sessions) AS sessions
    FROM sampled
    WHERE backend_type = 'client backend' AND application LIKE 'pgtrial/%'
    GROUP BY ALL
)
SELECT run, level, scenario, state, wait_type, wait_event, query, sessions / polls AS sessions
FROM polled
LEFT JOIN mine USING (run, level)
ORDER BY run, level, scenario, state, wait_type, wait_event, query
