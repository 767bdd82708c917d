-- The time series of every measured window, all scenarios together. The bucket of the 95th percentile is the first
-- one at or below which 95 % of the bin's transactions lie.
WITH total AS (
    SELECT run, level, second // width AS bin,
           sum(count)::BIGINT                     AS count,
           sum(latency_sum) / nullif(sum(count), 0) AS latency_mean
    FROM transactions
    JOIN measured USING (run, level)
    GROUP BY ALL
),
merged AS (
    SELECT run, level, bin, bucket, sum(count) AS count
    FROM latencies
    GROUP BY ALL
),
cumulated AS (
    SELECT run, level, bin, bucket,
           sum(count) OVER (PARTITION BY run, level, bin ORDER BY bucket) AS up_to,
           sum(count) OVER (PARTITION BY run, level, bin)                 AS total
    FROM merged
),
p95 AS (
    SELECT run, level, bin, min(bucket) AS bucket
    FROM cumulated
    WHERE up_to >= 0.95 * total
    GROUP BY ALL
)
SELECT run, level, bin, count, latency_mean, bucket
FROM total
LEFT JOIN p95 USING (run, level, bin)
ORDER BY run, level, bin
