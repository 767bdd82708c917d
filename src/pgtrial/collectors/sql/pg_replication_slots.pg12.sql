-- The slot that holds most. Without a slot, or with none that holds WAL, that is nothing; where the server's own position
-- is not known, it is not known either.
SELECT CASE WHEN count(restart_lsn) = 0 THEN 0
            WHEN bool_or(here.lsn IS NULL) THEN NULL
            ELSE max(greatest(0, pg_wal_lsn_diff(here.lsn, restart_lsn))) END AS held_bytes
FROM pg_catalog.pg_replication_slots,
     (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn) AS here
