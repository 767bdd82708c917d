"""Reduce the Parquet files of the valid runs; the queries are in sql/."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.counters import Readings, count_between, window_increases
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.readings import fetch_readings, read_together
from pgtrial.analysis.reduction import (
    BackgroundGroup,
    Bin,
    Cell,
    Histogram,
    Reduction,
    SessionGroup,
    Stall,
    Totals,
    Wait,
)
from pgtrial.analysis.slices import slices_of, spans, windows
from pgtrial.errors import StoreError, first_line
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.model.histogram import LAST, bucket_value, row_of
from pgtrial.model.metrics import COUNTERS, SEPARATE
from pgtrial.model.run import RunRow
from pgtrial.safe_files import is_plain
from pgtrial.stats.slices import PARTS
from pgtrial.store import layout, parquet
from pgtrial.store.rows import damaged
from pgtrial.store.run_rows import most_rows
from pgtrial.store.slices import WASHOUT_PART

MAX_POINTS = 300  # per run and metric of a time series
_MOST_WAITS = 1000  # that differ, of all runs; a server of today knows some 280, and those of its extensions
WAIT_COUNTS = "pg_wait_sampling.count"  # how often a session was found in a wait, by "type/event"

_Columns = Mapping[str, NDArray[Any]]


def reduce_runs(evidence: Evidence) -> Reduction:
    """Reduce the valid runs.

    StoreError names the file when transactions.parquet of a valid run is missing or a file is damaged; without
    samples.parquet, waits.parquet or, in a run of slices, slices.parquet the run still counts, and is listed.
    """
    if not evidence.valid:
        return Reduction()
    transactions, absent = _files(evidence, layout.TRANSACTIONS)
    if absent:
        raise StoreError(
            f'file "{_path(evidence, absent[0], layout.TRANSACTIONS)}" of a finished run is missing',
            hint="Restore the file from a copy of the result folder, or delete the folder and run again.",
        )
    samples, without_samples = _files(evidence, layout.SAMPLES)
    waits, without_waits = _files(evidence, layout.WAITS)
    slices, absent = _files(evidence, layout.SLICES)
    sliced = evidence.sliced
    widths = {run.id: _bin_width(sum(window.counted for window in windows(run))) for run in evidence.valid}
    is_little = parquet.is_little(path for files in (transactions, samples, waits) for path in files.values())
    with parquet.session(threads=1 if is_little else None) as db:
        try:
            _create_windows(db, evidence, widths)
            _create_source(db, evidence, "transactions", transactions, is_kept=is_little)
            db.execute(_query("counted"))
            _check_counted(db, transactions, may_lack=evidence.experiment.workload.kind == COMMAND)
            latencies = _latencies(db, evidence, transactions)
            counters = _read_counters(db, evidence, samples)
            found_waits, autovacuum = _waits(db, evidence, waits, is_kept=is_little)
            sessions, polls = _sessions(db) if waits else ({}, {})
            scatter = _scatter(db) if waits else {}
            background = _background(db) if waits else {}
            turns = _turns(db, evidence, {run: path for run, path in slices.items() if run in sliced})
            return Reduction(
                totals=_totals(db),
                histograms=latencies.histograms,
                bins=_bins(db, latencies.p95),
                latency_rows=latencies.rows,
                stalls=_stalls(db, with_sessions=bool(waits)),
                widths=widths,
                increases=counters.increases,
                gaps=counters.gaps,
                foreign=tuple(counters.foreign),
                waits=found_waits,
                autovacuum=autovacuum,
                sessions=sessions,
                scatter=scatter,
                background=background,
                polls=polls,
                wait_counts=counters.wait_counts,
                parts=turns.parts,
                washout=turns.washout,
                part_latencies=turns.part_latencies,
                washout_latencies=turns.washout_latencies,
                without_samples=without_samples,
                without_waits=without_waits,
                without_slices=tuple(run for run in absent if run in sliced),
            )
        except duckdb.Error as err:
            raise StoreError(f'cannot read the runs of "{evidence.folder}": {first_line(err)}') from err


def _path(evidence: Evidence, run: int, name: str) -> Path:
    folder = next(row.folder for row in evidence.valid if row.id == run)
    return layout.run_folder(evidence.folder, folder) / name


def _files(evidence: Evidence, name: str) -> tuple[dict[int, Path], tuple[int, ...]]:
    paths = {run.id: _path(evidence, run.id, name) for run in evidence.valid}
    found = {run: path for run, path in paths.items() if is_plain(path)}
    return found, tuple(run for run in paths if run not in found)


def _bin_width(seconds: float) -> int:
    return max(1, int(np.ceil(seconds / MAX_POINTS)))


@cache
def _query(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _create_windows(db: duckdb.DuckDBPyConnection, evidence: Evidence, widths: Mapping[int, int]) -> None:
    """Tables of the measured windows of all valid runs, and of the times whose polls are of them.

    Their rows go in by columns: executemany runs a statement for each row, which takes longer than all the rest.
    """
    db.execute(
        "CREATE TEMP TABLE measured "
        "(run BIGINT, level INTEGER, started DOUBLE, ended DOUBLE, counted DOUBLE, is_sliced BOOLEAN, width INTEGER)"
    )
    db.execute("CREATE TEMP TABLE at_work (run BIGINT, level INTEGER, started DOUBLE, ended DOUBLE, is_sliced BOOLEAN)")
    rows = [
        (run.id, window.level, window.started, window.ended, window.counted, bool(run.slices), widths[run.id])
        for run in evidence.valid
        for window in windows(run)
    ]
    if rows:
        db.execute(
            "INSERT INTO measured SELECT unnest(?::BIGINT[]), unnest(?::INTEGER[]), unnest(?::DOUBLE[]), "
            "unnest(?::DOUBLE[]), unnest(?::DOUBLE[]), unnest(?::BOOLEAN[]), unnest(?::INTEGER[])",
            [list(column) for column in zip(*rows, strict=True)],
        )
        polled = [
            (run.id, span.level, span.started, span.ended, bool(run.slices))
            for run in evidence.valid
            for span in spans(run)
        ]
        db.execute(
            "INSERT INTO at_work SELECT unnest(?::BIGINT[]), unnest(?::INTEGER[]), unnest(?::DOUBLE[]), "
            "unnest(?::DOUBLE[]), unnest(?::BOOLEAN[])",
            [list(column) for column in zip(*polled, strict=True)],
        )


def _create_source(
    db: duckdb.DuckDBPyConnection,
    evidence: Evidence,
    name: str,
    files: Mapping[int, Path],
    *,
    is_kept: bool = False,
) -> None:
    """One kind of file of all runs, with the run's id as an additional column: a view, or kept in a table, so that
    several queries open the files only once. StoreError names a file in which values are missing, or that has more rows
    than a run of that length.
    """
    most = most_rows(evidence.folder, evidence.valid, f"{name}.parquet")
    source = parquet.source(db, list(files.values()), table=name, most_rows=most)
    db.execute(
        f"CREATE TEMP TABLE {name}_file AS SELECT unnest(?::BIGINT[]) AS run, unnest(?::VARCHAR[]) AS file",
        [list(files), [str(path) for path in files.values()]],
    )
    db.execute(
        f"CREATE TEMP {'TABLE' if is_kept else 'VIEW'} {name} AS SELECT {name}_file.run, rows.* "
        f"FROM {source} AS rows JOIN {name}_file ON file = filename"
    )


def _check_counted(db: duckdb.DuckDBPyConnection, files: Mapping[int, Path], *, may_lack: bool) -> None:
    """A command may tell no more than how many requests it made: the load ``may_lack`` its latencies.

    Also of counts that are missing although the file says of itself that none is.
    """
    found = db.execute(
        "SELECT run FROM counted WHERE count > 0 AND NOT coalesce(isfinite(latency_sum), ?) "
        "OR NOT coalesce(isfinite(lag_sum), true) OR NOT coalesce(isfinite(inside) AND inside >= 0, true) "
        "OR count + failed + skipped + late IS NULL LIMIT 1",
        [may_lack],
    ).fetchone()
    if found is not None:
        raise StoreError(f'file "{files[found[0]]}" is damaged: its times or counts are no numbers')


@dataclass(frozen=True, slots=True)
class _Latencies:
    """See Reduction; ``p95`` is by run, level and bin, in seconds."""

    histograms: dict[Cell, Histogram] = field(default_factory=dict)
    rows: dict[tuple[int, int], NDArray[np.int64]] = field(default_factory=dict)
    p95: dict[tuple[int, int, int], float] = field(default_factory=dict)


def _latencies(db: duckdb.DuckDBPyConnection, evidence: Evidence, files: Mapping[int, Path]) -> _Latencies:
    """Of some runs at a time: those of all runs together have no room in memory where the runs are long."""
    found = _Latencies()
    for runs in read_together(evidence.valid):
        db.execute(_query("latencies"), [[str(files[run.id]) for run in runs]])
        _check_buckets(db, files)
        buckets = db.execute(_query("buckets")).fetchnumpy()
        found.histograms.update(_histograms(db))
        found.rows.update(_latency_rows(buckets))
        found.p95.update(_p95(buckets))
    return found


def _check_buckets(db: duckdb.DuckDBPyConnection, files: Mapping[int, Path]) -> None:
    """Also of lists that are not of one length: the shorter one lacks the rest."""
    is_missing = "bucket IS NULL OR count IS NULL"
    found = db.execute(
        f"SELECT run, {is_missing} FROM latencies WHERE {is_missing} OR bucket NOT BETWEEN 0 AND {LAST} LIMIT 1"
    ).fetchone()
    if found is not None:
        what = "values of its histograms are missing" if found[1] else "its histograms have latencies of no clock"
        raise StoreError(f'file "{files[found[0]]}" is damaged: {what}')


def _totals(db: duckdb.DuckDBPyConnection) -> dict[Cell, Totals]:
    return {
        (run, level, scenario): Totals(
            count=count,
            inside=inside,
            latency_sum=latency_sum,
            failed=failed,
            skipped=skipped,
            late=late,
            lag_sum=lag_sum or 0.0,
        )
        for run, level, scenario, count, inside, latency_sum, failed, skipped, late, lag_sum in _rows(db, "totals")
    }


def _histograms(db: duckdb.DuckDBPyConnection) -> dict[Cell, Histogram]:
    return {
        (run, level, scenario): Histogram(
            buckets=np.array(buckets, dtype=np.int64), counts=np.array(counts, dtype=np.int64)
        )
        for run, level, scenario, buckets, counts in _rows(db, "histograms")
    }


def _p95(buckets: _Columns) -> dict[tuple[int, int, int], float]:
    """The first bucket of each bin at or below which 95 % of the bin's transactions lie."""
    starts = _starts(buckets["run"], buckets["level"], buckets["bin"])
    up_to = np.cumsum(buckets["count"])
    ends = np.append(starts[1:], up_to.size)[: starts.size] - 1
    before = up_to[starts] - buckets["count"][starts]
    # In whole numbers: 95 % of a count may be a count as well.
    wanted = np.searchsorted(up_to * 100, before * 100 + (up_to[ends] - before) * 95)
    keys = zip(*(buckets[name][starts].tolist() for name in ("run", "level", "bin")), strict=True)
    return dict(zip(keys, map(bucket_value, buckets["bucket"][wanted].tolist()), strict=True))


