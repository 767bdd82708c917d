"""pg_stat_io (16 and newer): reads and writes by who did them, on what, and in which context.

The object is "backend type/object/context", for example "client backend/relation/normal".
"""

from pgtrial.collectors.base import QueryCollector, counters

NAME = "pg_stat_io"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=(
        *counters(NAME, "", "reads", "writes", "writebacks", "extends", "hits", "evictions", "reuses", "fsyncs"),
        *counters(NAME, "B", "read_bytes", "write_bytes", "extend_bytes"),
        # Only with track_io_timing; those of object "wal" (18 and newer) only with track_wal_io_timing.
        *counters(NAME, "s", "read_time", "write_time", "writeback_time", "extend_time", "fsync_time"),
    ),
)
