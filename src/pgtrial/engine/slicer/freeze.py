"""Freeze processes, thaw them, and pin them to CPUs. Standard library only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

from pgtrial.hosts.operations import family


def freeze(server: int | None, others: Iterable[int], programs: Iterable[int] = ()) -> list[int]:
    """Freeze clients first, then the server, which then cannot start anything new. None: it is not the arm's alone.

    ``programs`` are clients that may have processes of their own. Returns all pids: once the server is killed, its
    children can no longer be found.
    """
    stopped: list[int] = []
    for program in programs:
        stopped += stop_family(program)
    stopped += [*others, *([server] if server is not None else [])]
    for pid in stopped:
        _send(pid, signal.SIGSTOP)
    own = family(server)[1:] if server is not None else []
    for pid in own:
        _send(pid, signal.SIGSTOP)
    return [*stopped, *own]


def stop_family(pid: int) -> list[int]:
    """Stop a process and its descendants, and return them, parents first; those that one starts meanwhile as well."""
    stopped: list[int] = []
    while left := [member for member in family(pid) if member not in stopped]:
        for member in left:
            _send(member, signal.SIGSTOP)
        stopped += left
    return stopped


def thaw(stopped: Iterable[int]) -> None:
    """Let processes go on that were stopped, the last one first: a server's own before those that ask it."""
    for pid in reversed(list(stopped)):
        _send(pid, signal.SIGCONT)


def pin(pids: Iterable[int], cpus: Iterable[int]) -> None:
    """Let all threads of processes, and all that they start from now on, run on some CPUs only. Raises OSError."""
    chosen = frozenset(cpus)
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), chosen)


def find_unpinnable(pid: int) -> str:
    """Why a process cannot be pinned to some of the CPUs that this one may use, in a clause; "" if it can be."""
    try:
        theirs = os.sched_getaffinity(pid)
        os.sched_setaffinity(pid, theirs)
    except OSError as err:
        return (err.strerror or "no reason is given").lower()
    return "" if theirs == os.sched_getaffinity(0) else "it may not use the same CPUs as pgtrial"


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
