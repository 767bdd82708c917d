"""/proc/diskstats: requests, bytes and time of the block devices; the metrics are called disk.…"""

from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, counters, gauges

NAME = "disk"
_SECTOR = 512.0  # bytes; fixed in this file, whatever the device's own sectors are
_MILLISECOND = 1e-3

# Quantity and factor, in the kernel's order (Documentation/admin-guide/iostats.rst). Kernels before 4.18 end after
# queue_time, those before 5.5 after discard_time; newer ones may append more.
_FIELDS = (
    ("reads", 1.0),
    ("reads_merged", 1.0),
    ("read_bytes", _SECTOR),
    ("read_time", _MILLISECOND),
    ("writes", 1.0),
    ("writes_merged", 1.0),
    ("write_bytes", _SECTOR),
    ("write_time", _MILLISECOND),
    ("in_flight", 1.0),
    ("io_time", _MILLISECOND),  # while at least one request was in flight
    ("queue_time", _MILLISECOND),  # summed over the requests in flight: queue length × time
    ("discards", 1.0),
    ("discards_merged", 1.0),
    ("discard_bytes", _SECTOR),
    ("discard_time", _MILLISECOND),
    ("flushes", 1.0),
    ("flush_time", _MILLISECOND),
)


def parse(text: str) -> Iterator[Reading]:
    """Readings of all devices; the object is the device's name ("vda", "nvme0n1")."""
    for line in text.splitlines():
        _major, _minor, device, *numbers = line.split()
        for (name, factor), number in zip(_FIELDS, numbers, strict=False):
            yield Reading(f"{NAME}.{name}", device, int(number) * factor)


def device_names(text: str) -> dict[str, str]:
    """Names of the devices by their numbers, {"254:0": "vda"}."""
    fields = [line.split(maxsplit=3) for line in text.splitlines()]
    return {f"{major}:{minor}": name for major, minor, name, _ in fields}


_UNITS = {1.0: "", _SECTOR: "B", _MILLISECOND: "s"}

COLLECTOR = FileCollector(
    name=NAME,
    path="/proc/diskstats",
    metrics=(
        *(metric for name, factor in _FIELDS if name != "in_flight" for metric in counters(NAME, _UNITS[factor], name)),
        *gauges(NAME, "", "in_flight"),
    ),
    parse=parse,
    per_device=True,
)
