-- Average number of sessions of the load over the polls of every measured window: by scenario (the name behind
-- "pgtrial/" by which its sessions call themselves), state, wait and, of those that do not idle, statement. A window
-- that was polled but had no session of the load has one row without a state. Each row has the window's polls.
WITH windows AS (
    SELECT run, level, sum(polls) AS polls
    FROM polled
    GROUP BY ALL
),
mine AS (
    SELECT *, substr(application, length('pgtrial/') + 1) AS scenario
    FROM sampled
    WHERE backend_type = 'client backend'
)
SELECT run, level, scenario, state, wait_type, wait_event, query, sessions / polls AS sessions, polls
FROM windows
LEFT JOIN mine USING (run, level)
ORDER BY run, level, scenario, state, wait_type, wait_event, query
