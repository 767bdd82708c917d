"""Read what a program that generates the load has told of its requests, and put it together by the second."""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pgtrial.errors import WorkloadError
from pgtrial.model.histogram import bucket_of
from pgtrial.model.run import Slice
from pgtrial.stats.arrivals import find_pause
from pgtrial.store.command_line import LONGEST_INTERVAL, LineError, Told, parse_line, shown_line
from pgtrial.store.fio_log import SecondRow

_LEAST_SHARE = 0.95  # of a rate, below which the generator has fallen behind
_UNMEASURED = 3600.0  # s at most of warm-up and end, in which requests are due as well
_MOST_SHARE = 1.05  # of a rate, above which the generator keeps none
_MOST_BUSY = 100.0  # times that all clients have: another unit, and no program that has some requests under way
_MOST_BUSY_OF_INTERVALS = 1.5  # what is counted twice, or since the beginning, is more than requests under way
_MOST_TOGETHER = (1.05, 0.5)  # times of all, and s, that intervals are which do not overlap: their times are rounded
_SAME = 0.1  # of an interval, by which two lines of the same may differ
_CHANCE = 4.0  # standard deviations of a count of arrivals at random, or in batches
MOST_LINES = 50_000_000  # of one load level


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLog:
    """The output of one program at one load level; ``files`` has its only file.

    ``window`` is the measured time, first second included, last excluded, in seconds since the epoch; ``rate`` the
    requests per second that were asked for, None in a closed loop. ``longest`` is the longest interval of a line: one
    that is longer than the window tells of all of it at once. With ``slices`` (in order of time) only their counted
    parts are measured time, and each line is of one request, whose latency has the time between slices in it where the
    program ``counts_standstill``. ``clients`` are as many as work at a time, None where the file does not say that; of
    turns nothing is concluded from them.
    """

    level: int
    scenario: str
    files: tuple[Path, ...]
    window: tuple[float, float]
    rate: float | None
    longest: float = LONGEST_INTERVAL
    slices: tuple[Slice, ...] = ()
    counts_standstill: bool = False
    clients: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRead:
    """All ``requests`` of an output, also those that failed; the rows of the window, and its first and last line."""

    requests: int
    rows: tuple[SecondRow, ...]
    first: float | None
    last: float | None


@dataclass(slots=True)
class _Second:
    buckets: dict[int, int] = field(default_factory=dict)
    latency_sum: float = 0.0
    counted: int = 0  # without a latency of their own
    has_latencies: bool = True  # of all of them, or at least their mean
    failed: int = 0
    lag_sum: float | None = None
    retried: int = 0
    retries: int = 0

    def add(self, latency: float, count: int) -> None:
        bucket = bucket_of(latency * 1e6)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.latency_sum += latency * count

    def row(self, second: int) -> SecondRow:
        buckets = tuple(sorted(self.buckets))
        return SecondRow(
            second=second,
            count=self.counted + sum(self.buckets.values()),
            latency_sum=self.latency_sum if self.has_latencies else None,
            buckets=buckets,
            bucket_counts=tuple(self.buckets[bucket] for bucket in buckets),
            failed=self.failed,
            lag_sum=self.lag_sum,
            retried=self.retried,
            retries=self.retries,
        )


