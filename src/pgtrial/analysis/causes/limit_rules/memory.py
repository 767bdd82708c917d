"""Memory: what is needed is thrown out, or swapped out, and has to be read again."""

from collections.abc import Iterator

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, Scene, accuse, find_clue, strongest
from pgtrial.analysis.causes.limit_rules.disk import reads_as_much_as_allowed
from pgtrial.analysis.causes.limit_rules.parts import is_blocked, is_cpu, is_data, is_temporary
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.findings.message import message
from pgtrial.findings.session_time import BLOCKED, CPU_QUEUE

_PAGE = 4096.0  # B, the smallest that kernels use


def suspect_memory(scene: Scene) -> Iterator[Suspect | None]:
    """Tasks wait for memory (PSI), and processes free it themselves, or their control group is full.

    Both are needed. A load that reads more data than there is memory has refaults, and PSI counts them, yet the
    kernel's own thread frees enough: there the device limits. And a control group is full as soon as its page cache
    fills it. Where the kernel does not tell of pressure, pages that come back stand for it. PSI counts a wait for pages
    that come back until the device has read them: where that stands at a limit that was declared, the limit makes the
    wait, with whatever memory there is.
    """
    pressure, again = scene.median("psi.memory"), _refaults(scene)
    waiting = find_clue(
        *("psi.memory", pressure, "share", limits.MEMORY_PRESSURE),
        message("memory.pressure", share=pressure),
    )
    reclaim = _reclaim(scene)
    most = limits.AT_DEVICE_LIMIT if reads_as_much_as_allowed(scene) else 1.0
    yield accuse(
        Resource.MEMORY,
        detail=message("detail.memory-limit") if reclaim and reclaim.evidence.metric == "cgroup.memory" else "",
        needs=(reclaim, waiting or again, _stalled(scene)),
        supports=(again,) if waiting else (),
        at_most=most if waiting else min(most, limits.WITHOUT_PRESSURE),
    )


def _refaults(scene: Scene) -> Clue | None:
    """Of what is read, how much had been in memory shortly before, at least: pages may be larger."""
    pages, read = scene.mean("reclaim.refault"), scene.mean("vmstat.bi")
    share = min(1.0, pages * _PAGE / read) if pages is not None and read else None
    return find_clue(
        *("reclaim.refault", share, "share", limits.REFAULTS),
        message("memory.refaults", share=share),
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
                message("memory.reclaim", share=scanning),
            ),
            find_clue(
                *("cgroup.memory", full, "share", limits.GROUP_FULL),
                message("memory.group-full", share=full, limit=limit),
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
                *("vmstat.si", rate, "B/s", limits.SWAP_IN),
                message("memory.swapped-in", bytes=rate),
            ),
            find_clue(
                *("vmstat.si", time, "share", limits.SWAP_TIME),
                message("memory.swap-time", share=time),
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
        message("memory.stalled", share=share),
    )
