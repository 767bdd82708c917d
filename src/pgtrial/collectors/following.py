"""Stateful parsers that read in order: sums over processes that come and go.

What a process has counted goes with it, so a sum over those that are there would fall when one ends. Here the sums keep
what was last read of it, and only grow.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pgtrial.collectors.base import Reading
from pgtrial.model.metric import Sample

SHORT_LIVED = "short-lived"  # of processes that came and went between two readings
_NANOSECOND = 1e-9
_TICK = 0.01  # s, USER_HZ, whatever the kernel's own HZ is (proc(5))


class Beginnings:
    """Samples of counters, with a zero at the reading before the first one of each that came later.

    What was not there had counted nothing yet: without that, what it did before its first reading would be lost.
    """

    def __init__(self) -> None:
        self._begun: set[tuple[str, str]] = set()
        self._before: float | None = None

    def samples(self, t: float, readings: Iterable[Reading]) -> Iterator[Sample]:
        for metric, about, value in readings:
            if (metric, about) not in self._begun:
                self._begun.add((metric, about))
                if self._before is not None:
                    yield Sample(self._before, metric, about, 0.0)
            yield Sample(t, metric, about, value)
        self._before = t


class _Process(NamedTuple):
    kind: str
    run: float  # s on a CPU
    queue: float  # s without one that it wanted


class CpuSums:
    """CPU time of processes by kind, out of the texts of the sampler's ``Children``; a Follower.

    ``kind_of`` says of a title what is running, None if that cannot be seen yet. ``always`` are kinds that have a sum
    also while none of them runs. Where the text tells what ended processes have used in all, what was not seen of it,
    between the last reading of each and its end, goes to the kinds of those that have just ended, or to SHORT_LIVED.
    """

    def __init__(self, source: str, kind_of: Callable[[str], str | None], *, always: Iterable[str] = ()) -> None:
        self._source = source
        self._kind_of = kind_of
        self._running: dict[int, _Process] = {}
        self._ended = {kind: _Process(kind, 0.0, 0.0) for kind in always}
        self._beginnings = Beginnings()
        self._told_at_first: float | None = None  # s that ended processes had used at the first reading
        self._told = 0.0  # s of processes that ended since then and had been seen
        self._unseen = 0.0  # s of processes that ended since then, beyond what had been seen of them
        self._just_ended: Counter[str] = Counter()

    def __call__(self, t: float, text: str) -> Iterator[Sample]:
        unit, *lines = text.splitlines()
        in_ticks = {"ns": False, "ticks": True}[unit]
        running: dict[int, _Process] = {}
        ended: float | None = None
        for line in lines:
            who, first, second, _times, *rest = line.split(maxsplit=4)
            if who == "ended":
                ended = (int(first) + int(second)) * _TICK
                continue
            kind = self._kind_of(rest[0] if rest else "")
            if kind is None:
                continue
            if in_ticks:
                running[int(who)] = _Process(kind, (int(first) + int(second)) * _TICK, 0.0)
            else:
                running[int(who)] = _Process(kind, int(first) * _NANOSECOND, int(second) * _NANOSECOND)
        gone = [one for pid, one in self._running.items() if pid not in running or running[pid].run < one.run]
        for one in gone:
            self._keep(one.kind, one.run, one.queue)
        self._running = running
        if ended is not None:
            self._share_unseen(ended, gone)
        yield from self._beginnings.samples(t, self._readings(with_queue=not in_ticks))

    def _keep(self, kind: str, run: float, queue: float) -> None:
        _, run_before, queue_before = self._ended.get(kind, (kind, 0.0, 0.0))
        self._ended[kind] = _Process(kind, run_before + run, queue_before + queue)

    def _share_unseen(self, ended: float, gone: Iterable[_Process]) -> None:
        if self._told_at_first is None:
            self._told_at_first = ended
        kinds = Counter(one.kind for one in gone)
        self._told += sum(one.run for one in gone)
        # The kernel tells of ended processes before it lists those that run: of one that ended in between, a reading
        # later. Until then the difference is too small; it never is too large.
        unseen = ended - self._told_at_first - self._told
        if unseen > self._unseen:
            shares = kinds or self._just_ended or Counter([SHORT_LIVED])
            for kind, count in shares.items():
                self._keep(kind, (unseen - self._unseen) * count / shares.total(), 0.0)
            self._unseen = unseen
        self._just_ended = kinds

    def _readings(self, *, with_queue: bool) -> Iterator[Reading]:
        run = {kind: one.run for kind, one in self._ended.items()}
        queue = {kind: one.queue for kind, one in self._ended.items()}
        for one in self._running.values():
            run[one.kind] = run.get(one.kind, 0.0) + one.run
            queue[one.kind] = queue.get(one.kind, 0.0) + one.queue
        for kind, seconds in run.items():
            yield Reading(f"{self._source}.run", kind, seconds)
        if with_queue:
            for kind, seconds in queue.items():
                yield Reading(f"{self._source}.queue", kind, seconds)
