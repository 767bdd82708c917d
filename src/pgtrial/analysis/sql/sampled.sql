-- Sampled sessions of the seconds that lie in a measured window as a whole. What is sampled is summed over the polls of
-- a second, which begins when its first poll is due and not when a window does: the last one of a window may go on
-- after its end, when the load's sessions are gone. Where the arms of a block share its time, they stay. Where they have
-- one server, a second begins anew at both ends of what counts of a slice.
CREATE TEMP TABLE polled AS
WITH every_second AS (
    SELECT run, t, polls, coalesce(lead(t) OVER (PARTITION BY run ORDER BY t), t + 1) AS next_t
    FROM (SELECT DISTINCT run, t, polls FROM waits)
)
SELECT run, level, t, polls
FROM every_second
JOIN at_work USING (run)
WHERE t >= started AND t < ended AND (is_sliced OR next_t <= ended + 0.001);

-- The sessions of the load and all background processes, summed over all polls of a window.
CREATE TEMP TABLE sampled AS
SELECT run, level, backend_type, application, state, wait_type, wait_event, query, sum(sessions)::BIGINT AS sessions
FROM waits
JOIN polled USING (run, t)
WHERE backend_type <> 'client backend' OR application LIKE 'pgtrial/%'
GROUP BY ALL
