"""What a pgtrial that was killed has left running and lying about: for its folder to go on, or to be cleared."""

import asyncio
import contextlib
import logging
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.engine.folder import discard_unfinished, is_locked
from pgtrial.errors import StoreError
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import LOAD, Operations
from pgtrial.hosts.processes import (
    ProcessId,
    end,
    end_strays,
    find_marked,
    find_of_role,
    find_server_children,
    identify,
    is_alive,
)
from pgtrial.model.run import RunState
from pgtrial.postgres.work_directory import remove_directories
from pgtrial.safe_files import read_file
from pgtrial.safe_text import make_visible
from pgtrial.store import layout
from pgtrial.store.belongings import Belongings
from pgtrial.store.state import State

WORKER = "worker"  # in the record of a folder: the pgtrial that is or was at work in it
OWN_ROLE = "pgtrial"  # of pgtrial itself among the processes on record
_MOST_NAMED = 3  # processes in a warning
_LONGEST_LINE = 80  # characters of the command line of one
_DYING = 2.0  # s for what was killed to be gone
_LONGEST_LOCK = 8192  # bytes of postmaster.pid
_MEMORY = 6  # its line with key and number of the shared memory
_log = logging.getLogger(__name__)
_HERE = Operations()
_SEGMENTS = Path("/proc/sysvipc/shm")


def mark_of(folder: Path) -> str:
    """What every process that is started for the folder carries in its environment."""
    return str(folder.resolve())


def sweep(folder: Path, *, is_done: bool = False) -> int:
    """End what a killed pgtrial left running for this folder, mark its unfinished run; the number of processes ended.

    Needs the folder's lock. A snapshot that was prepared stays, for a resume. What hooks have left running on purpose
    ends too, since they are called again, unless all is done. Raises StoreError if the folder is a copy of one in which
    a pgtrial is at work.
    """
    with contextlib.closing(State.open(folder, write=True)) as state:
        if _is_other_alive(state.meta().get(WORKER, "")):
            raise StoreError(
                f'result folder "{folder}" is a copy of one that is in use by another pgtrial',
                hint="Wait until that pgtrial ends, then copy the folder again.",
            )
        belongings = Belongings.of(folder)
        ended = _end_all(belongings, is_over=is_done and belongings.has_ended())
        for run in state.runs() if state.count_runs(RunState.RUNNING) else ():
            if run.state is RunState.RUNNING:
                discard_unfinished(layout.run_folder(folder, run.folder))
        state.interrupt_running()
    return ended


def end_all_strays(mark: str, *hosts: Host) -> None:
    """End what server and load of the folder have left running on the hosts, once they have ended themselves."""
    for host in {host.name: host for host in hosts}.values():
        if ended := end_strays(mark, host.ops):
            named = ", ".join(make_visible(line[:_LONGEST_LINE]) for line in ended[:_MOST_NAMED])
            more = f" and {len(ended) - _MOST_NAMED} more" if len(ended) > _MOST_NAMED else ""
            _log.warning("ended on %s what the experiment had left running: %s%s", host.name, named, more)


def worker_text(process: ProcessId) -> str:
    """A process as WORKER in the record of a folder: what it says there is only ever looked at."""
    return f"{process.pid} {process.start_ticks} {process.boot_id}"


def _is_other_alive(worker: str) -> bool:
    try:
        pid, ticks, boot = worker.split()
        process = ProcessId(pid=int(pid), start_ticks=int(ticks), boot_id=boot)
    except ValueError:
        return False
    return process.pid != os.getpid() and is_alive(process)


def _end_all(belongings: Belongings, *, is_over: bool = False) -> int:
    """End all processes of a folder but this one, and, where it ``is_over``, what hooks left; their number."""
    ended = end(_processes(belongings, is_over=is_over) - {identify(os.getpid())})
    # A server's children end with its first process, unless that was killed as well while they were at work.
    return len(ended + end(_children(belongings))) + len(end_strays(str(belongings.folder)))


