-- The time series of every measured window, all scenarios together.
SELECT run, level, bin,
       sum(count)::BIGINT                       AS count,
       sum(latency_sum) / nullif(sum(count), 0) AS latency_mean
FROM counted
GROUP BY ALL
ORDER BY ALL
