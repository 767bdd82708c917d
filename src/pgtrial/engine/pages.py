"""The pages that a server's memory is made of: their size, the kernel's pools, and what finding them costs.

Sources: proc_pid_smaps(5), and the kernel's Documentation/admin-guide/mm/hugetlbpage.rst. How often the processor does
not find where a page is (misses of its translation caches, TLB) is counted by perf stat, of the server's processes
alone: those that are there, and those that they start meanwhile. Virtual machines often do not have the counters; that
is said, and nothing is made up. Source: perf-stat(1), "CSV FORMAT".
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field

from pgtrial.engine.record import RunRecorder
from pgtrial.engine.sampler.control import find_server
from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import HostCommandError, SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.loop_devices import find_program
from pgtrial.hosts.operations import Operations
from pgtrial.knobs import KNOBS
from pgtrial.model.arm import Arm
from pgtrial.model.run import PAGES, TRANSLATIONS, LoadLevel
from pgtrial.postgres.settings import Setting
from pgtrial.units import format_bytes, parse_bytes

_KILOBYTE = 1024
_POOLS = "/sys/kernel/mm/hugepages"
_POOL_COUNTS = ("nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages")
_MEMINFO = "/proc/meminfo"
# Address range, permissions ("s" for shared), offset, device, inode, and the path if there is one.
_MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ ([-r][-w][-x][ps]) \S+ \S+ \S+ *(.*)")
_AMOUNT = re.compile(r"(\w+): +(\d+) kB")
_OF_POOL = re.compile(r"(HugePages_\w+|Hugepagesize|Hugetlb): +(\d+)(?: (kB))?")

# Few enough for the counters that processors have, so that none is counted for a part of the time only.
EVENTS = ("instructions", "dTLB-loads", "dTLB-load-misses", "dTLB-store-misses", "iTLB-load-misses")
_SEPARATOR = ";"
_EVENT = re.compile(r"(?:(?P<kind>\w+)/)?(?P<event>[\w-]+)(?:/\w*)?(?::\w+)?")
_PACKAGE = "linux-perf"
_LEAST_SECONDS = 0.5
_SPARE = 0.3  # s before the end of a level, by which counting is over


def are_about_pages(arms: Sequence[Arm]) -> bool:
    """Whether one of the arms has a table about pages, or they differ in a setting that such a table sets."""
    about = [knob for knob in KNOBS.values() if knob.about_pages]
    settings = {setting for knob in about for own in knob.own_settings for setting in own.settings}
    values = {
        tuple((key.lower(), arm.settings[key]) for key in sorted(arm.settings) if key.lower() in settings)
        for arm in arms
    }
    return len(values) > 1 or any(knob.name in arm.knobs for knob in about for arm in arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The largest shared mapping of a process, all in bytes.

    ``page`` is KernelPageSize: of the pool that the pages come from, or of ordinary memory. ``transparent`` is how much
    of ordinary memory the kernel has mapped by huge pages of its own (ShmemPmdMapped).
    """

    size: int
    page: int
    transparent: int


def find_shared_memory(smaps: str) -> SharedMemory | None:
    """The server's shared buffers among the mappings of its first process (/proc/PID/smaps); None without any."""
    found = [
        SharedMemory(size=amounts["Size"], page=amounts["KernelPageSize"], transparent=amounts.get("ShmemPmdMapped", 0))
        for permissions, amounts in _mappings(smaps)
        if permissions.endswith("s") and {"Size", "KernelPageSize"} <= amounts.keys()
    ]
    return max(found, key=lambda each: each.size, default=None)


def _mappings(smaps: str) -> Iterator[tuple[str, dict[str, int]]]:
    """(permissions, name to bytes) of each mapping."""
    permissions, amounts = "", dict[str, int]()
    for line in smaps.splitlines():
        if head := _MAPPING.fullmatch(line):
            if permissions:
                yield permissions, amounts
            permissions, amounts = head[1], {}
        elif amount := _AMOUNT.fullmatch(line):
            amounts[amount[1]] = int(amount[2]) * _KILOBYTE
    if permissions:
        yield permissions, amounts


def read_shared_memory(ops: Operations, pid: int) -> SharedMemory | None:
    """That of a server; None where the kernel does not show it."""
    try:
        return find_shared_memory(ops.read(f"/proc/{pid}/smaps"))
    except OSError:
        return None


