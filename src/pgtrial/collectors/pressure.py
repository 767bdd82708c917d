"""/proc/pressure: time that tasks stalled waiting for CPU, memory or I/O (Linux 4.20 and newer, may be disabled).

Only the running totals are read: averages over 10 s would smooth what is to be seen.
"""

from collections.abc import Iterator
from functools import partial

from pgtrial.collectors.base import FileCollector, Reading, counters

NAME = "pressure"

# "full" is not defined for the CPU of a whole machine; kernels print a zero there (Documentation/accounting/psi.rst).
_STALLS = {"cpu": ("some",), "io": ("some", "full"), "memory": ("some", "full")}


def parse(text: str, *, resource: str) -> Iterator[Reading]:
    """Readings of lines such as "some avg10=0.34 avg60=0.54 avg300=0.26 total=6560526"."""
    for line in text.splitlines():
        stall, *fields = line.split()
        if stall in _STALLS[resource]:
            microseconds = dict(field.split("=", 1) for field in fields)["total"]
            yield Reading(f"{NAME}.{resource}_{stall}_total", "", int(microseconds) * 1e-6)


COLLECTORS = tuple(
    FileCollector(
        name=f"{NAME}_{resource}",
        path=f"/proc/pressure/{resource}",
        metrics=counters(NAME, "s", *(f"{resource}_{stall}_total" for stall in stalls)),
        parse=partial(parse, resource=resource),
    )
    for resource, stalls in _STALLS.items()
)
