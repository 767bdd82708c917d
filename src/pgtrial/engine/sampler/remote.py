"""The files of another machine: the sampler's end of a reader that runs there."""

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pgtrial.engine.sampler.files import LINES, Add, ReaderError, Wanted, WantedChildren
from pgtrial.engine.sampler.reader import Troubles

SOURCE = "files"  # of the troubles of the reader itself
_WHO = "the reader on the server's machine"

_PROGRAM = Path(__file__).with_name("reader.py")
_BOOTSTRAP = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
_START_PATIENCE = 4.0  # s, to say what there is, and then for the first readings
_END_PATIENCE = 2.0  # s, for the last ones
_EXIT_PATIENCE = 0.5  # s, for a process that has nothing more to say
_CHUNK = 1 << 16
_LONGEST_WORDS = 300  # characters


def reader_argv(python: str = "python3") -> tuple[str, ...]:
    """Argument list of the reader: Python takes the program from standard input, which stays open behind it."""
    return python, "-I", "-S", "-c", _BOOTSTRAP


class RemoteFiles:
    """Files that a reader on the other machine reads by its own clock and sends as they are.

    The reader ends when its standard input does: with this process, however that ends. A reader that ends by itself,
    or whose connection does, is a trouble; one that falls silent leaves a gap.
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
    ) -> None:
        """Start the reader with ``command`` and learn what there is. Raises ReaderError."""
        self.sources: Sequence[str] = ()
        self.absent: Mapping[str, str] = {}
        self.late = 0
        self._add = add
        self._troubles = troubles
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

    def _receive_until(self, is_enough: Callable[[], bool], *, patience: float) -> None:
        """Receive until it is enough, until the reader has ended, or for ``patience`` seconds."""
        deadline = time.monotonic() + patience
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        while self.fd is not None and not is_enough():
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return
            self.receive()

    def receive(self) -> None:
        received = self._stdout.read(_CHUNK)
        if received:
            *lines, self._rest = (self._rest + received).split(b"\n")
            for line in lines:
                self._take(line)
            return
        self._last_words = self._close(is_silent=False)
        if self._has_begun and not self._has_ended:
            self._troubles.note(SOURCE, self._last_words)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if self._said_hello:
                self._take_message(message)
            else:
                self.sources, self.absent = message["sources"], message["absent"]
                self._said_hello = True
        except (ValueError, KeyError, TypeError):
            # Before its first message come the words with which a machine greets whoever logs in.
            if self._said_hello:
                self._troubles.note(SOURCE, f"{_WHO} sent what is not a reading: {_shorten(line)}")

    def _take_message(self, message: Mapping[str, Any]) -> None:
        self.late = message["late"]
        if "ticks" in message:
            self._has_ended = True
            return
        for reading in message["readings"]:
            self._add(*reading)
        for trouble in message["troubles"]:
            self._troubles.report(trouble)
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


def _shorten(said: bytes) -> str:
    return said.decode(errors="replace").strip()[:_LONGEST_WORDS]
