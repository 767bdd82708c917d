"""Parquet files of a run without secrets, hosts and statements in their columns of texts."""

from collections.abc import Callable
from pathlib import Path

import duckdb

from pgtrial.errors import StoreError
from pgtrial.store import layout, parquet
from pgtrial.store.frames import quote
from pgtrial.store.redact.known import Known
from pgtrial.store.redact.names import Names

# The files that hold texts from elsewhere, with the order of their rows.
FILES = {
    layout.SAMPLES: "metric, object, t, value",
    layout.WAITS: "ALL",
    layout.STATEMENTS: "ALL",
}
# Columns of PostgreSQL's and pgtrial's own words, and what the load's sessions call themselves.
_WORDS = {"metric", "backend_type", "state", "wait_type", "wait_event", "queryid"}
_OWN_APPLICATION = "pgtrial/"
# Metrics whose objects are relations, alone or before the name of a phase.
_OF_RELATIONS = ("pg_buffercache.", "pg_stat_progress_")


def learn_columns(path: Path, known: Known) -> None:
    """What the texts of a file give away. Raises StoreError."""
    with parquet.session(threads=1) as db:
        for column in _text_columns(db, path):
            for text in _distinct(db, path, [column]):
                known.learn(text[0])


def redact_columns(path: Path, to: Path, names: Names) -> None:
    """Write the file anew without what ``names`` takes out. Raises StoreError."""
    with parquet.session(threads=1) as db:
        replaced = []
        for place, column in enumerate(_text_columns(db, path)):
            keys = ["metric", column] if column == "object" else [column]
            change = _change(column, names)
            rows = [(*row, change(*row)) for row in _distinct(db, path, keys)]
            table = f"instead_{place}"
            columns = ", ".join(f"unnest(?::VARCHAR[]) AS {name}" for name in (*_keys(keys), "instead"))
            db.execute(f"CREATE TEMP TABLE {table} AS SELECT {columns}", _lists(rows, len(keys) + 1))
            joined = " AND ".join(
                f"f.{quote(key)} = {table}.{name}" for key, name in zip(keys, _keys(keys), strict=True)
            )
            replaced.append((column, table, joined))
        joins = " ".join(f"LEFT JOIN {table} ON {joined}" for _, table, joined in replaced)
        values = ", ".join(f"{table}.instead AS {quote(column)}" for column, table, _ in replaced)
        replace = f" REPLACE ({values})" if replaced else ""
        query = f"SELECT f.*{replace} FROM read_parquet({_file(path)}) AS f {joins}"
        parquet.write_query(db, f"SELECT * FROM ({query}) ORDER BY {FILES[path.name]}", to)


def _change(column: str, names: Names) -> Callable[..., str]:
    """What becomes of a text, given behind its metric where it is what a metric is about."""
    if column == "query":
        return names.query
    if column == "object":
        return lambda metric, text: _object(metric, text, names)
    return lambda text: text if text.startswith(_OWN_APPLICATION) else names.clean(text)


def _object(metric: str, text: str, names: Names) -> str:
    """Only relations have names that users give; all else is of the machine and of PostgreSQL."""
    if not metric.startswith(_OF_RELATIONS):
        return text
    relation, slash, phase = text.partition("/")
    return f"{names.relation(relation)}{slash}{phase}"


def _keys(columns: list[str]) -> list[str]:
    return [f"key_{number}" for number in range(len(columns))]


def _lists(rows: list[tuple[str, ...]], width: int) -> list[list[str]]:
    return [[row[place] for row in rows] for place in range(width)]


def _text_columns(db: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    try:
        described = db.execute(f"DESCRIBE SELECT * FROM read_parquet({_file(path)})").fetchall()
    except duckdb.Error as err:
        raise StoreError(f'cannot read "{path}": {str(err).splitlines()[0]}') from err
    return [name for name, kind, *_ in described if kind == "VARCHAR" and name not in _WORDS]


def _distinct(db: duckdb.DuckDBPyConnection, path: Path, columns: list[str]) -> list[tuple[str, ...]]:
    """Different values, in order, so that what stands for them does not depend on how they were read."""
    listed = ", ".join(map(quote, columns))
    known = " AND ".join(f"{quote(column)} IS NOT NULL" for column in columns)
    try:
        return db.execute(
            f"SELECT DISTINCT {listed} FROM read_parquet({_file(path)}) WHERE {known} ORDER BY ALL"
        ).fetchall()
    except duckdb.Error as err:
        raise StoreError(f'cannot read "{path}": {str(err).splitlines()[0]}') from err


def _file(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
