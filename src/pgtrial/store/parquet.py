"""Write and read the Parquet files of a run with DuckDB."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from pgtrial.errors import StoreError, first_line
from pgtrial.safe_files import new_path
from pgtrial.store.spill import spill_directory

_COLUMNS = Path(__file__).with_name("columns.sql")
_LATER = {"inside": ("transactions", "DOUBLE")}  # columns that were not always there: of which table, and their types
_LITTLE = 1 << 20  # bytes
_MEMORY = "200MB"  # of a DuckDB; what has no room in it is put on the disk …
_MOST_SPILT = "8GB"  # … up to so much
_MOST_THREADS = 4  # each of which needs some of that memory
# What a file may become in memory. No file of real runs has been seen with more than 1.3 values for each byte, an hour
# of 500 series that never change has 3; equal rows that somebody wrote have thousands.
_MOST_VALUES = 3  # of a column, for each byte of a file …
_FREE_VALUES = 500_000  # … and so many more, of all files together
_MOST_SIZE = 100  # bytes that have been unpacked, for each byte of the file …
_FREE_SIZE = 1 << 20  # … and so many more
_MOST_TEXT = 4096  # bytes of one text
_MOST_GROUPS = 1000  # of rows, each of which DuckDB fills with 122,880; one takes some 100 µs, however few it has

# File, column, its values, their bytes unpacked, groups of rows, values that are missing in one of them, rows.
_Column = tuple[str, str, int, int, int, int | None, int]


def connect(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB of one's own that never loads an extension from elsewhere, and puts what has no room in its
    memory where nobody else can.
    """
    config: dict[str, Any] = {
        "memory_limit": _MEMORY,
        "autoinstall_known_extensions": False,
        "temp_directory": spill_directory(),
        "max_temp_directory_size": _MOST_SPILT,
        "threads": threads or min(_MOST_THREADS, os.cpu_count() or 1),
    }
    db = duckdb.connect(":memory:", config=config)
    db.execute("SET enable_progress_bar = false")  # it is printed to standard output
    return db


def session(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A connection to a DuckDB shared by the process, because opening one takes longer than most queries.

    Create only temporary objects, which vanish when it is closed; SET would affect all connections.
    """
    return _shared(os.getpid(), threads).cursor()


@cache
def _shared(pid: int, threads: int | None) -> duckdb.DuckDBPyConnection:
    """One for each process: a fork does not copy the threads of its parent's."""
    return connect(threads=threads)


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
        raise StoreError(f'cannot write "{path}": {first_line(err)}') from err


def read(
    paths: Sequence[Path],
    query: str,
    parameters: Sequence[Any] = (),
    *,
    db: duckdb.DuckDBPyConnection | None = None,
    most_rows: Mapping[Path, int] | None = None,
) -> "dict[str, Any]":
    """Run a query over Parquet files; ``{files}`` in it stands for the table. Columns as numpy arrays.

    ``most_rows`` are those that a file may have, as in ``source``.
    ``db`` is for several queries one after the other: a new one takes longer than most of them.
    """
    if not paths:
        return {}
    with nullcontext(db) if db is not None else session() as used:
        files = source(used, paths, most_rows=most_rows)
        try:
            result: dict[str, Any] = used.execute(query.replace("{files}", files), list(parameters)).fetchnumpy()
        except duckdb.Error as err:
            raise StoreError(f"cannot read the result folder's samples: {first_line(err)}") from err
    return result


def execute(db: duckdb.DuckDBPyConnection, statement: str, parameters: Sequence[Any] = ()) -> None:
    """A statement on temporary tables of one's own. Raises StoreError."""
    try:
        db.execute(statement, list(parameters))
    except duckdb.Error as err:
        raise StoreError(f"cannot read the samples: {first_line(err)}") from err


def fetch(db: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any] = ()) -> "dict[str, Any]":
    """Columns of a query as numpy arrays. Raises StoreError."""
    try:
        result: dict[str, Any] = db.execute(query, list(parameters)).fetchnumpy()
    except duckdb.Error as err:
        raise StoreError(f"cannot read the samples: {first_line(err)}") from err
    return result


def source(
    db: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    *,
    table: str | None = None,
    most_rows: Mapping[Path, int] | None = None,
    free_values: int = _FREE_VALUES,
) -> str:
    """Files as a table for FROM, with their name in the column filename. StoreError where one is damaged, or forged so
    that a small file becomes a large one when it is read, or has more rows than ``most_rows`` says of it.

    With a ``table`` of columns.sql also where one lacks values that are to be in each row, or has texts in the place of
    numbers. What the files say of themselves is read once for all of that. ``free_values`` of a column are taken for
    honest however few bytes all files have.
    """
    listed = _listed(paths)
    try:
        columns = db.execute(
            "SELECT file_name, path_in_schema, sum(num_values), sum(total_uncompressed_size), count(*), "
            "max(stats_null_count), sum(row_group_num_rows) "
            f"FROM parquet_metadata([{listed}]) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        texts = db.execute(
            "SELECT columns, list(file_name ORDER BY file_name) FROM "
            "(SELECT file_name, list(name ORDER BY name) AS columns "
            f"FROM parquet_schema([{listed}]) WHERE type = 'BYTE_ARRAY' GROUP BY file_name) "
            "GROUP BY columns ORDER BY ALL"
        ).fetchall()
        _check_sizes(columns, {str(path): most for path, most in (most_rows or {}).items()}, free_values)
        _check_texts(db, texts)
    except (duckdb.Error, OSError) as err:
        raise StoreError(f"cannot read the result folder's samples: {first_line(err)}") from err
    if table is not None:
        _check_whole(table, columns, texts)
    return _with_all_columns(listed, columns, table)


