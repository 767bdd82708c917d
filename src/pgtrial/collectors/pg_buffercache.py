"""pg_buffercache, if installed: the share of shared_buffers of each relation of the load's database at the end.

Read once, when the load is over: it looks at every buffer one by one, which takes a second or so for 8 GB.
"""

from collections.abc import Iterator
from typing import Any

from pgtrial.collectors.base import ExtensionCollector, by_column, gauges
from pgtrial.model.metric import Sample

NAME = "pg_buffercache"


def _follow(t: float, payload: Any) -> Iterator[Sample]:
    for metric, about, value in by_column(NAME, payload["columns"], payload["rows"]):
        yield Sample(t, metric, about, value)


COLLECTOR = ExtensionCollector(
    name=NAME,
    extension="pg_buffercache",
    metrics=gauges(NAME, "", "buffers", "dirty"),
    at_end=True,
    in_database=True,
    follow=lambda: _follow,
)
