"""Timelines of the valid runs, from their Parquet files; the queries are next to it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from pgtrial.analysis.counters import Array, Key, Readings, in_own_time, lateness, own_time
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.readings import fetch_readings, read_together
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.slices import windows
from pgtrial.analysis.timelines.seconds import (
    Grid,
    find_rates,
    find_switched_rates,
    find_values,
    make_grids,
    reach_beyond,
)
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.errors import StoreError, first_line
from pgtrial.findings.session_time import CPU
from pgtrial.model.formulas import Source, TimelineMetric
from pgtrial.model.metric import MetricKind
from pgtrial.model.run import RunRow
from pgtrial.model.series import METRICS, WAIT, WAITS
from pgtrial.store import layout, parquet

_Sessions = tuple[tuple[Key, ...], Array, Array]  # (metrics,), times (polled,), average sessions (metrics, polled)
Read = Callable[[Source], Mapping[str, Array]]  # by object: rates of a counter, or values of a gauge

# Kind of each metric of samples.parquet that is used, and the usual distance of its readings in seconds.
_RAW = {source.metric: (metric.kind, metric.every) for metric in METRICS for source in metric.sources}
# What is mapped is told twice. Free memory is too, but there hypervisors have a say in what is free.
_IN_BYTES, _IN_PAGES = ("proc_meminfo.Mapped", ""), ("proc_vmstat.nr_mapped", "")
# The kernel counts these two so that they may go back a little (proc(5)); vmstat waits until they are past that again.
_GO_BACK = ("proc_stat.cpu_idle", "proc_stat.cpu_iowait")
_TICK = 1.0  # s from one reading to the next, where there is only one
_ALWAYS = ("sessions.active", "sessions.idle", "sessions.idle_in_transaction", "sessions.autovacuum")
_NO_SESSIONS: _Sessions = ((), np.empty(0), np.empty((0, 0)))
_LONGEST = max(every for _, every in _RAW.values())
# How many numbers the series of a run may become, and how many for each reading: one in ten seconds becomes ten.
_FREE_CELLS, _MOST_CELLS = 10_000_000, 100
# The same for how long a run says it took, for each second and scenario that has transactions; and a second for each
# reading, of which a run has dozens in a second also where its transactions take minutes.
_FREE_SECONDS, _MOST_SECONDS = 100_000, 100


def read_timelines(evidence: Evidence, reduction: Reduction) -> tuple[Timeline, ...]:
    """A timeline for each valid run and load level, in the order of ``evidence.valid`` and of time.

    Where the arms of a block share its time, a second is one of the arm's own measured time, and there are only metrics
    of its server and its load: the machine counts for all arms, and nothing tells whose it was. Of a server that is
    switched there are all. A series is there if its readings are, in a run without a file of samples or of waits none.
    StoreError when a file is damaged.
    """
    found: list[Timeline] = []
    names = (layout.TRANSACTIONS, layout.SAMPLES, layout.WAITS)
    files = [Path(path) for name in names for path in _paths(evidence, evidence.valid, name)]
    with parquet.session(threads=1 if parquet.is_little(files) else None) as db:
        for runs in read_together(evidence.valid):
            found += _read_runs(db, evidence, reduction, runs)
    return _add_unseen(found)


def compute(metric: TimelineMetric, read: Read, *, page_size: float | None) -> Mapping[str, Array]:
    """Series of a metric by object, as its formula says; {} where its sources were not read.

    Seconds in which a divisor is zero are NaN. ``page_size`` is in bytes, None where it is not known.
    """
    found = _add_up(metric, metric.of, read) or _add_up(metric, metric.otherwise, read)
    if metric.in_pages:
        found = {about: value * page_size for about, value in found.items()} if page_size else {}
    if metric.minus:
        less = _add_up(metric, metric.minus, read)
        found = {about: value - less[about] for about, value in found.items() if about in less}
    if metric.less:
        found = {about: np.maximum(value - metric.less, 0.0) for about, value in found.items()}
    if metric.per:
        per = _add_up(metric, metric.per, read)
        found = {about: _divide(value, per[about]) for about, value in found.items() if about in per}
    return found


def _add_up(metric: TimelineMetric, sources: Sequence[Source], read: Read) -> dict[str, Array]:
    """Sum of sources by object, of all objects together ("") where the metric has no objects."""
    parts = [read(source) for source in sources]
    known = [part for part in parts if part]
    if not known or (len(known) < len(parts) and not metric.is_any):
        return {}
    if not metric.per_object:
        return {"": _sum([value for part in known for value in part.values()])}
    shared = set(known[0]).intersection(*known[1:])
    return {about: _sum([part[about] for part in known]) for about in sorted(shared)}


def _sum(values: Sequence[Array]) -> Array:
    """One after the other: to stack a few short arrays takes longer than to add them."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _divide(value: Array, divisor: Array) -> Array:
    return np.divide(value, divisor, out=np.full_like(value, np.nan), where=divisor > 0)


