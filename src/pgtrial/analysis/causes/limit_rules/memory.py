"""Memory: what is needed is thrown out, or swapped out, and has to be read again."""

from collections.abc import Iterator

from pgtrial.analysis.cause_findings import Resource, Suspect
from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, Scene, accuse, find_clue, strongest
from pgtrial.analysis.causes.limit_rules.parts import is_blocked, is_cpu, is_data, is_temporary
from pgtrial.analysis.causes.words import BLOCKED, CPU_QUEUE, percent
from pgtrial.units import format_bytes

_PAGE = 4096.0  # B, the smallest that kernels use


def suspect_memory(scene: Scene) -> Iterator[Suspect | None]:
    """Tasks wait for memory (PSI), and processes free it themselves, or their control group is full.

    Both are needed. A load that reads more data than there is memory has refaults, and PSI counts them, yet the
    kernel's own thread frees enough: there the device limits. And a control group is full as soon as its page cache
    fills it. Where the kernel does not tell of pressure, pages that come back stand for it.
    """
    pressure, again = scene.median("psi.memory"), _refaults(scene)
    waiting = find_clue(
        *("psi.memory", pressure, "share", limits.MEMORY_PRESSURE),
        f"some task waits for memory {percent(pressure or 0)} of the time",
    )
    reclaim = _reclaim(scene)
    yield accuse(
        Resource.MEMORY,
        detail="limit of the control group" if reclaim and reclaim.evidence.metric == "cgroup.memory" else "",
        needs=(reclaim, waiting or again, _stalled(scene)),
        supports=(again,) if waiting else (),
        at_most=1.0 if waiting else limits.WITHOUT_PRESSURE,
    )


def _refaults(scene: Scene) -> Clue | None:
    """Of what is read, how much had been in memory shortly before, at least: pages may be larger."""
    pages, read = scene.mean("reclaim.refault"), scene.mean("vmstat.bi")
    share = min(1.0, pages * _PAGE / read) if pages is not None and read else None
    return find_clue(
        *("reclaim.refault", share, "share", limits.REFAULTS),
        f"{percent(share or 0)} of what is read had been in memory shortly before",
    )


def _reclaim(scene: Scene) -> Clue | None:
    """Processes that free memory themselves. Of a control group the kernel counts that nowhere but in the group."""
    scanning = scene.share_above("reclaim.direct", limits.DIRECT_SCAN)
    used, limit = scene.median("cgroup.memory"), scene.median("cgroup.memory_limit")
    full = used / limit if used is not None and limit else None
    return strongest(
        (
            find_clue(
                *("reclaim.direct", scanning, "share", limits.RECLAIM_TIME),
                f"processes have to free memory themselves in {percent(scanning or 0)} of the seconds",
            ),
            find_clue(
                *("cgroup.memory", full, "share", limits.GROUP_FULL),
                f"the control group has {percent(full or 0)} of the {format_bytes(limit or 0)} it may have",
            ),
        )
    )


def suspect_swap(scene: Scene) -> Iterator[Suspect | None]:
    """Pages come back from swap all the time. Pages that only go out are those that nobody needs."""
    rate, time = scene.mean("vmstat.si"), scene.share_above("vmstat.si", 0.0)
    yield accuse(
        Resource.SWAP,
        needs=(
            find_clue(
                *("vmstat.si", rate, "B/s", limits.SWAP_IN), f"{format_bytes(rate or 0)} per second are swapped in"
            ),
            find_clue(
                *("vmstat.si", time, "share", limits.SWAP_TIME), f"in {percent(time or 0)} of the seconds something is"
            ),
            _stalled(scene),
        ),
    )


def _stalled(scene: Scene) -> Clue | None:
    """How much of the latency want of memory can be behind; None where it cannot be told from CPU time."""
    # A page fault is no wait that the server knows of: only the kernel's accounts tell it from CPU time.
    has_accounts = scene.has_part(CPU_QUEUE) or scene.has_part(BLOCKED)
    share = scene.share(is_blocked, is_data, is_temporary, *(() if has_accounts else (is_cpu,)))
    return find_clue(
        *("latency.stalled", share, "share", limits.STALLED_SHARE),
        f"{percent(share or 0)} of the latency is reading pages, or blocked in the kernel",
    )
