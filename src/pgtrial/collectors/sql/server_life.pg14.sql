SELECT extract(epoch FROM pg_postmaster_start_time()) AS started,
       current_setting('server_version_num') AS version_num,
       pg_is_in_recovery()::int AS in_recovery,
       (SELECT coalesce(extract(epoch FROM stats_reset), 0) FROM pg_catalog.pg_stat_database
        WHERE datname = $1) AS database_reset,
       (SELECT coalesce(extract(epoch FROM stats_reset), 0) FROM pg_catalog.pg_stat_bgwriter) AS bgwriter_reset,
       (SELECT coalesce(extract(epoch FROM stats_reset), 0) FROM pg_catalog.pg_stat_wal) AS wal_reset
