-- Transactions of every measured window by bin of the time series and bucket of the histogram, all scenarios together.
SELECT run, level, bin, bucket, sum(count)::BIGINT AS count
FROM latencies
GROUP BY ALL
ORDER BY ALL
