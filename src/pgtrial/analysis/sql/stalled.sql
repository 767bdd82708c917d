-- Active sessions of the load over the polls of those seconds that lie in a stall as a whole. Where the arms of a block
-- share its time, seconds of a window are not those of a clock.
SELECT run, level, sum(active) / sum(polls) AS active
FROM (
    SELECT run, level, t, any_value(polls) AS polls,
           coalesce(sum(sessions) FILTER (
               backend_type = 'client backend' AND state = 'active' AND application LIKE 'pgtrial/%'
           ), 0) AS active
    FROM waits
    JOIN stalls USING (run)
    JOIN measured USING (run, level)
    WHERE NOT is_sliced AND t >= started + since AND t + 1 <= started + since + seconds
    GROUP BY ALL
)
GROUP BY ALL
