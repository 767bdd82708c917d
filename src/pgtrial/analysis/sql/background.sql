-- Average number of background processes over the polls of every measured window, by kind and wait. Parallel workers are
-- left out: their work is part of the leader's transaction.
WITH windows AS (
    SELECT run, level, sum(polls) AS polls
    FROM polled
    GROUP BY ALL
)
SELECT run, level, backend_type, wait_type, wait_event, sum(sessions) / any_value(polls) AS sessions
FROM windows
JOIN sampled USING (run, level)
WHERE backend_type NOT IN ('client backend', 'parallel worker')
GROUP BY ALL
ORDER BY run, level, backend_type, sessions DESC, wait_type, wait_event
