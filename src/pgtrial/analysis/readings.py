"""Readings of Parquet files as arrays, by run, metric and object."""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np

from pgtrial.analysis.counters import Array, Key, Readings
from pgtrial.analysis.slices import windows
from pgtrial.errors import StoreError
from pgtrial.model.run import RunRow

_AT_ONCE = 1_000_000  # readings
_TOGETHER = 600  # s of measured time that are read together
# Series times moments for each reading. Of real ones there are 20 to 40, as each source is read at its own moments;
# whoever forges a file can have another object and another moment in each row, and whatever puts them side by side
# would have no room.
_FREE_CELLS, _MOST_CELLS = 5_000_000, 200
_LARGEST = 1e30  # of readings: bytes of all the disks there are come to some 1e22, and its square is still a number


def read_together(runs: Sequence[RunRow]) -> Iterator[tuple[RunRow, ...]]:
    """The runs with measured time, as many together as memory is for: one query takes no longer for several of them.

    Those of slices have other metrics than those without.
    """
    batch: list[RunRow] = []
    seconds = 0.0
    for run in runs:
        measured = windows(run)
        if not measured:
            continue
        length = sum(window.counted for window in measured)
        if batch and (seconds + length > _TOGETHER or bool(batch[0].slices) != bool(run.slices)):
            yield tuple(batch)
            batch, seconds = [], 0.0
        batch.append(run)
        seconds += length
    if batch:
        yield tuple(batch)


def fetch_readings(db: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any]) -> dict[int, Readings]:
    """What a query has of run, metric, object, t and value, by run, in order of time. StoreError for what is forged."""
    db.execute(
        f"CREATE OR REPLACE TEMP TABLE reading AS FROM ({query}) ORDER BY run, metric, object, t", list(parameters)
    )
    _check_room(db)
    keys = db.execute("SELECT run, metric, object, count(*) FROM reading GROUP BY ALL ORDER BY ALL").fetchall()
    times, values = _fetch(db, sum(count for *_, count in keys))
    db.execute("DROP TABLE reading")
    found: dict[int, dict[Key, tuple[Array, Array]]] = {}
    end = 0
    for run, metric, about, count in keys:
        start, end = end, end + count
        if (largest := np.abs(values[start:end]).max()) > _LARGEST:
            raise StoreError(f'run {run} is damaged: a reading of "{metric}" is {largest:g}')
        found.setdefault(run, {})[metric, about] = times[start:end], values[start:end]
    return dict(found)


def _fetch(db: duckdb.DuckDBPyConnection, rows: int) -> tuple[Array, Array]:
    """Times and values in their order, some at a time: DuckDB's answer is in memory beside the arrays made of it.

    Names are not fetched with every row: making a string of each would take longer than all the rest.
    """
    times, values = np.empty(rows), np.empty(rows)
    for start in range(0, rows, _AT_ONCE):
        part = slice(start, min(start + _AT_ONCE, rows))
        query = "SELECT t, value FROM reading WHERE rowid >= ? AND rowid < ? ORDER BY rowid"
        columns = db.execute(query, [part.start, part.stop]).fetchnumpy()
        times[part], values[part] = columns["t"], columns["value"]
    return times, values


def _check_room(db: duckdb.DuckDBPyConnection) -> None:
    found = db.execute(
        "SELECT run, count(*) AS readings, count(DISTINCT (metric, object)) AS series, count(DISTINCT t) AS moments "
        "FROM reading GROUP BY run HAVING series * moments > ? + ? * readings LIMIT 1",
        [_FREE_CELLS, _MOST_CELLS],
    ).fetchone()
    if found is not None:
        run, readings, series, moments = found
        raise StoreError(
            f"run {run} is damaged: its {readings:,} readings are of {series:,} series at {moments:,} times"
        )