def read_pools(ops: Operations) -> dict[str, dict[str, int]]:
    """Pools of huge pages by the size of a page ("2MB"): pages there are, free, reserved, surplus."""
    texts = ops.read_all([f"{_POOLS}/hugepages-*/{name}" for name in _POOL_COUNTS])
    pools: dict[str, dict[str, int]] = {}
    for path, text in texts.items():
        directory, name = path.split("/")[-2:]
        size = format_bytes(parse_bytes(directory.removeprefix("hugepages-"))).replace(" ", "")
        pools.setdefault(size, {})[name.removesuffix("_hugepages")] = int(text)
    return pools


def parse_memory(meminfo: str) -> dict[str, int]:
    """What /proc/meminfo says of huge pages: counts of the default size, and bytes of all sizes (Hugetlb)."""
    return {
        match[1]: int(match[2]) * (_KILOBYTE if match[3] else 1)
        for line in meminfo.splitlines()
        if (match := _OF_POOL.fullmatch(line.strip()))
    }


def read_memory(ops: Operations) -> dict[str, int]:
    return parse_memory(ops.read(_MEMINFO))


def find_mismatch(memory: SharedMemory, settings: Mapping[str, Setting], *, base_page: int, default_page: int) -> str:
    """Describe a mismatch with the server's settings; "" if there is none, or if they leave the size open.

    ``base_page`` is the size of an ordinary page, ``default_page`` of a huge one where the server names none.
    """
    wanted = settings["huge_pages"].shown
    if wanted == "on":
        named = settings["huge_page_size"].shown if "huge_page_size" in settings else "0"
        expected = default_page if named in ("0", "0kB") else int(parse_bytes(named))
    elif wanted == "off":
        expected = base_page
    else:
        return ""  # "try": the server takes what it gets
    if memory.page == expected:
        return ""
    return (
        f"the server's shared memory is in pages of {format_bytes(memory.page)}, "
        f"expected {format_bytes(expected)} (huge_pages = {wanted})"
    )


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
    """Counts by event from perf stat's lines "value;unit;event;running;percent;…", without uncounted events.

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


@dataclass(slots=True, kw_only=True)
class PageWatch:
    """Of one run; nothing is read where ``is_on`` is false."""

    is_on: bool
    host: Host
    record: RunRecorder
    reason: str = field(default="", init=False)  # why perf has counted nothing, so that it is not asked again

    def note(self, moment: str, *, server: RunningServer | None = None) -> str:
        """Write down the pools of huge pages, and under load (with a ``server``) the pages of its shared memory.

        Returns what is not as its settings say, "" if nothing.
        """
        if not self.is_on:
            return ""
        ops = self.host.ops
        memory = read_memory(ops)
        data: dict[str, object] = {"moment": moment, "pools": read_pools(ops), "meminfo": memory}
        problem = ""
        pid = find_server(ops, server.directories) if server is not None and server.on_host else None
        if server is not None and pid is not None:
            shared = read_shared_memory(ops, pid)
            if shared is not None:
                data["shared"] = asdict(shared)
                problem = find_mismatch(
                    shared,
                    server.settings,
                    base_page=ops.page_size(),
                    default_page=memory.get("Hugepagesize", 0),
                )
        self.record.add_event(PAGES, **data)
        return problem

    @asynccontextmanager
    async def counting(
        self, server: RunningServer, level: LoadLevel, *, guard: float, duration: float, share: float
    ) -> AsyncIterator[None]:
        """Count misses of the translation caches in the measured window of a level, which begins after ``guard``.

        The server is at work for a ``share`` of that time, and frozen for the rest: counts are per second at work.
        """
        pid = find_server(self.host.ops, server.directories) if self.is_on and server.on_host else None
        if pid is None:
            yield
            return
        task = asyncio.create_task(self._count(pid, guard=guard, duration=duration))
        try:
            yield
            found = await task
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        data = {"seconds": found.seconds * share, "counts": dict(found.counts), "reason": found.reason}
        self.record.add_event(TRANSLATIONS, level=level.index, **data)

    async def _count(self, pid: int, *, guard: float, duration: float) -> Translations:
        if self.reason:
            return Translations(reason=self.reason)
        await asyncio.sleep(guard)  # then all sessions are there
        found = await count_translations(self.host, pid, seconds=duration - _SPARE)
        self.reason = found.reason
        return found
