-- Readings of some metrics of a run between two times.
SELECT metric, object, t, value
FROM read_parquet(?)
WHERE metric IN (SELECT unnest(?::VARCHAR[])) AND t BETWEEN ? AND ?
