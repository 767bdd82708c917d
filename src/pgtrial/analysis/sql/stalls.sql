-- The longest stretch of whole seconds of every measured window in which no transaction ended, if any did in the window.
CREATE TEMP TABLE stalls AS
WITH busy AS (
    SELECT DISTINCT run, level, second
    FROM transactions
    JOIN measured USING (run, level)
    WHERE count + failed > 0
),
edges AS (
    SELECT run, level, unnest([-1, floor(counted)::BIGINT]) AS second
    FROM measured
    SEMI JOIN busy USING (run, level)
),
pauses AS (
    SELECT run, level, second AS until, lag(second) OVER (PARTITION BY run, level ORDER BY second) + 1 AS since
    FROM (FROM busy UNION ALL FROM edges)
)
SELECT run, level, arg_max(since, until - since) AS since, max(until - since) AS seconds
FROM pauses
WHERE since IS NOT NULL
GROUP BY ALL
