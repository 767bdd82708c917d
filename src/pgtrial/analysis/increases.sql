-- Increase of counters over the measured windows, linear between the readings next to a window's ends: each step
-- from one reading to the next counts with the share of its time that lies inside the window. No increase (NULL)
-- where a step goes down, which is a reset, or where the readings do not reach over both ends of the window.
WITH step AS (
    SELECT run, metric, object, t, value,
           lead(t)     OVER reading AS next_t,
           lead(value) OVER reading AS next_value
    FROM samples
    WHERE metric IN (SELECT unnest(?))
    WINDOW reading AS (PARTITION BY run, metric, object ORDER BY t)
)
SELECT run, level, metric, object,
       CASE
           WHEN min(next_value - value) >= 0 AND min(t) <= any_value(started) AND max(next_t) >= any_value(ended)
           THEN sum((next_value - value) * (least(next_t, ended) - greatest(t, started)) / (next_t - t))
       END AS increase,
       greatest(max(next_t - t), min(t) - any_value(started), any_value(ended) - max(next_t)) AS gap
FROM step
JOIN measured USING (run)
WHERE t < ended AND next_t > started AND next_t > t
GROUP BY run, level, metric, object