def _processes(belongings: Belongings, *, is_over: bool) -> set[ProcessId]:
    """All that are on record, and those that carry the folder's mark. ``is_over``: the last pgtrial ended in order, so
    what its hooks left running was meant to stay; what server and load did was not.
    """
    marked = find_marked(str(belongings.folder), only_code=is_over)
    return {*(started.process for started in belongings.processes()), *marked}


def _children(belongings: Belongings) -> list[ProcessId]:
    places = [str(place) for place in belongings.paths(LOCAL)]
    # Where one was removed, anybody may have made another of its name, with a link to the data of another server.
    own = [place for place in places if _HERE.is_own_directory(place)]
    return [child for place in own for child in find_server_children(f"{place}/data")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What a pgtrial that was killed left of ``belongings`` here; ``elsewhere`` are other hosts with data."""

    belongings: Belongings
    processes: tuple[ProcessId, ...]
    directories: tuple[Path, ...]
    elsewhere: tuple[str, ...]


def find_leftovers() -> tuple[tuple[Leftover, ...], tuple[StoreError, ...]]:
    """Of all folders in which no pgtrial is at work, and what is wrong with records, or lines of them, that cannot be
    read.
    """
    records, wrong = Belongings.all()
    found, unreadable = list[Leftover](), [*wrong]
    for one in records:
        try:
            damage = one.damage()
            # It may be the very line of the pgtrial that is at work.
            if _is_in_use(one) or (damage is not None and is_locked(one.folder)):
                continue
            leftover = _look_at(one)
        except StoreError as err:
            unreadable.append(err)
            continue
        unreadable += [damage] if damage is not None else []
        if leftover.processes or leftover.directories:
            found.append(leftover)
    return tuple(found), tuple(unreadable)


def raise_unreadable(wrong: Sequence[StoreError]) -> None:
    """StoreError that tells all that is wrong with records; nothing when there is no such thing."""
    if wrong:
        first, *others = wrong
        detail = "\n".join((first.detail, *(f"{other.message}. {other.detail}" for other in others)))
        raise StoreError(first.message, detail=detail, hint=first.hint)


def clear(leftover: Leftover) -> None:
    """End the processes, give back the shared memory of their servers, and remove the directories."""
    _end_all(leftover.belongings, is_over=leftover.belongings.has_ended())
    host = LocalHost()
    for directory in leftover.directories:
        remove_memory(directory / "data")
        remove_directories(host, directory)
    if not leftover.elsewhere and not any(map(os.path.lexists, leftover.directories)):
        leftover.belongings.forget()


def _is_in_use(belongings: Belongings) -> bool:
    return any(started.role == OWN_ROLE and is_alive(started.process) for started in belongings.processes())


def _look_at(belongings: Belongings) -> Leftover:
    return Leftover(
        belongings=belongings,
        processes=(
            *filter(is_alive, _processes(belongings, is_over=belongings.has_ended())),
            *_children(belongings),
        ),
        directories=tuple(path for path in belongings.paths(LOCAL) if os.path.lexists(path)),
        elsewhere=tuple(sorted(belongings.hosts() - {LOCAL})),
    )


def remove_memory(data: Path) -> None:
    """Remove the segment that a killed server has left, as postmaster.pid names it.

    That file is the server's, so it may name any: it has to be the data owner's, and used by nobody.
    """
    try:
        owner = data.lstat().st_uid
        key, number = read_file(data / "postmaster.pid", limit=_LONGEST_LOCK).splitlines()[_MEMORY].split()
        with _SEGMENTS.open(encoding="ascii") as file:
            heads = file.readline().split()
            segments = [dict(zip(heads, line.split(), strict=False)) for line in file]
        wanted = {"key": key.decode(), "shmid": number.decode(), "nattch": "0", "uid": str(owner)}
    except (OSError, ValueError, LookupError):
        return
    if any(wanted.items() <= segment.items() for segment in segments):
        subprocess.run(["ipcrm", "-m", wanted["shmid"]], check=False, capture_output=True)


async def end_load(mark: str, host: Host) -> int:
    """How many processes a load has left behind that has ended, with its session; they are killed."""
    deadline = time.monotonic() + _DYING
    while (left := find_of_role(mark, LOAD, host.ops)) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    end(left, ops=host.ops)
    return len(left)
