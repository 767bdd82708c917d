"""pg_stat_replication: how far the standby that is farthest behind is behind."""

from pgtrial.collectors.base import QueryCollector, gauges

NAME = "pg_stat_replication"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=(*gauges(NAME, "B", "flush_bytes", "replay_bytes"), *gauges(NAME, "s", "replay_time")),
)
