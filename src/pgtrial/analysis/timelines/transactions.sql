-- Transactions of runs per load level and second of measured time, all scenarios together.
WITH wanted AS (
    SELECT unnest(?::BIGINT[]) AS run, unnest(?::VARCHAR[]) AS filename
)
SELECT run, level, second, sum(count)::DOUBLE AS count, sum(latency_sum) AS latency_sum
FROM read_parquet(?, filename = true)
JOIN wanted USING (filename)
GROUP BY ALL
