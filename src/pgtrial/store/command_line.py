"""What a program that generates the load tells of its requests: one JSON object a line.

docs/command.md says to whoever writes such a program what the lines are. A line is about one request that has ended, or
about all that ended in an interval; one with nothing but a time says that all until then has been told.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

LONGEST_INTERVAL = 2.0  # s of one line: its requests are spread evenly over it
LONGEST_WHOLE = 86400.0  # s of a line that tells of all at the end
LONGEST_LINE = 1 << 20  # bytes
_LONGEST_LATENCY = 86400.0  # s
_ROUNDED = 1e-3  # s by which what a program rounds may differ
_MOST_REQUESTS = 10**9  # of one line
_NO_LATENCIES = '"latencies" is neither a list of seconds nor an object of seconds and counts'
_TELL = {"latency", "latencies", "count", "failed"}  # keys that tell of requests, …
_TELL_NOTHING = {"t", "seconds", "lag", "ready", "cancelled", "differs"}  # … and those of lines without any of these
_SHOWN = 100  # characters of a line that is wrong


class Told(NamedTuple):
    """A line: what ended in the ``seconds`` before ``t`` (0: at ``t``), with its latencies in seconds and their counts.

    ``counted`` are those of which no latency is told, but their ``mean``, None where that is not told either. ``lag``
    is the mean time in seconds from when a request was due to when it was sent, None where nothing is said; ``retries``
    how often the one request of a line was tried again.
    """

    t: float
    seconds: float
    latencies: tuple[tuple[float, int], ...]
    failed: int
    lag: float | None
    retries: int
    counted: int = 0
    mean: float | None = None

    @property
    def done(self) -> int:
        """Requests that succeeded."""
        return self.counted + sum([count for _, count in self.latencies])


class LineError(Exception):
    """What is wrong with a line."""


READY = Told(t=0.0, seconds=0.0, latencies=(), failed=0, lag=None, retries=0)  # says only that the load has begun


def parse_line(line: str, *, needs_lag: bool = False, longest: float = LONGEST_INTERVAL) -> Told:
    """What a line tells. Raises LineError that says what is wrong with it.

    ``needs_lag``: requests arrive at a rate, so that it matters when they were due. ``longest`` is the longest
    interval of a line, in seconds.
    """
    try:
        found = from_json(line)  # of what a program tells, thousands may come in a second: six times as fast as json
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LineError("it is no JSON object")
    if not needs_lag and (told := _of_one(found)) is not None:
        return told
    if found.get("ready") is True and "t" not in found:
        return READY
    t, seconds = _number(found, "t"), _number(found, "seconds", otherwise=0.0)
    if not 0 <= seconds <= longest:
        raise LineError(f'"seconds" is not between 0 and {longest:g}')
    if "latency" in found and "latencies" in found:
        raise LineError('it has both "latency" and "latencies"')
    failed, retries = found.get("failed", 0), found.get("retries", 0)
    if not isinstance(failed, int) or not 0 <= failed <= _MOST_REQUESTS:  # true is 1
        raise LineError('"failed" is neither true nor a number of requests')
    if type(retries) is not int or not 0 <= retries <= _MOST_REQUESTS or (retries and "latency" not in found):
        raise LineError('"retries" is no number of tries of one request')
    latencies = _latencies(found)
    if isinstance(found.get("latencies"), dict) and len(latencies) < _count_pairs(line):
        raise LineError('"latencies" has a time twice: add up how many requests took it')
    counted, mean = _counted(found)
    if not _TELL & found.keys() and (unknown := sorted(found.keys() - _TELL_NOTHING)):
        raise LineError(f"it tells of no request, and {json.dumps(unknown[0][:_SHOWN])} is no key of a line")
    if failed is False and not (_TELL - {"failed"}) & found.keys():  # it would count as no request at all
        raise LineError('it says that a request did not fail, and has no "latency", nor a "count" of 1')
    lag = _number(found, "lag") if "lag" in found else None
    if lag is not None and not 0 <= lag <= _LONGEST_LATENCY:
        raise LineError('"lag" is no time in seconds')
    if lag is not None and "latency" in found and lag > latencies[0][0] + _ROUNDED:
        raise LineError('"lag" is longer than the latency, which begins when the request was due')
    if needs_lag and (latencies or counted) and lag is None:
        raise LineError('it has no "lag", the time from when a request was due to when it was sent')
    return Told(
        t=t,
        seconds=seconds,
        latencies=latencies,
        failed=int(failed),
        lag=lag,
        retries=retries,
        counted=counted,
        mean=mean,
    )


def _of_one(found: Mapping[str, Any]) -> Told | None:
    """The commonest line, of one request that succeeded, in a third of the time that all checks take; None of another
    one, also where something is wrong with it.
    """
    t, latency, retries = found.get("t"), found.get("latency"), found.get("retries", 0)
    if type(t) is not float or type(latency) is not float or type(retries) is not int:
        return None
    if len(found) != 2 + ("retries" in found):
        return None
    if not (abs(t) < math.inf and 0 <= latency <= _LONGEST_LATENCY and 0 <= retries <= _MOST_REQUESTS):
        return None
    return Told(t, 0.0, ((latency, 1),), 0, None, retries)


def _counted(found: Mapping[str, Any]) -> tuple[int, float | None]:
    """How many requests are only counted, and the mean of their latencies."""
    if "count" not in found:
        if "mean" in found:
            raise LineError('it has a "mean", and no "count" of what it is of')
        return 0, None
    count = found["count"]
    if "latency" in found or "latencies" in found:
        raise LineError('it has both "count" and latencies')
    if type(count) is not int or not 0 <= count <= _MOST_REQUESTS:
        raise LineError('"count" is no number of requests')
    return count, _latency(found["mean"]) if "mean" in found else None


def _latencies(found: Mapping[str, Any]) -> tuple[tuple[float, int], ...]:
    if "latency" in found:
        return ((_latency(found["latency"]), 1),)
    told = found.get("latencies", [])
    if isinstance(told, list):
        return tuple((_latency(each), 1) for each in told)
    if isinstance(told, dict):
        try:
            pairs = [(float(each), count) for each, count in told.items()]
        except ValueError:
            raise LineError(_NO_LATENCIES) from None
        if all(type(count) is int and 0 <= count <= _MOST_REQUESTS for _, count in pairs):
            return tuple((_latency(each), count) for each, count in pairs)
    raise LineError(_NO_LATENCIES)


def _count_pairs(line: str) -> int:
    """How many pairs the object "latencies" of a line has, of which a reader of JSON keeps one with each name."""
    pairs = json.loads(line, object_pairs_hook=lambda found: found)
    return max(len(value) for name, value in pairs if name == "latencies")


def _latency(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LONGEST_LATENCY:
        raise LineError("a latency is no time in seconds")
    return float(value)


def _number(found: Mapping[str, Any], name: str, *, otherwise: float | None = None) -> float:
    value = found.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise LineError(f'it has no "{name}"' if value is None else f'"{name}" is no number')
    return float(value)


def shown_line(line: str) -> str:
    """The beginning of a line, in printable characters."""
    return f"The line is {line.rstrip()[:_SHOWN]!a}."
