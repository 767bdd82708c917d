"""Listen to a program that tells of its requests as they end, and have it work for its time.

Its output is read twice a second: a program that writes each line at once would wake an event loop thousands of times,
on the machine that is measured. One that writes so much that its pipe could be full by then is read more often, and so
is one whose lines have no time but that.
"""

import asyncio
import contextlib
import csv
import fcntl
import os
import re
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pgtrial.engine.loads.listening import End, last_words
from pgtrial.engine.loads.stops import Stops
from pgtrial.hosts.base import HostProcess
from pgtrial.hosts.processes import ends_within
from pgtrial.safe_files import new_file
from pgtrial.safe_text import hide_secrets
from pgtrial.store.command_line import LONGEST_LINE, READY, LineError, parse_line, shown_line
from pgtrial.units import format_duration
from pgtrial.workloads.base import Progress, Results, Summary

PATIENCE = 60.0  # s for the first line
SPARE = 1.0  # s of work beyond what is measured, so that all of that has been told
_EVERY = 0.5  # s between two looks at the output
_SOON = 0.1  # s, where it has not begun yet, or the last look found much
_MUCH = 1 / 8  # of what the pipe holds; at less than that in _SOON it is not full within _EVERY
_SECOND = 1.0  # s of progress
_LAST = 15.0  # s for it to end once it is told to; go-tpc takes ten, by its clock
_SHARE_LEFT = 0.5  # of its time, for one that ends by itself to do so
_HELD = 2.0  # s for the end of its outputs, once it has ended
_PIPE = 1 << 20  # bytes that it can write between two looks, where the system allows it
_CHUNK = 1 << 16
_MOST = 4 << 30  # bytes of output
_CLOCKS = 1.0  # s between what it takes for the time and what is the time
_STDERR_KEPT = 1 << 16  # bytes
_OTHERS_KEPT = 100  # lines of its output
_ERROR = re.compile(r"\b(?:fatal|error|panic)\b", re.IGNORECASE)
_LONGEST_SAID = 500  # characters of a line
_LONGEST_TURN = 0.02  # s
# What an adapter may meet in a line that its program did not write, beside what it looks for itself.
_UNREADABLE = (LineError, ArithmeticError, ValueError, RecursionError, csv.Error)


@dataclass(frozen=True, slots=True)
class Channel:
    """A pipe for an output of a program; asyncio would take a program that has ended for one that runs, as long as
    another one has it open.
    """

    reader: int
    writer: int

    @classmethod
    def open(cls) -> "Channel":
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with contextlib.suppress(OSError):  # the user may have too many of them for such large ones
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE)
        return cls(reader, writer)


