"""Identify the processes of a host reliably, and end them."""

import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import HostCommandError
from pgtrial.hosts.base import Account, Completed, Host, HostProcess
from pgtrial.hosts.operations import CODE, MARK, Operations

__all__ = [
    "MARK",
    "ProcessId",
    "boot_id",
    "end",
    "end_strays",
    "find_marked",
    "find_server_children",
    "identify",
    "is_alive",
]

_HERE = Operations()
_CHILD = "postgres: "  # how the title of a server's child begins
_STARTING_MORE = 10.0  # s in which what is ended may start others
_HIDDEN = "hidden"  # role of what has cleared its environment, and has no ancestor that says one


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process: a pid alone may be somebody else's by now, pid with start time and boot is not.

    As no two machines share a boot, it also tells processes of different hosts apart.
    """

    pid: int
    start_ticks: int
    boot_id: str


def boot_id(ops: Operations = _HERE) -> str:
    """Identifier of this boot of the host."""
    return ops.boot_id()


def identify(pid: int, ops: Operations = _HERE) -> ProcessId | None:
    """The process of the host that has this pid now, None when there is none (or only its remains)."""
    ticks = ops.start_ticks(pid)
    return None if ticks is None else ProcessId(pid=pid, start_ticks=ticks, boot_id=ops.boot_id())


def is_alive(process: ProcessId, ops: Operations = _HERE) -> bool:
    return identify(process.pid, ops) == process


def find_marked(mark: str, ops: Operations = _HERE, *, only_code: bool = False) -> tuple[ProcessId, ...]:
    """All processes of the host that were started for the result folder ``mark``; see ``Operations.find_marked``."""
    boot, found = ops.boot_id(), ops.find_marked(mark, only_code)
    return tuple(ProcessId(pid=pid, start_ticks=ticks, boot_id=boot) for pid, ticks in found)


def find_of_role(mark: str, role: str, ops: Operations = _HERE) -> tuple[ProcessId, ...]:
    """Those of ``mark`` that were started in a role that runs code of the experiment, with all that they started.

    One that has cleared its environment has no role any more, which no server does: it is taken for one of the role.
    """
    found = []
    for process in find_marked(mark, ops, only_code=True):
        with suppress(OSError):  # it has just ended
            if _role(process.pid, ops) in (role, _HIDDEN):
                found.append(process)
    return tuple(found)


def _role(pid: int, ops: Operations) -> str:
    """As its environment says, or that of the nearest ancestor that says one: processes of a server write over theirs.

    Raises OSError.
    """
    variables = ops.read(f"/proc/{pid}/environ").split("\0")
    for each in variables:
        if each.startswith(f"{CODE}="):
            return each.partition("=")[2]
    if any(each.startswith(f"{MARK}=") for each in variables):
        return ""  # it runs no code of the experiment
    (parent,) = (line.split()[1] for line in ops.read(f"/proc/{pid}/status").splitlines() if line.startswith("PPid:"))
    return _HIDDEN if int(parent) <= 1 else _role(int(parent), ops)


def end_strays(mark: str, ops: Operations = _HERE) -> tuple[str, ...]:
    """Kill what server and load have left running, once they have ended themselves; the command lines of it.

    They may start others meanwhile, so it goes on until there is none, or for ten seconds.
    """
    killed: dict[ProcessId, str] = {}
    deadline = time.monotonic() + _STARTING_MORE
    while (found := find_marked(mark, ops, only_code=True)) and time.monotonic() < deadline:
        for process in found:
            line, is_ending = _command_line(process.pid, ops), _has_no_memory(process.pid, ops)
            if ops.signal(process.pid, process.start_ticks, signal.SIGKILL) and line and not is_ending:
                killed.setdefault(process, line)
    return tuple(killed.values())


def _has_no_memory(pid: int, ops: Operations) -> bool:
    """Whether a process has given its memory back, which is the last that it does by itself."""
    try:
        return ops.read(f"/proc/{pid}/statm").split()[:1] == ["0"]
    except OSError:
        return True


def _command_line(pid: int, ops: Operations) -> str:
    """Its program's name in brackets where it has none, as ps has it: it has just begun, or took its arguments away."""
    with suppress(OSError):  # it has just ended
        line = ops.read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
        return line or f"[{ops.read(f'/proc/{pid}/comm').strip()}]"
    return ""


