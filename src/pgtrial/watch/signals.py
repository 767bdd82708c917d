"""What alarms of a watched server may be about: the minutes of its folder as the signals of a detector.

Commits, active sessions, time at work per commit and CPU are those of ``watch.compare``; errors, devices, memory and
work per commit are those of ``watch.quotients``. Each of the usual statements has its time per call. Waits by type,
those of each type by event, and the share of each statement in the time of all, are mixes. A minute in which no session
was seen waiting for something may have missed it, so half a poll of a usual minute is added to each (Martin-Fernandez
et al., Stat. Model. 15 (2015) 134-158, for zeros of counts); to the time of statements a thousandth of the usual time
of all. Events are a mix within their type (Aitchison, "The Statistical Analysis of Compositional Data" (1986), on
partitions), so that the noise of rare ones is not in the shares of types.

All but the mixes change by ratios: what a load's rhythm multiplies it goes on to multiply after a change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pgtrial.collectors.sessions import shown_query
from pgtrial.stats.alarms.blocks import Scale, Signal, mean_known
from pgtrial.watch.layout import DAY, MINUTE, SAMPLES, STATEMENTS, Look, day_of, retry_once
from pgtrial.watch.quotients import METRICS, NAMES, PER_CALL_NAME, WORK, as_signals, read_quotients
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
    series_of,
    statements_read,
)
from pgtrial.watch.windows import Sums, Window, window_sums

WAITS_NAME, STATEMENTS_NAME = "waits", "statements"
OTHERS = "others"
_CPU = ("CPU in user mode", "CPU in the kernel", "CPU of the server")
_PLAIN = (COMMITS_NAME, ACTIVE_NAME, TIME_NAME, *_CPU)
_CPU_RATES = tuple((name, metrics) for name, _, metrics in RATES if name in _CPU)
_METRICS = tuple(dict.fromkeys([COMMITS, *(each for _, metrics in _CPU_RATES for each in metrics), *METRICS]))
_POLLS, _READ = "polls", "was read"
_MOST_STATEMENTS = 5
_USUAL = 0.5  # share of calm minutes in which there is a signal, or a statement of its own
_SMALL = 0.01  # share of sessions at work; a type or event of waits below that in calm time is among others
_HALF = 0.5  # polls
_THOUSANDTH = 1e-3

_NOTHING = 1e-12  # sessions, cores, or by the second: less is rounding
_OF_STATEMENT = ("queryid", "time", "minutes", "query")

_Key = tuple[str, str]  # a signal, and the part of it where it is a mix
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the values: a signal, or the part of one that is a mix; ``text`` is that of a statement."""

    signal: str
    part: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """``values`` (columns, minutes of the window), NaN where not known; ``others``: by mix of waits the sessions of
    those that are its others.
    """

    window: Window
    columns: tuple[Column, ...]
    signals: tuple[Signal, ...]
    values: Array
    others: Mapping[str, Mapping[str, Array]]

    def part_of(self, column: Column, calm: Window, since: Window) -> str:
        """The part of a mix; of others with the one whose mean in ``since`` is most above that in ``calm``, if any."""
        if column.part != OTHERS:
            return column.part
        before, after = (
            slice((each.start - self.window.start) // MINUTE, (each.end - self.window.start) // MINUTE)
            for each in (calm, since)
        )
        risen = {
            name: float(mean_known(series[after]) - mean_known(series[before]))
            for name, series in self.others.get(column.signal, {}).items()
        }
        most = max(risen, key=lambda name: risen[name], default="")
        return f"{OTHERS} ({most})" if risen.get(most, 0.0) > 0 else OTHERS


@dataclass(frozen=True, slots=True)
class Minutes:
    """What a folder has of the minutes of a window, before it is known which of it are signals."""

    window: Window
    series: dict[_Key, Array] = field(default_factory=dict)

    def of(self, name: str, part: str = "") -> Array:
        return self.series.get((name, part), empty(self.window.minutes))

    def put(self, key: _Key, part_of: Window, values: Array) -> None:
        start = (part_of.start - self.window.start) // MINUTE
        self.series.setdefault(key, empty(self.window.minutes))[start : start + values.size] = values

    def parts(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(part for each, part in self.series if each == name))

    def are_known(self) -> NDArray[np.bool_]:
        """In which minutes the server was read."""
        known: NDArray[np.bool_] = np.isfinite(self.of(_POLLS)) | np.isfinite(self.of(COMMITS_NAME))
        return known


def days_with_minutes(found: Look, window: Window) -> Iterator[Window]:
    """The parts of a window by day, of days of which there are minutes."""
    days = dict.fromkeys(day_of(hour) for hour, kinds in found.hours.items() if kinds[SAMPLES].number)
    for day in days:
        start, end = max(day, window.start), min(day + DAY, window.end)
        if start < end:
            yield Window(start, end)


def read_minutes(root: Path, found: Look, window: Window, statements: Sequence[str]) -> Minutes:
    """Day by day, so that no more than a day is in memory as it was stored. Raises StoreError."""
    minutes = Minutes(window)
    for day in days_with_minutes(found, window):
        read = _of_day(root, day, lambda sums: _read_day(sums, statements))
        for key, values in (read or {}).items():
            minutes.put(key, day, values)
    return minutes


@retry_once
def _of_day(root: Path, day: Window, read: Callable[[Sums], _Read]) -> _Read | None:
    """What is read of the minutes of a day; None where only hours are kept. Raises StoreError."""
    with window_sums(root, day) as sums:
        return read(sums) if sums.step == MINUTE else None


def _read_day(sums: Sums, statements: Sequence[str]) -> dict[_Key, Array]:
    polls = read_polls(sums)
    waits = read_waits(sums, polls)
    rates = read_rates(sums, _METRICS)
    commits, active = rates.get(COMMITS, empty(sums.steps)), active_sessions(waits, polls)
    found = {(_POLLS, ""): polls, (COMMITS_NAME, ""): commits, (ACTIVE_NAME, ""): active}
    found[TIME_NAME, ""] = np.divide(active, commits, out=empty(sums.steps), where=commits > _NOTHING)
    for name, metrics in _CPU_RATES:
        found[name, ""] = rate_of(rates, metrics, sums.steps)
    found |= {(name, ""): series for name, series in read_quotients(sums, rates).items()}
    found |= {(WAITS_NAME, event): sessions for event, sessions in waits.items()}
    found[_READ, ""] = statements_read(sums)
    return found | _of_statements(sums, statements)


def _of_statements(sums: Sums, statements: Sequence[str]) -> dict[_Key, Array]:
    """By queryid the time of some statements, of all others together, and the time per call of those that are named."""
    found = sums.read(
        STATEMENTS,
        "place, CASE WHEN queryid IN (SELECT unnest(?::VARCHAR[])) THEN queryid ELSE ? END AS part, "
        "sum(exec_time) AS exec_time, sum(exec_time) / sum(calls) AS per_call",
        "true GROUP BY place, part",
        list(statements),
        OTHERS,
    )
    times = {(STATEMENTS_NAME, part): each for part, each in series_of(found, "part", "exec_time", sums.steps).items()}
    per_call = series_of(found, "part", "per_call", sums.steps)
    return times | {(PER_CALL_NAME, part): each for part, each in per_call.items() if part != OTHERS}


def usual_statements(root: Path, found: Look, calm: Window) -> dict[str, str]:
    """Queryid and text of the statements with most time, of those that run in most minutes of calm time."""
    times: dict[str, float] = {}
    minutes: dict[str, int] = {}
    texts: dict[str, str] = {}
    read = 0
    for day in days_with_minutes(found, calm):
        number, rows = _of_day(root, day, _statements_of) or (0, {})
        read += number
        for queryid, time, count, text in zip(*(rows.get(name, ()) for name in _OF_STATEMENT), strict=True):
            times[queryid] = times.get(queryid, 0.0) + float(time)
            minutes[queryid] = minutes.get(queryid, 0) + int(count)
            texts[queryid] = str(text) or texts.get(queryid, "")
    usual = [queryid for queryid in times if minutes[queryid] > _USUAL * read and queryid != OTHERS]
    chosen = sorted(usual, key=lambda each: -times[each])[:_MOST_STATEMENTS]
    # The server leaves the literals of some statements in (DO, CALL, before 16 also SET and the like).
    return {queryid: shown_query(texts[queryid]) for queryid in chosen}


def _statements_of(sums: Sums) -> tuple[int, dict[str, Any]]:
    """In how many minutes statements were read, and of each its time and in how many minutes it ran."""
    rows = sums.read(
        STATEMENTS,
        "queryid, sum(exec_time) AS time, count(DISTINCT place) AS minutes, max(query) AS query",
        "exec_time > 0 AND isfinite(exec_time) GROUP BY queryid",
    )
    return int(np.isfinite(statements_read(sums)).sum()), rows


def choose_signals(minutes: Minutes, calm: Window, statements: Mapping[str, str], *, server: str) -> Signals:
    """What is known in most calm minutes, and is not the same in all: of anything else nothing is learned.

    ``server`` names it, the same in each call: what is zero for weeks has noise of its own on each server.
    """
    first = (calm.start - minutes.window.start) // MINUTE
    here = slice(first, first + calm.minutes)
    columns: list[Column] = []
    signals: list[Signal] = []
    values: list[Array] = []

    def add(scale: Scale, parts: Sequence[tuple[Column, Array]], group: str = "", *, has_spread: bool = True) -> None:
        places = tuple(range(len(values), len(values) + len(parts)))
        name = parts[0][0].signal
        signals.append(Signal(name=name, scale=scale, columns=places, group=group, has_spread=has_spread))
        columns.extend(column for column, _ in parts)
        values.extend(series for _, series in parts)

    least = _USUAL * minutes.are_known()[here].sum()
    for column, group, is_lifted, series in _plain(minutes, here, statements, server):
        if _tells(series[here], least=least):
            add(Scale.RATIO, [(column, series)], group, has_spread=not is_lifted)
    others: dict[str, Mapping[str, Array]] = {}
    for parts, small in _waits(minutes, here):
        if len(parts) > 1:
            add(Scale.MIX, parts)
            others[parts[0][0].signal] = small
    if len(shares := _shares(minutes, here, statements)) > 1:
        add(Scale.MIX, shares)
    return Signals(
        window=minutes.window,
        columns=tuple(columns),
        signals=tuple(signals),
        values=np.stack(values) if values else np.empty((0, minutes.window.minutes)),
        others=others,
    )


def _plain(
    minutes: Minutes, here: slice, statements: Mapping[str, str], server: str
) -> Iterator[tuple[Column, str, bool, Array]]:
    """All that is no mix: its column, the group of its bursts, whether it has a background, and its values."""
    for name in _PLAIN:
        yield Column(signal=name), "", False, minutes.of(name)
    quotients, first = {name: minutes.of(name) for name in NAMES}, minutes.window.start // MINUTE
    commits = minutes.of(COMMITS_NAME)
    for name, group, is_lifted, series in as_signals(quotients, commits, server=server, first=first, calm=here):
        yield Column(signal=name), group, is_lifted, series
    for queryid, text in statements.items():
        column = Column(signal=PER_CALL_NAME, part=queryid, text=text)
        yield column, WORK, False, minutes.of(PER_CALL_NAME, queryid)


def _tells(calm: Array, *, least: float) -> bool:
    known = calm[np.isfinite(calm)]
    return known.size > least and bool(np.ptp(known) > _NOTHING)


def _waits(minutes: Minutes, here: slice) -> Iterator[tuple[list[tuple[Column, Array]], Mapping[str, Array]]]:
    """The mix of types, and of each type with several usual waits the one of these; and what the others of a mix are.

    What is small in calm time is one of the others of its type, where these together are worth mention, or else of all.
    So an event that begins is found there, and those that go up with their type are no change of its mix.
    """
    polls = minutes.of(_POLLS)
    zero = np.where(np.isfinite(polls), 0.0, np.nan)
    waits = {part: np.nan_to_num(minutes.of(WAITS_NAME, part)) + zero for part in minutes.parts(WAITS_NAME)}
    least = _SMALL * sum(float(np.nansum(series[here])) for series in waits.values())
    # Of a usual minute: of one that was polled less it would be more, and a network that goes now and then a change.
    background = _HALF / (float(np.nanmedian(polls[here])) if np.isfinite(polls[here]).any() else 1.0)

    def is_large(series: Array) -> bool:
        return float(np.nansum(series[here])) >= least > 0

    def mix(signal: str, parts: Mapping[str, Array]) -> list[tuple[Column, Array]]:
        return [(Column(signal=signal, part=name), series + background) for name, series in parts.items()]

    types: dict[str, dict[str, Array]] = {}
    small: dict[str, dict[str, Array]] = {}
    for wait, series in waits.items():
        kind, _, event = wait.partition("/")
        (types if is_large(series) else small).setdefault(kind, {})[event] = series
    others: dict[str, Array] = {}
    for kind, events in small.items():
        if is_large(together := sum(events.values(), zero)):
            types.setdefault(kind, {})[OTHERS] = together
        else:
            others |= {f"{kind} {event}".strip(): series for event, series in events.items()}
    sums = {kind: sum(types[kind].values(), zero) for kind in sorted(types)}
    yield mix(WAITS_NAME, {**sums, OTHERS: sum(others.values(), zero)}), others
    for kind in sums:
        yield mix(f"{WAITS_NAME} of {kind}", types[kind]), small.get(kind, {})


def _shares(minutes: Minutes, here: slice, statements: Mapping[str, str]) -> list[tuple[Column, Array]]:
    """Time of the statements, and of all others together; nothing where they are not read."""
    was_read = minutes.of(_READ)
    times = {part: np.nan_to_num(minutes.of(STATEMENTS_NAME, part)) + was_read for part in (*statements, OTHERS)}
    total = sum(times.values(), np.zeros(was_read.size))
    usual = float(np.nanmean(total[here])) if np.isfinite(total[here]).any() else 0.0
    if usual <= 0:
        return []
    # A minute between two readings may have the middle of no step: then nothing is known of it.
    known = np.where(total > 0, _THOUSANDTH * usual, np.nan)
    return [
        (Column(signal=STATEMENTS_NAME, part=part, text=statements.get(part, "")), series + known)
        for part, series in times.items()
    ]
