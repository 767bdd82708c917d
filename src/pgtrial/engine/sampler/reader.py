"""Reads files of the kernel at fixed times: in the sampler, or as a program of its own on the server's machine.

This file stands alone (standard library only, Python 3.8): another machine's Python is given its text. That program is
told once what to read and how often, in one line of JSON on standard input, and says what of it there is:

    {"files": [[source, [path, ...]], ...], "interval": seconds}
    {"sources": [source, ...], "absent": {source: reason}}

After one more line, which is empty, it reads by itself. At each tick of its own clock it sends what it has read; when
standard input closes, it reads once more, out of turn, and sends what it did. Times are its own time.time().

    {"readings": [[time, source, text], ...], "troubles": [text, ...], "late": ticks skipped so far}
    {"ticks": number, "late": number}
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence

_READ_SIZE = 1 << 16


class Ticks:
    """When to read: at ``start`` + k · ``interval`` of any clock, so that lateness does not add up.

    ``skipped`` counts the ticks that could not be taken in time.
    """

    __slots__ = ("interval", "next", "skipped", "start", "taken")

    def __init__(self, *, start: float, interval: float) -> None:
        self.start = start
        self.interval = interval
        self.next = 0
        self.taken = 0
        self.skipped = 0

    @property
    def deadline(self) -> float:
        return self.start + self.next * self.interval

    def take(self, now: float) -> bool:
        """Whether a tick is to be read now; it is skipped if it is late by more than half an interval."""
        if now < self.deadline:
            return False
        due = max(self.next, math.floor((now - self.start) / self.interval))
        in_time = now - (self.start + due * self.interval) <= self.interval / 2
        self.skipped += due - self.next + (not in_time)
        self.taken += in_time
        self.next = due + 1
        return in_time


class OpenFile:
    """A file of the kernel that is opened once: opening costs more than reading."""

    __slots__ = ("fd", "path", "source")

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> str:
        parts: list[bytes] = []
        offset = 0
        # One read gives a page or so of such a file, however much is asked for.
        while True:
            part = os.pread(self.fd, _READ_SIZE, offset)
            if not part:
                return b"".join(parts).decode("ascii", "replace")
            parts.append(part)
            offset += len(part)


class Troubles:
    """What cannot be read just now: each trouble is reported once, until it is over."""

    __slots__ = ("current", "report")

    def __init__(self, report: Callable[[str], object]) -> None:
        self.report = report
        self.current: dict[str, str] = {}

    def note(self, source: str, trouble: str) -> None:
        """``trouble`` of a source, in words; "" when there is none (any more)."""
        if trouble:
            if source not in self.current:
                self.current[source] = trouble
                self.report(trouble)
        elif self.current:
            self.current.pop(source, None)


def open_files(wanted: Iterable[tuple[str, Sequence[str]]]) -> tuple[list[OpenFile], dict[str, str]]:
    """Of each source the first of its paths that can be read, and why there is none for the others."""
    files = []
    absent = {}
    for source, paths in wanted:
        for path in paths:
            try:
                file = OpenFile(source, path)
                file.read()
            except OSError as err:
                absent[source] = f"{path}: {err.strerror}"
            else:
                absent.pop(source, None)
                files.append(file)
                break
    return files, absent


def read_files(files: Iterable[OpenFile], add: Callable[[float, str, str], object], troubles: Troubles) -> None:
    """Give ``add`` each file's text with its source and the time in the middle of the reading."""
    for file in files:
        before = time.time()
        try:
            text = file.read()
        except OSError as err:
            troubles.note(file.source, f"cannot read {file.path}: {err.strerror}")
            continue
        add((before + time.time()) / 2, file.source, text)
        troubles.note(file.source, "")


def _send(message: object) -> None:
    left = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    while left:
        left = left[os.write(1, left) :]


def _serve() -> None:
    options = json.loads(sys.stdin.buffer.readline())
    files, absent = open_files(options["files"])
    words: list[str] = []
    troubles = Troubles(words.append)
    readings: list[tuple[float, str, str]] = []
    _send({"sources": [file.source for file in files], "absent": absent})
    if not sys.stdin.buffer.readline():
        return
    ticks = Ticks(start=time.monotonic(), interval=options["interval"])
    control = select.poll()
    control.register(0, select.POLLIN)
    ended = False
    while not ended:
        # There is nothing more to be said on standard input but that it ends.
        ended = bool(control.poll(max(0.0, ticks.deadline - time.monotonic()) * 1000))
        if ended or ticks.take(time.monotonic()):
            read_files(files, lambda *reading: readings.append(reading), troubles)
            _send({"readings": readings, "troubles": words, "late": ticks.skipped})
            readings.clear()
            words.clear()
    _send({"ticks": ticks.taken + 1, "late": ticks.skipped})


if __name__ == "__main__":
    try:
        _serve()
    except BrokenPipeError:
        sys.exit(1)  # whoever wanted to know is gone
