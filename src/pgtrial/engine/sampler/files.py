"""The files that the collectors need, read on this machine or by a reader on another one."""

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import FileCollector, ProcessCollector
from pgtrial.engine.sampler.reader import Children, OpenFile, Troubles, find_children, open_files, read_files

Add = Callable[[float, str, str], object]  # time of the reading, by the clock of the machine read; source; text
Wanted = Sequence[tuple[str, Sequence[str]]]  # sources, and the paths at which each is looked for
# Sources, the process whose children each is about, the name of their program, and what is in their environment.
WantedChildren = Sequence[tuple[str, int, str, str]]

# Beginnings of the lines that are kept of a source, where not all are.
LINES = {c.name: c.lines for c in COLLECTORS if isinstance(c, FileCollector) and c.lines}

_GROUP = "control group"

SOURCE = "files"  # of the troubles of the reader itself
_WHO = "the reader on the server's machine"
_PROGRAM = Path(__file__).with_name("reader.py")
_BOOTSTRAP = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
_START_PATIENCE = 4.0  # s, to list the files, and again for the first readings
_END_PATIENCE = 2.0  # s, for the last ones
_EXIT_PATIENCE = 0.5  # s, for a process that has nothing more to say
_CHUNK = 1 << 16
_LONGEST_WORDS = 300  # characters
_LONGEST_LINE = 1 << 24  # bytes of a message; one of thousands of processes has some hundred kilobytes
_NEVER = 1 << 31  # ticks
_FAR = 3600.0  # s by which the time of a reading may differ from now: it may be held up, or that machine's clock be set


class ReaderError(Exception):
    """Files of another machine cannot be read; the message says why."""


class FileSource(Protocol):
    """Where files of the server's machine are read; what it reads goes to an ``Add``, what it cannot to a Troubles.

    ``sources`` are those that are there, ``absent`` says why others are not, ``late`` is how many ticks of its own it
    has skipped. ``fd`` can be read from when there is something to receive; None where nothing comes by itself.
    """

    @property
    def sources(self) -> Sequence[str]: ...
    @property
    def absent(self) -> Mapping[str, str]: ...
    @property
    def late(self) -> int: ...
    @property
    def fd(self) -> int | None: ...

    def start(self) -> None:
        """Read for the first time. Raises ReaderError."""

    def tick(self) -> None:
        """A tick of the sampler's own clock."""

    def receive(self) -> None:
        """Take readings that have arrived."""

    def finish(self) -> None:
        """Read once more, out of turn, and end."""

    def close(self) -> None:
        """End without that; nothing where it has ended."""


class LocalFiles:
    """Files of this machine, read at the ticks of the sampler."""

    late = 0
    fd = None

    def __init__(self, wanted: Wanted, *, add: Add, troubles: Troubles, children: WantedChildren = ()) -> None:
        files, absent = open_files(wanted, LINES)
        found, without = find_children(children)
        self._files: list[OpenFile | Children] = [*files, *found]
        self.absent = {**absent, **without}
        self.sources = [file.source for file in self._files]
        self._add = add
        self._troubles = troubles

    def start(self) -> None:
        self.tick()

    def tick(self) -> None:
        read_files(self._files, self._add, self._troubles)

    def receive(self) -> None:
        pass

    def finish(self) -> None:
        self.tick()

    def close(self) -> None:
        pass


def wanted_files(groups: Sequence[str], *, traced: bool = False) -> Wanted:
    """What all collectors need; ``groups`` are the directories of the server's control groups.

    ``traced``: with what the kernel counts only when it is asked to.
    """
    return [
        (
            collector.name,
            [f"{group}/{collector.path}" for group in groups]
            if collector.in_group
            else list(filter(None, (collector.path, collector.otherwise))),
        )
        for collector in COLLECTORS
        if isinstance(collector, FileCollector)
        and (groups or not collector.in_group)
        and (traced or not collector.optional)
    ]


def wanted_children(started_by: str, parent: int | None, *, mark: str = "") -> WantedChildren:
    """Processes that the server ("server") or pgtrial ("load", "pooler") has started, whose number is ``parent``; None:
    nobody knows it. ``mark`` (NAME=value) is in the environment of those that are meant.
    """
    return [
        (collector.name, parent, collector.program, mark)
        for collector in COLLECTORS
        if isinstance(collector, ProcessCollector) and collector.started_by == started_by and parent is not None
    ]


def worth_saying(absent: Mapping[str, str], sources: Sequence[str], groups: Sequence[str]) -> dict[str, str]:
    """The absent sources that should be there.

    A control group has the files of one version and of its controllers; that others are not there says nothing, but
    that all are missing does.
    """
    in_group = {c.name for c in COLLECTORS if isinstance(c, FileCollector) and c.in_group}
    unexpected = {c.name for c in COLLECTORS if isinstance(c, FileCollector) and c.optional}
    said = {source: reason for source, reason in absent.items() if source not in in_group | unexpected}
    if groups and in_group.isdisjoint(sources):
        said[_GROUP] = f"statistics of the control group {', '.join(groups)}"
    return said


def reader_argv(python: str = "python3") -> tuple[str, ...]:
    """Argument list of the reader: Python takes the program from standard input, which stays open behind it."""
    return python, "-I", "-S", "-c", _BOOTSTRAP


