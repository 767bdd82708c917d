SELECT backend_type || '/' || object || '/' || context AS object,
       reads, writes, writebacks, extends, hits, evictions, reuses, fsyncs,
       reads * op_bytes AS read_bytes,
       writes * op_bytes AS write_bytes,
       extends * op_bytes AS extend_bytes,
       -- Zero would mean "took no time", not "was not timed".
       CASE WHEN timing.is_on THEN read_time / 1000 END AS read_time,
       CASE WHEN timing.is_on THEN write_time / 1000 END AS write_time,
       CASE WHEN timing.is_on THEN writeback_time / 1000 END AS writeback_time,
       CASE WHEN timing.is_on THEN extend_time / 1000 END AS extend_time,
       CASE WHEN timing.is_on THEN fsync_time / 1000 END AS fsync_time
FROM pg_catalog.pg_stat_io
CROSS JOIN (SELECT current_setting('track_io_timing') = 'on' AS is_on) AS timing