def _bins(
    db: duckdb.DuckDBPyConnection, p95: Mapping[tuple[int, int, int], float]
) -> dict[tuple[int, int], tuple[Bin, ...]]:
    bins: dict[tuple[int, int], list[Bin]] = {}
    for run, level, index, count, latency_mean in _rows(db, "bins"):
        bins.setdefault((run, level), []).append(
            Bin(index=index, count=count, latency_mean=latency_mean, latency_p95=p95.get((run, level, index)))
        )
    return {key: tuple(value) for key, value in bins.items()}


def _stalls(db: duckdb.DuckDBPyConnection, *, with_sessions: bool) -> dict[tuple[int, int], Stall]:
    db.execute(_query("stalls"))
    active = {(run, level): mean for run, level, mean in _rows(db, "stalled")} if with_sessions else {}
    return {
        (run, level): Stall(seconds=seconds, active=active.get((run, level)))
        for run, level, seconds in db.execute("SELECT run, level, seconds FROM stalls").fetchall()
    }


def _latency_rows(buckets: _Columns) -> dict[tuple[int, int], NDArray[np.int64]]:
    known, place = np.unique(buckets["bucket"], return_inverse=True)
    rows = np.array([row_of(bucket) for bucket in known.tolist()], dtype=np.int64)[place]
    columns = [buckets["run"], buckets["level"], buckets["bin"], rows]
    order = np.lexsort(columns[::-1])
    columns = [column[order] for column in columns]
    starts = _starts(*columns)
    counts = np.add.reduceat(buckets["count"][order], starts) if starts.size else buckets["count"]
    run, level, index, rows = (column[starts] for column in columns)
    cells = np.column_stack([index, rows, counts]).astype(np.int64, copy=False)
    windows_ = _starts(run, level)
    if not windows_.size:  # which np.split does not know
        return {}
    return {
        (int(run[start]), int(level[start])): mine
        for start, mine in zip(windows_, np.split(cells, windows_[1:]), strict=True)
    }


