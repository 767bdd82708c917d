"""Readings of Parquet files as arrays, by run, metric and object."""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb

from pgtrial.analysis.counters import Array, Key, Readings
from pgtrial.analysis.slices import windows
from pgtrial.model.run import RunRow

_TOGETHER = 600  # s of measured time that are read together


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
    """What a query has of run, metric, object, t and value, by run, in order of time."""
    db.execute(f"CREATE OR REPLACE TEMP TABLE reading AS {query}", list(parameters))
    keys = db.execute("SELECT run, metric, object, count(*) FROM reading GROUP BY ALL ORDER BY ALL").fetchall()
    # Names are not fetched with every row: making a string of each would take longer than all the rest.
    columns = db.execute("SELECT t, value FROM reading ORDER BY run, metric, object, t").fetchnumpy()
    db.execute("DROP TABLE reading")
    found: dict[int, dict[Key, tuple[Array, Array]]] = {}
    end = 0
    for run, metric, about, count in keys:
        start, end = end, end + count
        found.setdefault(run, {})[metric, about] = columns["t"][start:end], columns["value"][start:end]
    return dict(found)
