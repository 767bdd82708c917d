-- The readings of some counters of all runs, in the order that makes neighbours steps of a counter.
CREATE TEMP TABLE reading AS
SELECT run, metric, object, t, value
FROM samples
WHERE metric IN (SELECT unnest(?))
ORDER BY run, metric, object, t
