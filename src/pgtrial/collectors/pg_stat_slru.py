"""pg_stat_slru: reads and writes of the small caches for transaction status, subtransactions, multixacts and others.

The object is the cache, under the name that it has since 17.
"""

from pgtrial.collectors.base import QueryCollector, counters

NAME = "pg_stat_slru"

COLLECTOR = QueryCollector(
    name=NAME,
    metrics=counters(
        NAME, "", "blks_zeroed", "blks_hit", "blks_read", "blks_written", "blks_exists", "flushes", "truncates"
    ),
)
