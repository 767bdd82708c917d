SELECT nullif(datname, $1) AS database,
       relid,
       phase,
       -- Only of autovacuum: what others have sent may hold more than the name of a table.
       (SELECT query
        FROM pg_catalog.pg_stat_get_activity(progress.pid)
        WHERE starts_with(query, 'autovacuum: ')) AS query
FROM pg_catalog.pg_stat_progress_analyze AS progress
