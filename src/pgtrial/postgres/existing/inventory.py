"""What is in an existing database: its objects with their definitions, what was written to its tables, and its size.

It is read before an experiment and after it, so that a difference is said, whoever has made it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from typing import Any

from psycopg import AsyncConnection, Error

from pgtrial.postgres.connect import OWN_NAMES, connect, lift_limits, set_own
from pgtrial.postgres.existing.definitions import DEFINITIONS
from pgtrial.postgres.existing.server import ServerControl
from pgtrial.units import format_bytes

# Large objects are rows of two tables of the system's.
_OF_LARGE_OBJECTS = frozenset({"pg_largeobject", "pg_largeobject_metadata"})
_TABLES = """
    SELECT s.relid::regclass::text, s.n_tup_ins, s.n_tup_upd, s.n_tup_del, s.vacuum_count, s.analyze_count,
        c.relfilenode::int8
    FROM pg_catalog.pg_stat_all_tables AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
    WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema') AND s.schemaname !~ '^pg_toast'
        OR s.schemaname = 'pg_catalog' AND s.relname IN ('pg_largeobject', 'pg_largeobject_metadata')
"""
# Rows of the catalogue of this database, of which statistics alone are written unasked.
_CATALOGUE_ROWS = """
    SELECT coalesce(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::int8
    FROM pg_catalog.pg_stat_all_tables AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.relid
    WHERE s.schemaname = 'pg_catalog' AND NOT c.relisshared
        AND s.relname NOT IN ('pg_statistic', 'pg_statistic_ext_data', 'pg_largeobject', 'pg_largeobject_metadata')
"""
# Those that the role may look at; who may draw from one may. A temporary one is its session's.
_SEQUENCES = """
    SELECT c.oid::int8 FROM pg_catalog.pg_class AS c
    WHERE c.relkind = 'S' AND c.relpersistence = 'p' AND CASE WHEN c.relkind = 'S'
        THEN pg_catalog.has_sequence_privilege(c.oid, 'SELECT, USAGE') END
"""
_VALUES = """
    SELECT oid::regclass::text, pg_catalog.pg_sequence_last_value(oid) FROM pg_catalog.unnest(%s::oid[]) AS oid
"""
_PATIENCE = {"lock_timeout": "1s"}  # reading a sequence waits for who alters it
_AT_ONCE = 500  # sequences, each of which is locked until the statement ends
_INDEXES = """
    SELECT s.indexrelid::regclass::text, c.relfilenode::int8
    FROM pg_catalog.pg_stat_user_indexes AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.indexrelid
"""
_TO_READ = {"jit": "off"}  # to compile the query for the definitions takes longer than to run it
_SIZE = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database())"
# Some of pgtrial's own look after the server meanwhile, or have just ended.
_OTHERS = """
    SELECT count(*) FROM pg_catalog.pg_stat_activity
    WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
        AND coalesce(backend_type, '') NOT LIKE 'autovacuum%%'
        AND coalesce(application_name, '') <> ALL (%s)
"""

_LOST = "Values are lost, unless something has written them back, of columns that were dropped and added again"

Catalogue = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableCounts:
    """Rows inserted, updated and deleted since the server began to count, how often somebody had the table vacuumed or
    analyzed, and the number of its file.
    """

    inserted: int
    updated: int
    deleted: int
    vacuumed: int
    analyzed: int
    file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """``catalogue`` has a digest of each object's definition, ``tables`` what the server has counted of each, by name,
    ``indexes`` the number of each one's file, ``sequences`` what was drawn last, where it can be read. ``defined``
    counts the rows of the catalogue that were ever written; ``size`` is in bytes, ``others`` the sessions connected to
    it beside pgtrial's own.
    """

    catalogue: Catalogue
    tables: Mapping[str, TableCounts]
    indexes: Mapping[str, int]
    sequences: Mapping[str, int | None]
    defined: int
    size: int
    others: int

    @property
    def own_tables(self) -> frozenset[str]:
        """The tables that somebody has made there, without those of the system that hold large objects."""
        return frozenset(self.tables) - _OF_LARGE_OBJECTS


async def read_inventory(control: ServerControl, database: str, *, catalogue: bool = True) -> Inventory:
    """Everything of a database that an experiment may not change unasked; without its ``catalogue`` in no time.

    Raises ConnectError, TargetError.
    """
    async with connect(control.conninfo(database)) as connection:
        await lift_limits(connection, lock_timeout=None)  # which are for other statements
        await set_own(connection, _TO_READ)
        objects = await _read_catalogue(connection) if catalogue else {}
        tables = await (await connection.execute(_TABLES)).fetchall()
        indexes = await (await connection.execute(_INDEXES)).fetchall()
        (defined,) = await (await connection.execute(_CATALOGUE_ROWS)).fetchone() or (0,)
        sequences = await _read_sequences(connection)
        (size,) = await (await connection.execute(_SIZE)).fetchone() or (0,)
        (others,) = await (await connection.execute(_OTHERS, [list(OWN_NAMES)])).fetchone() or (0,)
    return Inventory(
        catalogue=objects,
        tables={
            name: TableCounts(
                inserted=inserted, updated=updated, deleted=deleted, vacuumed=vacuumed, analyzed=analyzed, file=file
            )
            for name, inserted, updated, deleted, vacuumed, analyzed, file in tables
        },
        indexes={str(name): int(file) for name, file in indexes},
        sequences=sequences,
        defined=defined,
        size=size,
        others=others,
    )


async def read_catalogue(control: ServerControl, database: str) -> dict[str, str]:
    """Schemas, relations, functions and so on, as one names them ("table public.orders"), with digests."""
    async with connect(control.conninfo(database)) as connection:
        await lift_limits(connection, lock_timeout=None)  # which are for other statements
        await set_own(connection, _TO_READ)
        return await _read_catalogue(connection)


async def _read_catalogue(connection: "AsyncConnection[tuple[Any, ...]]") -> dict[str, str]:
    rows = await (await connection.execute(DEFINITIONS.encode())).fetchall()
    return {str(name): str(digest) for name, digest in rows}


async def _read_sequences(connection: "AsyncConnection[tuple[Any, ...]]") -> dict[str, int | None]:
    await set_own(connection, _PATIENCE)
    oids = [oid for (oid,) in await (await connection.execute(_SEQUENCES)).fetchall()]
    found: dict[str, int | None] = {}
    for begin in range(0, len(oids), _AT_ONCE):
        with suppress(Error):  # one was dropped, or somebody is altering it
            found |= dict(await (await connection.execute(_VALUES, [oids[begin : begin + _AT_ONCE]])).fetchall())
    return found


def compare_catalogues(before: Catalogue, after: Catalogue) -> str:
    """What is left over, missing or altered in a database that was to be left as found, in sentences; "" if nothing."""
    both = sorted(before.keys() & after.keys())
    said = []
    for names, words in (
        (_lost_columns(before, after), _LOST),
        (find_added(before, after), "Left over"),
        (sorted(before.keys() - after.keys()), "No longer there"),
        ([name for name in both if _definition(before[name]) != _definition(after[name])], "Altered"),
    ):
        if names:
            said.append(f"{words}: {', '.join(names)}.")
    return " ".join(said)


def find_added(before: Catalogue, after: Catalogue) -> list[str]:
    """Names of objects that were not there before."""
    return sorted(after.keys() - before.keys())


def _definition(found: str) -> str:
    return found.split(" ", 1)[0]


def _lost_columns(before: Catalogue, after: Catalogue) -> list[str]:
    """Columns that were dropped and added again, in tables that are still the same."""
    lost = []
    for name in sorted(before.keys() & after.keys()):
        if before[name] == after[name] or " " not in before[name] or " " not in after[name]:
            continue
        (was, old), (now, new) = (found.split(" ", 2)[1:] for found in (before[name], after[name]))
        if was == now:
            numbers = json.loads(new)
            lost += [
                f"{column} of {name}"
                for column, number in json.loads(old).items()
                if numbers.get(column, number) != number
            ]
    return lost


def compare_data(before: Inventory, after: Inventory) -> str:
    """What was written to tables, indexes and sequences in between, and what became of the size, in sentences; "" if
    nothing was.

    A server whose statistics were reset in between counts less than before: of that nothing can be said.
    """
    written = []
    for name in sorted(before.tables.keys() & after.tables.keys()):
        was, now = before.tables[name], after.tables[name]
        counts = [
            f"{count:,} {word}"
            for count, word in (
                (now.inserted - was.inserted, "inserted"),
                (now.updated - was.updated, "updated"),
                (now.deleted - was.deleted, "deleted"),
            )
            if count > 0
        ]
        counts += ["vacuumed"] if now.vacuumed > was.vacuumed else []
        counts += ["analyzed"] if now.analyzed > was.analyzed else []
        if was.file != now.file:
            counts.append("rewritten or emptied as a whole")
        if counts:
            written.append(f"{name} ({', '.join(counts)})")
    said = [f"Rows of tables: {'; '.join(written)}."] if written else []
    both = before.indexes.keys() & after.indexes.keys()
    if rebuilt := sorted(name for name in both if before.indexes[name] != after.indexes[name]):
        said.append(f"Built anew: {', '.join(f'index {name}' for name in rebuilt)}.")
    both = before.sequences.keys() & after.sequences.keys()
    if drawn := sorted(name for name in both if before.sequences[name] != after.sequences[name]):
        said.append(f"Drawn from: {', '.join(f'sequence {name}' for name in drawn)}.")
    if not said:
        return ""
    growth = after.size - before.size
    if growth:
        said.append(f"The database is {format_bytes(abs(growth))} {'larger' if growth > 0 else 'smaller'}.")
    return " ".join(said)


def find_written(before: Inventory, after: Inventory) -> frozenset[str]:
    """Names of the tables, indexes and sequences of which ``compare_data`` says something."""
    was = {**before.tables, **before.indexes, **before.sequences}
    now = {**after.tables, **after.indexes, **after.sequences}
    return frozenset(name for name in was.keys() & now.keys() if was[name] != now[name])


def data_to_json(found: Inventory) -> dict[str, object]:
    """What the data were, for ``with_data``."""
    tables = {name: list(astuple(counts)) for name, counts in found.tables.items()}
    return {"tables": tables, "indexes": dict(found.indexes), "sequences": dict(found.sequences), "size": found.size}


def with_data(found: Inventory, data: Mapping[str, Any]) -> Inventory:
    """As if the data were what they were when ``data`` was made of them."""
    return replace(
        found,
        tables={name: TableCounts(*counts) for name, counts in data["tables"].items()},
        indexes=data["indexes"],
        sequences=data["sequences"],
        size=data["size"],
    )


def to_text(catalogue: Catalogue) -> str:
    """For the journal."""
    return json.dumps(dict(catalogue))


def from_text(text: str) -> dict[str, str]:
    return dict(json.loads(text))
