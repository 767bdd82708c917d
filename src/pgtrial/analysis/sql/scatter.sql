-- How much the number of the load's sessions that were found in a wait, or idle in a transaction, scatters: the variance
-- of its sum over a measured window, from batches of one to three seconds, at least five where there are so many
-- seconds. By scenario, and without one for all together. A state that eight sessions are in for half a second is found
-- forty times, and once: its polls do not count for themselves. A batch in which nothing was found is one as well.
WITH seconds AS (
    SELECT run, level, t, polls,
           (row_number() OVER (PARTITION BY run, level ORDER BY t) - 1)
           // greatest(1, least(3, count(*) OVER (PARTITION BY run, level) // 5)) AS batch
    FROM polled
),
batches AS (
    SELECT run, level, batch, sum(polls)::DOUBLE AS polls FROM seconds GROUP BY ALL
),
windows AS (
    SELECT run, level, sum(polls) AS polls, sum(polls * polls) AS squares, count(*) AS batches
    FROM batches
    GROUP BY ALL
),
found AS (
    SELECT run, level, batch, substr(application, length('pgtrial/') + 1) AS scenario,
           if(state LIKE 'idle in transaction%', 'idle in transaction', wait_type) AS kind,
           if(state LIKE 'idle in transaction%', '', wait_event) AS event,
           sum(sessions)::DOUBLE AS hits
    FROM waits
    JOIN seconds USING (run, t)
    WHERE backend_type = 'client backend' AND application LIKE 'pgtrial/%'
      AND (state LIKE 'idle in transaction%' OR (state IN ('active', 'fastpath function call') AND wait_type <> ''))
    GROUP BY ALL
),
grouped AS (
    SELECT run, level, batch, scenario, kind, event, sum(hits) AS hits
    FROM found
    GROUP BY GROUPING SETS ((run, level, batch, scenario, kind, event), (run, level, batch, kind, event))
)
SELECT run, level, scenario, kind, event,
       any_value(batches) / (any_value(batches) - 1) * (
           sum(hits * hits) - 2 * sum(hits) / any_value(windows.polls) * sum(hits * batches.polls)
           + (sum(hits) / any_value(windows.polls)) ** 2 * any_value(squares)
       ) AS variance
FROM grouped
JOIN batches USING (run, level, batch)
JOIN windows USING (run, level)
WHERE windows.batches > 1
GROUP BY run, level, scenario, kind, event
ORDER BY run, level, scenario, kind, event
