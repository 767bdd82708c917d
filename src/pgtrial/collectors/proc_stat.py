"""/proc/stat: CPU time of the whole machine by use, context switches, and tasks that run or wait for I/O."""

from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, counters, gauges

NAME = "proc_stat"
_TICKS_PER_SECOND = 100  # USER_HZ, the unit of this file whatever the kernel's own HZ is (proc(5))

# In the kernel's order; "user" contains "guest" and "nice" contains "guest_nice".
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_COUNTERS = {"ctxt": "ctxt", "processes": "processes", "intr": "intr", "softirq": "softirqs"}
_GAUGES = ("procs_running", "procs_blocked")


def parse(text: str) -> Iterator[Reading]:
    """CPU times in s for the object "all"; ``cpus`` counts the CPUs that are online."""
    cpus = 0
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "cpu":
            for use, ticks in zip(_CPU, rest.split(), strict=False):
                yield Reading(f"{NAME}.cpu_{use}", "all", int(ticks) / _TICKS_PER_SECOND)
        elif name.startswith("cpu"):
            cpus += 1
        elif name in _COUNTERS:
            # Of interrupts the first number is the total; one number per interrupt line follows.
            yield Reading(f"{NAME}.{_COUNTERS[name]}", "", float(rest.split(maxsplit=1)[0]))
        elif name in _GAUGES:
            yield Reading(f"{NAME}.{name}", "", float(rest))
    yield Reading(f"{NAME}.cpus", "", float(cpus))


COLLECTOR = FileCollector(
    name=NAME,
    path="/proc/stat",
    metrics=(
        *counters(NAME, "s", *(f"cpu_{use}" for use in _CPU)),
        *counters(NAME, "", *_COUNTERS.values()),
        *gauges(NAME, "", *_GAUGES, "cpus"),
    ),
    parse=parse,
)
