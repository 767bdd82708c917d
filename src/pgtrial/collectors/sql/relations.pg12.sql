-- The tables with most rows, each partition by itself; to ask for the sizes of all could take longer than a reading may.
SELECT regexp_replace(relid::regclass::text, '^public[.]', '') AS object,
       pg_table_size(relid) AS table_bytes,
       pg_indexes_size(relid) AS index_bytes,
       n_live_tup AS live_rows,
       n_dead_tup AS dead_rows
FROM (
    SELECT relid, n_live_tup, n_dead_tup
    FROM pg_catalog.pg_stat_user_tables
    ORDER BY n_live_tup + n_dead_tup DESC, relid
    LIMIT 50
) AS largest
