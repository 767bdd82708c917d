-- Transactions of every measured window by bin of the time series and by row of the heat map, all scenarios together.
WITH merged AS (
    SELECT run, level, bin, place, sum(count)::BIGINT AS count
    FROM latencies
    JOIN latency_row USING (bucket)
    GROUP BY ALL
)
SELECT run, level,
       list(bin ORDER BY bin, place)   AS bins,
       list(place ORDER BY bin, place) AS places,
       list(count ORDER BY bin, place) AS counts
FROM merged
GROUP BY run, level
