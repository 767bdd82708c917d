-- Readings of some counters of runs.
SELECT run, metric, object, t, value
FROM samples
WHERE run IN (SELECT unnest(?::BIGINT[])) AND metric IN (SELECT unnest(?::VARCHAR[]))
