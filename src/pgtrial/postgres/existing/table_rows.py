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

from pgtrial.postgres.connect import connect, lift_limits, set_own
from pgtrial.postgres.existing.server import ServerControl

_TAKES_ROWS = re.compile(r"\bTRUNCATE\b|\bDROP\s+(?:TABLE|SCHEMA|OWNED)\b", re.IGNORECASE)
_EMPTIES_OTHERS = re.compile(r"\bTRUNCATE\b[^;]*\bCASCADE\b", re.IGNORECASE)
_MOST = 64 << 20  # bytes of a table whose rows are counted one by one
# What stands before the name of a table, which may then be a word of SQL that is not reserved (DROP TABLE data).
_BEFORE_NAME = r"(?:\b(?:table|only|exists|truncate|into|from|join|update)\s+|[.,]\s*)"
# Others may have written policies, whose functions would be called: where one would hold, it is an error.
_TO_COUNT = {"lock_timeout": "1s", "statement_timeout": "30s", "row_security": "off"}
# A table goes by the names of those that it is a part of or inherits from, too: it is emptied and dropped with them. Of
# a table that was never vacuumed the estimate is -1, and the count is 0 where the server has lost its statistics.
_TABLES = """
    SELECT n.nspname, c.relname, 'table ' || c.oid::regclass::text, c.oid::int8, c.relfilenode::int8,
        CASE WHEN s.n_live_tup > 0 THEN s.n_live_tup ELSE c.reltuples::int8 END,
        ARRAY(WITH RECURSIVE above AS (
                SELECT inhparent FROM pg_catalog.pg_inherits WHERE inhrelid = c.oid
                UNION SELECT i.inhparent FROM pg_catalog.pg_inherits AS i JOIN above ON i.inhrelid = above.inhparent)
            SELECT p.relname FROM above JOIN pg_catalog.pg_class AS p ON p.oid = above.inhparent)
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        AND n.nspname !~ '^pg_toast'
"""
_SIZE = "SELECT pg_catalog.pg_table_size(%s::oid)"
_IS_EMPTY = "SELECT pg_catalog.pg_relation_size(%s::oid) = 0"
_KEYWORDS = "SELECT word, catcode IN ('R', 'T') FROM pg_catalog.pg_get_keywords()"  # and whether it is reserved
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
    """For the journal, before a ``script``: the tables that it names, and all where it may empty others with them; ""
    where it takes no table's rows.
    """
    if not _TAKES_ROWS.search(script):
        return ""
    text, found = script.lower(), {}
    words, empties_others = set(re.findall(r"[\w$]+", text)), _EMPTIES_OTHERS.search(script) is not None
    async with _connect_to_count(control, database) as connection:
        keywords = dict(await _fetch(connection, _KEYWORDS))
        for schema, table, name, number, file, estimate, whole in await _fetch(connection, _TABLES):
            is_named = any(_is_named(each.lower(), text, words, keywords) for each in (table, *whole))
            if not is_named and not empties_others:
                continue
            rows = await _count(connection, schema, table, number) if is_named else None
            if rows is None and await _is_empty(connection, number):
                rows = 0
            is_counted = rows is not None
            if rows is None and estimate >= 0:
                rows = estimate
            found[name] = astuple(TableRows(number, file, rows, is_counted))
    return json.dumps(found)


def _is_named(name: str, text: str, words: Set[str], keywords: Mapping[str, bool]) -> bool:
    """Whether a table is named, and not only a word of SQL that is spelt like it."""
    quoted = name.replace('"', '""')
    if name in keywords:
        unquoted = rf"{_BEFORE_NAME}{re.escape(name)}(?![\w$])"
        return f'"{quoted}"' in text or (not keywords[name] and re.search(unquoted, text) is not None)
    return name in words or (re.fullmatch(r"[\w$]+", name) is None and quoted in text)


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
            if rows is None and await _is_empty(connection, number):
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
        await set_own(connection, _TO_COUNT)
        yield connection


async def _fetch(
    connection: "AsyncConnection[tuple[Any, ...]]", query: LiteralString | sql.Composed, *parameters: object
) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query, parameters or None)).fetchall()


async def _count(connection: "AsyncConnection[tuple[Any, ...]]", schema: str, table: str, number: int) -> int | None:
    """None of a large table, and where it may not be read, or not at once.

    By COPY, which reads a table and nothing else: a query is planned, and the planner calls what others have put into
    the expressions of its indexes, as pgtrial's role; a view that took the table's name would be executed.
    """
    query = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(schema, table))
    with suppress(Error):
        ((size,),) = await _fetch(connection, _SIZE, number)
        if size is not None and size <= _MOST:
            async with connection.cursor() as cursor:
                async with cursor.copy(query) as copying:
                    async for _ in copying:
                        pass
                return cursor.rowcount
    return None


async def _is_empty(connection: "AsyncConnection[tuple[Any, ...]]", number: int) -> bool:
    """Whether there is nothing in its file."""
    with suppress(Error):
        ((is_empty,),) = await _fetch(connection, _IS_EMPTY, number)
        return is_empty is True
    return False
