"""Reads files of the kernel at random times: in the sampler, or as a program of its own on the server's machine.

This file stands alone (standard library only, Python 3.8): another machine's Python is given its text. That program is
told once what to read and how often, in one line of JSON on standard input, and says what of it there is:

    {"files": [[source, [path, ...]], ...], "lines": {source: [beginning, ...]},
     "children": [[source, process id, program, mark], ...], "interval": seconds}
    {"sources": [source, ...], "absent": {source: reason}}

After one more line, which is empty, it reads by itself. Once in each interval of its own clock it sends what it has
read; when standard input closes, it reads once more, out of turn, and sends what it did. Times are its own time.time().

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import random

_READ_SIZE = 1 << 16
_TITLE = "postgres: "  # how the title of a process of the server begins
_LONGEST_TITLE = 250  # characters; names of a user and a database have at most 63 each
OUT_OF_TURN = 2  # readings, the first and the last
_MOST_OPEN = 500  # files of processes that are kept open; a process may mostly have 1024


class Moments:
    """When to read: one random moment in each stratum of ``interval`` seconds after ``start``, by any clock.

    A moment is uniform over the first ``width`` seconds of its stratum, by default over all of it. Fixed periods lock
    with those of the kernel, which grants CPU time and requests of a limited group in slices of 100 ms, and with those
    of the server; they may see the same phase of them for minutes. What is read at uniform moments of strata has the
    mean of all time, whatever rhythm it has. ``skipped`` counts the moments that passed before something was read.

    Source: Wolff, "Poisson arrivals see time averages", Operations Research 30 (1982) 223-231, for moments that are
    independent of what they see; Cochran, Sampling Techniques, 1977, section 5A, for one in each stratum.
    """

    __slots__ = ("_next", "deadline", "interval", "skipped", "start", "taken", "width")

    def __init__(self, *, start: float, interval: float, width: float | None = None) -> None:
        self.start = start
        self.interval = interval
        self.width = interval if width is None else width
        self.taken = 0
        self.skipped = 0
        self._draw(0)

    def take(self, now: float) -> int:
        """How many moments have passed since the last time; zero while there is nothing to be read."""
        first = self._next
        self._pass(now)
        passed = self._next - first
        if passed:
            self.taken += 1
            self.skipped += passed - 1
        return passed

    def forget(self, now: float) -> None:
        """Leave out the moments that have passed."""
        self._pass(now)

    def _pass(self, now: float) -> None:
        if now < self.deadline:
            return
        # All strata before this one have passed. The moment of this one may be still to come.
        current = math.floor((now - self.start) / self.interval)
        self._draw(max(self._next + 1, current))
        while self.deadline <= now:
            self._draw(self._next + 1)

    def _draw(self, stratum: int) -> None:
        self._next = stratum
        self.deadline = self.start + stratum * self.interval + random() * self.width


def tick_moments(now: float, *, interval: float) -> Moments:
    """When that is read which is read once in an interval, for the first time in the one that begins after ``now``.

    What is read then are mostly counters, whose growth between two readings is spread over the seconds between: their
    distance should not vary much. A fifth of the interval has whole periods of 100 and 200 ms, and a reading at a
    uniform moment of it sees all phases of these.
    """
    return Moments(start=now + interval, interval=interval, width=interval / 5)


class OpenFile:
    """A file of the kernel that is opened once: opening costs more than reading.

    Of its lines only those are kept that begin with one of ``lines``, if there are any.
    """

    __slots__ = ("fd", "lines", "path", "source")

    def __init__(self, source: str, path: str, lines: Sequence[str] = ()) -> None:
        self.source = source
        self.path = path
        self.lines = tuple(lines)
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> str:
        text = _read_again(self.fd)
        if not self.lines:
            return text
        return "".join([line for line in text.splitlines(True) if line.startswith(self.lines)])


class Children:
    """The CPU time of the processes that a process has started, in place of a file.

    A text begins with the unit of its numbers, and has a line for each process:

        ns | ticks
        ended USER SYSTEM 0            what processes that it has started and that ended have used, always in ticks
        NUMBER RUN QUEUE TIMES TITLE   ns on a CPU, and without one that was wanted, and how often it was given one;
                                       in ticks: in user mode, in system mode, 0

    With ``program`` only processes of that name count, and thread by thread; with ``mark`` those that have it in their
    environment (NAME=value). Without it all of them do, and the process itself, whose title is then "itself". The title
    of one that has none yet is empty. A tick is a hundredth of a second.

    Cost per reading: one system call for each process or thread, 2 or 3 microseconds; for a new one 20. Beyond
    _MOST_OPEN of them three system calls, 7 microseconds.
    """

    __slots__ = (
        *("can_list", "fds", "lists", "mark", "others", "parent", "path"),
        *("program", "source", "stat", "titles", "unit"),
    )

    def __init__(self, source: str, parent: int, program: str, mark: str) -> None:
        self.source = source
        self.parent = parent
        self.program = program
        self.mark = mark
        self.path = f"/proc/{parent}/task"  # of each thread those that it has started itself
        self.titles: dict[int, str] = {}  # of those that are meant, once they are known
        self.others: set[int] = set()  # processes that somebody else has started
        self.fds: dict[str, int] = {}  # of their files with the times
        self.lists: dict[str, int] = {}  # of the files with the numbers of those that each thread has started
        self.stat: int | None = None  # of the file that tells what ended ones have used
        # CONFIG_PROC_CHILDREN; an empty text is an answer.
        self.can_list = _read_text(f"/proc/self/task/{os.getpid()}/children", "no such file") != "no such file"
        # CONFIG_SCHED_INFO; it may be there and be switched off, then all numbers are zero.
        self.unit = "ns" if _read_text("/proc/self/schedstat", "0 0").split()[0] != "0" else "ticks"

    def read(self) -> str:
        lines = [self.unit]
        places = {f"/proc/{self.parent}"}
        if not self.program:
            # First of all: a process that ends meanwhile is then missing in this, and not counted twice.
            lines.append("ended {} {} 0".format(*self._own_stat()[13:15]))
            lines.append(f"{self.parent} {self._times(f'/proc/{self.parent}')} itself")
        titles: dict[int, str] = {}
        for pid in self._find():
            title = self.titles.get(pid)
            try:
                if not title:
                    title = self._find_title(pid)
                    if title is None:
                        continue
                for place in self._places(pid):
                    lines.append(f"{place[place.rindex('/') + 1 :]} {self._times(place)} {title}")
                    places.add(place)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            titles[pid] = title
        for place in self.fds.keys() - places:
            os.close(self.fds.pop(place))
        self.titles = titles
        return "\n".join(lines)

    def _find(self) -> list[int]:
        if not self.can_list:
            return self._search()
        found: set[int] = set()
        # The server's first process has one thread.
        threads = _names(self.path) if self.program else [str(self.parent)]
        for thread in threads:
            found.update(map(int, self._list(thread).split()))
        for thread in self.lists.keys() - set(threads):
            os.close(self.lists.pop(thread))
        # While processes end, a list may lack some that do not (proc(5)).
        return [*found, *[pid for pid in self.titles if pid not in found and self._is_child(pid)]]

    def _list(self, thread: str) -> str:
        """Numbers of the processes that a thread has started; none of one that has ended."""
        fd = self.lists.get(thread)
        if fd is None:
            try:
                fd = self.lists[thread] = os.open(f"{self.path}/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return ""
        return _read_again(fd)

    def _own_stat(self) -> list[str]:
        if self.stat is None:
            self.stat = os.open(f"/proc/{self.parent}/stat", os.O_RDONLY | os.O_CLOEXEC)
        return _stat_fields(_read_again(self.stat))

    def _search(self) -> list[int]:
        there = {int(name) for name in _names("/proc") if name.isdecimal()}
        self.others &= there
        for pid in there - self.others:
            if pid not in self.titles and not self._is_child(pid):
                self.others.add(pid)
        return list(there - self.others)

    def _is_child(self, pid: int) -> bool:
        try:
            return int(_stat(f"/proc/{pid}")[1]) == self.parent
        except (FileNotFoundError, ProcessLookupError):
            return False

    def _find_title(self, pid: int) -> str | None:
        """None for one that is not meant, or not yet: a process is a copy of its parent at first."""
        if not self.program:
            title = " ".join(_read_text(f"/proc/{pid}/cmdline").replace("\0", " ").split())[:_LONGEST_TITLE]
            return title if title.startswith(_TITLE) else ""
        if _read_text(f"/proc/{pid}/comm").strip() != self.program:
            return None
        if self.mark and self.mark not in _environment(pid):
            return None
        return self.program

    def _places(self, pid: int) -> list[str]:
        # A process's own schedstat is that of its first thread. The server's processes have one.
        if self.program:
            return [f"/proc/{pid}/task/{thread}" for thread in _names(f"/proc/{pid}/task")]
        return [f"/proc/{pid}"]

    def _times(self, place: str) -> str:
        if self.unit == "ticks":
            return "{} {} 0".format(*_stat(place)[11:13])
        fd = self.fds.get(place)
        if fd is None:
            if len(self.fds) >= _MOST_OPEN:
                return _read_text(f"{place}/schedstat").rstrip()
            fd = self.fds[place] = os.open(f"{place}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(fd, _READ_SIZE, 0).decode().rstrip()


def _read_again(fd: int) -> str:
    """The text of an open file as it is now."""
    parts: list[bytes] = []
    offset = 0
    # One read gives a page or so of such a file, however much is asked for.
    while True:
        part = os.pread(fd, _READ_SIZE, offset)
        if not part:
            return b"".join(parts).decode("ascii", "replace")
        parts.append(part)
        offset += len(part)


def _read_text(path: str, default: str | None = None) -> str:
    """A text of at most one page; ``default`` where there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if default is None:
            raise
        return default
    try:
        return os.read(fd, _READ_SIZE).decode("ascii", "replace")
    finally:
        os.close(fd)


