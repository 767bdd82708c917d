-- The latency histograms, one row per bucket; the seconds of a bin of the time series are merged.
CREATE TEMP TABLE latencies AS
SELECT run, level, scenario, bin, bucket, sum(bucket_count)::BIGINT AS count
FROM (
    SELECT run, level, scenario, second // width AS bin,
           unnest(buckets) AS bucket, unnest(bucket_counts) AS bucket_count
    FROM transactions
    JOIN measured USING (run, level)
)
GROUP BY ALL
