"""samples.parquet, waits.parquet and statements.parquet of a run; the columns are described in columns.sql."""

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np

from pgtrial.model.metric import Sample
from pgtrial.store import parquet

_UNCOUNTED = -1  # in memory; on the disk it is NULL


class WaitRow(NamedTuple):
    """Sessions of one second that are alike, summed over its polls; ``t`` is the time of the first."""

    t: float
    polls: int
    backend_type: str
    application: str
    state: str
    wait_type: str
    wait_event: str
    query: str
    sessions: int


class StatementRow(NamedTuple):
    """Cumulative counters of a statement, as read at ``t``; ``exec_time`` in s, ``wal_bytes`` in B, None where not
    counted.
    """

    t: float
    queryid: str
    calls: int
    rows: int
    exec_time: float
    shared_blks_hit: int
    shared_blks_read: int
    shared_blks_dirtied: int
    shared_blks_written: int
    temp_blks_read: int
    temp_blks_written: int
    wal_bytes: int | None
    query: str


class TextColumn:
    """A column with few distinct texts: a number per row, and the texts."""

    def __init__(self) -> None:
        self._codes = array("i")
        self._texts: dict[str, int] = {}

    def append(self, text: str) -> None:
        self._codes.append(self._texts.setdefault(text, len(self._texts)))

    def register(self, db: duckdb.DuckDBPyConnection, name: str) -> None:
        # Where there are no rows, DuckDB cannot see that these are texts: queries cast them.
        texts = np.array(list(self._texts), dtype=object)
        db.register(f"{name}_texts", {"code": np.arange(len(texts), dtype=np.int32), name: texts})

    @property
    def codes(self) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        return np.frombuffer(self._codes, dtype=np.int32)


def write_samples(samples: Iterable[Sample], path: Path) -> int:
    """Write samples.parquet, by metric, object and time; returns the number of rows. Raises StoreError."""
    t, value = array("d"), array("d")
    metric, about = TextColumn(), TextColumn()
    for sample in samples:
        t.append(sample.t)
        metric.append(sample.metric)
        about.append(sample.object)
        value.append(sample.value)
    with parquet.session() as db:
        metric.register(db, "metric")
        about.register(db, "object")
        columns = {"t": np.frombuffer(t), "value": np.frombuffer(value), "m": metric.codes, "o": about.codes}
        db.register("readings", columns)
        parquet.write_query(
            db,
            """
            SELECT t, metric::VARCHAR AS metric, object::VARCHAR AS object, value
            FROM readings
            JOIN metric_texts ON m = metric_texts.code
            JOIN object_texts ON o = object_texts.code
            ORDER BY metric, object, t
            """,
            path,
        )
    return len(t)


def write_waits(rows: Iterable[WaitRow], path: Path) -> int:
    """Write waits.parquet, by time; returns the number of rows. Raises StoreError."""
    texts = {
        name: TextColumn() for name in ("backend_type", "application", "state", "wait_type", "wait_event", "query")
    }
    t, polls, sessions = array("d"), array("i"), array("i")
    for row in rows:
        t.append(row.t)
        polls.append(row.polls)
        sessions.append(row.sessions)
        for name, column in texts.items():
            column.append(getattr(row, name))
    with parquet.session() as db:
        columns = {"t": np.frombuffer(t), "polls": np.frombuffer(polls, dtype=np.int32)}
        for name, column in texts.items():
            column.register(db, name)
            columns[f"{name}_code"] = column.codes
        db.register("groups", {**columns, "sessions": np.frombuffer(sessions, dtype=np.int32)})
        names = ", ".join(f"{name}::VARCHAR AS {name}" for name in texts)
        joins = " ".join(f"JOIN {name}_texts ON {name}_code = {name}_texts.code" for name in texts)
        parquet.write_query(db, f"SELECT t, polls, {names}, sessions FROM groups {joins} ORDER BY ALL", path)
    return len(t)


def write_statements(rows: Iterable[StatementRow], path: Path) -> int:
    """Write statements.parquet, by time; returns the number of rows. Raises StoreError."""
    texts = {name: TextColumn() for name in ("queryid", "query")}
    times = {name: array("d") for name in ("t", "exec_time")}
    counts = {name: array("q") for name in StatementRow._fields if name not in texts and name not in times}
    columns: Mapping[str, TextColumn | array[float] | array[int]] = {**texts, **times, **counts}
    for row in rows:
        wal_bytes = _UNCOUNTED if row.wal_bytes is None else row.wal_bytes
        for name, value in row._replace(wal_bytes=wal_bytes)._asdict().items():
            columns[name].append(value)
    with parquet.session() as db:
        numbers = {name: np.frombuffer(column) for name, column in times.items()}
        integers = {name: np.frombuffer(column, dtype=np.int64) for name, column in counts.items()}
        codes = {f"{name}_code": column.codes for name, column in texts.items()}
        for name, column in texts.items():
            column.register(db, name)
        db.register("counts", {**numbers, **integers, **codes})
        cast = {**{name: f"{name}::VARCHAR" for name in texts}, "wal_bytes": f"nullif(wal_bytes, {_UNCOUNTED})"}
        names = ", ".join(f"{cast.get(name, name)} AS {name}" for name in StatementRow._fields)
        joins = " ".join(f"JOIN {name}_texts ON {name}_code = {name}_texts.code" for name in texts)
        parquet.write_query(db, f"SELECT {names} FROM counts {joins} ORDER BY t, queryid", path)
    return len(times["t"])
