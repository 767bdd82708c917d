"""Rows of tables that an arm's script may drop or empty: what there was before it, and what there is after its undo.

A table that was dropped and made again has the same definition and none of its rows. What tells is its number; of one
that was emptied or rewritten, that of its file.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass
from typing import Any, LiteralString

from psycopg import AsyncConnection, Error, sql

from pgtrial.postgres.connect import connect, lift_limits
from pgtrial.postgres.existing.server import ServerControl

_TAKES_ROWS = re.compile(r"\bTRUNCATE\b|\bDROP\s+(?:TABLE|SCHEMA|OWNED)\b", re.IGNORECASE)
_MOST = 64 << 20  # bytes of a table whose rows are counted one by one
# Others may have written policies, whose functions would be called: where one would hold, it is an error.
_TO_COUNT = "SET search_path = ''; SET lock_timeout = '1s'; SET statement_timeout = '30s'; SET row_security = off"
# A partition goes by the names of the tables that it is a part of, too. Of a table that was never vacuumed the estimate
# is -1, and the count is 0 where the server has lost its statistics.
_TABLES = """
    SELECT n.nspname, c.relname, 'table ' || c.oid::regclass::text, c.oid::int8, c.relfilenode::int8,
        CASE WHEN s.n_live_tup > 0 THEN s.n_live_tup ELSE c.reltuples::int8 END,
        ARRAY(SELECT p.relname FROM pg_catalog.pg_partition_ancestors(c.oid) AS a
            JOIN pg_catalog.pg_class AS p ON p.oid = a.relid WHERE c.relispartition)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        AND n.nspname !~ '^pg_toast'
"""
_SIZE = "SELECT pg_catalog.pg_table_size(%s::oid)"
_LOST = "Rows are lost of tables that were dropped and made again, or emptied"


@dataclass(frozen=True, slots=True)
class TableRows:
    """The numbers of a table and of its file, 0 if unknown, and its rows: ``is_counted``, or as the server estimates;
    None: unknown.
    """

    table: int
    file: int = 0
    rows: int | None = None
    is_counted: bool = False


async def note_rows(control: ServerControl, database: str, script: str) -> str:
    """For the journal, before a ``script``: the tables that it names; "" where it takes no table's rows."""
    if not _TAKES_ROWS.search(script):
        return ""
    text = script.lower()
    words, found = set(re.findall(r"[\w$]+", text)), {}
    async with _connect_to_count(control, database) as connection:
        for schema, table, name, number, file, estimate, whole in await _fetch(connection, _TABLES):
            if any(_is_named(each.lower(), text, words) for each in (table, *whole)):
                counted = await _count(connection, schema, table, number)
                rows = counted if counted is not None else estimate if estimate >= 0 else None
                found[name] = astuple(TableRows(number, file, rows, counted is not None))
    return json.dumps(found)


def _is_named(name: str, text: str, words: Set[str]) -> bool:
    return name in words or (re.fullmatch(r"[\w$]+", name) is None and name.replace('"', '""') in text)


async def find_lost_rows(
    control: ServerControl, database: str, noted: str, before: Mapping[str, str], after: Mapping[str, str]
) -> str:
    """Which tables have lost rows and are not the same ones as before, or have other files; a full sentence, "" if
    none. ``noted`` is what ``note_rows`` gave; catalogues ``before`` and ``after`` tell of other tables.
    """
    numbers = _numbers(before)
    known = {name: TableRows(*values) for name, values in json.loads(noted or "{}").items()}
    if not known and all(numbers.get(name, number) == number for name, number in _numbers(after).items()):
        return ""
    lost = []
    async with _connect_to_count(control, database) as connection:
        for schema, table, name, number, file, _, _ in await _fetch(connection, _TABLES):
            was = known.get(name) or TableRows(numbers.get(name, number))
            if was.table == number and was.file in (0, file):
                continue
            rows = await _count(connection, schema, table, number)
            if rows is None and await _is_empty(connection, schema, table):
                rows = 0
            now = TableRows(number, file, rows, rows is not None)
            if _has_lost(was, now):
                lost.append(f"{name} ({_compared(was, now)})")
    return f"{_LOST}: {', '.join(sorted(lost))}." if lost else ""


def _has_lost(was: TableRows, now: TableRows) -> bool:
    if now.rows == 0:
        return was.rows != 0
    return was.is_counted and was.rows is not None and now.rows is not None and now.rows < was.rows


def _compared(was: TableRows, now: TableRows) -> str:
    about = "" if was.is_counted else "about "
    rows = "rows before not counted" if was.rows is None else f"{about}{was.rows:,} rows before"
    kind, before, after = ("file", was.file, now.file) if was.table == now.table else ("table", was.table, now.table)
    return f"{rows}, {now.rows:,} now; {kind} {before} then, {after} now"


def _numbers(catalogue: Mapping[str, str]) -> dict[str, int]:
    """The number of each table, which stands behind the digest of its definition."""
    return {
        name: int(found.split(" ", 2)[1])
        for name, found in catalogue.items()
        if name.startswith("table ") and " " in found
    }


@asynccontextmanager
async def _connect_to_count(control: ServerControl, database: str) -> AsyncIterator["AsyncConnection[tuple[Any, ...]]"]:
    async with connect(control.conninfo(database)) as connection:
        await lift_limits(connection)
        await connection.execute(_TO_COUNT)
        yield connection


async def _fetch(
    connection: "AsyncConnection[tuple[Any, ...]]", query: LiteralString | sql.Composed, *parameters: object
) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query, parameters or None)).fetchall()


async def _count(connection: "AsyncConnection[tuple[Any, ...]]", schema: str, table: str, number: int) -> int | None:
    """None of a large table, and where it may not be read, or not at once."""
    query = sql.SQL("SELECT pg_catalog.count(*) FROM ONLY {}").format(sql.Identifier(schema, table))
    with suppress(Error):
        ((size,),) = await _fetch(connection, _SIZE, number)
        if size is not None and size <= _MOST:
            ((rows,),) = await _fetch(connection, query)
            return int(rows)
    return None


async def _is_empty(connection: "AsyncConnection[tuple[Any, ...]]", schema: str, table: str) -> bool:
    query = sql.SQL("SELECT FROM ONLY {} LIMIT 1").format(sql.Identifier(schema, table))
    with suppress(Error):
        return not await _fetch(connection, query)
    return False
