SELECT buffers_clean, maxwritten_clean, buffers_alloc
FROM pg_catalog.pg_stat_bgwriter