def _starts(*columns: NDArray[Any]) -> NDArray[np.intp]:
    """Where the values of sorted columns change, and where they begin."""
    if not columns[0].size:
        return np.empty(0, np.intp)
    changes = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
    return np.append(0, np.flatnonzero(changes) + 1)


@dataclass(frozen=True, slots=True)
class _Counters:
    """See Reduction."""

    increases: dict[tuple[int, int, str], dict[str, float]] = field(default_factory=dict)
    gaps: dict[int, float] = field(default_factory=dict)
    foreign: list[int] = field(default_factory=list)
    wait_counts: dict[tuple[int, int], dict[tuple[str, str], float]] = field(default_factory=dict)


def _read_counters(db: duckdb.DuckDBPyConnection, evidence: Evidence, files: Mapping[int, Path]) -> _Counters:
    counters = _Counters()
    if not files:
        return counters
    _create_source(db, evidence, "samples", files)
    for runs in read_together([run for run in evidence.valid if run.id in files]):
        found = fetch_readings(db, _query("readings"), [[run.id for run in runs], [*COUNTERS, WAIT_COUNTS]])
        for run in runs:
            readings = found.get(run.id, {})
            if _is_foreign(run, readings):
                counters.foreign.append(run.id)
            _add_increases(counters, run, {key: mine for key, mine in readings.items() if key[0] != WAIT_COUNTS})
            _add_wait_counts(counters, run, {key: mine for key, mine in readings.items() if key[0] == WAIT_COUNTS})
    return counters


