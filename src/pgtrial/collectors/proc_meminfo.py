"""/proc/meminfo: what the memory is used for. Quantities keep the kernel's names, "Active(anon)" included."""

from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, gauges

NAME = "proc_meminfo"

_BYTES = (
    *("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "SwapTotal", "SwapFree"),
    *("Active", "Inactive", "Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)"),
    *("Unevictable", "Mlocked", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "Zswap", "Zswapped"),
    *("KReclaimable", "Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Percpu"),
    *("CommitLimit", "Committed_AS"),
    *("AnonHugePages", "ShmemHugePages", "ShmemPmdMapped", "FileHugePages", "FilePmdMapped"),
    *("Hugepagesize", "Hugetlb"),
)
_COUNTS = ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp")
_KNOWN = frozenset((*_BYTES, *_COUNTS))


def parse(text: str) -> Iterator[Reading]:
    """Readings of lines such as "MemFree:  23020232 kB" in B, and of those without a unit as counts."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in _KNOWN:
            number, *unit = rest.split()
            yield Reading(f"{NAME}.{name}", "", float(int(number) * (1024 if unit == ["kB"] else 1)))


COLLECTOR = FileCollector(
    name=NAME,
    path="/proc/meminfo",
    metrics=(*gauges(NAME, "B", *_BYTES), *gauges(NAME, "", *_COUNTS)),
    parse=parse,
)
