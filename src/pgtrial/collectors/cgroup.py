"""The server's own control group, set by an arm or its service: memory, CPU time, I/O, the cost of limits.

Version 2 has one group for all, version 1 one for each controller; where the two count the same, the metric is the
same. Version 1 does not count buffered writes in a group: they are written back by the kernel's own threads.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from pgtrial.collectors.base import FileCollector, Reading, counters, gauges
from pgtrial.model.metric import Metric

NAME = "cgroup"
_MICROSECOND = 1e-6
_NANOSECOND = 1e-9
_UNLIMITED = 1 << 62  # version 1 writes "no limit" as the largest multiple of a page below 2**63

# The kernel's words and factors, version 2 before 1 (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
_CPU = {
    "usage_usec": ("cpu_usage", _MICROSECOND),
    "user_usec": ("cpu_user", _MICROSECOND),
    "system_usec": ("cpu_system", _MICROSECOND),
    "nr_periods": ("cpu_periods", 1.0),
    "nr_throttled": ("cpu_throttled_periods", 1.0),
    "throttled_usec": ("cpu_throttled_time", _MICROSECOND),  # summed over the CPUs
    "throttled_time": ("cpu_throttled_time", _NANOSECOND),
}
_MEMORY = {
    "anon": ("memory_anon", 1.0),
    "rss": ("memory_anon", 1.0),
    "file": ("memory_file", 1.0),
    "cache": ("memory_file", 1.0),
    "shmem": ("memory_shmem", 1.0),  # also contained in memory_file
    "file_mapped": ("memory_file_mapped", 1.0),
    "mapped_file": ("memory_file_mapped", 1.0),
    "file_dirty": ("memory_file_dirty", 1.0),
    "dirty": ("memory_file_dirty", 1.0),
    "file_writeback": ("memory_file_writeback", 1.0),
    "writeback": ("memory_file_writeback", 1.0),
    "swap": ("memory_swap", 1.0),  # version 1
    "pgmajfault": ("pgmajfault", 1.0),
    "pgscan": ("pgscan", 1.0),
    "pgsteal": ("pgsteal", 1.0),
    "workingset_refault": ("workingset_refault", 1.0),  # before 5.9
    "workingset_refault_anon": ("workingset_refault_anon", 1.0),
    "workingset_refault_file": ("workingset_refault_file", 1.0),
}
_EVENTS = {
    "high": ("memory_high_hits", 1.0),
    "max": ("memory_limit_hits", 1.0),
    "oom_kill": ("memory_oom_kills", 1.0),
}
_IO = {"rios": "io_reads", "rbytes": "io_read_bytes", "wios": "io_writes", "wbytes": "io_write_bytes"}


def parse_number(text: str, *, metric: str, factor: float = 1.0) -> Iterator[Reading]:
    """Reading of a file with one number; a limit that is not set is no reading."""
    word = text.strip()
    if word != "max" and int(word) < _UNLIMITED:
        yield Reading(f"{NAME}.{metric}", "", int(word) * factor)


def parse_words(text: str, *, known: Mapping[str, tuple[str, float]]) -> Iterator[Reading]:
    """Readings of lines such as "nr_throttled 16"."""
    for line in text.splitlines():
        word, _, number = line.partition(" ")
        if word in known:
            metric, factor = known[word]
            yield Reading(f"{NAME}.{metric}", "", int(number) * factor)


def parse_io(text: str) -> Iterator[Reading]:
    """Readings of lines such as "254:0 rbytes=1459200 wbytes=0 rios=192 wios=0", by number of the device.

    Some kernels put devices without any I/O at the head of another one's line.
    """
    for line in text.splitlines():
        device = ""
        for word in line.split():
            name, equals, number = word.partition("=")
            if not equals:
                device = word
            elif name in _IO:
                yield Reading(f"{NAME}.{_IO[name]}", device, float(number))


def parse_throttle(text: str, *, suffix: str) -> Iterator[Reading]:
    """Readings of lines such as "254:0 Read 12", by number of the device; sums end the file."""
    for line in text.splitlines():
        device, *rest = line.split()
        if rest and rest[0] in ("Read", "Write"):
            yield Reading(f"{NAME}.io_{rest[0].lower()}{suffix}", device, float(rest[1]))


def _collector(
    path: str, parse: Callable[[str], Iterator[Reading]], *metrics: Metric, by_number: bool = False
) -> FileCollector:
    return FileCollector(
        name=f"{NAME}_{path}", path=path, metrics=metrics, parse=parse, by_number=by_number, in_group=True
    )


def _gauge(path: str, metric: str) -> FileCollector:
    return _collector(path, partial(parse_number, metric=metric), *gauges(NAME, "B", metric))


def _counter(path: str, metric: str, *, unit: str = "", factor: float = 1.0) -> FileCollector:
    return _collector(path, partial(parse_number, metric=metric, factor=factor), *counters(NAME, unit, metric))


COLLECTORS = (
    _gauge("memory.current", "memory_usage"),
    _gauge("memory.usage_in_bytes", "memory_usage"),
    _gauge("memory.high", "memory_high"),
    _gauge("memory.max", "memory_limit"),
    _gauge("memory.limit_in_bytes", "memory_limit"),
    _gauge("memory.swap.current", "memory_swap"),
    _collector("memory.swappiness", partial(parse_number, metric="swappiness"), *gauges(NAME, "", "swappiness")),
    _counter("memory.failcnt", "memory_limit_hits"),
    _collector(
        "memory.events",
        partial(parse_words, known=_EVENTS),
        *counters(NAME, "", *(metric for metric, _ in _EVENTS.values())),
    ),
    _collector("memory.oom_control", partial(parse_words, known=_EVENTS), *counters(NAME, "", "memory_oom_kills")),
    _collector(
        "memory.stat",
        partial(parse_words, known=_MEMORY),
        *gauges(NAME, "B", *dict.fromkeys(m for m, _ in _MEMORY.values() if m.startswith("memory_"))),
        *counters(NAME, "", *dict.fromkeys(m for m, _ in _MEMORY.values() if not m.startswith("memory_"))),
    ),
    _collector(
        "cpu.stat",
        partial(parse_words, known=_CPU),
        *counters(NAME, "s", "cpu_usage", "cpu_user", "cpu_system", "cpu_throttled_time"),
        *counters(NAME, "", "cpu_periods", "cpu_throttled_periods"),
    ),
    _counter("cpuacct.usage", "cpu_usage", unit="s", factor=_NANOSECOND),
    _collector(
        "io.stat",
        parse_io,
        *counters(NAME, "", "io_reads", "io_writes"),
        *counters(NAME, "B", "io_read_bytes", "io_write_bytes"),
        by_number=True,
    ),
    _collector(
        "blkio.throttle.io_serviced",
        partial(parse_throttle, suffix="s"),
        *counters(NAME, "", "io_reads", "io_writes"),
        by_number=True,
    ),
    _collector(
        "blkio.throttle.io_service_bytes",
        partial(parse_throttle, suffix="_bytes"),
        *counters(NAME, "B", "io_read_bytes", "io_write_bytes"),
        by_number=True,
    ),
)
