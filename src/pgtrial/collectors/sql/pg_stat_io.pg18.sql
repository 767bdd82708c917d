SELECT backend_type || '/' || object || '/' || context AS object,
       reads, writes, writebacks, extends, hits, evictions, reuses, fsyncs,
       read_bytes, write_bytes, extend_bytes,
       -- Zero would mean "took no time", not "was not timed".
       CASE WHEN timing.is_on THEN read_time / 1000 END AS read_time,
       CASE WHEN timing.is_on THEN write_time / 1000 END AS write_time,
       CASE WHEN timing.is_on THEN writeback_time / 1000 END AS writeback_time,
       CASE WHEN timing.is_on THEN extend_time / 1000 END AS extend_time,
       CASE WHEN timing.is_on THEN fsync_time / 1000 END AS fsync_time
FROM pg_catalog.pg_stat_io
JOIN (VALUES (true, current_setting('track_wal_io_timing') = 'on'),
             (false, current_setting('track_io_timing') = 'on')) AS timing (of_wal, is_on)
  ON timing.of_wal = (object = 'wal')
