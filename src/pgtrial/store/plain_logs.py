"""Logs that somebody's own pgbench wrote with -l, without an experiment around them.

A folder may hold several runs of pgbench: a log is called PREFIX.PID, those of its further threads PREFIX.PID.1,
PREFIX.PID.2, … . Logs of single transactions are read by way of transactions.py; those with --aggregate-interval have
no percentiles, and are read here. Of both, only whole seconds (intervals) count: the first and the last are cut off by
the start and the end of pgbench.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from pgtrial.errors import StoreError, WorkloadError
from pgtrial.store import parquet
from pgtrial.store.aggregated_log import is_aggregated, read_aggregated
from pgtrial.store.pgbench_log import LevelLog, check_whole, explain_error, read_logs
from pgtrial.store.plain_run import PlainRun
from pgtrial.store.transactions import ingest

MOST_BINS = 3600  # of a run; longer ones have bins of several seconds
_LINE = re.compile(rb"\d+ \d+ (\d+|skipped|failed|serialization|deadlock) \d+ \d{9,} \d{1,6}( .*)?\n?")
_HINT = 'It should be a log that "pgbench -l" wrote (pgbench_log.PID), or a folder with such logs.'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What has to be known of the logs of one process before they can be counted; times in seconds since the epoch."""

    first: float
    last: float
    clients: int
    scripts: int
    logged: int
    numbered: int  # transactions that the clients have counted
    has_rate: bool


def read_plain_runs(path: Path) -> tuple[PlainRun, ...]:
    """The runs in a log file or in a folder of logs, in order of time; at least one.

    Processes that were at work at the same time are one run. What is no log is passed over in a folder.
    StoreError: there is nothing to read. WorkloadError: a log is cut off, damaged, or too short.
    """
    groups = _find_logs(path)
    runs = sorted((_read(name, files) for name, files in groups.items()), key=lambda run: run.started)
    merged: list[PlainRun] = []
    for run in runs:
        if merged and run.started < merged[-1].ended:
            merged[-1] = _at_the_same_time(path, merged[-1], run)
        else:
            merged.append(run)
    return tuple(merged)


def _find_logs(path: Path) -> dict[str, tuple[Path, ...]]:
    """Name of the first log of each process to all of its logs."""
    try:
        if path.is_dir():
            found = sorted(entry for entry in path.iterdir() if entry.is_file() and _is_log(entry))
        elif not path.is_file():
            raise StoreError(f'there is no file or folder "{path}"', hint=_HINT)
        elif not _is_log(path):
            raise StoreError(f'"{path}" is not a log of pgbench', hint=_HINT)
        else:
            threads = path.parent.glob(f"{_escaped(path.name)}.*")
            found = [path, *sorted(one for one in threads if one.suffix[1:].isdigit() and _is_log(one))]
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}', hint=_HINT) from err
    if not found:
        raise StoreError(f'folder "{path}" has no log of pgbench', hint=_HINT)
    names = {one.name for one in found}
    groups: dict[str, list[Path]] = {}
    for one in found:
        stem, _, thread = one.name.rpartition(".")
        groups.setdefault(stem if thread.isdigit() and stem in names else one.name, []).append(one)
    return {name: tuple(files) for name, files in groups.items()}


def _is_log(path: Path) -> bool:
    """Whether its first line is one of a log; an empty file is none, though a thread may have left one."""
    with path.open("rb") as file:
        line = file.readline(1000)
    return _LINE.fullmatch(line) is not None or is_aggregated(line)


def _read(name: str, files: tuple[Path, ...]) -> PlainRun:
    for file in files:
        check_whole(file)
    with files[0].open("rb") as opened:
        aggregated = is_aggregated(opened.readline(1000))
    return read_aggregated(name, files) if aggregated else _read_transactions(name, files)


def _read_transactions(name: str, files: tuple[Path, ...]) -> PlainRun:
    """Counts, latencies and histograms of whole seconds."""
    log = LevelLog(
        level=0,
        scenarios=("",),
        files=files,
        window=(0.0, 0.0),
        latency_limit=None,
        has_rate=False,
        max_tries=1,
    )
    with parquet.session() as db:
        return _count(db, name, log)


def _count(db: duckdb.DuckDBPyConnection, name: str, log: LevelLog) -> PlainRun:
    shape, files = _measure_shape(db, log), log.files
    start, seconds = int(shape.first) + 1, int(shape.last) - int(shape.first) - 1
    if seconds < 1:
        raise WorkloadError(
            f'the log "{files[0]}" holds no whole second between its first and its last transaction',
            hint="Let pgbench run for a minute at least (-T 60).",
        )
    scripts = tuple(f"script {number}" for number in range(shape.scripts))
    window = (float(start), float(start + seconds))
    with tempfile.TemporaryDirectory(prefix="pgtrial-compare-") as directory:
        out = Path(directory) / "transactions.parquet"
        ingest([replace(log, scenarios=scripts, window=window)], out)
        return _collect(db, name, out, files=files, shape=shape, start=start, seconds=seconds)


