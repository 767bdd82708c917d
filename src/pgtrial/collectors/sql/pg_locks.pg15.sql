SELECT pid,
       locktype || '/' || mode AS object,
       CASE WHEN row_number() OVER (ORDER BY waitstart) <= 50 THEN pg_blocking_pids(pid) END AS blockers
FROM pg_catalog.pg_locks
WHERE NOT granted
  -- Decided before the lock table is read.
  AND EXISTS (SELECT FROM pg_catalog.pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock')
