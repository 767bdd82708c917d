"""The last hour of a watched server, minute by minute, for who looks at it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgtrial.watch.layout import HOUR, MINUTE, retry_once
from pgtrial.watch.series import (
    ACTIVE_NAME,
    COMMITS,
    COMMITS_NAME,
    RATES,
    TIME_NAME,
    Array,
    active_sessions,
    empty,
    rate_of,
    read_polls,
    read_rates,
    read_waits,
)
from pgtrial.watch.statements import Statement, list_statements
from pgtrial.watch.windows import Window, window_sums

_LATELY = 10  # minutes
_OF_MACHINE = ("CPU of the server", "waiting for a CPU, of the server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A value for each minute of the window, None where it is not known."""

    name: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """``read_until``: end of the last minute in which the server was read, None for none in the window. ``waits`` are
    average sessions by "type/event" in the ten minutes before that, ``statements`` those of the window.
    """

    window: Window
    read_until: int | None
    courses: tuple[Course, ...]
    waits: tuple[tuple[str, float], ...]
    statements: tuple[Statement, ...]


def last_hour(now: float) -> Window:
    """The sixty whole minutes before a moment, seconds since the epoch."""
    end = int(now // MINUTE) * MINUTE
    return Window(end - HOUR, end)


@retry_once
def read_latest(root: Path, now: float) -> Latest:
    """The last hour before ``now``, seconds since the epoch. Raises StoreError where the folder has nothing of it."""
    window = last_hour(now)
    with window_sums(root, window) as sums:
        polls, rates = read_polls(sums), read_rates(sums)
        waits = read_waits(sums, polls)
        commits, active = rates.get(COMMITS, empty(sums.steps)), active_sessions(waits, polls)
        statements = list_statements(sums, polls)
    read = np.flatnonzero(polls > 0)
    last = None if not read.size else int(read[-1])
    courses = [
        _course(COMMITS_NAME, "1/s", commits),
        # Little's law, as where two times are compared.
        _course(TIME_NAME, "s", np.divide(active, commits, out=empty(active.size), where=commits > 0)),
        _course(ACTIVE_NAME, "sessions", active),
        *(
            _course(name, unit, rate_of(rates, metrics, active.size))
            for name, unit, metrics in RATES
            if name in _OF_MACHINE
        ),
    ]
    lately = slice(0, 0) if last is None else slice(max(0, last + 1 - _LATELY), last + 1)
    known = max(1, int((polls[lately] > 0).sum()))
    means = {event: float(np.nansum(series[lately])) / known for event, series in waits.items()}
    return Latest(
        window=window,
        read_until=None if last is None else window.start + (last + 1) * MINUTE,
        courses=tuple(course for course in courses if any(value is not None for value in course.values)),
        waits=tuple(sorted(((event, mean) for event, mean in means.items() if mean > 0), key=lambda each: -each[1])),
        statements=statements,
    )


def _course(name: str, unit: str, values: Array) -> Course:
    return Course(name=name, unit=unit, values=tuple(None if np.isnan(each) else float(each) for each in values))
