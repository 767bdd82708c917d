"""Writer pauses, from the tracepoint writeback:balance_dirty_pages, if the knob "tracing" counts it.

The kernel has no counter of them. It can add up what a tracepoint tells (histogram triggers, Documentation/trace/
histogram.rst), so that a reading costs as little as one of a counter, however many pauses there are. A kernel without
these counts the events that were written to its ring buffer (Documentation/trace/ftrace.rst, "trace"): how many pauses
there were is known then, and not how long they lasted.
"""

import re
from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, counters
from pgtrial.model.tracing import EVENT, INSTANCE

NAME = "throttling"
_BUFFER = "# entries-in-buffer/entries-written:"
_ENTRY = re.compile(r"\} hitcount:\s+(?P<count>\d+)\s+pause:\s+(?P<milliseconds>\d+)")
_WRITTEN = re.compile(rf"^{_BUFFER} \d+/(?P<count>\d+)", re.MULTILINE)


def parse(text: str) -> Iterator[Reading]:
    """Readings of a histogram, all devices together: zero where there is no entry yet; or of a ring buffer's head."""
    written = _WRITTEN.search(text)
    if written is not None:
        yield Reading(f"{NAME}.pauses", "", float(written["count"]))
        return
    found = [(int(each["count"]), int(each["milliseconds"])) for each in _ENTRY.finditer(text)]
    yield Reading(f"{NAME}.pauses", "", float(sum(count for count, _ in found)))
    yield Reading(f"{NAME}.pause_time", "", sum(milliseconds for _, milliseconds in found) / 1000)


COLLECTOR = FileCollector(
    name=NAME,
    path=f"{INSTANCE}/{EVENT}/hist",
    otherwise=f"{INSTANCE}/trace",
    metrics=(*counters(NAME, "", "pauses"), *counters(NAME, "s", "pause_time")),
    parse=parse,
    lines=("{", _BUFFER),
    optional=True,
)
