SELECT wal_records, wal_fpi, wal_bytes, wal_buffers_full, wal_write, wal_sync,
       CASE WHEN current_setting('track_wal_io_timing') = 'on' THEN wal_write_time / 1000 END AS wal_write_time,
       CASE WHEN current_setting('track_wal_io_timing') = 'on' THEN wal_sync_time / 1000 END AS wal_sync_time
FROM pg_catalog.pg_stat_wal
