"""Processes of pgtrial that are forked from one that has imported everything, and has the templates of the report put
together: that takes longer than most commands.

    python forks.py --serve FD

serves the other end of the socket FD. A request is one message with the arguments, the directory, the environment and
the numbers of a user and a group, if it is to run as these, as JSON, and three descriptors: standard output, standard
error, and a socket on which the answers come, the process id at once and the exit status at the end.
"""

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Self

_LONGEST = 1 << 20  # B of a request
_IMPORTS = (
    *(f"pgtrial.cli.{name}" for name in ("check", "checked", "console", "main", "plan", "report", "restore", "resume")),
    *(f"pgtrial.cli.{name}" for name in ("run", "session", "status")),
    *("pgtrial.analysis.analyze", "pgtrial.engine.experiment", "pgtrial.report.html", "pgtrial.report.text"),
)


class ForkedProcess:
    """As much of subprocess.Popen as the tests need; standard input is empty."""

    def __init__(self, args: Sequence[str], answers: socket.socket, stdout: IO[str], stderr: IO[str]) -> None:
        self.args, self.stdout, self.stderr = args, stdout, stderr
        self.returncode: int | None = None
        self._answers = answers
        self.pid = int(self._answers.recv(32))

    def poll(self) -> int | None:
        with contextlib.suppress(TimeoutError):
            self.wait(timeout=0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """TimeoutError when it is not over by then."""
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = int(self._answers.recv(32))
            except BlockingIOError:
                raise TimeoutError from None
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it has printed, when it is over. subprocess.TimeoutExpired when it is not by then."""
        texts = ["", ""]

        def read(place: int, stream: IO[str]) -> None:
            if not stream.closed:
                texts[place] = stream.read()

        readers = [
            threading.Thread(target=read, args=each, daemon=True) for each in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0) from None
        for reader in readers:
            reader.join()
        self.stdout.close()
        self.stderr.close()
        return texts[0], texts[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


def fork_pgtrial(
    arguments: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    account: tuple[int, int] | None = None,
    terminal: int | None = None,
) -> ForkedProcess:
    """Start pgtrial with these arguments; as a user and a group; with the descriptor of a terminal as standard error,
    in place of which an empty file is read.
    """
    answers, to_answer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    out, to_out = os.pipe()
    err, to_err = os.pipe() if terminal is None else (os.open(os.devnull, os.O_RDONLY), os.dup(terminal))
    request = json.dumps([list(arguments), str(directory), dict(environment), account]).encode()
    socket.send_fds(_server()[0], [request], [to_out, to_err, to_answer.fileno()])
    for fd in (to_out, to_err):
        os.close(fd)
    to_answer.close()
    return ForkedProcess(["pgtrial", *arguments], answers, os.fdopen(out), os.fdopen(err))


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """It ends when this process does, and with it the last copy of the socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), "--serve", str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads would not be copied
    )
    theirs.close()
    return ours, process


def serve(requests: socket.socket) -> None:
    for name in _IMPORTS:
        __import__(name)
    _prepare_report()
    gc.freeze()  # it is not looked through in each process, nor its memory copied for that
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process and where its status goes
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    pid, answers = running.pop(key.fd)
                    _, waited = os.waitpid(pid, 0)
                    with answers, contextlib.suppress(BrokenPipeError):
                        answers.send(b"%d" % os.waitstatus_to_exitcode(waited))
                    continue
                request, fds, *_ = socket.recv_fds(requests, _LONGEST, 3)
                if not request:
                    return
                pid = os.fork()
                if pid == 0:
                    _become(json.loads(request), stdout=fds[0], stderr=fds[1])
                answers = socket.socket(fileno=fds[2])
                answers.send(b"%d" % pid)
                for fd in fds[:2]:
                    os.close(fd)
                over = os.pidfd_open(pid)
                running[over] = pid, answers
                selector.register(over, selectors.EVENT_READ)


def _prepare_report() -> None:
    from pgtrial.report.html import template_environment

    environment = template_environment()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


def _become(
    request: tuple[list[str], str, dict[str, str], tuple[int, int] | None], *, stdout: int, stderr: int
) -> None:
    """Be the process that was asked for, and end. No descriptor of the server's is kept."""
    from pgtrial.cli.main import main

    arguments, directory, environment, account = request
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    # As Python itself opens them.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # it depends on the environment
    if account is not None:
        os.setgroups([])
        os.setgid(account[1])
        os.setuid(account[0])
    sys.argv = ["pgtrial", *arguments]
    status = 1
    try:
        status = main()
        sys.stdout.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    sys.path[:] = sys.path[1:]  # not the tests beside this file
    serve(socket.socket(fileno=int(sys.argv[2])))
