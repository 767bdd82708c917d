-- The standby that is farthest behind; nothing where there is none, or where the role may not see it. What only receives
-- WAL replays none, and has no position for that; greatest() would make it zero.
SELECT max(greatest(0, pg_wal_lsn_diff(here.lsn, flush_lsn))) FILTER (WHERE flush_lsn IS NOT NULL) AS flush_bytes,
       max(greatest(0, pg_wal_lsn_diff(here.lsn, replay_lsn))) FILTER (WHERE replay_lsn IS NOT NULL) AS replay_bytes,
       max(extract(epoch FROM replay_lag)) FILTER (WHERE replay_lsn IS NOT NULL) AS replay_time
FROM pg_catalog.pg_stat_replication,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn) AS here
WHERE state IN ('streaming', 'catchup')
