"""The connection to a remote host: ssh with the agent at the other end, and calls over it.

Any thread may make calls, which wait for their answers; output and exits of programs are reported to a listener, from
the connection's own thread.
"""

import json
import os
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pgtrial.errors import ConnectError, LostHostError
from pgtrial.hosts import operations
from pgtrial.hosts.operations import MARK
from pgtrial.hosts.ssh import agent, agent_programs
from pgtrial.hosts.ssh.command import TOO_OLD, SshCommand, explain_failure, explain_loss, explain_nonsense
from pgtrial.safe_text import parse_json

ANSWER_LIMIT = 30.0  # s for a call that does not say otherwise
SILENCE = 45.0  # s without a word after which the agent ends everything
SIGN_OF_LIFE = 5.0  # s
_END_LIMIT = 15.0  # s for the programs there, and then ssh, to end
_WORDS = 20  # lines of ssh that are kept
_LONGEST_WORDS = 4096  # bytes of one of them
_LONGEST_ANSWER = 128 << 20  # bytes

# Constant: ssh joins what it is given and hands it to a shell there.
BOOTSTRAP = (
    "exec python3 -I -S -c 'import os,sys; "
    f'sys.version_info>=(3,8) or sys.exit("{TOO_OLD}, this is "+sys.version.split()[0]); '
    'exec(os.fdopen(0,"rb",0,closefd=False).readline())\''
)

Listener = Callable[[dict[str, Any]], None]


def agent_program(mark: str) -> bytes:
    """One line of Python that makes the modules of the agent there, and runs it."""
    modules = (operations, agent_programs, agent)  # each imports only those before it
    sources = {module.__name__: Path(module.__file__ or "").read_text(encoding="utf-8") for module in modules}
    loader = (
        "import sys, types\n"
        f"for name, source in {sources!a}.items():\n"
        "    module = sys.modules[name] = types.ModuleType(name)\n"
        "    exec(compile(source, name, 'exec'), module.__dict__)\n"
        f"sys.modules[{agent.__name__!r}].main({mark!a}, {SILENCE!r})\n"
    )
    return f"exec({loader!a})\n".encode("ascii")


