"""Follow the raw files of the current runs while they grow: latencies, waits, and the throughput of slices.

A log of pgbench grows by up to a few megabytes a second, and to read all of it would take from the load what it needs.
So sizes are asked of the file system, and of what was appended since the last look a few kilobytes are read at evenly
spaced places. The format is described in store/pgbench_log.py.
"""

import json
import math
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from pgtrial.collectors import sessions
from pgtrial.design.duration import guard_time
from pgtrial.design.methods import MethodChoice
from pgtrial.engine.events import (
    Event,
    LatencySampled,
    PhaseStarted,
    RunEnded,
    RunStarted,
    TurnsProgress,
    WaitsSampled,
)
from pgtrial.engine.folder import LOGS, SPOOL
from pgtrial.engine.sampler import spool
from pgtrial.model.load_sessions import LOAD
from pgtrial.model.run import LoadLevel, PhaseName, RunRow, RunState, Slot
from pgtrial.safe_files import open_single
from pgtrial.store import layout

_BUDGET = 8 << 10  # bytes read per look
_MOST_FILES = 8  # of those that grew; the others have their turn at the next look
_CHUNK = 1 << 10  # bytes read at a place
_FEWEST = 100  # transactions to tell a 95th percentile of

_SPOOL_BYTES = 1 << 20  # bytes read per look; the sampler writes some tens of kilobytes a second
_SESSIONS_MARK = f',"{sessions.NAME}",'.encode()
CPU = "CPU"
Waits = tuple[tuple[str, float], ...]
_LEAST = 5.0  # s of a load level before a throughput of turns is told
_ROUNDS = 4  # and turns of every arm


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
        """Lines appended since the last look, of at most eight files; () if there are none or the files are gone."""
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
            with open_single(self.folder / name) as file:
                return Part(grown=now - before, lines=tuple(_read_lines(file.fileno(), before, now, share=share)))
        except OSError:
            return Part(grown=now - before, lines=())


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
    """Latencies since the last ``take``. ``limit`` (s) excludes latencies as long or longer."""

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
        """95th percentile (s) of the latencies since the last ``take``; None below 100 transactions.

        The smallest latency that is at least as long as those of 95 % of the transactions for which the sample stands.
        """
        if len(self._found) < _FEWEST:
            return None
        found, self._found = sorted(self._found), []
        shares = list(accumulate(weight for _, weight in found))
        return found[bisect_left(shares, 0.95 * shares[-1])][0] / 1e6


@dataclass(slots=True, kw_only=True)
class SpoolReader:
    """The sampler's file in ``folder``, which appears there and grows, in pieces of whole lines for the most part."""

    folder: Path
    _offset: int = field(default=0, init=False)

    def look(self) -> Waits:
        """Average number of active sessions by what they waited for since the last look, most first; () if nothing."""
        polls = 0
        totals: dict[str, int] = {}
        for payload in self._payloads():
            polls += int(payload["polls"])
            for group in sessions.COLLECTOR.parse(payload["columns"], payload["rows"]):
                if group.state == "active" and group.application.startswith(LOAD):
                    label = f"{group.wait_type}:{group.wait_event}" if group.wait_type else CPU
                    totals[label] = totals.get(label, 0) + group.sessions
        if not polls:
            return ()
        ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
        return tuple((label, count / polls) for label, count in ranked)

    def _payloads(self) -> Iterator[dict[str, Any]]:
        """Records of sessions in the whole lines since the last look; only the end if there are very many."""
        try:
            with (self.folder / spool.FILE).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = max(self._offset, size - _SPOOL_BYTES)
                file.seek(start)
                data = file.read(size - start)
        except OSError:
            return  # not there yet, or removed: the run has ended
        whole = data.rfind(b"\n") + 1
        is_line = start == self._offset  # else it is in the middle of one
        self._offset = start + whole
        for line in data[:whole].splitlines()[0 if is_line else 1 :]:
            # The source stands near the begin of a line.
            if _SESSIONS_MARK in line[:60]:
                yield json.loads(line)[2]


