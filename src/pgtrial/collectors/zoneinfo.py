"""/proc/zoneinfo: free pages of each zone of memory, and the watermarks at which the kernel begins to reclaim.

Below "low" kswapd wakes up, below "min" allocating processes reclaim directly, and up to "high" kswapd continues. The
kernel raises them for a while after fragmentation, so they are not constants.
"""

from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, gauges

NAME = "zoneinfo"
_QUANTITIES = ("free", "min", "low", "high")


def parse(text: str) -> Iterator[Reading]:
    """Readings, in pages, of lines such as "  pages free 3840" and "  min 25"; the object is "node/zone"."""
    about = ""
    for line in text.splitlines():
        words = line.replace("pages free", "free").split()
        if line.startswith("Node"):
            about = f"{words[1].rstrip(',')}/{words[3]}"
        elif len(words) == 2 and words[0] in _QUANTITIES:
            yield Reading(f"{NAME}.{words[0]}", about, float(words[1]))


COLLECTOR = FileCollector(
    name=NAME,
    path="/proc/zoneinfo",
    metrics=gauges(NAME, "", *_QUANTITIES),
    parse=parse,
    # The rest of it grows with the number of CPUs, and is a hundred times as long on a large machine.
    lines=("Node", "  pages free", *(f"        {name} " for name in _QUANTITIES[1:])),
)
