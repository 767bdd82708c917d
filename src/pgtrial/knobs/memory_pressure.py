"""Memory that is taken away from server and page cache: locked by a process of its own."""

import signal
from collections.abc import Mapping, Sequence
from typing import ClassVar
from uuid import uuid4

from pydantic import Field

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host, HostProcess
from pgtrial.hosts.linux.control_groups import smallest_limit
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import About, Acts, EffectTiming, Exclusive, Rule, Shared
from pgtrial.knobs.dirty_limit import apply_limit, plan_limit
from pgtrial.knobs.kernel_values import undo_values
from pgtrial.knobs.values import Ratio, Size, Table
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.units import format_bytes, format_share, parse_bytes, read_share

_MARGIN = 256 << 20  # bytes that have to stay available, so that a server can start at all
_GROUP_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
_PATIENCE = 30.0  # seconds in which the kernel has to find the next part
_END_PATIENCE = 10.0  # seconds in which a killed process has to be gone; the kernel frees some GB/s
_LET_GO = 0.5  # seconds for its parent to notice
_STEP = 0.01
_CAP_IPC_LOCK = 14  # capability(7)

# Locking alone makes the kernel find the pages, and no swapping takes them back. In parts, so that progress is seen and
# a signal is heeded between them. Arguments: bytes, and a word by which the process is found.
_HOLD = """
import ctypes, mmap, os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, lambda *_: os._exit(0))  # SIGQUIT would otherwise write it all to a core file
try:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # should memory run out, this process goes and not the server
    wanted, part = int(sys.argv[1]), 64 << 20
    held = mmap.mmap(-1, wanted, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        held.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        pass  # a kernel without them finds small pages, which takes several times as long
    address = ctypes.addressof(ctypes.c_char.from_buffer(held))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    for start in range(0, wanted, part):
        if libc.mlock(address + start, min(part, wanted - start)) != 0:
            raise OSError(ctypes.get_errno(), "mlock: " + os.strerror(ctypes.get_errno()))
        print(min(wanted, start + part), flush=True)
except Exception as error:
    print(error, flush=True)
    sys.exit(1)
while True:
    signal.pause()
"""


class MemoryPressureTable(Table):
    """Memory to withhold from the server, locked by a separate process: a size, a share, or all but what is left."""

    size: Size | None = Field(default=None, description='So much: "8GB".')
    share: Ratio | None = Field(default=None, description='Share of the available memory: "50%".')
    leave: Size | None = Field(default=None, description='All of the available memory but this: "734MB".')