def read_command(log: CommandLog) -> CommandRead:
    """Read an output. Raises WorkloadError where it does not reach to the end of the measured time, where the requests
    did not come at the rate that was asked for, or paused meanwhile, or where a line is none.
    """
    seconds: dict[int, _Second] = {}
    requests, until = 0, -math.inf
    schedule = None if log.rate is None else _Schedule(most=_most_due(log))
    inside: list[float] = []
    carried = 0  # requests of the window that were due before it
    busy = busy_in_intervals = 0.0  # s of the window in which clients waited for an answer; those told by intervals
    intervals = _Intervals()
    kinds: set[tuple[bool, bool]] = set()
    for told in _lines(log):
        kinds |= {(told.counted > 0, told.mean is not None)} if told.done else set()
        requests += told.done + told.failed
        until = max(until, told.t)
        if told.seconds:
            intervals.add(told)
        if schedule is not None:
            schedule.add(told)
        if log.window[0] <= told.t < log.window[1] and (told.done or told.failed):
            inside.append(told.t)
            # Those of an interval may have ended at its beginning.
            carried += _count_longer(told, max(0.0, told.t - told.seconds - log.window[0]))
            waited = _time_within(told, told.t - log.window[0])
            busy += waited
            busy_in_intervals += waited if told.seconds or told.counted else 0.0
        if told.seconds > LONGEST_INTERVAL:
            _check_whole(told, log)
            inside += log.window
        for second, share in _spread(told, log.window):
            own = seconds.setdefault(second, _Second())
            done = 0
            for latency, count in told.latencies:
                part = share(count)
                if part:
                    own.add(latency, part)
                    done += part
            if counted := share(told.counted):
                own.counted += counted
                own.latency_sum += counted * (told.mean or 0.0)
                own.has_latencies &= told.mean is not None
                done += counted
            own.failed += share(told.failed)
            own.retried += told.retries > 0
            own.retries += told.retries
            if told.lag is not None and done:
                own.lag_sum = (own.lag_sum or 0.0) + told.lag * done
    _check_end(log, until)
    if len(kinds) > 1:
        raise WorkloadError("the command tells the latencies of some requests, and not those of others")
    intervals.check()
    rows = tuple(each.row(second) for second, each in sorted(seconds.items()))
    _check_rate(log, rows, carried)
    if schedule is not None:
        _check_schedule(log, schedule, until)
    _check_busy(log, busy, busy_in_intervals)
    return CommandRead(requests=requests, rows=rows, first=min(inside, default=None), last=max(inside, default=None))


class Request(NamedTuple):
    """One that has ended; its latency is in µs, None where it failed."""

    ended: int  # µs since the epoch
    latency: int | None
    retries: int


def read_requests(log: CommandLog) -> Iterator[Request]:
    """Each request of an output of turns. Raises WorkloadError where the output does not reach to the end of the
    measured time, and where a line is none, or is of many requests.
    """
    until = -math.inf
    for told in _lines(log):
        until = max(until, told.t)
        if (told.done or told.failed) and (told.seconds or told.counted):
            raise WorkloadError("the command tells of many requests at once, and not in whose turn each of them ended")
        for latency, count in told.latencies:
            for _ in range(count):
                yield Request(round(told.t * 1e6), round(latency * 1e6), told.retries)
        for _ in range(told.failed):
            yield Request(round(told.t * 1e6), None, 0)
    _check_end(log, until)


def _check_end(log: CommandLog, until: float) -> None:
    if until < log.window[1]:
        raise WorkloadError(
            f"the output of the command ends {log.window[1] - until:.1f} s before the end of the measured time"
            if until > 0  # where nothing but its beginning was told
            else "the command told of no request",
            detail="What it has not written out by then is lost.",
        )


def _check_whole(told: Told, log: CommandLog) -> None:
    """What is told at the end is of all the time alike, so it has to be of all the measured time."""
    late = told.t - told.seconds - log.window[0]
    if late > 0:
        raise WorkloadError(
            f"what the command told at its end begins {late:.1f} s after the measured time has begun",
            detail="Nobody knows how much of it was in the measured time.",
        )


def _count_longer(told: Told, seconds: float) -> int:
    """How many of its requests took so long, or longer."""
    counted = told.counted if told.mean is not None and told.mean >= seconds else 0
    return counted + sum(count for latency, count in told.latencies if latency >= seconds)


