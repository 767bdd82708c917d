SELECT buffers_clean, maxwritten_clean, buffers_alloc, buffers_backend, buffers_backend_fsync
FROM pg_catalog.pg_stat_bgwriter
