"""A look at what pgbench is writing to its logs: how much there is, and a sample of the latest latencies.

A log grows by up to a few megabytes a second, and to read all of it would take from the load what it needs. So sizes
are asked of the file system, and of what was appended since the last look a few kilobytes are read at evenly spaced
places. The format is described in store/pgbench_log.py.
"""

import math
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

_BUDGET = 8 << 10  # bytes read per look
_MOST_FILES = 8  # of those that grew; the others have their turn at the next look
_CHUNK = 1 << 10  # bytes read at a place
_FEWEST = 100  # transactions to tell a 95th percentile of


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one log has got since the last look: ``grown`` bytes, of which the whole ``lines`` were read."""

    grown: int
    lines: tuple[bytes, ...]

    @property
    def weight(self) -> float:
        """How many transactions each of the lines stands for."""
        read = sum(map(len, self.lines)) + len(self.lines)  # with their line ends
        return self.grown / read if read else 0.0


@dataclass(slots=True, kw_only=True)
class LogSampler:
    """The logs of one arm at one load level, which appear in ``folder`` and grow there."""

    folder: Path
    level: int
    _sizes: dict[str, int] = field(default_factory=dict, init=False)
    _looks: int = field(default=0, init=False)

    @property
    def size(self) -> int:
        """Bytes of all logs at the last look."""
        return sum(self._sizes.values())

    def look(self) -> tuple[Part, ...]:
        """What was appended since the last look, of at most eight files; () where nothing was, or they are gone."""
        grown: list[tuple[str, int, int]] = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if not entry.name.startswith(f"level{self.level}-"):
                        continue
                    before, now = self._sizes.get(entry.name, 0), entry.stat(follow_symlinks=False).st_size
                    self._sizes[entry.name] = now
                    if now > before:
                        grown.append((entry.name, before, now))
        except OSError:
            return ()  # not there yet, or removed: the run has ended
        grown.sort()
        chosen = _take_turns(grown, self._looks)
        self._looks += 1
        parts = [self._read(name, before, now, share=_BUDGET // len(chosen)) for name, before, now in chosen]
        return tuple(part for part in parts if part.lines)

    def _read(self, name: str, before: int, now: int, *, share: int) -> Part:
        """Lines of a log between two sizes, of about ``share`` bytes."""
        try:
            fd = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return Part(grown=now - before, lines=())
        try:
            return Part(grown=now - before, lines=tuple(_read_lines(fd, before, now, share=share)))
        except OSError:
            return Part(grown=now - before, lines=())
        finally:
            os.close(fd)


def _take_turns(grown: Sequence[tuple[str, int, int]], look: int) -> Sequence[tuple[str, int, int]]:
    """At most eight of the files, others at the next look."""
    if len(grown) <= _MOST_FILES:
        return grown
    start = look * _MOST_FILES % len(grown)
    return [*grown[start:], *grown[:start]][:_MOST_FILES]


def _read_lines(fd: int, start: int, end: int, *, share: int) -> Iterable[bytes]:
    """Whole lines in [start, end) of a file: all of them where there are few, else those of evenly spaced places."""
    if end - start <= share:
        yield from _whole_lines(fd, start, end - start)
        return
    places = max(2, share // _CHUNK)
    size = min(_CHUNK, share // places)
    step = (end - start - size) / (places - 1)
    for place in range(places):
        yield from _whole_lines(fd, start + round(place * step), size)


def _whole_lines(fd: int, start: int, size: int) -> list[bytes]:
    """Lines that begin and end there: a look does not begin or end with a line."""
    if start == 0:
        return os.pread(fd, size, 0).split(b"\n")[:-1]
    # With the byte before, which tells whether a line begins here.
    return os.pread(fd, size + 1, start - 1).split(b"\n")[1:-1]


def bytes_per_line(parts: Iterable[Part]) -> float | None:
    """Mean length of the lines, with their line ends; None without any."""
    lengths = [len(line) + 1 for part in parts for line in part.lines]
    return sum(lengths) / len(lengths) if lengths else None


@dataclass(slots=True, kw_only=True)
class LatencyWindow:
    """Latencies since the last figure that was taken. ``limit`` (s) leaves out what is as long or longer."""

    limit: float | None = None
    _found: list[tuple[int, float]] = field(default_factory=list, init=False)  # µs, and for how many it stands

    def add(self, parts: Iterable[Part]) -> None:
        longest = math.inf if self.limit is None else self.limit * 1e6
        for part in parts:
            weight = part.weight
            for line in part.lines:
                fields = line.split(b" ", 3)
                # In place of a time stands a word where a transaction failed or was skipped.
                if len(fields) == 4 and fields[2].isdigit() and (latency := int(fields[2])) < longest:
                    self._found.append((latency, weight))

    def take(self) -> float | None:
        """95th percentile (s) of what was added since one was taken; None while that are fewer than 100 transactions.

        The smallest latency that is at least as long as those of 95 % of the transactions for which the sample stands.
        """
        if len(self._found) < _FEWEST:
            return None
        found, self._found = sorted(self._found), []
        shares = list(accumulate(weight for _, weight in found))
        return found[bisect_left(shares, 0.95 * shares[-1])][0] / 1e6
