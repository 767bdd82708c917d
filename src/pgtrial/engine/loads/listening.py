"""Listen to a load generator that tells of its progress and writes a log of its own."""

import asyncio
import contextlib
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from pgtrial.engine.loads.stops import LONGEST_SILENCE, Stops, watch
from pgtrial.hosts.base import HostProcess
from pgtrial.hosts.operations import Operations
from pgtrial.workloads.base import Output, Progress, Summary

_LINES_KEPT = 1000  # of a generator's messages, from their beginning and once more from their end
_LONGEST_LINE = 4000  # characters of one of them
_CHUNK = 1 << 16
_MOST_KEPT = 16 << 20  # bytes of the output that has no progress; a summary has some thousands


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How and when a generator ended, what it did, in its words what went wrong, and when it was silent until then."""

    time: float
    summary: Summary
    errors: Sequence[str]
    silences: tuple[tuple[float, float], ...] = ()


@dataclass(slots=True)
class _Silences:
    """Finds the times in which a generator said nothing; ``last`` is when it was heard last, if ever."""

    last: float | None
    found: list[tuple[float, float]] = field(default_factory=list)

    def heard(self, t: float) -> None:
        if self.last is not None and t - self.last > LONGEST_SILENCE:
            self.found.append((self.last, t))
        self.last = t if self.last is None else max(self.last, t)


async def listen(
    process: HostProcess,
    output: Output,
    on_progress: Callable[[Progress], None],
    enough: asyncio.Event,
    *,
    ops: Operations,
    ahead: float = 0.0,
) -> End:
    """Read both outputs of a generator to their ends; ``ops`` are those of the machine on which it runs, whose clock is
    ``ahead`` of ours (s).

    One that fails is ``enough`` to end the others: their run cannot count any more.
    """
    assert process.stdout is not None  # both were asked for as pipes
    assert process.stderr is not None
    first: list[str] = []
    last: deque[str] = deque(maxlen=_LINES_KEPT)
    told, rest = process.stdout, process.stderr
    if output.progress == "stderr":
        told, rest = rest, told
    reading = asyncio.create_task(_read_rest(rest))
    silences, stops = _Silences(last=time.time() if output.is_prompt else None), Stops(process.pid, ops)
    # What it does before its first line only its state tells.
    watching = None if output.is_prompt else asyncio.create_task(watch(stops))
    try:
        async for line in _read_lines(told):
            progress = output.parse_progress(line)
            # Its own time where it tells that: we may be the ones who come late.
            silences.heard(time.time() if progress is None or progress.t is None else progress.t - ahead)
            if progress is None:
                (first if len(first) < _LINES_KEPT else last).append(line[:_LONGEST_LINE])
                continue
            if watching is not None:
                watching.cancel()  # its lines tell from now on
            on_progress(progress)
        status = await process.wait()
        end = time.time()
        silences.heard(end)
        if status != 0:
            enough.set()
        others, text = "\n".join((*first, *last)), (await reading).decode("utf-8", "replace")
        stdout, stderr = (others, text) if output.progress == "stdout" else (text, others)
        return End(
            time=end,
            summary=output.parse_summary(stdout, stderr),
            errors=_complaints(output, status, stdout, stderr),
            silences=(*silences.found, *stops.found),
        )
    finally:
        reading.cancel()
        if watching is not None:
            watching.cancel()


def _complaints(output: Output, status: int, stdout: str, stderr: str) -> Sequence[str]:
    found = output.find_errors(stdout, stderr)
    if found or status == 0:
        return found
    if status < 0:
        with contextlib.suppress(ValueError):  # a signal without a name
            return [f"{output.program} was killed by {signal.Signals(-status).name}"]
    return last_words(stderr) or [f"{output.program} ended with status {status} and printed nothing"]


def last_words(stderr: str) -> Sequence[str]:
    """The last lines of what a program had to say; () if it said nothing."""
    return stderr.strip().splitlines()[-3:]


async def _read_rest(stream: asyncio.StreamReader) -> bytes:
    """All that it says to its end, or the beginning of it."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: _MOST_KEPT - len(kept)]
    return bytes(kept)


async def _read_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Lines without their ends; one that is longer than the reader's buffer comes in pieces."""
    while not stream.at_eof():
        try:
            raw = await stream.readuntil(b"\n")
        except asyncio.LimitOverrunError as err:
            raw = await stream.readexactly(err.consumed)
        except asyncio.IncompleteReadError as err:
            raw = err.partial
        yield raw.decode("utf-8", "replace").rstrip("\n")
