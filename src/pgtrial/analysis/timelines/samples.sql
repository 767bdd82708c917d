-- Readings of some metrics of runs, of each between two times.
WITH wanted AS (
    SELECT unnest(?::BIGINT[]) AS run, unnest(?::VARCHAR[]) AS filename,
           unnest(?::DOUBLE[]) AS since, unnest(?::DOUBLE[]) AS until
)
SELECT run, metric, object, t, value
FROM read_parquet(?, filename = true)
JOIN wanted USING (filename)
WHERE metric IN (SELECT unnest(?::VARCHAR[])) AND t BETWEEN since AND until
