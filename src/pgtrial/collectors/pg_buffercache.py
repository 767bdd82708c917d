"""pg_buffercache, if installed: the share of shared_buffers of each relation of the load's database at the end.

Read once, when the load is over: it looks at every buffer one by one, which takes a second or so for 8 GB.
"""

from pgtrial.collectors.base import ExtensionCollector, follow_columns, gauges

NAME = "pg_buffercache"


COLLECTOR = ExtensionCollector(
    name=NAME,
    extension="pg_buffercache",
    metrics=gauges(NAME, "", "buffers", "dirty"),
    at_end=True,
    in_database=True,
    follow=follow_columns(NAME),
)
