-- How often pg_wait_sampling found a session of the load in each kind of wait: the increase of its counts from the
-- first to the last reading inside every measured window. An event has no row until it is counted for the first time,
-- so what had none at the first reading stood at zero. Nothing of a window in which a count went down or went away,
-- which is a reset. Since 1.1.6 the extension also counts sessions that wait for nothing ("/"): these are no wait.
WITH inside AS (
    SELECT reading.run, level, object, t, value
    FROM reading
    JOIN measured ON reading.run = measured.run AND t >= started AND t < ended
    WHERE metric = ?
),
reach AS (
    SELECT run, level, min(t) AS first_t, max(t) AS last_t
    FROM inside
    GROUP BY ALL
),
step AS (
    SELECT *, value - lag(value) OVER (PARTITION BY run, level, object ORDER BY t) AS rise
    FROM inside
    JOIN reach USING (run, level)
),
counted AS (
    SELECT run, level, object,
           arg_max(value, t) - coalesce(max(value) FILTER (t = first_t), 0) AS count,
           coalesce(min(rise) < 0, FALSE) OR max(t) < any_value(last_t)     AS is_reset
    FROM step
    GROUP BY run, level, object
)
SELECT run, level, object, count
FROM counted
QUALIFY count > 0 AND object <> '/' AND NOT bool_or(is_reset) OVER (PARTITION BY run, level)
ORDER BY run, level, object
