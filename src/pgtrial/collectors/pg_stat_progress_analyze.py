"""pg_stat_progress_analyze: which tables are being analyzed, by autovacuum or by hand, and how far that is."""

from pgtrial.collectors.base import QueryCollector, gauges
from pgtrial.collectors.progress import workers

NAME = "pg_stat_progress_analyze"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=gauges(NAME, "", "workers"),
    parameters=("database",),
    understand=workers(NAME),
    may_be_empty=True,
)