def _measure_shape(db: duckdb.DuckDBPyConnection, log: LevelLog) -> _Shape:
    """By one pass over the lines.

    Of a log with one field more than the usual ones it is not said whether that is the lag of --rate or the retries of
    --max-tries. Most transactions are not retried, and hardly any begins in the very microsecond in which it is due.
    """
    with log.files[0].open("rb") as file:
        fields = len(file.readline().split())
    extra = "TRY_CAST(unknown0 AS BIGINT)" if fields > 6 else "NULL::BIGINT"
    try:
        row = db.execute(f"""
            WITH lines AS (SELECT client, number, script, epoch + microsecond / 1e6 AS ended, {extra} AS extra
                           FROM {read_logs(log)}),
                 by_client AS (SELECT max(number) - min(number) + 1 AS numbered FROM lines GROUP BY client)
            SELECT min(ended), max(ended), count(DISTINCT client), max(script) + 1, count(*),
                   (SELECT sum(numbered) FROM by_client), coalesce(median(extra), 0) > 0
            FROM lines
        """).fetchone()
    except duckdb.Error as err:
        raise WorkloadError(
            f'"{log.files[0]}" has a line that is not one of a pgbench log', detail=explain_error(err)
        ) from err
    assert row is not None  # an aggregate has one row
    first, last, clients, scripts, logged, numbered, has_rate = row
    return _Shape(
        first=float(first),
        last=float(last),
        clients=int(clients),
        scripts=int(scripts),
        logged=int(logged),
        numbered=int(numbered),
        has_rate=bool(has_rate),
    )


def _collect(
    db: duckdb.DuckDBPyConnection,
    name: str,
    out: Path,
    *,
    files: Sequence[Path],
    shape: _Shape,
    start: int,
    seconds: int,
) -> PlainRun:
    """transactions.parquet as arrays over bins of equal width."""
    width = -(-seconds // MOST_BINS)
    bins = seconds // width
    inside = f"FROM {{files}} WHERE second < {bins * width}"
    sums = parquet.read(
        [out],
        f"""SELECT second // {width} AS bin, sum(count)::DOUBLE AS count, sum(latency_sum) AS latency,
                   sum(failed)::DOUBLE AS failed, sum(skipped)::DOUBLE AS skipped
            {inside} GROUP BY bin""",
        db=db,
    )
    cells = parquet.read(
        [out],
        f"""SELECT bin, bucket, sum(number)::BIGINT AS number
            FROM (SELECT second // {width} AS bin, unnest(buckets) AS bucket, unnest(bucket_counts) AS number {inside})
            GROUP BY bin, bucket""",
        db=db,
    )
    buckets = np.unique(np.asarray(cells["bucket"], dtype=np.int64))
    histogram = np.zeros((bins, buckets.size))
    histogram[
        np.asarray(cells["bin"], dtype=np.int64),
        np.searchsorted(buckets, np.asarray(cells["bucket"], dtype=np.int64)),
    ] = np.asarray(cells["number"], dtype=np.float64)
    places = np.asarray(sums["bin"], dtype=np.int64)

    def spread(column: str) -> NDArray[np.float64]:
        values = np.zeros(bins)
        values[places] = np.asarray(sums[column], dtype=np.float64)
        return values

    return PlainRun(
        name=name,
        files=tuple(str(file) for file in files),
        is_aggregated=False,
        started=float(start),
        width=float(width),
        counts=spread("count"),
        latencies=spread("latency"),
        failed=float(spread("failed").sum()),
        skipped=float(spread("skipped").sum()),
        buckets=buckets,
        histogram=histogram,
        clients=shape.clients,
        scripts=shape.scripts,
        has_rate=shape.has_rate,
        logged_share=min(1.0, shape.logged / shape.numbered),
    )


def _at_the_same_time(path: Path, first: PlainRun, second: PlainRun) -> PlainRun:
    """Two processes as one load, in the time in which both were at work."""
    start, end = max(first.started, second.started), min(first.ended, second.ended)
    is_aligned = first.width == second.width and (first.started - second.started) % first.width == 0
    if first.is_aggregated or second.is_aggregated or not is_aligned or end - start < first.width:
        raise StoreError(
            f'in "{path}" the logs "{first.name}" and "{second.name}" overlap in time, and cannot be added up',
            hint="Put logs of different loads into different folders.",
        )
    parts = [run.between(start, end) for run in (first, second)]
    buckets = np.union1d(parts[0].buckets, parts[1].buckets)
    histogram = np.zeros((parts[0].counts.size, buckets.size))
    for part in parts:
        histogram[:, np.searchsorted(buckets, part.buckets)] += part.histogram
    return replace(
        parts[0],
        name=f"{first.name} + {second.name}",
        files=(*first.files, *second.files),
        counts=parts[0].counts + parts[1].counts,
        latencies=parts[0].latencies + parts[1].latencies,
        failed=parts[0].failed + parts[1].failed,
        skipped=parts[0].skipped + parts[1].skipped,
        buckets=buckets,
        histogram=histogram,
        clients=(parts[0].clients or 0) + (parts[1].clients or 0),
        scripts=max(first.scripts or 0, second.scripts or 0),
        has_rate=first.has_rate or second.has_rate,
        logged_share=min(first.logged_share, second.logged_share),
    )


def _escaped(name: str) -> str:
    """A name that is no pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
