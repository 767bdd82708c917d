"""The statements of a watched server in a window of time, and the history of one: calls, time, and waits.

Calls, time and blocks are counted by pg_stat_statements; sessions were polled. A statement is the same in both if its
text without literals is, as far as polls keep it: several of pg_stat_statements may be one here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgtrial.collectors.sessions import shown_query
from pgtrial.errors import SpecError
from pgtrial.watch.layout import retry_once
from pgtrial.watch.series import (
    Array,
    Counted,
    read_polls,
    read_statements,
    read_waits_of,
    read_work,
    waits_of_work,
)
from pgtrial.watch.windows import Sums, Window, window_sums

_MOST_NAMED = 5  # statements of which it is not known which one is meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One of a window. ``sessions`` is their average number at work on it, which ``waits`` split; ``calls`` are per
    second, ``time`` (s) and ``blocks`` per call; None where nothing of it is known.
    """

    query: str
    queryids: tuple[str, ...]
    sessions: float | None
    waits: Mapping[str, float]
    calls: float | None
    time: float | None
    blocks: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A stretch of time of a history, which begins at ``start`` (seconds since the epoch); otherwise as ``Statement``.

    ``waits`` are those that the history names, in its order.
    """

    start: int
    calls: float | None
    time: float | None
    blocks: float | None
    sessions: float | None
    waits: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A statement over time; each step takes ``by`` seconds, ``waits`` are "type/event", those with most time first."""

    query: str
    queryids: tuple[str, ...]
    window: Window
    by: int
    waits: tuple[str, ...]
    steps: tuple[Step, ...]


@retry_once
def read_window(root: Path, window: Window) -> tuple[Statement, ...]:
    """All statements of a window, those with most sessions first, and then those with most time. Raises StoreError."""
    with window_sums(root, window) as sums:
        return list_statements(sums, read_polls(sums))


def list_statements(sums: Sums, polls: Array) -> tuple[Statement, ...]:
    """As ``read_window``, of sums that are there."""
    work, waits, counted = read_work(sums, polls), waits_of_work(sums, polls), _by_text(sums)
    was_polled = not np.isnan(polls).all()
    found = []
    for query in {**work, **counted}:
        ids, sum_of = counted.get(query, ((), None))
        calls, time, blocks = (None, None, None) if sum_of is None else _per_call(sum_of, sums.step)
        own = waits.get(query, {})
        found.append(
            Statement(
                query=query,
                queryids=ids,
                sessions=sum(own.values()) if was_polled else None,
                waits=dict(sorted(own.items(), key=lambda item: -item[1])),
                calls=calls,
                time=time,
                blocks=blocks,
            )
        )
    return tuple(sorted(found, key=lambda each: (-(each.sessions or 0.0), -(each.calls or 0.0) * (each.time or 0.0))))


def find_statement(statements: tuple[Statement, ...], text: str) -> Statement:
    """The one that is meant by its queryid, its whole text or a part of it. Raises SpecError."""
    wanted = " ".join(text.split())
    for each in statements:
        if wanted in each.queryids or wanted == each.query:
            return each
    found = [each for each in statements if wanted.lower() in each.query.lower()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise SpecError(f'no statement of that time has "{text}" in it', hint="Without a text, all of them are listed.")
    more = "" if len(found) <= _MOST_NAMED else f"\nand {len(found) - _MOST_NAMED} more"
    raise SpecError(
        f'{len(found)} statements have "{text}" in them',
        detail="\n".join(each.query for each in found[:_MOST_NAMED]) + more,
        hint="Give more of the text, or the queryid.",
    )


@retry_once
def read_history(root: Path, window: Window, text: str, *, by: int) -> History:
    """The statement that ``text`` means, as for ``find_statement``, in steps of ``by`` seconds, whole minutes, which
    begin at whole multiples of it, UTC.

    Raises StoreError, and SpecError also where only sums over longer times are left.
    """
    with window_sums(root, window) as sums:
        if by % sums.step:
            raise SpecError(
                f"of {window} there are sums of hours only", hint="Use --by 1h, or a whole number of hours."
            )
        polls = read_polls(sums)
        statement = find_statement(list_statements(sums, polls), text)
        events = read_waits_of(sums, polls, statement.query)
        _, counted = _by_text(sums).get(statement.query, ((), None))
    first = sums.window.start // by
    places = (sums.window.start + np.arange(sums.steps) * sums.step) // by - first
    count = int(places[-1]) + 1
    polled = _add_up(polls, places, count)
    # Of each step as many sessions as were seen in its polls, so that steps with more of them weigh more.
    seen = {event: _add_up(mean * polls, places, count) / polled for event, mean in events.items()}
    order = sorted(seen, key=lambda event: -float(np.nansum(seen[event])))
    none = np.full(sums.steps, np.nan)
    series = (none, none, none) if counted is None else (counted.calls, counted.times, counted.blocks)
    calls, times, blocks = (_add_up(each, places, count) for each in series)
    known = np.bincount(places[~np.isnan(series[0])], minlength=count) * sums.step
    steps = tuple(
        Step(
            start=(first + place) * by,
            calls=_quotient(calls[place], known[place]),
            time=_quotient(times[place], calls[place]),
            blocks=_quotient(blocks[place], calls[place]),
            sessions=None if np.isnan(polled[place]) else float(sum(seen[event][place] for event in order)),
            waits=tuple(_number(seen[event][place]) for event in order),
        )
        for place in range(count)
    )
    return History(
        query=statement.query,
        queryids=statement.queryids,
        window=sums.window,
        by=by,
        waits=tuple(order),
        steps=steps,
    )


def _by_text(sums: Sums) -> dict[str, tuple[tuple[str, ...], Counted]]:
    """By text without literals the queryids that have it, and their sum."""
    found: dict[str, tuple[tuple[str, ...], Counted]] = {}
    for queryid, counted in sorted(read_statements(sums).items()):
        query = shown_query(counted.query)
        ids, other = found.get(query, ((), None))
        whole = counted
        if other is not None:
            whole = Counted(
                calls=other.calls + counted.calls,
                times=other.times + counted.times,
                rows=other.rows + counted.rows,
                blocks=other.blocks + counted.blocks,
                query=other.query,
            )
        found[query] = (*ids, queryid), whole
    return found


def _per_call(counted: Counted, step: int) -> tuple[float | None, float | None, float | None]:
    calls = float(np.nansum(counted.calls))
    seconds = int((~np.isnan(counted.calls)).sum()) * step
    sums = (float(np.nansum(counted.times)), float(np.nansum(counted.blocks)))
    return _quotient(calls, seconds), _quotient(sums[0], calls), _quotient(sums[1], calls)


def _add_up(series: Array, places: NDArray[np.signedinteger[Any]], count: int) -> Array:
    """The sums of what is known; NaN where nothing is."""
    known = ~np.isnan(series)
    total = np.bincount(places[known], weights=series[known], minlength=count)
    return np.where(np.bincount(places[known], minlength=count) > 0, total, np.nan)


def _quotient(total: float, by: float) -> float | None:
    return None if not by > 0 or np.isnan(total) else float(total / by)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