def find_server_children(data: str, ops: Operations = _HERE) -> tuple[ProcessId, ...]:
    """The processes of the server of a data directory but for its first, also when that one is gone.

    They have no mark: they write their titles over their environment.
    """
    boot = ops.boot_id()
    return tuple(ProcessId(pid=pid, start_ticks=ticks, boot_id=boot) for pid, ticks in ops.find_titled(_CHILD, data))


def end(processes: Iterable[ProcessId], *, ops: Operations = _HERE, patience: float = 5.0) -> tuple[ProcessId, ...]:
    """End those that are still alive, first by SIGQUIT (a server's immediate shutdown), then by SIGKILL.

    Returns the ones that were alive; those of another host or boot never are. ``patience`` is the time in seconds that
    SIGQUIT gets.
    """
    alive = tuple(process for process in processes if is_alive(process, ops))
    for number in (signal.SIGQUIT, signal.SIGKILL):
        remaining = [process for process in alive if ops.signal(process.pid, process.start_ticks, number)]
        for process in remaining:  # what stands still does not hear the first signal
            ops.signal(process.pid, process.start_ticks, signal.SIGCONT)
        deadline = time.monotonic() + patience
        while remaining and time.monotonic() < deadline:
            time.sleep(0.02)
            remaining = [process for process in remaining if is_alive(process, ops)]
    return alive


# What all hosts do alike with programs: run one to its end, and end one.


class ProgramRunner:
    """Of every host: how a program is run to its end, by ``start``."""

    __slots__ = ()

    async def run(
        self: Host,
        argv: Sequence[str | Path],
        *,
        account: Account | None = None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a program to its end; it is ended when that is cancelled. See ``Host``."""
        import asyncio

        process = await self.start(
            argv,
            role=Path(argv[0]).name,
            account=account,
            environment=environment,
            directory=directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        except BaseException:
            await end_process(process)
            raise
        status = process.returncode
        assert status is not None  # communicate() has waited for the end
        completed = Completed(
            status=status, stdout=out.decode("utf-8", "replace"), stderr=err.decode("utf-8", "replace")
        )
        if check and status != 0:
            words = (completed.stderr.strip() or completed.stdout.strip()).splitlines()[-8:]
            raise HostCommandError(
                f"{Path(argv[0]).name} ended with status {status}",
                detail="\n".join(words) or "It printed nothing.",
            )
        return completed


async def end_process(
    process: HostProcess, *, with_signal: signal.Signals = signal.SIGTERM, patience: float = 5.0
) -> int:
    """End a program and wait for it: ``with_signal``, then SIGKILL after ``patience`` seconds. Its exit status."""
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it may just have ended by itself
            process.send_signal(with_signal)
        if not await ends_within(process, patience):
            with suppress(ProcessLookupError):
                process.kill_session()
    return await process.wait()


async def forget_input(process: HostProcess) -> None:
    """Once a program has ended: what it has not read of its input is no error.

    Nobody asks for that one otherwise, and Python up to 3.11.2 complains of it when it collects the process.
    """
    if process.stdin is not None:
        with suppress(ConnectionError):
            await process.stdin.wait_closed()


async def ends_within(process: HostProcess, seconds: float) -> bool:
    """Whether a program ends within some seconds.

    Not by asyncio.timeout: in a task that was cancelled before, as after Ctrl-C, Python 3.11 up to 3.11.2 raises
    CancelledError there when the time is over, and what is to be done then would not be done.
    """
    import asyncio

    waiting = asyncio.ensure_future(process.wait())
    try:
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
    finally:
        if not waiting.done():
            waiting.cancel()
    return bool(done)
