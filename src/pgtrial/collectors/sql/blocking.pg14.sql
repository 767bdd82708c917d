-- The sessions that have waited longest for a lock, and those for which they wait; none is looked at while none waits.
WITH waiting AS MATERIALIZED (
    SELECT pid, pg_catalog.pg_blocking_pids(pid) AS blockers
    FROM (
        SELECT pid FROM pg_catalog.pg_locks
        WHERE NOT granted
          AND EXISTS (SELECT FROM pg_catalog.pg_stat_get_backend_idset() AS id
                      WHERE pg_catalog.pg_stat_get_backend_wait_event_type(id) = 'Lock')
        ORDER BY waitstart LIMIT 20
    ) AS longest
), known AS MATERIALIZED (
    SELECT pid, blockers FROM waiting
    UNION ALL
    SELECT DISTINCT blocker, NULL::int[] FROM waiting, unnest(blockers) AS blocker
    WHERE blocker <> ALL (SELECT pid FROM waiting)
)
SELECT known.pid, known.blockers, activity.backend_type, activity.state, left(activity.query, 240) AS query
FROM known
-- Prepared transactions have no session: their pid is 0.
LEFT JOIN LATERAL pg_catalog.pg_stat_get_activity(known.pid) AS activity ON known.pid > 0
