"""Pauses of writers, by the tracepoint writeback:balance_dirty_pages, where the knob "tracing" has it counted.

The kernel has no counter of them. It can add up what a tracepoint tells (histogram triggers, Documentation/trace/
histogram.rst), so that a reading costs as little as one of a counter, however many pauses there are.
"""

import re
from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, counters
from pgtrial.model.tracing import EVENT, INSTANCE

NAME = "throttling"
_ENTRY = re.compile(r"\} hitcount:\s+(?P<count>\d+)\s+pause:\s+(?P<milliseconds>\d+)")


def parse(text: str) -> Iterator[Reading]:
    """Readings of a histogram, all devices together: zero where there is no entry yet."""
    found = [(int(each["count"]), int(each["milliseconds"])) for each in _ENTRY.finditer(text)]
    yield Reading(f"{NAME}.pauses", "", float(sum(count for count, _ in found)))
    yield Reading(f"{NAME}.pause_time", "", sum(milliseconds for _, milliseconds in found) / 1000)


COLLECTOR = FileCollector(
    name=NAME,
    path=f"{INSTANCE}/{EVENT}/hist",
    metrics=(*counters(NAME, "", "pauses"), *counters(NAME, "s", "pause_time")),
    parse=parse,
    optional=True,
)
