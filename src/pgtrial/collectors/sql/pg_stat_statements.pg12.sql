-- Before 14 nothing tells what ran inside of a function: with pg_stat_statements.track = all it counts twice.
SELECT queryid,
       sum(calls) AS calls,
       sum(rows) AS rows,
       sum(total_time) / 1000 AS exec_time,
       sum(shared_blks_hit) AS shared_blks_hit,
       sum(shared_blks_read) AS shared_blks_read,
       sum(shared_blks_dirtied) AS shared_blks_dirtied,
       sum(shared_blks_written) AS shared_blks_written,
       sum(temp_blks_read) AS temp_blks_read,
       sum(temp_blks_written) AS temp_blks_written,
       NULL::bigint AS wal_bytes -- not counted
FROM @extschema@.pg_stat_statements(false)
WHERE dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = $1)
GROUP BY queryid
