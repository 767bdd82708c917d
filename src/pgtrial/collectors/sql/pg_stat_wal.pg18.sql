SELECT wal_records, wal_fpi, wal_bytes, wal_buffers_full
FROM pg_catalog.pg_stat_wal
