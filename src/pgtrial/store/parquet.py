"""Write and read the Parquet files of a run with DuckDB."""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from pgtrial.errors import StoreError
from pgtrial.safe_files import new_path

_COLUMNS = Path(__file__).with_name("columns.sql")
_LITTLE = 1 << 20  # bytes


def connect(*, memory_limit: str = "700MB", threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB of one's own that never loads an extension from elsewhere."""
    config: dict[str, Any] = {"memory_limit": memory_limit, "autoinstall_known_extensions": False}
    if threads is not None:
        config["threads"] = threads
    db = duckdb.connect(":memory:", config=config)
    db.execute("SET enable_progress_bar = false")  # it is printed to standard output
    return db


def session(*, memory_limit: str = "700MB", threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A connection to a DuckDB shared by the process, because opening one takes longer than most queries.

    Create only temporary objects, which vanish when it is closed; SET would affect all connections.
    """
    return _shared(os.getpid(), memory_limit, threads).cursor()


@cache
def _shared(pid: int, memory_limit: str, threads: int | None) -> duckdb.DuckDBPyConnection:
    """One for each process: a fork does not copy the threads of its parent's."""
    return connect(memory_limit=memory_limit, threads=threads)


def is_little(paths: Iterable[Path]) -> bool:
    """Whether what the files hold has room in memory, and one thread is done with it before several have shared it.

    A file that is not there holds nothing.
    """
    return sum(map(_size, paths)) < _LITTLE


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def write_query(db: duckdb.DuckDBPyConnection, query: str, path: Path, parameters: Sequence[Any] = ()) -> None:
    """Write a query's rows to ``path``: a file that is there is whole."""
    try:
        with new_path(path) as part:
            db.execute(f"COPY ({query}) TO '{_quoted(part)}' (FORMAT parquet, COMPRESSION zstd)", list(parameters))
    except (duckdb.Error, OSError) as err:
        raise StoreError(f'cannot write "{path}": {_first_line(err)}') from err


def read(
    paths: Sequence[Path],
    query: str,
    parameters: Sequence[Any] = (),
    *,
    db: duckdb.DuckDBPyConnection | None = None,
) -> "dict[str, Any]":
    """Run a query over Parquet files; ``{files}`` in it stands for the table. Columns as numpy arrays.

    ``db`` is for several queries one after the other: a new one takes longer than most of them.
    """
    if not paths:
        return {}
    files = "read_parquet([" + ", ".join(f"'{_quoted(path)}'" for path in paths) + "], filename = true)"
    with nullcontext(db) if db is not None else session() as used:
        try:
            result: dict[str, Any] = used.execute(query.replace("{files}", files), list(parameters)).fetchnumpy()
        except duckdb.Error as err:
            raise StoreError(f"cannot read the result folder's samples: {_first_line(err)}") from err
    return result


def check_whole(db: duckdb.DuckDBPyConnection, table: str, paths: Sequence[Path]) -> None:
    """StoreError where a file lacks values that columns.sql wants in each row, or has texts in the place of numbers."""
    listed = ", ".join(f"'{_quoted(path)}'" for path in paths)
    wrong = db.execute(
        f"SELECT file_name, name FROM parquet_schema([{listed}]) "
        "WHERE type = 'BYTE_ARRAY' AND list_contains(?, name) LIMIT 1",
        [[name for name in _required(table) if name not in _texts(table)]],
    ).fetchone()
    if wrong is not None:
        raise StoreError(f'file "{wrong[0]}" is damaged: values of "{wrong[1]}" are no numbers')
    found = db.execute(
        f"SELECT file_name, path_in_schema FROM parquet_metadata([{listed}]) "
        "WHERE stats_null_count > 0 AND list_contains(?, path_in_schema) LIMIT 1",
        [list(_required(table))],
    ).fetchone()
    if found is not None:
        raise StoreError(f'file "{found[0]}" is damaged: values of "{found[1]}" are missing')


@cache
def _required(table: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^ +(\w+) .*\bNOT NULL\b", _definition(table), re.MULTILINE))


@cache
def _texts(table: str) -> frozenset[str]:
    return frozenset(re.findall(r"^ +(\w+) +VARCHAR\b", _definition(table), re.MULTILINE))


def _definition(table: str) -> str:
    _, _, definition = _COLUMNS.read_text(encoding="utf-8").partition(f"CREATE TABLE {table} (\n")
    return definition.partition("\n);")[0]


def text_columns(path: Path) -> list[str]:
    """Names of a file's text columns. Raises StoreError."""
    rows = _fetch(path, f"DESCRIBE SELECT * FROM read_parquet('{_quoted(path)}')")
    return [name for name, kind, *_ in rows if kind == "VARCHAR"]


def distinct_rows(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """What a file has in these columns where none is null: each once, in order. Raises StoreError."""
    names = ['"' + column.replace('"', '""') + '"' for column in columns]
    known = " AND ".join(f"{name} IS NOT NULL" for name in names)
    query = f"SELECT DISTINCT {', '.join(names)} FROM read_parquet('{_quoted(path)}') WHERE {known} ORDER BY ALL"
    return _fetch(path, query)


def _fetch(path: Path, query: str) -> list[tuple[Any, ...]]:
    with session(threads=1) as db:
        try:
            return db.execute(query).fetchall()
        except duckdb.Error as err:
            raise StoreError(f'cannot read "{path}": {_first_line(err)}') from err


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _first_line(err: Exception) -> str:
    return str(err).splitlines()[0]
