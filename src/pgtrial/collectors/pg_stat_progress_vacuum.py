"""pg_stat_progress_vacuum: which tables are being vacuumed, by autovacuum or by hand, and how far that is."""

from pgtrial.collectors.base import QueryCollector, gauges
from pgtrial.collectors.progress import workers

NAME = "pg_stat_progress_vacuum"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=gauges(NAME, "", "workers"),
    parameters=("database",),
    understand=workers(NAME),
    may_be_empty=True,
)
