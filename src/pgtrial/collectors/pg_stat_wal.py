"""pg_stat_wal: how much WAL was made. How often it was written and synced is in pg_stat_io from 18 on."""

from pgtrial.collectors.base import QueryCollector, counters

NAME = "pg_stat_wal"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=(
        *counters(NAME, "", "wal_records", "wal_fpi"),
        *counters(NAME, "B", "wal_bytes"),
        *counters(NAME, "", "wal_buffers_full"),
        *counters(NAME, "", "wal_write", "wal_sync"),  # before 18
        *counters(NAME, "s", "wal_write_time", "wal_sync_time"),  # before 18, only with track_wal_io_timing
    ),
)