def _time_within(told: Told, seconds: float) -> float:
    """How long its requests took in all, each no longer than that; 0 of such as waited before they were sent."""
    if told.lag is not None:
        return 0.0
    of_counted = told.counted * min(told.mean or 0.0, seconds)
    return of_counted + sum(min(latency, seconds) * count for latency, count in told.latencies)


def _check_busy(log: CommandLog, busy: float, busy_in_intervals: float) -> None:
    """A client waits for one answer at a time."""
    if log.rate is not None or log.clients is None:
        return
    seconds = log.window[1] - log.window[0]
    there = log.clients * seconds
    is_of_intervals = busy_in_intervals > _MOST_BUSY_OF_INTERVALS * there
    if is_of_intervals or busy > _MOST_BUSY * there:
        once = "A line of an interval tells of what ended in it, and has no running totals. " if is_of_intervals else ""
        raise WorkloadError(
            f"the latencies that the command told cannot be: they are {busy:,.0f} s together, and its clients have "
            f"no more than {log.clients} × {seconds:g} s",
            hint=f"{once}A latency is in seconds, and of one request. If more than clients of [workload] work at a "
            "time, say how many.",
        )


@dataclass(slots=True)
class _Intervals:
    """How many seconds intervals have ``together``, and from when to when they are. Lines of the same interval may be
    of several kinds of requests.
    """

    together: float = 0.0
    begun: float = math.inf
    ended: float = -math.inf
    _last: tuple[float, float] = (0.0, 0.0)

    def add(self, told: Told) -> None:
        begin, end = told.t - told.seconds, told.t
        last, near = self._last, _SAME * told.seconds
        if abs(begin - last[0]) > near or abs(end - last[1]) > near:
            self.together += told.seconds
            self._last = (begin, end)
        self.begun, self.ended = min(self.begun, begin), max(self.ended, end)

    def check(self) -> None:
        times, more = _MOST_TOGETHER
        if self.together and self.together > times * (self.ended - self.begun) + more:
            raise WorkloadError(
                "the intervals that the command told of overlap: they are "
                f"{self.together:.1f} s together, of {self.ended - self.begun:.1f} s",
                detail="What ended in several of them would count several times.",
                hint="Let one line tell of all that ended since the one before it, for all clients; or a line of each "
                "request.",
            )


def _check_rate(log: CommandLog, rows: Sequence[SecondRow], carried: int) -> None:
    """``carried`` of those that arrived were due before: a server that stood still gets round to them at once. Those
    that failed may be another try of one that was due.
    """
    if log.rate is None:
        return
    seconds = log.window[1] - log.window[0]
    wanted = log.rate * seconds
    ended = sum(row.count for row in rows)
    arrived = ended + sum(row.failed for row in rows)
    chance = _CHANCE * math.sqrt(wanted)
    if arrived < _LEAST_SHARE * wanted - chance:
        raise WorkloadError(
            f"the command fell behind its rate: {arrived / seconds:.4g} requests per second of {log.rate:g}",
            detail="Latencies of those that it did not send are not known.",
        )
    if ended - carried > _MOST_SHARE * wanted + chance * math.sqrt(_clustering([row.count for row in rows], seconds)):
        raise WorkloadError(
            f"the command did not keep its rate: {ended / seconds:.4g} requests per second, of {log.rate:g}",
            detail="Where its requests do not come when they are due, their latencies are no open loop's.",
            hint="Let it send PGTRIAL_RATE requests per second, or leave rate out of [workload].",
        )


@dataclass(slots=True)
class _Schedule:
    """When requests were due, in seconds since the epoch; of those of an interval it is not known."""

    most: int  # beyond which it is no schedule of the rate, and a line could fill the memory
    due: "array[float]" = field(default_factory=lambda: array("d"))
    longest: float = 0.0  # s, of a latency
    failed: int = 0  # and due at a time that is not told
    is_known: bool = True

    def add(self, told: Told) -> None:
        self.failed += told.failed
        if told.done and (told.seconds or told.counted):
            self.is_known = False
        if self.is_known and len(self.due) + told.done > self.most:
            raise WorkloadError("the command told of more than twice as many requests as its rate asks for")
        for latency, count in told.latencies if self.is_known else ():
            self.due.extend([told.t - latency] * count)
            self.longest = max(self.longest, latency)