def _environment(pid: int) -> list[str]:
    """Nothing of a process that is ending: it has no memory any more, and newer kernels refuse it to ordinary users."""
    try:
        return _read_text(f"/proc/{pid}/environ").split("\0")
    except PermissionError:
        if _read_text(f"/proc/{pid}/statm").startswith("0 "):
            return []
        raise


def _names(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _stat(place: str) -> list[str]:
    return _stat_fields(_read_text(f"{place}/stat"))


def _stat_fields(text: str) -> list[str]:
    """Fields of a stat file from the third on; the second, the name, may have any character in it."""
    return text.rpartition(")")[2].split()


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


def open_files(
    wanted: Iterable[tuple[str, Sequence[str]]], lines: Mapping[str, Sequence[str]]
) -> tuple[list[OpenFile], dict[str, str]]:
    """Of each source the first of its paths that can be read, and why there is none for the others.

    ``lines`` are, by source, beginnings of the lines that are kept.
    """
    files = []
    absent = {}
    for source, paths in wanted:
        for path in paths:
            try:
                file = OpenFile(source, path, lines.get(source, ()))
                file.read()
            except OSError as err:
                absent[source] = f"{path}: {err.strerror}"
            else:
                absent.pop(source, None)
                files.append(file)
                break
    return files, absent


def find_children(
    wanted: Iterable[tuple[str, int, str, str]],
) -> tuple[list[Children], dict[str, str]]:
    """Of each source the processes it is about, and why they cannot be read for the others."""
    found = []
    absent = {}
    for source, parent, program, mark in wanted:
        children = Children(source, parent, program, mark)
        try:
            children.read()
        except OSError as err:
            absent[source] = f"{err.filename or children.path}: {err.strerror}"
        else:
            found.append(children)
    return found, absent


def read_files(
    files: Iterable[OpenFile | Children], add: Callable[[float, str, str], object], troubles: Troubles
) -> None:
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
    files, absent = open_files(options["files"], options["lines"])
    children, without = find_children(options["children"])
    sources: list[OpenFile | Children] = [*files, *children]
    absent.update(without)
    words: list[str] = []
    troubles = Troubles(words.append)
    readings: list[tuple[float, str, str]] = []
    _send({"sources": [file.source for file in sources], "absent": absent})
    if not sys.stdin.buffer.readline():
        return

    def read() -> None:
        read_files(sources, lambda *reading: readings.append(reading), troubles)
        _send({"readings": readings, "troubles": words, "late": ticks.skipped})
        readings.clear()
        words.clear()

    ticks = tick_moments(time.monotonic(), interval=options["interval"])
    control = select.poll()
    control.register(0, select.POLLIN)
    read()
    # There is nothing more to be said on standard input but that it ends.
    while not control.poll(max(0.0, ticks.deadline - time.monotonic()) * 1000):
        if ticks.take(time.monotonic()):
            read()
    read()
    _send({"ticks": ticks.taken + OUT_OF_TURN, "late": ticks.skipped})


if __name__ == "__main__":
    try:
        _serve()
    except BrokenPipeError:
        sys.exit(1)  # the reader of the output is gone
