"""Whether a program that is stopped (SIGSTOP) counts that time as latency: judged by what it tells around its stops.

Arms that take turns stand still while another has its turn. What a program then tells of its requests is of the arm
alone only if the time in which it stood still is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.store.command_line import Told
from pgtrial.units import format_duration

STOPS = 3  # of a check
LENGTH = 1.0  # s of a stop
BETWEEN = 1.5  # s at work before, between and after the stops
_COUNTED = 0.5  # of a stop: a request that takes as long as that has it in its latency
_MARGIN = 0.1  # s: to stop a program, and to have it go on, takes time
_CHANCE = 0.01  # that nothing was in flight at any of the stops, above which the check has seen nothing


class Standstill(StrEnum):
    COUNTED = "counted"
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
    times = f"stopped {len(stops)} times for {format_duration(length)}"
    if longest >= _COUNTED * length:
        text = f"{times}, it tells of a request that took {format_duration(longest)}"
        return StandstillFinding(found=Standstill.COUNTED, longest=longest, usual=usual, text=text)
    # Clients that mostly wait between requests may have had none in flight.
    busy = min(1.0, sum(before) / (clients * (stops[0][0] - ready))) if stops[0][0] > ready else 0.0
    if (1.0 - busy) ** (clients * len(stops)) > _CHANCE:
        return unknown("its clients had too few requests in flight when it was stopped")
    text = f"{times}, it tells of no request that took longer than {format_duration(longest)}"
    return StandstillFinding(found=Standstill.NOT_COUNTED, longest=longest, usual=usual, text=text)
