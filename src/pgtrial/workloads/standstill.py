"""Whether a program that is stopped (SIGSTOP) counts that time as latency: judged by what it tells around its stops.

Arms that take turns stand still while another has its turn. What a program then tells of its requests is of the arm
alone only if the time in which it stood still is not in it, or if all of it is: then it can be taken out.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.store.command_line import Told
from pgtrial.units import format_duration, format_share

LENGTH = 1.0  # s of a stop
FIRST = 1.5  # s at work before the first one, and after the last
_LONGEST = 60.0  # s of a stop of a check, however long a turn is
_STOPS = 6  # of a program that tells of every other request as if it had not stood still, clients in step are all of
# the one kind at 1 of 32 such checks
_WORK = (0.5, 1.5)  # s at work between stops, drawn: a stop is not to come at the same moment of a program's rhythm
_COUNTED = 0.5  # of a stop: a request that takes as long as that has it in its latency
_FEWER = 3.0  # standard deviations by which requests in flight may be fewer than clients had on average
_MARGIN = 0.1  # s: to stop a program, and to have it go on, takes time
_CLOCK = 0.005  # s by which times that a program tells may be rounded
# Of their time clients have to be at work. What waits by the clock, a pause or a rate, goes on waiting while they stand
# still, so that afterwards they catch up, or begin in step: less work than that is left undone changes little.
_BUSY = 0.8


class Standstill(StrEnum):
    """``COUNTED``: all of it, as by a clock on the wall; ``PARTLY``: of some requests, or a part of it."""

    COUNTED = "counted"
    PARTLY = "partly-counted"
    NOT_COUNTED = "not-counted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandstillFinding:
    """What a check came to; ``longest`` is the longest latency that was told after a stop, ``usual`` before the first
    one, in seconds; ``text`` says it in a clause.
    """

    found: Standstill
    longest: float | None
    usual: float | None
    text: str


def plan_stops(longest: float, rng: random.Random) -> tuple[tuple[float, float], ...]:
    """Of each stop of a check how long the program works before it, and how long it stands still, in seconds.

    The last one is as long as the ``longest`` that the program will have to stand.
    """
    lengths = [*[LENGTH] * (_STOPS - 1), max(LENGTH, min(longest, _LONGEST))]
    return tuple((FIRST if number == 0 else rng.uniform(*_WORK), length) for number, length in enumerate(lengths))


def judge_standstill(
    told: Sequence[Told], stops: Sequence[tuple[float, float]], *, clients: int, ready: float
) -> StandstillFinding:
    """Judge what a program with so many clients has told, which was stopped at these times (from, to), in order.

    It has worked since ``ready``. All times are in seconds since the epoch.
    """
    usual: float | None = None
    longest: float | None = None

    def unknown(why: str) -> StandstillFinding:
        return StandstillFinding(found=Standstill.UNKNOWN, longest=longest, usual=usual, text=why)

    if any(one.done and (one.seconds or one.counted) for one in told):
        return unknown("it tells of many requests at once, and not when each of them ended")
    if any(one.failed for one in told):
        return unknown("requests failed while it was stopped, or after it")
    requests = [(one.t, latency) for one in told for latency, _ in one.latencies]
    before = [latency for t, latency in requests if t < stops[0][0]]
    usual = max(before, default=None)
    if usual is None:
        return unknown("it told of no request before it was stopped")
    length = min(end - start for start, end in stops)
    if usual >= _COUNTED * length:
        return unknown(f"its requests take up to {format_duration(usual)} anyway")
    if any(start + _MARGIN < t < end - _MARGIN for t, _ in requests for start, end in stops):
        return unknown("it told of requests that ended while it stood still, so its times are not those of the clock")
    nexts = [start for start, _ in stops[1:]] + [float("inf")]
    after = [
        [latency for t, latency in requests if end <= t < until] for (_, end), until in zip(stops, nexts, strict=True)
    ]
    if not all(after):
        return unknown("it told of no request after it had been stopped")
    longest = max(max(latencies) for latencies in after)
    most = max(end - start for start, end in stops)
    times = f"stopped {len(stops)} times for {format_duration(length)}"
    if most >= 2 * length:
        times += f" to {format_duration(most)}"
    busy = min(1.0, sum(before) / (clients * (stops[0][0] - ready))) if stops[0][0] > ready else 0.0
    if busy < _BUSY:
        share = format_share(busy)
        return unknown(f"its clients are at work for {share} of the time, and what they wait for goes on meanwhile")
    if longest >= _COUNTED * length:
        text = f"{times}, it tells of a request that took {format_duration(longest)}"
        without = max(latency - _still(t, latency, stops) for t, latency in requests if t >= stops[0][1])
        whole = [sum(_has_whole(t, latency, stop) for t, latency in requests) for stop in stops]
        found = Standstill.PARTLY
        if any(_has_part(t, latency, stop) for t, latency in requests for stop in stops):
            text += ", and of some that have a part of a stop in their times"
        elif without >= _COUNTED * length:
            text += f", which is {format_duration(without)} without the stop"
        elif not all(whole) or sum(whole) < _fewest(busy, clients * len(stops)):
            text += f", but only of {sum(whole)} that have a whole stop in their times"
        else:
            found = Standstill.COUNTED
            text += f", and of none that took longer than {format_duration(without)} without the stops"
        return StandstillFinding(found=found, longest=longest, usual=usual, text=text)
    text = f"{times}, it tells of no request that took longer than {format_duration(longest)}"
    return StandstillFinding(found=Standstill.NOT_COUNTED, longest=longest, usual=usual, text=text)


def _fewest(busy: float, chances: int) -> float:
    """The fewest requests in flight that as many clients and stops have, which are busy for this share of the time."""
    return busy * chances - _FEWER * math.sqrt(chances * busy * (1.0 - busy)) - 0.5


def _still(t: float, latency: float, stops: Sequence[tuple[float, float]]) -> float:
    """Seconds of a request that ended at ``t`` in which its program was stopped, by times of the clock."""
    return sum(max(0.0, min(t, end) - max(t - latency, start)) for start, end in stops)


def _has_whole(t: float, latency: float, stop: tuple[float, float]) -> bool:
    return t - latency <= stop[0] + _MARGIN and t >= stop[1] - _MARGIN


def _has_part(t: float, latency: float, stop: tuple[float, float]) -> bool:
    """Whether a request would have begun while its program was stopped, the end of which is noted before it goes on."""
    return stop[0] + _MARGIN < t - latency < stop[1] - _CLOCK