@dataclass(slots=True, kw_only=True)
class _Watched:
    """The run of an arm at work. ``base`` is (time, bytes of logs) from which its throughput is counted."""

    folder: Path
    spool: SpoolReader
    log: LogSampler | None = None
    latencies: LatencyWindow = field(default_factory=LatencyWindow)
    base: tuple[float, int] | None = None
    line: float | None = None  # bytes of one in the log, as last seen


@dataclass(slots=True, kw_only=True)
class Follower:
    """Follows the runs of an experiment: ``see`` every event of it, and ``look`` now and then; times in seconds.

    Where arms take turns, their servers stand still in between. A transaction that was under way then seems to have
    taken as long as that; such latencies are left out. Throughput is that of the arm's own time, of which every arm
    has the same part.
    """

    folder: Path
    choice: MethodChoice
    _runs: dict[str, _Watched] = field(default_factory=dict, init=False)
    _block: int = field(default=1, init=False)
    _begin: float = field(default=0.0, init=False)  # of the load level, after the time in which sessions connect

    def see(self, event: Event, now: float) -> None:
        match event:
            case RunStarted():
                self._block = event.slot.block
                self._runs = {arm: self._watch(event, place) for place, arm in enumerate(event.arms)}
            case PhaseStarted(name=PhaseName.MEASURE, level=LoadLevel() as level):
                self._begin = now + guard_time(level)
                for run in self._runs.values():
                    run.log = LogSampler(folder=run.folder / LOGS, level=level.index)
                    run.latencies = LatencyWindow(limit=self._shortest_freeze())
                    run.base = None
            case PhaseStarted():
                for run in self._runs.values():
                    run.log = None
            case RunEnded():
                self._runs = {}

    def look(self, now: float) -> list[Event]:
        """Events since the last look. KeyError, ValueError where the sampler's file is malformed."""
        found: list[Event] = []
        for arm, run in self._runs.items():
            if run.log is not None:
                parts = run.log.look()
                run.latencies.add(parts)
                tps, p95 = self._throughput(run, run.log, parts, now), run.latencies.take()
                found += [TurnsProgress(arm=arm, tps=tps)] if tps is not None else []
                found += [LatencySampled(arm=arm, p95=p95)] if p95 is not None else []
            waits = run.spool.look()
            found += [WaitsSampled(arm=arm, waits=waits)] if waits else []
        return found

    def _watch(self, event: RunStarted, place: int) -> _Watched:
        """The run of an arm; the slots of runs that share their time follow each other."""
        first = event.slot
        slot = Slot(number=first.number + place, block=first.block, position=place + 1, arm=event.arms[place])
        run = RunRow(
            id=0, slot=slot, attempt=event.attempt, state=RunState.RUNNING, started=None, ended=None, reason=""
        )
        folder = layout.run_folder(self.folder, run.folder)
        return _Watched(folder=folder, spool=SpoolReader(folder=folder / SPOOL))

    def _shortest_freeze(self) -> float | None:
        """Seconds; None where no server stands still."""
        return self.choice.slice_in(self._block) if self.choice.method == "interleaved" else None

    def _throughput(self, run: _Watched, log: LogSampler, parts: tuple[Part, ...], now: float) -> float | None:
        """Transactions per second of the arm's own time since the level began; None where the load itself tells it."""
        run.line = bytes_per_line(parts) or run.line
        if len(self._runs) < 2 or now < self._begin:
            return None
        if run.base is None:
            run.base = (now, log.size)
            return None
        began, size = run.base
        turns = len(self._runs) if self.choice.method == "interleaved" else 1
        least = max(_LEAST, _ROUNDS * turns * self.choice.slice_in(self._block))
        if run.line is None or now - began < least:
            return None
        return (log.size - size) / run.line / ((now - began) / turns)