def _with_all_columns(listed: str, columns: Iterable[_Column], table: str | None) -> str:
    """Also those that an earlier pgtrial did not write: an experiment that was resumed may have files of both."""
    found: dict[str, set[str]] = {}
    for name, column, *_ in columns:
        found.setdefault(name, set()).add(column)
    known = {frozenset(_LATER.keys() & names) for names in found.values()}
    files = f"read_parquet([{listed}], filename = true"
    if len(known) > 1:
        return f"{files}, union_by_name = true)"
    lacking = [f"NULL::{kind} AS {name}" for name, (owner, kind) in _LATER.items() if owner == table]
    return f"(SELECT *, {', '.join(lacking)} FROM {files}))" if lacking and known == {frozenset()} else f"{files})"


def count_values(paths: Sequence[Path]) -> int:
    """How many the longest column of each file has, by what it says of itself, in all. Raises StoreError."""
    if not paths:
        return 0
    with session(threads=1) as db:
        try:
            rows = db.execute(
                "SELECT max(number) FROM (SELECT file_name, sum(greatest(num_values, row_group_num_rows)) AS number "
                f"FROM parquet_metadata([{_listed(paths)}]) GROUP BY file_name, path_in_schema) GROUP BY file_name"
            ).fetchall()
        except duckdb.Error as err:
            raise StoreError(f"cannot read the result folder's samples: {first_line(err)}") from err
    return int(sum(number for (number,) in rows))


def check_rows(paths: Sequence[Path], most_rows: Mapping[Path, int]) -> None:
    """StoreError where ``source`` would raise it, before anything is read."""
    if paths:
        with session(threads=1) as db:
            source(db, paths, most_rows=most_rows)


def _check_sizes(columns: Iterable[_Column], most_rows: Mapping[str, int], free_values: int) -> None:
    sizes: dict[str, int] = {}
    more: dict[str, int] = {}  # values of a column beyond those for which the files' bytes are
    for name, column, values, unpacked, groups, _, rows in columns:
        size = sizes.setdefault(name, Path(name).stat().st_size)
        more[column] = more.get(column, 0) + max(0, values - _MOST_VALUES * size)
        if rows > most_rows.get(name, rows):
            raise StoreError(f'file "{name}" is damaged: it has {rows:,} rows, more than a run as short as this writes')
        if more[column] > free_values:
            raise StoreError(f'file "{name}" is damaged: its {size:,} bytes hold {values:,} values of "{column}"')
        if unpacked > _MOST_SIZE * size + _FREE_SIZE:
            raise StoreError(f'file "{name}" is damaged: its {size:,} bytes hold {unpacked:,} bytes of "{column}"')
        if groups > _MOST_GROUPS:
            raise StoreError(f'file "{name}" is damaged: it has {groups:,} groups of rows')


def _check_texts(db: duckdb.DuckDBPyConnection, texts: Iterable[tuple[list[str], list[str]]]) -> None:
    """Files with the same text columns in one query: one for each file takes longer than to read them."""
    for columns, names in texts:
        longest = ", ".join(f'max(strlen("{_in_name(column)}"))' for column in columns)
        found = db.execute(
            f"SELECT filename, greatest({longest}, 0) AS length FROM read_parquet(?, filename = true) "
            "GROUP BY filename ORDER BY length DESC LIMIT 1",
            [names],
        ).fetchone()
        if found is not None and found[1] > _MOST_TEXT:
            raise StoreError(f'file "{found[0]}" is damaged: it has a text of {found[1]:,} bytes')


def _check_whole(
    table: str,
    columns: Iterable[_Column],
    texts: Iterable[tuple[list[str], list[str]]],
) -> None:
    for named, names in texts:
        for column in _required(table):
            if column in named and column not in _texts(table):
                raise StoreError(f'file "{names[0]}" is damaged: values of "{column}" are no numbers')
    for name, column, *_, missing, _ in columns:
        if missing and column in _required(table):
            raise StoreError(f'file "{name}" is damaged: values of "{column}" are missing')


@cache
def _required(table: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^ +(\w+) .*\bNOT NULL\b", _definition(table), re.MULTILINE))


@cache
def _texts(table: str) -> frozenset[str]:
    return frozenset(re.findall(r"^ +(\w+) +VARCHAR\b", _definition(table), re.MULTILINE))


def _definition(table: str) -> str:
    _, _, definition = _COLUMNS.read_text(encoding="utf-8").partition(f"CREATE TABLE {table} (\n")
    return definition.partition("\n);")[0]


def columns(path: Path) -> dict[str, str]:
    """A file's columns, and their types as DuckDB calls them. Raises StoreError."""
    with _reading(path) as db:
        rows = db.execute(f"DESCRIBE SELECT * FROM read_parquet({_listed([path])})").fetchall()
    return {name: kind for name, kind, *_ in rows}


def text_columns(path: Path) -> list[str]:
    """Names of a file's text columns. Raises StoreError."""
    return [name for name, kind in columns(path).items() if kind == "VARCHAR"]


def distinct_rows(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """What a file has in these columns where none is null: each once, in order. Raises StoreError."""
    names = [f'"{_in_name(column)}"' for column in columns]
    known = " AND ".join(f"{name} IS NOT NULL" for name in names)
    with _reading(path) as db:
        query = f"SELECT DISTINCT {', '.join(names)} FROM {source(db, [path])} WHERE {known} ORDER BY ALL"
        return db.execute(query).fetchall()


@contextmanager
def _reading(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with session(threads=1) as db:
        try:
            yield db
        except duckdb.Error as err:
            raise StoreError(f'cannot read "{path}": {first_line(err)}') from err


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(f"'{_quoted(path)}'" for path in paths)


def _in_name(name: str) -> str:
    return name.replace('"', '""')


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
