-- Average number of active sessions of the load by wait, over the polls of every measured window, and of autovacuum
-- workers. A window that was polled but had no active session has one row without a wait. Parallel workers are left out:
-- their work is part of the leader's transaction. Where the arms of a block share its time, a server is only polled while
-- it is at work.
WITH windows AS (
    SELECT run, level, sum(polls) AS polls
    FROM polled
    GROUP BY ALL
),
vacuumed AS (
    SELECT run, level, sum(sessions) AS workers
    FROM sampled
    WHERE backend_type = 'autovacuum worker'
    GROUP BY ALL
),
active AS (
    SELECT run, level, wait_type, wait_event, sum(sessions) AS sessions
    FROM sampled
    WHERE backend_type = 'client backend' AND state = 'active'
    GROUP BY ALL
)
SELECT run, level, wait_type, wait_event, sessions / polls AS sessions, coalesce(workers, 0) / polls AS workers
FROM windows
LEFT JOIN active USING (run, level)
LEFT JOIN vacuumed USING (run, level)
ORDER BY run, level, sessions DESC, wait_type, wait_event
