-- Increase of counters over the measured windows, linear between the readings next to a window's ends: each step
-- from one reading to the next counts with the share of its time that lies inside the window. The first and the last
-- step also stand for what lies between them and the window's ends, if that is no longer than the step itself: then
-- no reading is missing, the next one was only not due yet. No increase (NULL) where a step goes down, which is a
-- reset, or where the readings do not reach that far.
WITH step AS (
    SELECT run, metric, object, t, value,
           lead(t)     OVER reading AS next_t,
           lead(value) OVER reading AS next_value
    FROM samples
    WHERE metric IN (SELECT unnest(?))
    WINDOW reading AS (PARTITION BY run, metric, object ORDER BY t)
),
inside AS (
    SELECT run, level, metric, object, t, next_t,
           next_t - t                             AS length,
           next_value - value                     AS rise,
           (next_value - value) / (next_t - t)    AS rate,
           least(next_t, ended) - greatest(t, started) AS overlap,
           started, ended
    FROM step
    JOIN measured USING (run)
    WHERE t < ended AND next_t > started AND next_t > t
),
total AS (
    SELECT run, level, metric, object,
           min(rise)                                     AS smallest_rise,
           sum(rate * overlap)                           AS increase,
           max(length)                                   AS longest,
           greatest(0, min(t) - any_value(started))      AS before,
           greatest(0, any_value(ended) - max(next_t))   AS after,
           arg_min(rate, t)                              AS first_rate,
           arg_min(length, t)                            AS first_length,
           arg_max(rate, t)                              AS last_rate,
           arg_max(length, t)                            AS last_length
    FROM inside
    GROUP BY run, level, metric, object
)
SELECT run, level, metric, object,
       CASE
           WHEN smallest_rise >= 0 AND before <= first_length AND after <= last_length
           THEN increase + before * first_rate + after * last_rate
       END AS increase,
       greatest(longest, before, after) AS gap
FROM total
