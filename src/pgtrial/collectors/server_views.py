"""Views of the server whose columns are the metrics, by name; their SQL is in sql/.

A column that a version lacks is missing there; the comments say since when each exists, where that is not always.
"""

from pgtrial.collectors.base import QueryCollector, counters, gauges

DATABASE = "pg_stat_database"  # transactions, blocks and rows of the load's database
WAL = "pg_stat_wal"  # how much WAL was made; from 18 on pg_stat_io has how often it was written and synced
# Reads and writes by who did them, on what, and in which context, from 16 on. The object is
# "backend type/object/context", for example "client backend/relation/normal".
IO = "pg_stat_io"
# Buffers written by the background writer and, before 17, by backends themselves.
BGWRITER = "pg_stat_bgwriter"
CHECKPOINTER = "pg_stat_checkpointer"  # before 17 the same counts stood in pg_stat_bgwriter
# Small caches for transaction status, subtransactions, multixacts and others. The object is the cache, under the name
# that it has since 17.
SLRU = "pg_stat_slru"
REPLICATION = "pg_stat_replication"  # how far the standby that is farthest behind is behind
# Of a watch alone. In an experiment a slot is part of the server, and what it holds is there before and after; and
# nobody starts or resets its servers but itself.
SLOTS = "pg_replication_slots"  # how much WAL the slot that is farthest behind keeps from being removed
HELD = f"{SLOTS}.held_bytes"
# When the server began to count. Where one of these changes, counters have begun anew, also those that have not fallen
# by the next reading.
LIFE = "server_life"

COLLECTORS = (
    QueryCollector(
        name=DATABASE,
        parameters=("database",),
        metrics=(
            *gauges(DATABASE, "", "numbackends"),
            *counters(DATABASE, "", "xact_commit", "xact_rollback", "blks_read", "blks_hit"),
            *counters(DATABASE, "", "tup_returned", "tup_fetched", "tup_inserted", "tup_updated", "tup_deleted"),
            *counters(DATABASE, "", "conflicts", "deadlocks", "checksum_failures", "temp_files"),
            *counters(DATABASE, "B", "temp_bytes"),
            *counters(DATABASE, "s", "blk_read_time", "blk_write_time"),  # only with track_io_timing
            *counters(DATABASE, "s", "session_time", "active_time", "idle_in_transaction_time"),
            *counters(DATABASE, "", "sessions", "sessions_abandoned", "sessions_fatal", "sessions_killed"),
            *counters(DATABASE, "", "parallel_workers_to_launch", "parallel_workers_launched"),  # 18
        ),
    ),
    QueryCollector(
        name=WAL,
        metrics=(
            *counters(WAL, "", "wal_records", "wal_fpi"),
            *counters(WAL, "B", "wal_bytes"),
            *counters(WAL, "", "wal_buffers_full"),
            *counters(WAL, "", "wal_write", "wal_sync"),  # before 18
            *counters(WAL, "s", "wal_write_time", "wal_sync_time"),  # before 18, only with track_wal_io_timing
        ),
    ),
    QueryCollector(
        name=IO,
        metrics=(
            *counters(IO, "", "reads", "writes", "writebacks", "extends", "hits", "evictions", "reuses", "fsyncs"),
            *counters(IO, "B", "read_bytes", "write_bytes", "extend_bytes"),
            # Only with track_io_timing; those of object "wal" (18) only with track_wal_io_timing.
            *counters(IO, "s", "read_time", "write_time", "writeback_time", "extend_time", "fsync_time"),
        ),
    ),
    QueryCollector(
        name=BGWRITER,
        metrics=counters(
            BGWRITER,
            "",
            "buffers_clean",
            "maxwritten_clean",
            "buffers_alloc",
            "buffers_backend",
            "buffers_backend_fsync",
        ),
    ),
    QueryCollector(
        name=CHECKPOINTER,
        metrics=(
            *counters(CHECKPOINTER, "", "num_timed", "num_requested"),
            *counters(CHECKPOINTER, "", "num_done"),  # 18: without those skipped because nothing was written
            *counters(CHECKPOINTER, "", "restartpoints_timed", "restartpoints_req", "restartpoints_done"),  # 17
            *counters(CHECKPOINTER, "s", "write_time", "sync_time"),
            *counters(CHECKPOINTER, "", "buffers_written"),
            *counters(CHECKPOINTER, "", "slru_written"),  # 18; before, they counted as buffers_written
        ),
    ),
    QueryCollector(
        name=SLRU,
        metrics=counters(
            SLRU, "", "blks_zeroed", "blks_hit", "blks_read", "blks_written", "blks_exists", "flushes", "truncates"
        ),
    ),
    QueryCollector(
        name=REPLICATION,
        metrics=(*gauges(REPLICATION, "B", "flush_bytes", "replay_bytes"), *gauges(REPLICATION, "s", "replay_time")),
    ),
)

WATCHED = (
    QueryCollector(
        name=LIFE,
        parameters=("database",),
        metrics=(
            *gauges(LIFE, "s", "started"),  # since the epoch, as the resets, which are 0 where there was none
            *gauges(LIFE, "", "version_num", "in_recovery"),
            *gauges(LIFE, "s", "database_reset", "bgwriter_reset", "wal_reset"),
            *gauges(LIFE, "s", "io_reset"),  # 16
            *gauges(LIFE, "s", "checkpointer_reset"),  # 17
        ),
    ),
    QueryCollector(name=SLOTS, metrics=gauges(SLOTS, "B", "held_bytes")),
)
