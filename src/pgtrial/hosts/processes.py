"""Processes by what identifies them for certain, and how to end them."""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MARK = "PGTRIAL_RESULT_FOLDER"  # environment variable that every program started for an experiment carries


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process: a pid alone may be somebody else's by now, pid with start time and boot is not."""

    pid: int
    start_ticks: int
    boot_id: str


@cache
def boot_id() -> str:
    """Identifier of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now, None when there is none (or only its remains)."""
    fields = _stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return ProcessId(pid=pid, start_ticks=int(fields[19]), boot_id=boot_id())


def is_alive(process: ProcessId) -> bool:
    return identify(process.pid) == process


def find_marked(mark: str) -> tuple[ProcessId, ...]:
    """All processes that were started for the result folder ``mark``."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or is somebody else's
        if wanted in variables:
            process = identify(int(path.parent.name))
            if process is not None:
                found.append(process)
    return tuple(found)


def end(processes: Iterable[ProcessId], *, patience: float = 5.0) -> tuple[ProcessId, ...]:
    """End those that are still alive, first by SIGQUIT (a server's immediate shutdown), then by SIGKILL.

    Returns the ones that were alive. ``patience`` is the time in seconds that SIGQUIT gets.
    """
    alive = tuple(process for process in processes if is_alive(process))
    for signal_number, wait in ((signal.SIGQUIT, patience), (signal.SIGKILL, patience)):
        remaining = [process for process in alive if is_alive(process)]
        for process in remaining:
            try:
                os.kill(process.pid, signal_number)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + wait
        while remaining and time.monotonic() < deadline:
            time.sleep(0.02)
            remaining = [process for process in remaining if is_alive(process)]
    return alive


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the third (state) on; the second, in parentheses, may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
