"""When a server that is watched began to count: its start, its version, its role, and the resets of its statistics.

Where one of these changes, counters have begun anew, also those that have not fallen by the next reading. Experiments
do not read it: nobody starts or resets their servers but they themselves.
"""

from pgtrial.collectors.base import QueryCollector, gauges

NAME = "server_life"

COLLECTOR = QueryCollector(
    name=NAME,
    parameters=("database",),
    metrics=(
        *gauges(NAME, "s", "started"),  # since the epoch, as the resets, which are 0 where there was none
        *gauges(NAME, "", "version_num", "in_recovery"),
        *gauges(NAME, "s", "database_reset", "bgwriter_reset", "wal_reset"),
        *gauges(NAME, "s", "io_reset"),  # 16
        *gauges(NAME, "s", "checkpointer_reset"),  # 17
    ),
)
