SELECT name AS object, blks_zeroed, blks_hit, blks_read, blks_written, blks_exists, flushes, truncates
FROM pg_catalog.pg_stat_slru
