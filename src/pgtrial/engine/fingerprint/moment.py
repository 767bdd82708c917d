"""Facts of the moment: CPU time, swap, throttling, other programs. Judged by thresholds, not compared."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.engine.fingerprint.machine import every, find, memory_of
from pgtrial.model.fingerprint import (
    CPU_ALL,
    CPU_KERNEL,
    CPU_OTHERS,
    CPU_OWN,
    CPU_STEAL,
    CPU_TASKS,
    OOM_KILLS,
    OTHERS,
    SWAP_USED,
    SWAPPED,
    THERMAL,
)
from pgtrial.units import format_percent

_CPU = "/sys/devices/system/cpu"
_TICKS = 100  # per second, in /proc/stat whatever the kernel's own HZ is (proc(5))
_NAMED = 3  # programs
_SMALLEST = 0.0005  # share of the CPU time; less is written as 0.0 %
_ROUNDED = 0.05  # s; user and system time are rounded to ticks each, of a process and of what it waited for

PATTERNS = ("/proc/stat", "/proc/meminfo", "/proc/vmstat", f"{_CPU}/cpu*/thermal_throttle/*_throttle_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTime:
    """CPU seconds of a process with its children that have ended; ``whose`` is own, kernel or other."""

    pid: int
    parent: int
    start_ticks: int
    whose: str
    name: str
    seconds: float


def moment_facts(texts: Mapping[str, str], *, page_size: int) -> dict[str, str]:
    """What changes by nature: CPU time, swap, throttling; see model/fingerprint.py."""
    facts: dict[str, str] = {}
    ticks = [int(field) for field in find(r"^cpu +([\d ]+)", texts.get("/proc/stat", "")).split()]
    if len(ticks) >= 8:
        # User time includes guest time; interrupts belong to no process.
        user, nice, system, _, _, _, _, steal = ticks[:8]
        facts |= {
            CPU_ALL: f"{sum(ticks[:8]) / _TICKS:.2f}",
            CPU_TASKS: f"{(user + nice + system) / _TICKS:.2f}",
            CPU_STEAL: f"{steal / _TICKS:.2f}",
        }
    memory = memory_of(texts)
    if {"SwapTotal", "SwapFree"} <= memory.keys():
        facts[SWAP_USED] = str(memory["SwapTotal"] - memory["SwapFree"])
    pages = dict(re.findall(r"^(\w+) (\d+)$", texts.get("/proc/vmstat", ""), re.MULTILINE))
    if {"pswpin", "pswpout"} <= pages.keys():
        facts[SWAPPED] = str((int(pages["pswpin"]) + int(pages["pswpout"])) * page_size)
    if "oom_kill" in pages:
        facts[OOM_KILLS] = pages["oom_kill"]
    if throttled := every(texts, f"{_CPU}/cpu", "_throttle_count"):
        facts[THERMAL] = str(sum(int(count) for count in throttled))
    return facts


def compare_times(before: Sequence[ProcessTime], after: Sequence[ProcessTime], *, cpu_seconds: float) -> dict[str, str]:
    """CPU time by whose it was, and the programs of others that used most of it.

    ``cpu_seconds`` is the time of all CPUs between the two. A process that has ended is in its parent's time.
    """
    used = _used(before, after)
    owners = {"own": CPU_OWN, "kernel": CPU_KERNEL, "other": CPU_OTHERS}
    facts = {fact: f"{sum(used[whose].values()):.2f}" for whose, fact in owners.items()}
    programs = sorted(used["other"].items(), key=lambda item: -item[1])[:_NAMED]
    named = [
        f"{name} {format_percent(seconds / cpu_seconds)}"
        for name, seconds in programs
        if cpu_seconds > 0 and seconds / cpu_seconds >= _SMALLEST
    ]
    return facts | ({OTHERS: ", ".join(named)} if named else {})


def _used(before: Sequence[ProcessTime], after: Sequence[ProcessTime]) -> dict[str, dict[str, float]]:
    """Whose to name to CPU seconds between the two."""
    then = {(process.pid, process.start_ticks): process for process in before}
    now = {(process.pid, process.start_ticks): process for process in after}
    grown = {process.pid: process.seconds - then[key].seconds for key, process in now.items() if key in then}
    parents = {process.pid: process.parent for process in before}
    for process in (process for key, process in then.items() if key not in now):
        # Its earlier CPU time is now part of the time of the process that waited for it. Where that is, as a rule, the
        # time grew by as much; nothing is taken from others, as nobody waits for a child of who ignores its signal.
        waited = (
            pid for pid in _reapers(process.parent, parents) if grown.get(pid, -1.0) + _ROUNDED >= process.seconds
        )
        if reaper := next(waited, None):
            grown[reaper] -= process.seconds
    used: dict[str, dict[str, float]] = {"own": {}, "kernel": {}, "other": {}}
    for key, process in now.items():
        programs = used[process.whose]
        seconds = max(0.0, grown[process.pid]) if key in then else process.seconds
        programs[process.name] = programs.get(process.name, 0.0) + seconds
    return used


def _reapers(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """Who may have waited for a child of ``pid``: that and its ancestors, and init, which adopts orphans."""
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        yield pid
        seen.add(pid)
        pid = parents[pid]
    if 1 not in seen:
        yield 1
