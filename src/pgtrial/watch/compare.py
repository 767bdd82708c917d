"""Two windows of a watched server's time, side by side: what was different, with intervals that know about time.

Values are minutes, which depend on each other; ``stats.long_run`` says how sure their mean is, and the difference of
two windows is that of two such means (Welch). All intervals of a table hold together in 95 of 100 comparisons. They say
by how much the windows differ beyond what minutes of each differ among themselves, and nothing about why.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgtrial.errors import StoreError
from pgtrial.stats.interval import Known, difference, ratio_of
from pgtrial.stats.long_run import known_ratio, known_series, log_of
from pgtrial.watch.layout import SAMPLES, STATEMENTS
from pgtrial.watch.series import (
    COMMITS,
    RATES,
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

CONFIDENCE = 0.95
_MOST_STATEMENTS = 20
_GAUGES = (("memory available", "B", "proc_meminfo.available"), ("connections", "", "pg_stat_database.numbackends"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A quantity in both windows, in ``unit``, and their difference b - a or, with ``is_ratio``, b / a.

    The interval is None where the minutes are too few, or do not differ.
    """

    name: str
    unit: str
    a: float | None
    b: float | None
    change: float | None
    low: float | None
    high: float | None
    is_ratio: bool

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes "no difference"."""
        none = 1.0 if self.is_ratio else 0.0
        return self.low is not None and self.high is not None and not self.low <= none <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow:
    """A statement: calls per second, seconds per call, and share of the statements' time, in both windows."""

    queryid: str
    query: str
    calls: Row
    time: Row
    share_a: float
    share_b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``covered_*`` are the shares of the windows in which the server was read; ``step`` is in seconds."""

    a: Window
    b: Window
    step_a: int
    step_b: int
    covered_a: float
    covered_b: float
    throughput: tuple[Row, ...]
    waits: tuple[Row, ...]
    statements: tuple[StatementRow, ...]
    machine: tuple[Row, ...]


def compare(root: Path, a: Window, b: Window) -> Comparison:
    """Raises StoreError where the folder has nothing of a window, or a file is damaged."""
    try:
        return _compare(root, a, b)
    except StoreError:
        return _compare(root, a, b)  # a watch may just have put an hour's files together


def _compare(root: Path, a: Window, b: Window) -> Comparison:
    with window_sums(root, a) as first, window_sums(root, b) as second:
        both = (first, second)
        rates = [read_rates(each) for each in both]
        polls = [read_polls(each) for each in both]
        waits = [read_waits(each, poll) for each, poll in zip(both, polls, strict=True)]
        covered = [float(np.mean(poll > 0)) for poll in polls]
        return Comparison(
            a=first.window,
            b=second.window,
            step_a=first.step,
            step_b=second.step,
            covered_a=covered[0],
            covered_b=covered[1],
            throughput=_throughput(rates, waits, polls),
            waits=_wait_rows(waits, polls),
            statements=_statement_rows(both),
            machine=_machine(both, rates),
        )


def _throughput(rates: list[dict[str, Array]], waits: list[dict[str, Array]], polls: list[Array]) -> tuple[Row, ...]:
    commits = [rate.get(COMMITS, empty(poll.size)) for rate, poll in zip(rates, polls, strict=True)]
    active = [active_sessions(wait, poll) for wait, poll in zip(waits, polls, strict=True)]
    # Little's law: time in the system = sessions at work / throughput.
    times = [known_ratio(each, rate) for each, rate in zip(active, commits, strict=True)]
    return (
        _ratio("commits", "1/s", *commits, family=3),
        _row("time at work per commit", "s", _of_ratio(active, commits), times, is_ratio=True, family=3),
        _difference("active client sessions", "sessions", *active, family=3),
    )


def _of_ratio(above: list[Array], below: list[Array]) -> list[float | None]:
    return [_quotient(float(np.nansum(x)), float(np.nansum(y))) for x, y in zip(above, below, strict=True)]


def _quotient(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _wait_rows(waits: list[dict[str, Array]], polls: list[Array]) -> tuple[Row, ...]:
    events = sorted({*waits[0], *waits[1]})
    zeros = [np.where(poll > 0, 0.0, np.nan) for poll in polls]
    rows = [
        _difference(
            event,
            "sessions",
            *(wait.get(event, zero) for wait, zero in zip(waits, zeros, strict=True)),
            family=len(events),
        )
        for event in events
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.change or 0.0)))


def _machine(both: tuple[Sums, Sums], rates: list[dict[str, Array]]) -> tuple[Row, ...]:
    rows = [row for row in _rate_rows(both, rates) if row.a is not None or row.b is not None]
    for name, unit, metric in _GAUGES:
        means = []
        for sums in both:
            found = sums.read(
                SAMPLES, "place, metric, sum(total) / sum(count) AS mean", "metric = ? GROUP BY place, metric", metric
            )
            series = series_of(found, "metric", "mean", sums.steps)
            means.append(series.get(metric, empty(sums.steps)))
        row = _difference(name, unit, *means, family=len(RATES) + len(_GAUGES))
        rows += [row] if row.a is not None or row.b is not None else []
    return tuple(rows)


def _rate_rows(both: tuple[Sums, Sums], rates: list[dict[str, Array]]) -> Iterator[Row]:
    for name, unit, metrics in RATES:
        series = [rate_of(rate, metrics, sums.steps) for sums, rate in zip(both, rates, strict=True)]
        yield _difference(name, unit, *series, family=len(RATES) + len(_GAUGES))


def _statement_rows(both: tuple[Sums, Sums]) -> tuple[StatementRow, ...]:
    tables = [_statements(each) for each in both]
    totals = [sum(float(np.nansum(time)) for _, time, _ in table.values()) for table in tables]
    order: dict[str, float] = {}
    for table in tables:
        for queryid, (_, time, _) in table.items():
            order[queryid] = order.get(queryid, 0.0) + float(np.nansum(time))
    chosen = sorted(order, key=lambda queryid: -order[queryid])[:_MOST_STATEMENTS]
    rows = []
    for queryid in chosen:
        found = [
            table.get(queryid, (np.zeros(each.steps), np.zeros(each.steps), ""))
            for table, each in zip(tables, both, strict=True)
        ]
        calls, times = [each[0] for each in found], [each[1] for each in found]
        shares = [float(np.nansum(time)) / total if total else 0.0 for time, total in zip(times, totals, strict=True)]
        known = [known_ratio(time, call) for time, call in zip(times, calls, strict=True)]
        per_second = [call / each.step for call, each in zip(calls, both, strict=True)]
        rows.append(
            StatementRow(
                queryid=queryid,
                query=found[1][2] or found[0][2],
                calls=_difference("calls", "1/s", *per_second, family=2 * len(chosen)),
                time=_row("time", "s", _of_ratio(times, calls), known, is_ratio=True, family=2 * len(chosen)),
                share_a=shares[0],
                share_b=shares[1],
            )
        )
    return tuple(rows)


def _statements(sums: Sums) -> dict[str, tuple[Array, Array, str]]:
    """By queryid calls and time of each step, and the text; a step in which nothing was read is a gap."""
    was_read = statements_read(sums)
    found = sums.read(STATEMENTS, "place, queryid, calls::DOUBLE AS calls, exec_time, query")
    if not found or np.isnan(was_read).all():
        return {}
    calls = series_of(found, "queryid", "calls", sums.steps)
    times = series_of(found, "queryid", "exec_time", sums.steps)
    texts = {str(key): str(text) for key, text in zip(found["queryid"], found["query"], strict=True) if text}

    def filled(series: Array) -> Array:
        return np.where(np.isnan(series), was_read, series)

    return {key: (filled(calls[key]), filled(times[key]), texts.get(key, "")) for key in calls}


def _mean(series: Array) -> float | None:
    return None if np.isnan(series).all() else float(np.nanmean(series))


def _ratio(name: str, unit: str, a: Array, b: Array, *, family: int) -> Row:
    return _row(name, unit, [_mean(a), _mean(b)], [known_series(a), known_series(b)], is_ratio=True, family=family)


def _difference(name: str, unit: str, a: Array, b: Array, *, family: int) -> Row:
    return _row(name, unit, [_mean(a), _mean(b)], [known_series(a), known_series(b)], is_ratio=False, family=family)


def _row(
    name: str,
    unit: str,
    means: "list[float | None]",
    known: "list[Known | None]",
    *,
    is_ratio: bool,
    family: int,
) -> Row:
    first, second = means
    change = low = high = None
    back: Callable[[float], float] = ratio_of if is_ratio else float
    if first is not None and second is not None and (not is_ratio or (first > 0 and second > 0)):
        change = second / first if is_ratio else second - first
        spreads = [None if each is None else log_of(each) for each in known] if is_ratio else known
        if spreads[0] is not None and spreads[1] is not None:
            found = difference(spreads[0], spreads[1], confidence=1 - (1 - CONFIDENCE) / max(family, 1))
            low, high = back(found.interval.low), back(found.interval.high)
    return Row(name=name, unit=unit, a=first, b=second, change=change, low=low, high=high, is_ratio=is_ratio)
