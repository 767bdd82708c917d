-- One histogram per measured window: by scenario, and (scenario NULL) of all scenarios together.
WITH merged AS (
    SELECT run, level, scenario, bucket, sum(count)::BIGINT AS count
    FROM latencies
    GROUP BY GROUPING SETS ((run, level, scenario, bucket), (run, level, bucket))
)
SELECT run, level, scenario,
       list(bucket ORDER BY bucket) AS buckets,
       list(count ORDER BY bucket)  AS counts
FROM merged
GROUP BY run, level, scenario
