"""Processes of pgtrial that are forked from one that has imported everything, and has the templates of the report put
together: that takes longer than most commands.

    python forks.py --serve NAME

serves all processes of a run of the tests, by the abstract socket NAME, until none of them is there any more. A request
is one message with the arguments, the directory, the environment and the numbers of a user and a group, if it is to run
as these, as JSON, and three descriptors: standard output, standard error, and a socket on which the answers come, the
process id at once and the exit status at the end.
"""

import contextlib
import errno
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Self

_LONGEST = 1 << 20  # B of a request
_PATIENCE = 60.0  # s
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
    socket.send_fds(_server(), [request], [to_out, to_err, to_answer.fileno()])
    for fd in (to_out, to_err):
        os.close(fd)
    to_answer.close()
    return ForkedProcess(["pgtrial", *arguments], answers, os.fdopen(out), os.fdopen(err))


@cache
def _server() -> socket.socket:
    """A connection to the server of this run of the tests, which is started by the first who needs it."""
    name = f"pgtrial-test-forks-{os.environ['PGTRIAL_TEST_RUN']}"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    deadline = time.monotonic() + _PATIENCE
    is_started = False
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            connection.connect(f"\0{name}")
            return connection
        if not is_started:
            # It outlives this process, where others are still connected.
            subprocess.Popen(
                [sys.executable, str(Path(__file__)), "--serve", name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads would not be copied
            ).returncode = 0  # nobody waits for it
            is_started = True
        if time.monotonic() > deadline:
            raise TimeoutError("the server of forks does not answer")
        time.sleep(0.02)


def serve(name: str) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listening.bind(f"\0{name}")
    except OSError as err:
        if err.errno == errno.EADDRINUSE:  # another process of the tests was quicker
            return
        raise
    listening.listen()
    for module in _IMPORTS:
        __import__(module)
    _prepare_report()
    gc.freeze()  # it is not looked through in each process, nor its memory copied for that
    running: dict[int, tuple[int, socket.socket]] = {}  # by pidfd: process and where its status goes
    clients = 0
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        while True:
            found = selector.select(None if clients else _PATIENCE)
            if not found:
                return
            for key, _ in found:
                if key.fileobj is listening:
                    client, _ = listening.accept()
                    if _uid_of(client) == os.getuid():
                        selector.register(client, selectors.EVENT_READ)
                        clients += 1
                    else:
                        client.close()
                elif isinstance(key.fileobj, socket.socket):
                    if not _take_request(key.fileobj, selector, running):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
                        clients -= 1
                        if not clients:
                            return
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    pid, answers = running.pop(key.fd)
                    _, waited = os.waitpid(pid, 0)
                    with answers, contextlib.suppress(BrokenPipeError):
                        answers.send(b"%d" % os.waitstatus_to_exitcode(waited))


def _uid_of(client: socket.socket) -> int:
    """Of the user at the other end: the name of an abstract socket is open to all."""
    _, uid, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid


def _take_request(
    client: socket.socket, selector: selectors.BaseSelector, running: dict[int, tuple[int, socket.socket]]
) -> bool:
    """Fork the process that is asked for; False where the client has gone."""
    request, fds, *_ = socket.recv_fds(client, _LONGEST, 3)
    if not request:
        return False
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
    return True


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
    serve(sys.argv[2])