class RemoteFiles:
    """Files that a reader on the other machine reads by its own clock and sends as they are.

    The reader ends when its standard input does: with this process, however that ends. A reader that ends by itself,
    or whose connection does, is a trouble; one that falls silent leaves a gap. The machine may be anybody's: only texts
    of the files that it was asked for are readings, and only of about now by its clock, which is ``clock_offset``
    seconds ahead of ours.
    """

    def __init__(
        self,
        command: Sequence[str],
        wanted: Wanted,
        *,
        interval: float,
        add: Add,
        troubles: Troubles,
        children: WantedChildren = (),
        clock_offset: float = 0.0,
    ) -> None:
        """Start the reader with ``command`` and learn which files exist. Raises ReaderError."""
        self.sources: Sequence[str] = ()
        self.absent: Mapping[str, str] = {}
        self.late = 0
        self._add = add
        self._troubles = troubles
        self._clock_offset = clock_offset
        self._wanted = {source for source, *_ in (*wanted, *children)}
        self._rest = b""
        self._said_hello = False
        self._last_words = ""
        self._has_begun = False
        self._has_ended = False
        self._complaints = os.memfd_create("reader")
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, bufsize=0
            )
        except OSError as err:
            os.close(self._complaints)
            raise ReaderError(f'cannot start "{command[0]}": {err.strerror}') from err
        assert self._process.stdin is not None  # both were asked for
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.fd: int | None = self._stdout.fileno()
        program = _PROGRAM.read_bytes()
        options = json.dumps({"files": wanted, "lines": LINES, "children": children, "interval": interval}).encode()
        self._tell(b"%d\n%b%b\n" % (len(program), program, options), lambda: self._said_hello)

    def start(self) -> None:
        self._tell(b"\n", lambda: self._has_begun)

    def _tell(self, words: bytes, has_answered: Callable[[], bool]) -> None:
        with suppress(BrokenPipeError):  # it has ended; its last words say why
            self._stdin.write(words)
        self._receive_until(has_answered, patience=_START_PATIENCE)
        if not has_answered():
            raise ReaderError(self._last_words if self.fd is None else self._close(is_silent=True))

    def tick(self) -> None:
        pass  # the reader has ticks of its own

    def finish(self) -> None:
        if self.fd is not None:
            self._stdin.close()
            self._receive_until(lambda: False, patience=_END_PATIENCE)
        if self.fd is not None:
            self._troubles.note(SOURCE, self._close(is_silent=True))

    def close(self) -> None:
        if self.fd is not None:
            self._close(is_silent=True)

    def _receive_until(self, is_enough: Callable[[], bool], *, patience: float) -> None:
        """Receive until it is enough, until the reader has ended, or for ``patience`` seconds."""
        deadline = time.monotonic() + patience
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        while self.fd is not None and not is_enough():
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return
            self.receive()

    def receive(self) -> None:
        received = self._stdout.read(_CHUNK)
        if received:
            *lines, self._rest = (self._rest + received).split(b"\n")
            for line in lines:
                self._take(line)
            if len(self._rest) <= _LONGEST_LINE:
                return
            self._close(is_silent=True)
            self._last_words = f"{_WHO} sent a line of more than {_LONGEST_LINE} bytes"
        else:
            self._last_words = self._close(is_silent=False)
        if self._has_begun and not self._has_ended:
            self._troubles.note(SOURCE, self._last_words)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if self._said_hello:
                self._take_message(message)
            else:
                self._take_hello(message)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # A login banner may come before its first message.
            if self._said_hello:
                self._troubles.note(SOURCE, f"{_WHO} sent what is not a reading: {_shorten(line)}")

    def _take_hello(self, message: Mapping[str, Any]) -> None:
        sources, absent = list(message["sources"]), dict(message["absent"])
        if not self._wanted.issuperset([*sources, *absent]):
            raise ValueError("it has what it was not asked for")
        self.sources, self.absent = sources, {source: _checked(reason) for source, reason in absent.items()}
        self._said_hello = True

    def _take_message(self, message: Mapping[str, Any]) -> None:
        late = message["late"]
        if not isinstance(late, int) or not 0 <= late < _NEVER:
            raise ValueError("no number of ticks")
        self.late = late
        if "ticks" in message:
            self._has_ended = True
            return
        now = time.time() + self._clock_offset
        for t, source, text in message["readings"]:
            if source not in self.sources:
                raise ValueError("it was not asked for")
            if not isinstance(t, float) or not abs(t - now) <= _FAR:  # which NaN is not either
                raise ValueError("it is of another time")
            self._add(t, source, _checked(text))
        for trouble in message["troubles"]:
            self._troubles.report(_checked(trouble)[:_LONGEST_WORDS])
        self._has_begun = True

    def _close(self, *, is_silent: bool) -> str:
        """Give up this end of the reader; returns why, in words."""
        self.fd = None
        self._stdin.close()
        self._stdout.close()
        try:
            status = self._process.wait(_EXIT_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        said = os.pread(self._complaints, _CHUNK, 0).splitlines()[-1:]
        os.close(self._complaints)
        if is_silent:
            return f"{_WHO} does not answer"
        return f"{_WHO} ended: {_shorten(said[0]) if said else f'status {status}'}"


def _checked(text: object) -> str:
    """What can be written as text. Raises ValueError, TypeError."""
    if not isinstance(text, str):
        raise TypeError("no text")
    text.encode()  # which half of a surrogate pair cannot be
    return text


def _shorten(said: bytes) -> str:
    return said.decode(errors="replace").strip()[:_LONGEST_WORDS]
