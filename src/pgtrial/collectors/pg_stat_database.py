"""pg_stat_database: transactions, blocks and rows of the load's database."""

from pgtrial.collectors.base import QueryCollector, counters, gauges

NAME = "pg_stat_database"

COLLECTOR = QueryCollector(
    name=NAME,
    parameters=("database",),
    metrics=(
        *gauges(NAME, "", "numbackends"),
        *counters(NAME, "", "xact_commit", "xact_rollback", "blks_read", "blks_hit"),
        *counters(NAME, "", "tup_returned", "tup_fetched", "tup_inserted", "tup_updated", "tup_deleted"),
        *counters(NAME, "", "conflicts", "deadlocks", "checksum_failures", "temp_files"),
        *counters(NAME, "B", "temp_bytes"),
        *counters(NAME, "s", "blk_read_time", "blk_write_time"),  # only with track_io_timing
        *counters(NAME, "s", "session_time", "active_time", "idle_in_transaction_time"),
        *counters(NAME, "", "sessions", "sessions_abandoned", "sessions_fatal", "sessions_killed"),
        *counters(NAME, "", "parallel_workers_to_launch", "parallel_workers_launched"),  # 18 and newer
    ),
)