def _read_runs(
    db: duckdb.DuckDBPyConnection, evidence: Evidence, reduction: Reduction, runs: Sequence[RunRow]
) -> list[Timeline]:
    metrics = [
        metric
        for metric in METRICS
        if (metric.is_of_server or not runs[0].slices or runs[0].is_switched)
        and not (metric.is_timed and evidence.stands_still)
    ]
    sampled = [run for run in runs if run.id not in reduction.without_samples]
    polled = [run for run in runs if run.id not in reduction.without_waits]
    try:
        files = _paths(evidence, runs, layout.TRANSACTIONS)
        transactions = db.execute(_query("transactions"), [[run.id for run in runs], files, files]).fetchnumpy()
        samples = _read_series(db, "samples", sampled, _paths(evidence, sampled, layout.SAMPLES), _raw_metrics(metrics))
        waits = _read_series(db, "waits", polled, _paths(evidence, polled, layout.WAITS))
    except duckdb.Error as err:
        if len(runs) > 1:  # which of them it is only shows where each is read alone
            return [timeline for run in runs for timeline in _read_runs(db, evidence, reduction, (run,))]
        raise StoreError(f'cannot read run {runs[0].id} of "{evidence.folder}": {first_line(err)}') from err
    found: list[Timeline] = []
    for run in runs:
        mine = {name: column[transactions["run"] == run.id] for name, column in transactions.items()}
        _check_length(run, mine["second"].size, (samples.get(run.id, {}), waits.get(run.id, {})))
        sessions = _poll(waits.get(run.id, {})) if run.id not in reduction.without_waits else _NO_SESSIONS
        found += _make_timelines(run, metrics, mine, samples.get(run.id, {}), sessions)
    return found


def _check_length(run: RunRow, rows: int, sources: Sequence[Readings]) -> None:
    """StoreError for a run that says it took much longer than anything in its files does."""
    readings = sum(t.size for source in sources for t, _ in source.values())
    for window in windows(run):
        if window.counted > _FREE_SECONDS + _MOST_SECONDS * rows + readings:
            raise StoreError(
                f"run {run.id} is damaged: of the {window.counted:,.0f} s that it says it took, {rows:,} have a "
                f"transaction, and there are {readings:,} readings"
            )


def _make_timelines(
    run: RunRow,
    metrics: Sequence[TimelineMetric],
    transactions: Mapping[str, Any],
    samples: Readings,
    sessions: _Sessions,
) -> Iterator[Timeline]:
    page_size = _find_page_size(samples)
    samples = _fill_in(metrics, samples)
    for grid in make_grids(run):
        read = _read_seconds(run, grid, samples)
        series, whole = (
            {
                (metric.name, about): value
                for metric in metrics
                for about, value in compute(metric, each, page_size=page_size).items()
            }
            for each in (read, _read_whole(read))
        )
        sessions_of = _average(run, grid, sessions)
        means = {**{key: value[0] for key, value in whole.items()}, **{k: _mean(v) for k, v in sessions_of.items()}}
        tps, latency = _load(grid, transactions)
        yield Timeline(
            run=run.id,
            arm=run.slot.arm,
            block=run.slot.block,
            level=grid.level,
            started=grid.started,
            offset=grid.offset,
            tps=tps,
            latency=latency,
            series={**series, **sessions_of},
            means={key: float(value) for key, value in means.items() if not np.isnan(value)},
        )


