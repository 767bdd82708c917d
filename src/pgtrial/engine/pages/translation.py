"""How often the processor does not find where a page is: misses of its translation caches (TLB), by perf stat.

Counted are the server's processes alone, for a measured load level: those that are there, and those that they start
meanwhile. Virtual machines often do not have the counters; that is said, and nothing is made up.
Source: perf-stat(1), "CSV FORMAT".
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pgtrial.errors import HostCommandError, SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.loop_devices import find_program
from pgtrial.hosts.operations import Operations

# Few enough for the counters that processors have, so that none is counted for a part of the time only.
EVENTS = ("instructions", "dTLB-loads", "dTLB-load-misses", "dTLB-store-misses", "iTLB-load-misses")
_SEPARATOR = ";"
_EVENT = re.compile(r"(?:(?P<kind>\w+)/)?(?P<event>[\w-]+)(?:/\w*)?(?::\w+)?")
_PACKAGE = "linux-perf"
_LEAST_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Translations:
    """Events counted in ``seconds``, without those that the machine does not have; or the ``reason`` why none is."""

    seconds: float = 0.0
    counts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


async def count_translations(host: Host, server_pid: int, *, seconds: float) -> Translations:
    """Count for so many seconds from now on; what goes wrong is the reason of an empty answer, never an error."""
    if seconds < _LEAST_SECONDS:
        return Translations(reason="The load level is too short to count anything.")
    try:
        program = find_program(host.ops, "perf", _PACKAGE)
    except SettingError as err:
        return Translations(reason=f"{err.message[:1].upper()}{err.message[1:]}. {err.hint}")
    pids = [server_pid, *children_of(host.ops, server_pid)]
    argv = [program, "stat", "-x", _SEPARATOR, "-e", ",".join(EVENTS), "-p", ",".join(map(str, pids))]
    try:
        done = await host.run([*argv, "--", "sleep", f"{seconds:.3f}"], check=False)
    except HostCommandError as err:
        return Translations(reason=f"perf could not be started: {err.detail or err.message}")
    counts = parse_counts(done.stderr)
    if not counts:
        return Translations(reason=_reason(done.stderr))
    return Translations(seconds=seconds, counts=counts)


def children_of(ops: Operations, pid: int) -> Sequence[int]:
    """Numbers of the processes that a process has started; () where the kernel does not list them."""
    with suppress(OSError, ValueError):
        return tuple(map(int, ops.read(f"/proc/{pid}/task/{pid}/children").split()))
    return ()


def parse_counts(output: str) -> dict[str, float]:
    """Event to its count from perf stat's lines "value;unit;event;running;percent;…"; what was not counted is left out.

    The kernel's mark behind an event ("dTLB-loads:u": of user space only) is taken off. A processor with two kinds of
    cores has counters of each ("cpu_core/dTLB-loads/"), which count while a process is there. So they are added up, as
    they were counted: perf has extrapolated each from its part of the time to all of it. Without one of them the other
    says nothing of the whole.
    """
    counts: dict[str, float] = {}
    unknown = set()
    for line in output.splitlines():
        value, *rest = line.split(_SEPARATOR)
        match = _EVENT.fullmatch(rest[1]) if len(rest) > 1 else None
        if match is None or match["event"] not in EVENTS:
            continue
        event = match["event"]
        try:
            part = float(rest[3]) / 100 if match["kind"] else 1.0
            counts[event] = counts.get(event, 0.0) + float(value) * part
        except (ValueError, IndexError):  # "<not supported>", "<not counted>"
            unknown.add(event)
    return {event: count for event, count in counts.items() if event not in unknown}


def _reason(output: str) -> str:
    if "<not supported>" in output:
        return "The processor's counters are not to be had on this machine, as in many virtual machines."
    if "<not counted>" in output:
        return "perf found no time in which the processor's counters were free."
    if "paranoid" in output or "ermission" in output or "access" in output.lower():
        return "The kernel does not allow perf to count (kernel.perf_event_paranoid)."
    last = [line.strip() for line in output.splitlines() if line.strip()]
    return f"perf counted nothing: {last[-1]}" if last else "perf counted nothing and printed nothing."