@dataclass(slots=True, kw_only=True)
class Listener:
    """Reads what a process tells; ``output`` and ``errors`` are the ends of its outputs, which are closed with it.

    ``ready`` is when its first line was read, in seconds since the epoch, None before.
    """

    process: HostProcess
    results: Results
    output: int
    errors: int
    started: float = field(default_factory=time.time)
    ready: float | None = None
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    stops: Stops = field(init=False)
    told_to_end: bool = False
    trouble: str = ""
    done: int = 0
    failed: int = 0
    _rest: bytes = b""
    _bytes: int = 0
    _heard: int = 0  # bytes of both outputs
    _is_at_end: bool = False
    _much: float = field(init=False)  # bytes
    _latency: float = 0.0  # s, the sum over all that is done
    _others: deque[str] = field(default_factory=lambda: deque(maxlen=_OTHERS_KEPT))  # lines that tell of no request
    _said: bytes = b""  # the end of what it has said on its standard error
    _errors_rest: bytes = b""

    def __post_init__(self) -> None:
        self._much = _MUCH * fcntl.fcntl(self.output, fcntl.F_GETPIPE_SZ)
        self.stops = Stops(self.process.pid)

    async def listen(self, on_progress: Callable[[Progress], None], enough: asyncio.Event) -> End:
        """Read the output to its end. What makes its numbers worth nothing is ``enough`` to end the others."""
        waiting = asyncio.create_task(self.process.wait())
        try:
            with self._recording() as record:
                await self._follow(record, on_progress, until=waiting)
                if self.trouble:
                    enough.set()
                    return self._end(time.time())
                end = time.time()
                status = await waiting
                # What it has started in its session must not go on, nor hold its outputs open.
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill_session()
                await self._drain(record)
                if self.results.left is not None and status == 0 and not self.trouble:
                    await self._take_left(self.results.left, record)
        finally:
            waiting.cancel()
            os.close(self.output)
            os.close(self.errors)
        if self.trouble:
            enough.set()
        elif not self._ended_well(status):
            enough.set()
            self.trouble = self._last_words() or self._printed() or f"it ended with status {status} and said nothing"
        return self._end(end)

    def _last_words(self) -> str:
        said = self._said.decode("utf-8", "replace").splitlines()
        return _quoted([line for line in said if not self.results.is_noise(line)])

    def _printed(self) -> str:
        """Of the lines of its output that tell of no request, those that speak of an error, if any do."""
        return _quoted([line for line in dict.fromkeys(self._others) if _ERROR.search(line)] or list(self._others))

    def why_silent(self) -> str:
        said = self._last_words()
        return f"it printed nothing within {PATIENCE:g} s" + (f', but on its standard error "{said}"' if said else "")

    def _ended_well(self, status: int) -> bool:
        good = {-signal.SIGTERM, 128 + signal.SIGTERM, *self.results.good_ends}
        return status == 0 or (self.told_to_end and status in good)

    def _end(self, end: float) -> End:
        return End(
            time=end,
            summary=Summary(processed=self.done, failed=self.failed, said=self._last_words()),
            errors=(self.trouble,) if self.trouble else (),
            silences=tuple(self.stops.found),
        )

    @contextlib.contextmanager
    def _recording(self) -> Iterator[BinaryIO | None]:
        if self.results.record is None:
            yield None
            return
        with new_file(Path(self.results.record)) as file:
            yield file

    async def _follow(
        self, record: BinaryIO | None, on_progress: Callable[[Progress], None], *, until: "asyncio.Task[int]"
    ) -> None:
        """Read until the program has ended, or something is wrong; tell each second what it did."""
        last, done, latency, pause = time.monotonic(), 0, 0.0, _SOON
        while not until.done() and not self.trouble:
            await asyncio.wait({until}, timeout=pause)
            before = self._heard
            await self._read(record)
            is_soon = self.ready is None or self.results.tells_no_time or self._heard - before > self._much
            pause = _SOON if is_soon else _EVERY
            self.stops.look()
            now = time.monotonic()
            if self.ready is None:
                last = now
            elif now - last >= _SECOND and not until.done():
                count, took = self.done - done, self._latency - latency
                on_progress(Progress(t=None, tps=count / (now - last), latency=took / count if count else None))
                last, done, latency = now, self.done, self._latency

    async def _drain(self, record: BinaryIO | None) -> None:
        """Read what is left in the pipe, until nobody has it open."""
        await self._read(record)  # all that it can have written before it ended, however long that takes
        deadline = time.monotonic() + _HELD
        while not self._is_at_end and not self.trouble:
            await self._read(record)
            if time.monotonic() > deadline:
                self.trouble = "it has ended, but has left a program running that holds its output open"
            elif not self._is_at_end:
                await asyncio.sleep(_SOON)
        # A last line without an end was cut off, or is what a program says that is about to fail.
        self._rest = b""

    async def _read(self, record: BinaryIO | None) -> None:
        """Read what is in the pipes."""
        for chunk in _chunks(self.errors):
            self._heard += len(chunk)
            self._said = (self._said + chunk)[-_STDERR_KEPT:]
            if self.results.errors_tell:
                *whole, rest = (self._errors_rest + chunk).split(b"\n")
                self._errors_rest = rest[:LONGEST_LINE]
                for each in whole:
                    with contextlib.suppress(*_UNREADABLE):  # anything may be said there
                        self.results.translate(each.decode("utf-8", "replace"))
        turn = _Turn()
        for chunk in _chunks(self.output):
            self._is_at_end = not chunk
            self._heard += len(chunk)
            self._bytes += len(chunk)
            if self._bytes > _MOST:
                self.trouble = f"it printed more than {_MOST >> 30} GB"
                return
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > LONGEST_LINE:
                lines, self._rest = [self._rest], b""
            now, taken = time.time(), []
            for each in lines:
                line = each[:LONGEST_LINE].decode("utf-8", "replace")
                try:
                    translated = self.results.translate(line) if line and not line.isspace() else None
                    if translated is not None:
                        self._count(translated, now)
                        taken.append(translated)
                    elif line.strip():
                        self._others.append(line)
                except _UNREADABLE as err:
                    self.trouble = f"it printed a line that tells of no request: {_why(err)}. {shown_line(line)}"
                    break
                if turn.is_over():
                    await turn.others()
            _keep(taken, record)
            if self.trouble:
                return

    async def _take_left(self, left: Callable[[], Iterator[str]], record: BinaryIO | None) -> None:
        turn = _Turn()
        try:
            for line in left():
                self._count(line, time.time())
                _keep([line], record)
                if turn.is_over():
                    await turn.others()
        except _UNREADABLE as err:
            self.trouble = f"what it left in a file tells of no request: {_why(err)}"

    def _count(self, translated: str, now: float) -> None:
        """Count what a line tells that was read at ``now``. Raises LineError."""
        told = parse_line(translated, needs_lag=self.results.needs_lag, longest=self.results.longest)
        mean = told.mean or 0.0
        done, took, longest = told.counted, told.counted * mean, mean
        for latency, count in told.latencies:
            if count:
                done += count
                took += latency * count
                longest = max(longest, latency)
        if told is not READY:
            if not self.started - _CLOCKS <= told.t <= now + _CLOCKS:
                raise LineError('"t" is not when it ended, in seconds since 1970-01-01 UTC')
            if longest > told.t - self.started + _CLOCKS:
                raise LineError(
                    f"a request that took {format_duration(longest)} would have begun before the program; "
                    "latencies are in seconds"
                )
        if self.ready is None:
            self.begin()
        self.done += done
        self.failed += told.failed
        self._latency += took

    def begin(self) -> None:
        """It works from its start on, and says so by no line."""
        self.ready = time.time()
        self.is_ready.set()

    def stop(self) -> None:
        if self.results.ends_itself:
            return
        self.told_to_end = True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    async def kill_late(self) -> None:
        """Kill it unless it ends in time; then nobody knows what it has not told."""
        ends_itself = self.results.ends_itself
        patience = _LAST + _SHARE_LEFT * self.results.seconds if ends_itself else _LAST
        if not await ends_within(self.process, patience):
            whence = "its time" if ends_itself else "SIGTERM"
            self.trouble = f"it did not end within {patience:g} s of {whence}"
            with contextlib.suppress(ProcessLookupError):
                self.process.kill_session()


