"""pg_stat_checkpointer: checkpoints and what they write. Before 17 the same counts stood in pg_stat_bgwriter."""

from pgtrial.collectors.base import QueryCollector, counters

NAME = "pg_stat_checkpointer"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=(
        *counters(NAME, "", "num_timed", "num_requested"),
        *counters(NAME, "", "num_done"),  # 18 and newer: without those that were skipped because nothing was written
        *counters(NAME, "", "restartpoints_timed", "restartpoints_req", "restartpoints_done"),  # 17 and newer
        *counters(NAME, "s", "write_time", "sync_time"),
        *counters(NAME, "", "buffers_written"),
        *counters(NAME, "", "slru_written"),  # 18 and newer; before, they counted as buffers_written
    ),
)
