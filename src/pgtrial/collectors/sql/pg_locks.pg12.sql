SELECT pid,
       locktype || '/' || mode AS object,
       CASE WHEN row_number() OVER (ORDER BY pid) <= 50 THEN pg_blocking_pids(pid) END AS blockers
FROM pg_catalog.pg_locks
WHERE NOT granted
  -- Decided before the lock table is read, and without the many columns of pg_stat_activity.
  AND EXISTS (SELECT FROM pg_catalog.pg_stat_get_backend_idset() AS id
              WHERE pg_catalog.pg_stat_get_backend_wait_event_type(id) = 'Lock')
