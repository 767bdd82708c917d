"""Programs started by the agent on a remote host: their input, output and exit status.

There is one thread only: forking with threads may hang, and the death signal of the programs is tied to the thread that
started them. Standard library only, Python 3.8; see agent.py.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import os
import selectors
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pgtrial.hosts.operations import (
    LOAD,
    OUTPUT_FLAGS,
    Operations,
    gains_nothing,
    program_environment,
    session_group,
)

_CHUNK = 1 << 16  # bytes
_PATIENCE = 5.0  # s that programs get to end
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # prctl(2)

_libc = ctypes.CDLL(None, use_errno=True)  # before any fork


@dataclass
class _Program:
    """A program; ``key`` is its name in messages. ``outputs`` are the pipes (1, 2) that are not at their ends."""

    key: int
    process: subprocess.Popen[bytes]
    outputs: dict[int, int] = field(default_factory=dict)  # to file descriptors
    paused: set[int] = field(default_factory=set)
    stdin: int | None = None
    pending: bytearray = field(default_factory=bytearray)  # for its stdin
    stdin_ends: bool = False  # after what is pending
    ended: bool = False


class StartedPrograms:
    """All that run. ``say`` sends a message; while ``is_much_unsent``, no output is read: the programs have to wait."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        *,
        mark: str,
        say: Callable[[dict[str, Any]], None],
        is_much_unsent: Callable[[], bool],
    ) -> None:
        self._selector = selector
        self._mark = mark
        self._say = say
        self._is_much_unsent = is_much_unsent
        self._all: dict[int, _Program] = {}

    def start(self, key: int, order: dict[str, Any]) -> tuple[int, int]:
        """Start a program that is called ``key`` from now on; (pid, start ticks)."""
        report, report_end = os.pipe()
        descriptors = {"pipe": subprocess.PIPE, "null": subprocess.DEVNULL}
        stdin, stdout, stderr = (descriptors[order[name]] for name in ("stdin", "stdout", "stderr"))
        output, is_other = None, order["account"] is not None
        no_gain = gains_nothing(order["role"], is_other)
        try:
            if order["output"] is not None:
                stdout = stderr = output = os.open(order["output"], OUTPUT_FLAGS, 0o644)
            process = subprocess.Popen(
                order["argv"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                cwd=order["directory"],
                env={**program_environment(self._mark, order["role"], is_other), **order["environment"]},
                start_new_session=True,
                preexec_fn=_preparation(order, report_end, group=session_group(self._mark), no_gain=no_gain),  # noqa: PLW1509  # one thread
            )
        except subprocess.SubprocessError as err:
            os.set_blocking(report, False)
            raise OSError(errno.EPERM, os.read(report, 1000).decode("utf-8", "replace")) from err
        finally:
            for descriptor in (report, report_end, output):
                if descriptor is not None:
                    os.close(descriptor)
        program = self._all[key] = _Program(key=key, process=process)
        for stream, pipe in ((1, process.stdout), (2, process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                program.outputs[stream] = pipe.fileno()
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            program.stdin = process.stdin.fileno()
        self._select_outputs(program)
        return process.pid, Operations().start_ticks(process.pid) or 0

    def signal(self, key: int, number: int, *, session: bool) -> None:
        """Send a signal to a program, or to all of its session."""
        program = self._all.get(key)
        if program is None or (program.ended and not session):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        (os.killpg if session else os.kill)(program.process.pid, number)

    def take(self, message: dict[str, Any]) -> None:
        """Do what a message without an answer asks: for a program that has ended, or as a sign of life, nothing."""
        program = self._all.get(message.get("key", -1))
        if program is None:
            return
        if "feed" in message:
            program.pending += base64.b64decode(message["feed"])
            self._feed(program)
        elif "feed_end" in message:
            program.stdin_ends = True
            self._feed(program)
        elif "pause" in message:
            (program.paused.add if message["pause"] else program.paused.discard)(message["stream"])
            self._select_outputs(program)

    def reap(self) -> None:
        """Tell of the programs that have ended."""
        for program in list(self._all.values()):
            if not program.ended and program.process.poll() is not None:
                program.ended = True
                self._say({"key": program.key, "exit": program.process.returncode})
                self._close_stdin(program)
                self._forget_if_done(program)

    def listen(self) -> None:
        """Read the outputs, or no longer."""
        for program in self._all.values():
            self._select_outputs(program)

    def _forget_if_done(self, program: _Program) -> None:
        if program.ended and not program.outputs:
            del self._all[program.key]

    def _select_outputs(self, program: _Program) -> None:
        """Listen to the outputs of a program that somebody wants to hear now."""
        listened = self._selector.get_map()
        for stream, descriptor in program.outputs.items():
            wanted = stream not in program.paused and not self._is_much_unsent()
            if wanted and descriptor not in listened:
                self._selector.register(descriptor, selectors.EVENT_READ, partial(self._read_output, program, stream))
            elif not wanted and descriptor in listened:
                self._selector.unregister(descriptor)

    def _read_output(self, program: _Program, stream: int) -> None:
        descriptor = program.outputs.get(stream)
        if descriptor is None or descriptor not in self._selector.get_map():
            return  # no longer listened to since it was found to be ready
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        self._say({"key": program.key, "stream": stream, "data": base64.b64encode(data).decode("ascii")})
        if not data:
            self._selector.unregister(descriptor)
            del program.outputs[stream]
            pipe = program.process.stdout if stream == 1 else program.process.stderr
            if pipe is not None:
                pipe.close()
            self._forget_if_done(program)
        elif self._is_much_unsent():
            self.listen()

    def _feed(self, program: _Program) -> None:
        """Write to a program's input what it takes now, the rest when it is ready for it."""
        if program.stdin is None:
            return
        written = 0
        try:
            while program.pending:
                count = os.write(program.stdin, program.pending[:_CHUNK])
                written += count
                del program.pending[:count]
        except BlockingIOError:
            pass
        except OSError:  # it has closed its input, or has ended
            self._close_stdin(program)
            self._say({"key": program.key, "broken": True})
            return
        if written:
            self._say({"key": program.key, "written": written})
        waiting = program.stdin in self._selector.get_map()
        if program.pending and not waiting:
            self._selector.register(program.stdin, selectors.EVENT_WRITE, partial(self._feed, program))
        elif not program.pending and waiting:
            self._selector.unregister(program.stdin)
        if program.stdin_ends and not program.pending:
            self._close_stdin(program)

    def _close_stdin(self, program: _Program) -> None:
        if program.stdin is None or program.process.stdin is None:
            return
        if program.stdin in self._selector.get_map():
            self._selector.unregister(program.stdin)
        program.process.stdin.close()
        program.stdin = None

    def end_all(self) -> None:
        """End all programs: SIGQUIT, a server's immediate shutdown, then SIGKILL for their sessions."""
        alive = [program.process for program in self._all.values() if program.process.poll() is None]
        for process in alive:
            process.send_signal(signal.SIGQUIT)
        deadline = time.monotonic() + _PATIENCE
        while any(process.poll() is None for process in alive) and time.monotonic() < deadline:
            time.sleep(0.01)
        for process in alive:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _preparation(order: Mapping[str, Any], report: int, *, group: int | None, no_gain: bool) -> Callable[[], None]:
    """What a program does between fork and exec: enter control groups, change its user, ask for the death signal."""
    parent = os.getpid()
    groups, account, is_load = order["groups"], order["account"], order["role"] == LOAD

    def prepare() -> None:
        try:
            for place in groups:
                descriptor = os.open(place + "/cgroup.procs", os.O_WRONLY)
                os.write(descriptor, b"0")
                os.close(descriptor)
            if account is not None:
                for output in (1, 2) if is_load else ():
                    if stat.S_ISFIFO(os.fstat(output).st_mode):
                        os.fchown(output, account[0], -1)  # fio opens its standard error once more
                os.setgroups([] if group is None else [group])
                os.setgid(account[1])
                os.setuid(account[0])
            if no_gain:
                _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # cannot fail with these arguments
            # After the change of user, which resets it.
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)  # cannot fail with a valid signal
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
        except OSError as err:
            os.write(report, str(err).encode("utf-8", "replace"))
            raise
        if os.getppid() != parent:
            os._exit(1)  # it ended before the signal was asked for

    return prepare
