-- Transactions of every measured window: by scenario, and (scenario NULL) of all scenarios together.
SELECT run, level, scenario,
       sum(count)::BIGINT   AS count,
       CASE WHEN count(inside) = count(*) THEN sum(inside) END AS inside,
       sum(latency_sum)     AS latency_sum,
       sum(failed)::BIGINT  AS failed,
       sum(skipped)::BIGINT AS skipped,
       sum(late)::BIGINT    AS late,
       sum(lag_sum)         AS lag_sum
FROM counted
GROUP BY GROUPING SETS ((run, level, scenario), (run, level))
