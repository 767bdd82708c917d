"""/proc/loadavg: the load averages, and how many tasks can run or exist."""

from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, gauges

NAME = "proc_loadavg"
_LOADS = ("load1", "load5", "load15")
_TASKS = ("tasks_runnable", "tasks")


def parse(text: str) -> Iterator[Reading]:
    """Readings of "0.08 0.04 0.04 1/92 10161"."""
    *loads, tasks, _last_pid = text.split()
    for name, value in (*zip(_LOADS, loads, strict=True), *zip(_TASKS, tasks.split("/"), strict=True)):
        yield Reading(f"{NAME}.{name}", "", float(value))


COLLECTOR = FileCollector(
    name=NAME, path="/proc/loadavg", metrics=(*gauges(NAME, "", *_LOADS), *gauges(NAME, "", *_TASKS)), parse=parse
)