def _raw_metrics(metrics: Sequence[TimelineMetric]) -> list[str]:
    named = {source.metric for metric in metrics for source in metric.sources}
    return sorted(named | {_IN_BYTES[0], _IN_PAGES[0]})


def _read_series(
    db: duckdb.DuckDBPyConnection, name: str, runs: Sequence[RunRow], files: Sequence[str], *parameters: Any
) -> Mapping[int, Readings]:
    """Readings of a query by run, metric and object, in order of time."""
    if not runs:
        return {}
    since, until = zip(*map(_reach, runs), strict=True)
    return fetch_readings(
        db, _query(name), [[run.id for run in runs], files, list(since), list(until), files, *parameters]
    )


def _paths(evidence: Evidence, runs: Sequence[RunRow], name: str) -> list[str]:
    return [str(layout.run_folder(evidence.folder, run.folder) / name) for run in runs]


def _reach(run: RunRow) -> tuple[float, float]:
    """Of which time readings tell of any second of a run: from, to, since the epoch."""
    beyond = reach_beyond(_LONGEST, is_sliced=bool(run.slices))
    measured = windows(run)
    return min(window.started for window in measured) - beyond, max(window.ended for window in measured) + beyond


def _find_page_size(samples: Readings) -> float | None:
    """Size of a page of memory, in bytes: a power of two, so that the moment between two readings does not matter."""
    if _IN_BYTES not in samples or _IN_PAGES not in samples:
        return None
    size, pages = (float(np.median(samples[key][1])) for key in (_IN_BYTES, _IN_PAGES))
    return 2.0 ** round(np.log2(size / pages)) if size > 0 and pages > 0 else None


def _fill_in(metrics: Sequence[TimelineMetric], samples: Readings) -> Readings:
    """The same with zeros for objects that were not there when others were read.

    A counter keeps its value when what it counts has ended, so it is only filled in before its first reading.
    """
    kinds = {source.metric: metric.kind for metric in metrics if metric.come_and_go for source in metric.sources}
    found = dict(samples)
    for name, kind in kinds.items():
        mine = {key: readings for key, readings in samples.items() if key[0] == name}
        if not mine:
            continue
        ticks = np.unique(np.concatenate([t for t, _ in mine.values()]))
        for key, (t, value) in mine.items():
            absent = ticks[~np.isin(ticks, t)]
            absent = absent[absent < t[0]] if kind is MetricKind.COUNTER else absent
            times = np.concatenate([absent, t])
            order = np.argsort(times)
            found[key] = times[order], np.concatenate([np.zeros(absent.size), value])[order]
    return found


def _read_seconds(run: RunRow, grid: Grid, samples: Readings) -> Read:
    """What the readings say of the seconds of a grid. Those that were taken together are reduced together."""
    together: dict[tuple[MetricKind, float, float, bytes], list[tuple[Key, Array]]] = {}
    for key, (t, value) in samples.items():
        if key[0] in _RAW:
            kind, every = _RAW[key[0]]
            first, last = np.searchsorted(t, grid.reach(every))
            group = kind, every, lateness(key[0]), t[first:last].tobytes()
            together.setdefault(group, []).append((key, value[first:last]))
    if not _has_room(sum(map(len, together.values())), grid, known=sum(t.size for t, _ in samples.values())):
        return lambda source: {}
    found: dict[str, dict[str, Array]] = {}
    for (kind, every, late_by, times), readings in together.items():
        clock = np.frombuffer(times)
        values = np.stack([np.maximum.accumulate(v) if key[0] in _GO_BACK else v for key, v in readings])
        if kind is MetricKind.GAUGE:
            mine = in_own_time(run, clock)
            seconds = find_values(grid, own_time(run, clock[mine]), values[..., mine], every=every)
        elif run.is_switched:
            seconds = find_switched_rates(grid, run, clock, values, every=every, late_by=late_by)
        else:
            seconds = find_rates(grid, own_time(run, clock), values, every=every)
        for ((metric, about), _), value in zip(readings, seconds, strict=True):
            found.setdefault(metric, {})[about] = value
    return lambda source: source.select(found.get(source.metric, {}))


