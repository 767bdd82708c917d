SELECT numbackends, xact_commit, xact_rollback, blks_read, blks_hit,
       tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted,
       conflicts, deadlocks, checksum_failures, temp_files, temp_bytes,
       -- Zero would mean "took no time", not "was not timed".
       CASE WHEN current_setting('track_io_timing') = 'on' THEN blk_read_time / 1000 END AS blk_read_time,
       CASE WHEN current_setting('track_io_timing') = 'on' THEN blk_write_time / 1000 END AS blk_write_time,
       session_time / 1000 AS session_time,
       active_time / 1000 AS active_time,
       idle_in_transaction_time / 1000 AS idle_in_transaction_time,
       sessions, sessions_abandoned, sessions_fatal, sessions_killed
FROM pg_catalog.pg_stat_database
WHERE datname = $1
