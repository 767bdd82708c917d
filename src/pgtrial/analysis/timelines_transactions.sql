-- Transactions of a run per load level and second of measured time, all scenarios together.
SELECT level, second, sum(count)::DOUBLE AS count, sum(latency_sum) AS latency_sum
FROM read_parquet(?)
GROUP BY ALL
