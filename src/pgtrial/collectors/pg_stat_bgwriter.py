"""pg_stat_bgwriter: buffers written by the background writer and, before 17, by backends themselves.

From 17 on, what backends write is in pg_stat_io only; what the checkpointer does is in pg_stat_checkpointer.
"""

from pgtrial.collectors.base import QueryCollector, counters

NAME = "pg_stat_bgwriter"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=counters(
        NAME,
        "",
        "buffers_clean",
        "maxwritten_clean",
        "buffers_alloc",
        "buffers_backend",
        "buffers_backend_fsync",
    ),
)
