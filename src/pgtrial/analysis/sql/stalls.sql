-- The longest pause between two seconds of a measured window in which transactions ended, and the first and last of them.
SELECT run, level, max(pause), min(second), max(second)
FROM (
    SELECT run, level, second, second - lag(second, 1, second - 1) OVER (PARTITION BY run, level ORDER BY second) - 1 AS pause
    FROM (SELECT DISTINCT run, level, second FROM transactions JOIN measured USING (run, level) WHERE count + failed > 0)
)
GROUP BY run, level