def _chunks(reader: int) -> Iterator[bytes]:
    """What is in a pipe now, and no more of what is written meanwhile; an empty one says that nobody has it open."""
    for _ in range(_PIPE // _CHUNK):
        try:
            chunk = os.read(reader, _CHUNK)
        except BlockingIOError:
            return
        yield chunk
        if not chunk:
            return


class _Turn:
    """Lets others have theirs: reading what a program tells can take longer than a signal may wait."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def is_over(self) -> bool:
        return time.monotonic() - self._begun > _LONGEST_TURN

    async def others(self) -> None:
        await asyncio.sleep(0)
        self._begun = time.monotonic()


def _keep(lines: Sequence[str], record: BinaryIO | None) -> None:
    if record is not None and lines:
        record.write("\n".join([*lines, ""]).encode())


def _quoted(lines: Sequence[str]) -> str:
    return hide_secrets("; ".join(line[:_LONGEST_SAID] for line in last_words("\n".join(lines))))


def _why(err: Exception) -> str:
    return str(err) if isinstance(err, LineError) else "what it says cannot be"


async def work(listeners: Sequence[Listener], conduct: Callable[[], Awaitable[None]] | None = None) -> None:
    """Let programs work for their time, which begins with the first line of the last of them, and end them. With
    ``conduct`` their time is what that takes.
    """
    for listener in listeners:
        if listener.results.begins_silently:
            listener.begin()
    waiting = {asyncio.ensure_future(each.is_ready.wait()) for each in listeners}
    try:
        await asyncio.wait(waiting, timeout=PATIENCE)
    finally:
        for each in waiting:
            each.cancel()
    for listener in listeners:
        if listener.ready is None:
            listener.trouble = listener.why_silent()
            return
    if conduct is None:
        await asyncio.sleep(max(each.results.seconds for each in listeners))
    else:
        await conduct()
    await asyncio.sleep(SPARE)
    for listener in listeners:
        listener.stop()
    await asyncio.gather(*(each.kill_late() for each in listeners))