class MemoryPressure(HostKnob):
    name = "memory_pressure"
    about = About(
        sets="memory locked by a process of pgtrial, so that server and page cache have that much less. As root, the "
        "kernel's limit of dirty pages is that of the memory left at once: vm.dirty_ratio or vm.dirty_bytes, whichever "
        "is in effect, becomes another value and is set back",
        takes_effect="at once",
        rights="root, or a limit of locked memory (ulimit -l) that allows it",
        verified="the kernel's count of the process's locked memory; at the end of the run, that the process is "
        "still alive",
        undone="the process is ended; it also ends with pgtrial in any case",
    )
    acts = (Acts(code="reclaim", metrics=("reclaim.kswapd", "reclaim.direct"), least=1.0),)
    rules = (
        Rule(
            timing=EffectTiming.BUILDS_UP,
            reason="makes the kernel reclaim memory and swap, over minutes",
            shares=(Shared.PAGE_CACHE, Shared.MEMORY),
        ),
    )
    intends: ClassVar = {"swapping": ("*",)}
    exclusive = (
        Exclusive(
            keys=("size", "share"),
            message="the memory that is taken away is given as a size and as a share",
            hint="Remove one of the two.",
        ),
        *(
            Exclusive(
                keys=(key, "leave"),
                message="the memory that is taken away is given as such and as what it leaves",
                hint="Remove one of the two.",
            )
            for key in ("size", "share")
        ),
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        ops = context.host.ops
        available = available_memory(ops)
        if "leave" in wanted:
            left = int(parse_bytes(wanted["leave"]))
            if left > available:
                raise SettingError(
                    f"cannot leave {format_bytes(left)} of memory, only {format_bytes(available)} are available",
                    hint="Leave less, or stop other programs that use memory.",
                )
            asked, text = available - left, f" (all but {format_bytes(left)} of {format_bytes(available)} available)"
        elif "size" in wanted:
            asked, text = int(parse_bytes(wanted["size"])), ""
        else:
            asked = int(taken_memory(wanted, available))
            text = f" ({format_share(read_share(wanted['share']))} of {format_bytes(available)} available)"
        asked -= asked % ops.page_size()
        if asked == 0:
            return ()
        if asked > available - _MARGIN:
            raise SettingError(
                f"cannot take {format_bytes(asked)} of memory away, only {format_bytes(available)} are available",
                detail=f"{format_bytes(_MARGIN)} of them are kept for the server's start.",
                hint="Take less, or stop other programs that use memory.",
            )
        # The kernel counts what is locked for the group, and may end all of it, as containers and services ask for.
        own = smallest_limit(ops, "memory", _GROUP_LIMITS)
        if own is not None and asked > own[1] - _MARGIN:
            raise SettingError(
                f"cannot take {format_bytes(asked)} of memory away, "
                f"the control group of pgtrial may have {format_bytes(own[1])}",
                detail=f'The limit is "{own[0]}"; a share is of what the whole machine has available.',
                hint="Give a size that fits, or run pgtrial outside of the container or the service.",
            )
        limit = _lock_limit(ops)
        if limit is not None and asked > limit:
            raise SettingError(
                f"cannot lock {format_bytes(asked)} of memory, the limit is {format_bytes(limit)}",
                hint="Run pgtrial as root, or raise the limit of locked memory (ulimit -l, memlock in limits.conf).",
            )
        return (
            Change(
                knob=self.name,
                name="memory taken away",
                old={},
                new={"bytes": str(asked), "token": f"{context.token}-{uuid4().hex}"},
                old_text="none",
                new_text=format_bytes(asked) + text,
            ),
            *plan_limit(ops, self.name),
        )

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        import asyncio

        if change.old:
            return apply_limit(context.host.ops, change)
        host, asked = context.host, change.new["bytes"]
        process = await host.start(
            [host.ops.python(), "-I", "-S", "-c", _HOLD, asked, change.new["token"]],
            role=self.name,
            stdout=asyncio.subprocess.PIPE,
        )
        ticks = host.ops.start_ticks(process.pid)
        try:
            held = await _until_held(host, process, int(asked))
        except BaseException:
            if ticks is not None:
                host.ops.signal(process.pid, ticks, signal.SIGKILL)
            await process.wait()
            raise
        return {**change.new, "bytes": str(held), "pid": str(process.pid), "start_ticks": str(ticks)}

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        import asyncio

        if entry.change.old:
            # Once confirmed it has the value of before, or that of an arm, whose own entry undoes that.
            return undo_values(host, entry) if entry.got is None else Undone(outcome=Outcome.ALREADY)
        if host.ops.boot_id() != entry.boot_id:
            return Undone(outcome=Outcome.REBOOTED)
        # Processes that have ended, but that nobody has waited for, hold no memory any more and are not found.
        found = _holders(host.ops, entry)
        if not found:
            return Undone(outcome=Outcome.ALREADY)
        try:
            for pid, ticks in found:
                host.ops.signal(pid, ticks, signal.SIGKILL)
        except OSError as err:
            return Undone(outcome=Outcome.FAILED, text=f"Process {pid} cannot be ended: {err.strerror}.")
        for _ in range(round(_END_PATIENCE / _STEP)):
            await asyncio.sleep(_STEP)
            # Asked by pid: a process loses its command line before the kernel has freed its memory.
            if all(host.ops.start_ticks(pid) != ticks for pid, ticks in found):
                await _let_go(host.ops, found)
                return Undone(outcome=Outcome.RESTORED)
        pids = ", ".join(str(pid) for pid, _ in found)
        return Undone(outcome=Outcome.FAILED, text=f"Process {pids} holds memory and does not end.")

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        if entry.change.old:
            return ""  # the value was there before; an arm's own for it may have come since
        assert entry.got is not None  # asked of what was applied
        held = sum(_locked(host.ops, pid) for pid, _ in _holders(host.ops, entry))
        if held < int(entry.got["bytes"]):
            return f"Of {entry.change.new_text} of memory taken away, {format_bytes(held)} are held now."
        return ""


async def _let_go(ops: Operations, ended: list[tuple[int, int]]) -> None:
    """Let asyncio see the end of what it has started, or it would complain of an open pipe when its loop is closed.

    Bounded: a process whose parent hangs stays in the table of processes.
    """
    import asyncio

    for _ in range(round(_LET_GO / _STEP)):
        if not any(ops.exists(f"/proc/{pid}") for pid, _ in ended):
            break
        await asyncio.sleep(_STEP)
    await asyncio.sleep(_STEP)


async def _until_held(host: Host, process: HostProcess, asked: int) -> int:
    """Wait until all is held; how many bytes the kernel says it is. Raises SettingError with the process's words."""
    import asyncio

    assert process.stdout is not None  # a pipe
    reported, words = 0, ""
    while reported < asked:
        try:
            async with asyncio.timeout(_PATIENCE):
                line = await process.stdout.readline()
        except TimeoutError:
            words = f"nothing for {_PATIENCE:g} s"
            break
        words = line.decode("utf-8", "replace").strip()
        if not words.isdecimal():
            words = words or "nothing, it has ended"
            break
        reported = int(words)
    held = _locked(host.ops, process.pid)
    if reported < asked or held < asked:
        raise SettingError(
            f"cannot take {format_bytes(asked)} of memory away, got {format_bytes(max(reported, held))}",
            detail=f"The process that holds it said: {words}.",
            hint="Take less, or stop other programs that use memory.",
        )
    return held


def _holders(ops: Operations, entry: JournalEntry) -> list[tuple[int, int]]:
    """(pid, start ticks) of the processes that hold the memory of a change: one or none."""
    if entry.got is None:
        return ops.find_argument(entry.change.new["token"])
    pid, ticks = int(entry.got["pid"]), int(entry.got["start_ticks"])
    return [(pid, ticks)] if ops.start_ticks(pid) == ticks else []


def _locked(ops: Operations, pid: int) -> int:
    """Bytes that a process has locked; 0 when it has just ended."""
    try:
        status = ops.read(f"/proc/{pid}/status")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmLck:")), 0)


def _lock_limit(ops: Operations) -> int | None:
    """Bytes of memory that a program may lock, None without a limit; root in a container has one as well."""
    for line in ops.read("/proc/self/status").splitlines():
        if line.startswith("CapEff:") and int(line.split()[1], 16) >> _CAP_IPC_LOCK & 1:
            return None
    for line in ops.read("/proc/self/limits").splitlines():
        if line.startswith("Max locked memory"):
            soft = line.removeprefix("Max locked memory").split()[0]
            return None if soft == "unlimited" else int(soft)
    return None


def taken_memory(wanted: Mapping[str, str], available: float) -> float:
    """Bytes that a table takes away of what is available; 0 for an empty one."""
    if "leave" in wanted:
        return max(0.0, available - parse_bytes(wanted["leave"]))
    if "share" in wanted:
        return available * read_share(wanted["share"])
    return parse_bytes(wanted["size"]) if "size" in wanted else 0.0


def available_memory(ops: Operations) -> int:
    """Bytes that programs could use without swapping, as the kernel estimates it (MemAvailable of /proc/meminfo)."""
    for line in ops.read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(0, "has no line MemAvailable", "/proc/meminfo")  # every kernel from 3.14 on has it
