-- Sampled sessions of the seconds that lie in a measured window as a whole. What is sampled is summed over the polls of
-- a second, which begins when its first poll is due and not when a window does: the last one of a window may go on
-- after its end, when the load's sessions are gone. Where the arms of a block share its time, they stay.
CREATE VIEW sampled AS
WITH second AS (
    SELECT run, t, coalesce(lead(t) OVER (PARTITION BY run ORDER BY t), t + 1) AS next_t
    FROM (SELECT DISTINCT run, t FROM waits)
)
SELECT level, waits.*
FROM waits
JOIN second USING (run, t)
JOIN measured ON waits.run = measured.run AND t >= started AND t < ended
             AND (is_sliced OR next_t <= ended + 0.001)
