-- Transactions of every measured window by second, without their latencies; bins are those of the time series.
CREATE TEMP TABLE counted AS
SELECT run, level, scenario, second // width AS bin, count, inside, latency_sum, failed, skipped, late, lag_sum
FROM transactions
JOIN measured USING (run, level)