@dataclass(slots=True)
class Connection:
    """From ``open`` to ``close``; after it was lost every call raises the ConnectError that says why."""

    ssh: SshCommand
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    lost: ConnectError | None = field(default=None, init=False)
    words: deque[str] = field(default_factory=lambda: deque(maxlen=_WORDS), init=False)
    _ready: Future[None] = field(default_factory=Future, init=False)
    _answers: dict[int, Future[Any]] = field(default_factory=dict, init=False)
    _listeners: dict[int, Listener] = field(default_factory=dict, init=False)
    _outgoing: "queue.SimpleQueue[bytes | None]" = field(default_factory=queue.SimpleQueue, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _number: int = field(default=0, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)

    def open(self, *, mark: str) -> Future[None]:
        """Start ssh; the result is done when the agent answers. Raises ConnectError."""
        command = self.ssh.connect()
        try:
            self.process = process = subprocess.Popen(
                [*command, BOOTSTRAP],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, MARK: mark},
                start_new_session=True,  # Ctrl-C is not meant for it
            )
        except OSError as err:
            raise ConnectError(
                f'cannot start "{command[0]}": {err.strerror}',
                hint="Install OpenSSH's client, or name it in the environment variable PGTRIAL_SSH.",
            ) from err
        self._outgoing.put(agent_program(mark))
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        listening = threading.Thread(target=self._keep_words, args=(stderr,), daemon=True)
        self._threads = [
            listening,
            threading.Thread(target=self._write, args=(stdin,), daemon=True),
            threading.Thread(target=self._read, args=(process, stdout, listening), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self._ready

    def ask(self, message: Mapping[str, Any], *, limit: float = ANSWER_LIMIT) -> Any:
        """Send a message and wait for its answer.

        Raises OSError as the host's system did, ConnectError if no answer comes within ``limit`` seconds: the
        connection is then given up, as what state the host is in is not known.
        """
        return self.begin(message, None, limit=limit)[1]

    def begin(
        self, message: Mapping[str, Any], listener: Listener | None, *, limit: float = ANSWER_LIMIT
    ) -> tuple[int, Any]:
        """As ``ask``, with the number of the message; ``listener`` is told what further comes under that number."""
        answer: Future[Any] = Future()
        with self._lock:
            if self.lost is not None:
                raise self._again()
            self._number += 1
            number = self._number
            self._answers[number] = answer
            if listener is not None:
                self._listeners[number] = listener
        self._send({"id": number, **message})
        try:
            return number, answer.result(timeout=limit)
        except TimeoutError:
            if answer.done():  # the host's own TimeoutError
                raise
            self.lose(
                LostHostError(
                    f'"{self.ssh.name}" does not answer within {limit:g} s',
                    detail=f"The request was: {_name(message)}.",
                    hint="Check the machine and the network; the machine may be overloaded.",
                )
            )
            raise self._again() from None
        except BaseException:
            self.forget(number)  # it was not started
            raise

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message that has no answer."""
        if self.lost is None:
            self._send(message)

    def forget(self, number: int) -> None:
        """Nothing more is to be told about a program."""
        self._listeners.pop(number, None)

    def lose(self, error: ConnectError) -> None:
        """Give the connection up: ssh is killed, and who waits is told."""
        with self._lock:
            if self.lost is not None:
                return
            self.lost = error
            answers, self._answers = list(self._answers.values()), {}
            listeners, self._listeners = list(self._listeners.values()), {}
        if self.process is not None:
            self.process.kill()
        self._outgoing.put(None)
        for answer in (self._ready, *answers):
            if not answer.done():
                answer.set_exception(error)
        for listener in listeners:
            listener({"lost": True})

    def close(self, *, at_once: bool = False) -> None:
        """End the connection, and what runs there by it; ssh is gone when this returns."""
        if self.process is None:
            return
        if at_once:
            self.process.kill()
        self._outgoing.put(None)  # the agent sees the end of its input, ends its programs and itself
        try:
            self.process.wait(timeout=_END_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join()

    @property
    def pid(self) -> int:
        """Of ssh, on this machine."""
        assert self.process is not None  # it was opened
        return self.process.pid

    def words_so_far(self) -> tuple[str, ...]:
        """The last lines that ssh has printed."""
        return tuple(self.words)

    def _again(self) -> ConnectError:
        """The error once more; an exception that is raised twice would gather both histories."""
        error = self.lost
        assert error is not None  # who calls has found it
        return type(error)(error.message, detail=error.detail, hint=error.hint)

    def _send(self, message: Mapping[str, Any]) -> None:
        self._outgoing.put(json.dumps(message, default=os.fspath).encode("ascii") + b"\n")

    def _write(self, stdin: IO[bytes]) -> None:
        with suppress(OSError), stdin:  # of a connection that is gone; the reader finds out why
            while True:
                try:
                    line = self._outgoing.get(timeout=SIGN_OF_LIFE)
                except queue.Empty:
                    line = b"{}\n"
                if line is None:
                    return
                stdin.write(line)
                stdin.flush()

    def _keep_words(self, stderr: IO[bytes]) -> None:
        with stderr:
            while line := stderr.readline(_LONGEST_WORDS):
                self.words.append(line.decode("utf-8", "replace").strip())

    def _read(self, process: "subprocess.Popen[bytes]", stdout: IO[bytes], listening: threading.Thread) -> None:
        ready = False
        with stdout:
            while line := stdout.readline(_LONGEST_ANSWER if ready else _LONGEST_WORDS):
                if ready:
                    try:
                        self._take(parse_json(line))
                    except (ValueError, LookupError, TypeError, AttributeError) as err:
                        self.lose(explain_nonsense(self.ssh, f"{type(err).__name__}: {err}"))
                        break
                elif agent.HELLO.encode() in line:
                    ready = True
                    with suppress(Exception):  # cancelled: who waited for it has gone
                        self._ready.set_result(None)
                else:  # what the login says; it may be why there is no agent
                    self.words.append(line.decode("utf-8", "replace").strip())
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_END_LIMIT)
        process.kill()
        listening.join(timeout=1)
        words = self.words_so_far()
        if ready:
            self.lose(explain_loss(self.ssh, words))
        else:
            self.lose(explain_failure(self.ssh, status=process.wait(), words=words))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            listener = self._listeners.get(message["key"])
            if listener is not None:
                listener(message)
            return
        answer = self._answers.pop(message["id"], None)
        if answer is None:
            return
        if "error" in message:
            number, text, filename = message["error"]
            answer.set_exception(OSError(number, text, filename) if number is not None else OSError(text))
        elif "failure" in message:
            answer.set_exception(explain_nonsense(self.ssh, str(message["failure"])))
        else:
            answer.set_result(agent.decode(message["result"]))


def _name(message: Mapping[str, Any]) -> str:
    if "call" in message:
        return f"{message['call']}({', '.join(map(str, message['args']))})"[:200]
    return "start" if "start" in message else "signal"