def _most_due(log: CommandLog) -> int:
    """Twice what the rate asks for in all the time that is told of, and some."""
    return round(2 * (log.rate or 0.0) * (log.window[1] - log.window[0] + _UNMEASURED)) + 10_000


def _check_schedule(log: CommandLog, schedule: _Schedule, until: float) -> None:
    """What was due as long before the end as the longest request took has been told. At a rate there is no time in
    which nothing is due, unless that is taken for when a request was sent.
    """
    if log.rate is None or not schedule.is_known:
        return
    told = min(log.window[1], until - schedule.longest)
    due = np.asarray(schedule.due)
    due = due[(due >= log.window[0]) & (due < told)]
    pause = find_pause(due, begun=log.window[0], rate=log.rate, clients=log.clients or 1, unseen=schedule.failed)
    if pause is not None:
        length = pause.ended - pause.begun
        raise WorkloadError(
            f"the command paused: {pause.arrivals} of its requests were due in {length:.3g} s, and "
            f"{log.rate * length:.0f} by its rate",
            detail="Either it sent late what was due meanwhile, and times a request from when it sent it, which leaves "
            "the wait behind a slow one out of its latencies (coordinated omission); or it is meant to pause.",
            hint='Let a latency begin when its request was due, and "lag" say how much later that was sent. If it is '
            "meant to pause, leave rate out of [workload].",
        )


def _clustering(counts: Sequence[int], seconds: float) -> float:
    """The variance of counts per second by their mean, which is 1 of arrivals at random and more of batches; at least
    1. Seconds without any are not among the ``counts``.
    """
    whole = max(len(counts), round(seconds))
    mean = sum(counts) / whole
    if whole < 2 or not mean:
        return 1.0
    squares = sum((count - mean) ** 2 for count in counts) + (whole - len(counts)) * mean**2
    return max(1.0, squares / (whole - 1) / mean)


class _Share:
    """The part of a count of an interval that lies in a second of it.

    Cumulated shares are rounded, not the shares: so the parts add up to the count.
    """

    __slots__ = ("after", "before")

    def __init__(self, before: float, after: float) -> None:
        self.before, self.after = before, after

    def __call__(self, count: int) -> int:
        return round(count * self.after) - round(count * self.before)


_WHOLE = _Share(0.0, 1.0)


def _spread(told: Told, window: tuple[float, float]) -> Iterator[tuple[int, _Share]]:
    """The seconds of the window in which a line has requests, and which share of them."""
    start, stop = window
    begin, end = told.t - told.seconds, told.t
    if not told.done and not told.failed:
        return
    if told.seconds == 0:
        if start <= end < stop:
            yield int(end - start), _WHOLE
        return
    second = max(0, int(begin - start))
    while (low := max(begin, start + second)) < (high := min(end, start + second + 1, stop)):
        yield second, _Share((low - begin) / told.seconds, (high - begin) / told.seconds)
        second += 1


def _lines(log: CommandLog) -> Iterator[Told]:
    (path,) = log.files
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number > MOST_LINES:
                raise WorkloadError(f"the command told more than {MOST_LINES:,} lines")
            try:
                text = line.decode("utf-8", "replace")
                yield parse_line(text, needs_lag=log.rate is not None, longest=log.longest)
            except LineError as err:
                raise explain_line(line.decode("utf-8", "replace"), err) from err


def explain_line(line: str, reason: LineError) -> WorkloadError:
    """The error that shows a line, as far as it goes, and says what is wrong with it."""
    return WorkloadError(f"a line of the command's output tells of no request: {reason}", detail=shown_line(line))