def _is_foreign(run: RunRow, readings: Readings) -> bool:
    """Whether there are readings, and all are of before the phases of a run or after them."""
    if not readings or not run.phases:
        return False
    start, end = min(phase.start for phase in run.phases), max(phase.end for phase in run.phases)
    return all(t[-1] < start or t[0] > end for t, _ in readings.values())


def _add_increases(counters: _Counters, run: RunRow, readings: Readings) -> None:
    """A counter with an object that has no increase has none at all. Not so those whose objects come and go."""
    incomplete: set[tuple[int, int, str]] = set()
    for level, (counter, name), increase, gap in window_increases(run, readings):
        key = run.id, level, counter
        if counter not in SEPARATE:
            counters.gaps[run.id] = max(gap, counters.gaps.get(run.id, 0.0))
        if increase is not None:
            counters.increases.setdefault(key, {})[name] = increase
        elif counter not in SEPARATE:
            incomplete.add(key)
    for key in incomplete:
        counters.increases.pop(key, None)


def _add_wait_counts(counters: _Counters, run: RunRow, readings: Readings) -> None:
    """Since 1.1.6 pg_wait_sampling also counts sessions that wait for nothing ("/"): these are no wait."""
    for span in spans(run):
        for name, count in count_between(span, readings).items():
            wait_type, _, wait_event = name.partition("/")
            if wait_type or wait_event:
                counts = counters.wait_counts.setdefault((run.id, span.level), {})
                counts[wait_type, wait_event] = counts.get((wait_type, wait_event), 0.0) + count


def _waits(
    db: duckdb.DuckDBPyConnection, evidence: Evidence, files: Mapping[int, Path], *, is_kept: bool
) -> tuple[dict[tuple[int, int], tuple[Wait, ...]], dict[tuple[int, int], float]]:
    """Waits, and the average number of autovacuum workers; see Reduction."""
    if not files:
        return {}, {}
    _create_source(db, evidence, "waits", files, is_kept=is_kept)
    _check_waits(db, files)
    db.execute(_query("sampled"))
    waits: dict[tuple[int, int], list[Wait]] = {}
    autovacuum: dict[tuple[int, int], float] = {}
    for run, level, wait_type, wait_event, sessions, workers in _rows(db, "waits"):
        found = waits.setdefault((run, level), [])
        autovacuum[run, level] = workers
        if sessions is not None:
            found.append(Wait(wait_type=wait_type, wait_event=wait_event, sessions=sessions))
    return {key: tuple(value) for key, value in waits.items()}, autovacuum


