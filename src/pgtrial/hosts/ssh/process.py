"""A program on a remote host, with asyncio streams for its input and output."""

import asyncio
import base64
import signal
from contextlib import suppress
from typing import Any

from pgtrial.errors import ConnectError
from pgtrial.hosts.ssh.command import explain_nonsense
from pgtrial.hosts.ssh.connection import Connection

_CHUNK = 1 << 15  # bytes of an input in one message
_MUCH, _LITTLE = (
    1 << 18,
    1 << 16,
)  # bytes on their way to the program, above which and below which writing stops and goes on
_LINE_LIMIT = 1 << 20


class SshProcess:
    """A program that the agent started; made before it, as its output may come at once."""

    def __init__(self, connection: Connection, *, pipes: frozenset[str]) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._key = -1
        self._pid = -1
        self._returncode: int | None = None
        self._over = asyncio.Event()  # the program has ended, or the connection has
        self._lost: ConnectError | None = None
        self._output = {number: _Output(self, number) for number in (1, 2) if ("", "stdout", "stderr")[number] in pipes}
        self._input = _Input(self) if "stdin" in pipes else None

    def start(self, order: dict[str, Any]) -> tuple[int, int]:
        """Have it started; (pid, start ticks). Raises OSError, ConnectError."""
        self._key, started = self._connection.begin({"start": order}, self._hear)
        if not (isinstance(started, tuple) and len(started) == 2 and all(type(number) is int for number in started)):
            raise explain_nonsense(self._connection.ssh, f"It started {order['argv'][0]} as {started!r:.100}")
        self._pid, ticks = started
        return self._pid, ticks

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def returncode(self) -> int | None:
        return self._returncode

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        return None if self._input is None else self._input.writer

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        return self._output[1].reader if 1 in self._output else None

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        return self._output[2].reader if 2 in self._output else None

    async def wait(self) -> int:
        """Its exit status, once it has ended. Raises ConnectError if that cannot be known."""
        await self._over.wait()
        if self._returncode is None:
            assert self._lost is not None  # one or the other has set the event
            raise ConnectError(self._lost.message, detail=self._lost.detail, hint=self._lost.hint)
        return self._returncode

    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        """Feed it, read both outputs to their ends, and wait."""
        out, err, _, _ = await asyncio.gather(
            _read_all(self.stdout), _read_all(self.stderr), self._feed_all(input), self.wait()
        )
        return out, err

    async def _feed_all(self, data: bytes | None) -> None:
        if self.stdin is None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):  # as asyncio's own processes: it need not read all
            if data:
                self.stdin.write(data)
                await self.stdin.drain()
        self.stdin.close()

    def send_signal(self, signal: int) -> None:
        if self._returncode is not None:
            raise ProcessLookupError
        self._connection.ask({"key": self._key, "signal": int(signal), "session": False})

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def kill_session(self) -> None:
        self._connection.ask({"key": self._key, "signal": int(signal.SIGKILL), "session": True})

    def tell(self, message: dict[str, Any]) -> None:
        self._connection.tell({"key": self._key, **message})

    def _hear(self, message: dict[str, Any]) -> None:
        """Take what comes, in the connection's thread."""
        if "exit" in message:
            self._returncode = int(message["exit"])
        if "stream" in message:
            message = {"stream": int(message["stream"]), "data": base64.b64decode(message["data"])}
        with suppress(RuntimeError):  # the event loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self._take, message)

    def _take(self, message: dict[str, Any]) -> None:
        if "stream" in message:
            self._output[message["stream"]].take(message["data"])
        elif "written" in message and self._input is not None:
            self._input.take_written(message["written"])
        elif "broken" in message and self._input is not None:
            self._input.end(BrokenPipeError())
        elif "exit" in message:
            self._end()
        elif "lost" in message and not self._over.is_set():
            self._lost = self._connection.lost
            for output in self._output.values():
                output.lose(self._lost)
            self._end()
        if self._over.is_set() and all(output.is_at_end for output in self._output.values()):
            self._connection.forget(self._key)

    def _end(self) -> None:
        self._over.set()
        if self._input is not None:
            self._input.end(None)


class _Output(asyncio.ReadTransport):
    """The reader of one output; a program whose output nobody reads is made to wait."""

    def __init__(self, process: SshProcess, number: int) -> None:
        super().__init__()
        self._process = process
        self._number = number
        self.is_at_end = False
        self.reader = asyncio.StreamReader(limit=_LINE_LIMIT, loop=asyncio.get_running_loop())
        self.reader.set_transport(self)

    def take(self, data: bytes) -> None:
        if data:
            self.reader.feed_data(data)
        else:
            self.is_at_end = True
            self.reader.feed_eof()

    def lose(self, error: ConnectError | None) -> None:
        if not self.is_at_end and error is not None:
            self.reader.set_exception(ConnectError(error.message, detail=error.detail, hint=error.hint))

    def pause_reading(self) -> None:
        self._process.tell({"pause": True, "stream": self._number})

    def resume_reading(self) -> None:
        self._process.tell({"pause": False, "stream": self._number})


class _Input(asyncio.WriteTransport):
    """The writer of the input; it waits for a program that does not read."""

    def __init__(self, process: SshProcess) -> None:
        super().__init__()
        self._process = process
        self._on_its_way = 0  # bytes that the program has not taken
        self._is_paused = False
        self._is_closing = False
        self._is_over = False
        loop = asyncio.get_running_loop()
        self._protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop)
        self._protocol.connection_made(self)
        self.writer = asyncio.StreamWriter(self, self._protocol, None, loop)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            self._process.tell({"feed": base64.b64encode(view[start : start + _CHUNK]).decode("ascii")})
        self._on_its_way += len(view)
        if self._on_its_way > _MUCH and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def take_written(self, count: int) -> None:
        self._on_its_way -= count
        if self._on_its_way < _LITTLE and self._is_paused:
            self._is_paused = False
            self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._process.tell({"feed_end": True})
            self.end(None)

    def abort(self) -> None:
        self.close()

    def end(self, error: Exception | None) -> None:
        """Nothing can be written any more."""
        self._is_closing = True
        if not self._is_over:
            self._is_over = True
            self._protocol.connection_lost(error)


async def _read_all(reader: asyncio.StreamReader | None) -> bytes:
    return b"" if reader is None else await reader.read()