def _has_room(series: int, grid: Grid, *, known: int) -> bool:
    """Whether so many series by the second are worth their memory: False if of nearly all seconds nothing is known."""
    return series * grid.seconds <= _FREE_CELLS + _MOST_CELLS * known


def _read_whole(read: Read) -> Read:
    """What the readings say of all the seconds together, (1,): of a counter its mean rate, of a gauge its mean."""
    return lambda source: {about: np.array([_mean(value)]) for about, value in read(source).items()}


def _mean(values: Array) -> float:
    """Of what is known; NaN where nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else np.nan


def _poll(waits: Readings) -> _Sessions:
    """Average sessions by metric, at the time from which each average was taken. What was not seen was not there."""
    polled = np.unique(np.concatenate([np.empty(0), *(t for t, _ in waits.values())]))
    found = {(name, ""): np.zeros(polled.size) for name in _ALWAYS}
    for (state, wait), (t, value) in waits.items():
        for key in _named(state, wait):
            found.setdefault(key, np.zeros(polled.size))[np.searchsorted(polled, t)] += value
    return tuple(found), polled, np.stack(list(found.values()))


def _named(state: str, wait: str) -> Iterator[Key]:
    """Metrics that sessions count for: of a state and a wait, "type/event", as waits.sql names them."""
    if state:
        yield state, ""
    if wait:
        kind, _, event = wait.partition("/")
        yield WAITS + (kind or CPU), ""
        yield WAIT + (kind or CPU), event


def _average(run: RunRow, grid: Grid, sessions: _Sessions) -> dict[Key, Array]:
    """Average sessions in every second; nothing where none of it was polled."""
    keys, polled, value = sessions
    first, last = np.searchsorted(polled, grid.reach())
    mine = in_own_time(run, polled[first:last])
    own, value = own_time(run, polled[first:last][mine]), value[:, first:last][:, mine]
    if not own.size or not _has_room(len(keys), grid, known=len(keys) * own.size):
        return {}
    # The polls from one time to the next are an average over that time: session seconds are a counter.
    lengths = np.append(np.diff(own), np.median(np.diff(own)) if own.size > 1 else _TICK)
    seconds = np.zeros((len(keys), own.size + 1))
    np.cumsum(value * lengths, axis=-1, out=seconds[:, 1:])
    return dict(zip(keys, find_rates(grid, np.append(own, own[-1] + lengths[-1]), seconds), strict=True))


def _load(grid: Grid, transactions: Mapping[str, Any]) -> tuple[Array, Array]:
    """Commits and their mean latency in every second. A second without a row had no transaction."""
    mine = (transactions["level"] == grid.level) & (transactions["second"] < grid.seconds)
    count, latency = np.zeros(grid.seconds), np.zeros(grid.seconds)
    count[transactions["second"][mine]] = transactions["count"][mine]
    latency[transactions["second"][mine]] = transactions["latency_sum"][mine]
    return count, _divide(latency, count)


def _add_unseen(timelines: Sequence[Timeline]) -> tuple[Timeline, ...]:
    """The same with zeros for waits that other runs had, wherever sessions were sampled."""
    waits = {key for each in timelines for key in each.series if key[0].startswith((WAITS, WAIT))}
    found = []
    for each in timelines:
        active = each.get("sessions.active")
        unseen = waits - set(each.series)
        if active is not None and unseen:
            keys, zero = sorted(unseen), active * 0.0
            series, means = {**each.series, **dict.fromkeys(keys, zero)}, {**each.means, **dict.fromkeys(keys, 0.0)}
            found.append(replace(each, series=series, means=means))
        else:
            found.append(each)
    return tuple(found)


@cache
def _query(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