def _check_waits(db: duckdb.DuckDBPyConnection, files: Mapping[int, Path]) -> None:
    """Raise StoreError for more of them than a server has: each is in the findings many times."""
    (number,) = db.execute("SELECT count(DISTINCT (wait_type, wait_event)) FROM waits").fetchall()[0]
    if number > _MOST_WAITS:
        what = f"with the other runs it has {number:,} different waits, more than any server"
        raise damaged(next(iter(files.values())), what)


def _background(db: duckdb.DuckDBPyConnection) -> dict[tuple[int, int], tuple[BackgroundGroup, ...]]:
    found: dict[tuple[int, int], list[BackgroundGroup]] = {}
    for run, level, process, wait_type, wait_event, sessions in _rows(db, "background"):
        found.setdefault((run, level), []).append(
            BackgroundGroup(process=process, wait_type=wait_type, wait_event=wait_event, sessions=sessions)
        )
    return {key: tuple(value) for key, value in found.items()}


def _sessions(
    db: duckdb.DuckDBPyConnection,
) -> tuple[dict[tuple[int, int], tuple[SessionGroup, ...]], dict[tuple[int, int], int]]:
    """The sessions, and the number of polls that found them; see Reduction."""
    found: dict[tuple[int, int], list[SessionGroup]] = {}
    polls: dict[tuple[int, int], int] = {}
    for run, level, scenario, state, wait_type, wait_event, query, sessions, number in _rows(db, "sessions"):
        groups = found.setdefault((run, level), [])
        polls[run, level] = int(number)
        if sessions is not None:
            groups.append(
                SessionGroup(
                    scenario=scenario,
                    state=state,
                    wait_type=wait_type,
                    wait_event=wait_event,
                    query=query,
                    sessions=sessions,
                )
            )
    return {key: tuple(groups) for key, groups in found.items()}, polls


def _scatter(db: duckdb.DuckDBPyConnection) -> dict[Cell, dict[tuple[str, str], float]]:
    found: dict[Cell, dict[tuple[str, str], float]] = {}
    for run, level, scenario, kind, event, variance in _rows(db, "scatter"):
        found.setdefault((run, level, scenario), {})[kind, event] = max(0.0, variance)
    return found


@dataclass(frozen=True, slots=True)
class _Turns:
    """See Reduction."""

    parts: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    washout: dict[tuple[int, int], float] = field(default_factory=dict)
    part_latencies: dict[tuple[int, int], NDArray[np.float64]] = field(default_factory=dict)
    washout_latencies: dict[tuple[int, int], float] = field(default_factory=dict)


def _turns(db: duckdb.DuckDBPyConnection, evidence: Evidence, files: Mapping[int, Path]) -> _Turns:
    """A slice without a row had no transactions."""
    turns = _Turns()
    if not files:
        return turns
    _create_source(db, evidence, "slices", files)
    places = {
        (run.id, window.level): {each.number: place for place, each in enumerate(slices_of(run, window.level))}
        for run in evidence.valid
        for window in windows(run)
        if run.id in files
    }
    for found in (turns.parts, turns.part_latencies):
        found.update((key, np.zeros((len(numbers), PARTS))) for key, numbers in places.items())
    for run, level, number, part, count, latencies in db.execute(
        "SELECT run, level, slice, part, sum(count), coalesce(sum(latency_sum), 0) FROM slices GROUP BY ALL"
    ).fetchall():
        if part == WASHOUT_PART:
            turns.washout[run, level] = turns.washout.get((run, level), 0.0) + count
            turns.washout_latencies[run, level] = turns.washout_latencies.get((run, level), 0.0) + latencies
        elif number in places.get((run, level), {}):
            place = places[run, level][number], part
            turns.parts[run, level][place], turns.part_latencies[run, level][place] = count, latencies
    return turns


def _rows(db: duckdb.DuckDBPyConnection, name: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    return db.execute(_query(name), list(parameters)).fetchall()
