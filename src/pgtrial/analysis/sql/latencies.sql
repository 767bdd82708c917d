-- The latency histograms of some runs, one row per bucket; the seconds of a bin of the time series are merged.
-- Only the files of these runs are read: their names stand in the condition.
CREATE OR REPLACE TEMP TABLE latencies AS
SELECT run, level, scenario, bin, bucket, sum(bucket_count)::BIGINT AS count
FROM (
    SELECT run, level, scenario, second // width AS bin,
           unnest(buckets) AS bucket, unnest(bucket_counts) AS bucket_count
    FROM transactions
    JOIN measured USING (run, level)
    WHERE list_contains(?::VARCHAR[], filename)
)
GROUP BY ALL
