"""The agent that pgtrial runs on a remote host: it answers calls over its standard input and output.

This file stands alone with operations.py and agent_programs.py; their texts are sent over the connection (standard
library only, Python 3.8), and nothing is installed there. Messages are lines of JSON. When the connection ends, or
nothing is heard for too long, the agent ends the programs it has started, and itself.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from typing import Any, NoReturn

from pgtrial.hosts.operations import Operations
from pgtrial.hosts.ssh.agent_programs import StartedPrograms

HELLO = "pgtrial agent"
_CHUNK = 1 << 16  # bytes
_MUCH = 1 << 20  # bytes that wait to be sent, above which programs' outputs are not read
_FURTHER_PATH = "/usr/local/sbin:/usr/sbin:/sbin"  # mkfs and the like; a login without a terminal may lack it


def encode(value: Any) -> Any:
    """What JSON knows, with tuples told from lists."""
    if isinstance(value, tuple):
        return {"tuple": [encode(part) for part in value]}
    if isinstance(value, list):
        return [encode(part) for part in value]
    if isinstance(value, dict):
        return {"dict": {name: encode(part) for name, part in value.items()}}
    return value


def decode(value: Any) -> Any:
    """Opposite of ``encode``."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(decode(part) for part in value["tuple"])
        return {name: decode(part) for name, part in value["dict"].items()}
    return value


class Agent:
    """Serves one connection until it ends."""

    def __init__(self, operations: Operations, *, mark: str, silence: float) -> None:
        self._operations = operations
        self._silence = silence
        self._selector = selectors.DefaultSelector()
        self._programs = StartedPrograms(
            self._selector, mark=mark, say=self._say, is_much_unsent=lambda: len(self._to_send) > _MUCH
        )
        self._received = bytearray()
        self._to_send = bytearray()
        self._heard = time.monotonic()
        self._open = True

    def serve(self) -> None:
        """Answer until the end of the input, a failure of the output, or ``silence`` seconds without a word."""
        wakeup, woken_by = os.pipe()
        for descriptor in (0, 1, wakeup, woken_by):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(woken_by, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector.register(0, selectors.EVENT_READ, self._receive)
        self._selector.register(wakeup, selectors.EVENT_READ, lambda: self._wake(wakeup))
        self._say({"hello": HELLO, "pid": os.getpid()})
        try:
            while self._open:
                for key, _ in self._selector.select(1.0):
                    key.data()
                if time.monotonic() - self._heard > self._silence:
                    break
        finally:
            self._programs.end_all()

    def _wake(self, wakeup: int) -> None:
        """After a signal: a program may have ended."""
        os.read(wakeup, _CHUNK)
        self._programs.reap()

    def _receive(self) -> None:
        try:
            received = os.read(0, _CHUNK)
        except BlockingIOError:
            return
        if not received:
            self._open = False
            return
        self._received += received
        lines = self._received.split(b"\n")
        self._received = lines.pop()
        for line in lines:
            self._handle(json.loads(line))
        # Only now: a call may have taken long, and what was said meanwhile is not yet read.
        self._heard = time.monotonic()

    def _say(self, message: dict[str, Any]) -> None:
        if not self._to_send:
            self._selector.register(1, selectors.EVENT_WRITE, self._send)
        self._to_send += json.dumps(message).encode("ascii") + b"\n"

    def _send(self) -> None:
        was_much = len(self._to_send) > _MUCH
        try:
            sent = os.write(1, self._to_send[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            self._open = False
            return
        del self._to_send[:sent]
        if not self._to_send:
            self._selector.unregister(1)
        if was_much and len(self._to_send) <= _MUCH:
            self._programs.listen()

    def _handle(self, message: dict[str, Any]) -> None:
        """Do what a message asks; one with an id is answered, whatever happens."""
        if "id" not in message:
            self._programs.take(message)
            return
        answer: dict[str, Any] = {"id": message["id"]}
        try:
            answer["result"] = encode(self._answer(message))
        except OSError as err:
            filename = err.filename if isinstance(err.filename, str) else None
            answer["error"] = [err.errno, err.strerror or str(err), filename]
        except Exception as err:  # a mistake in here; who asked has to be told, or would wait
            answer["failure"] = f"{type(err).__name__}: {err}"
        self._say(answer)

    def _answer(self, message: dict[str, Any]) -> Any:
        if "call" in message:
            method = getattr(self._operations, message["call"])
            return method(*decode(message["args"]), **decode(message["kwargs"]))
        if "signal" in message:
            return self._programs.signal(message["key"], message["signal"], session=message["session"])
        return self._programs.start(message["id"], message["start"])


def main(mark: str, silence: float) -> None:
    """Serve the connection on standard input and output, without which nothing here goes on."""

    def end(_number: int, _frame: object) -> NoReturn:
        sys.exit()

    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    os.chdir("/")
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{_FURTHER_PATH}"
    Agent(Operations(), mark=mark, silence=silence).serve()
