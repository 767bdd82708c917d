"""What is in an existing database: its objects with their definitions, what was written to its tables, and its size.

It is read before an experiment and after it, so that a difference is said, whoever has made it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from typing import Any

from psycopg import AsyncConnection, Error

from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.server import ServerControl
from pgtrial.units import format_bytes

# Names with digests of the definitions. Nothing here waits for a lock that somebody holds on a table. What is dropped
# and made again as it was has another number, so objects stand here by their names, and a view without its own number.
# Those with numbers from 16384 on are not the system's.
_OBJECTS = r"""
    SELECT 'schema ' || pg_catalog.quote_ident(n.nspname) AS name,
        concat_ws('|', n.nspowner, n.nspacl::text) AS definition
    FROM pg_catalog.pg_namespace AS n
    WHERE n.nspname !~ '^pg_(toast|temp)'
    UNION ALL
    SELECT CASE c.relkind WHEN 'i' THEN 'index ' WHEN 'I' THEN 'index ' WHEN 'S' THEN 'sequence ' WHEN 'v' THEN 'view '
            WHEN 'm' THEN 'materialized view ' WHEN 'c' THEN 'type ' ELSE 'table ' END || c.oid::regclass::text,
        concat_ws('|', c.relowner, c.relacl::text, c.reloptions::text, c.relpersistence, c.reltablespace, c.relam,
            c.relrowsecurity, c.relforcerowsecurity, c.relreplident,
            (SELECT pg_catalog.string_agg(concat_ws(' ', a.attname, a.atttypid::regtype::text, a.atttypmod,
                    a.attnotnull, a.attstattarget, a.attoptions::text, a.attstorage, a.attcompression, a.attidentity,
                    d.adbin::text), ',' ORDER BY a.attnum)
                FROM pg_catalog.pg_attribute AS a
                LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
            (SELECT pg_catalog.string_agg(concat_ws(' ', k.conname, k.contype, k.convalidated, k.conkey::text,
                    k.conbin::text), ',' ORDER BY k.conname)
                FROM pg_catalog.pg_constraint AS k WHERE k.conrelid = c.oid),
            (SELECT pg_catalog.string_agg(concat_ws(' ', t.tgname, t.tgenabled, t.tgfoid::regproc::text, t.tgtype), ','
                    ORDER BY t.tgname)
                FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
            (SELECT concat_ws(' ', i.indrelid::regclass::text, i.indkey::text, i.indclass::text, i.indoption::text,
                    i.indisunique, i.indisvalid, i.indisclustered, i.indexprs::text, i.indpred::text)
                FROM pg_catalog.pg_index AS i WHERE i.indexrelid = c.oid),
            (SELECT pg_catalog.string_agg(pg_catalog.regexp_replace(r.ev_action::text, concat('\m', c.oid, '\M'),
                    '', 'g'), ',' ORDER BY r.rulename)
                FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class = c.oid),
            (SELECT pg_catalog.string_agg(concat_ws(' ', p.polname, p.polcmd, p.polpermissive, p.polroles::text,
                    p.polqual::text, p.polwithcheck::text), ',' ORDER BY p.polname)
                FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid),
            (SELECT pg_catalog.string_agg(concat_ws(' ', d.objsubid, d.description), ',' ORDER BY d.objsubid)
                FROM pg_catalog.pg_description AS d
                WHERE d.objoid = c.oid AND d.classoid = 'pg_catalog.pg_class'::regclass))
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^pg_(toast|temp)' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure::text,
        concat_ws('|', p.proowner, p.proacl::text, p.prolang, p.prosrc, p.prosqlbody::text, p.proconfig::text,
            p.provolatile, p.proparallel, p.prosecdef, p.procost, p.prorows)
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname !~ '^pg_temp' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    UNION ALL
    SELECT 'statistics ' || pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(s.stxname),
        concat_ws('|', s.stxrelid::regclass::text, s.stxkeys::text, s.stxkind::text, s.stxstattarget, s.stxexprs::text)
    FROM pg_catalog.pg_statistic_ext AS s JOIN pg_catalog.pg_namespace AS n ON n.oid = s.stxnamespace
    UNION ALL
    SELECT 'type ' || t.oid::regtype::text,
        concat_ws('|', t.typowner, t.typacl::text, t.typtype, t.typbasetype::regtype::text, t.typtypmod, t.typnotnull,
            t.typdefault,
            (SELECT pg_catalog.string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder)
                FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid),
            (SELECT pg_catalog.string_agg(concat_ws(' ', k.conname, k.convalidated, k.conbin::text), ','
                    ORDER BY k.conname)
                FROM pg_catalog.pg_constraint AS k WHERE k.contypid = t.oid))
    FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
    WHERE t.typrelid = 0 AND t.typcategory <> 'A' AND n.nspname !~ '^pg_(toast|temp)'
        AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    UNION ALL
    SELECT 'operator ' || o.oid::regoperator::text,
        concat_ws('|', o.oprowner, o.oprcode::text, o.oprrest::text, o.oprjoin::text)
    FROM pg_catalog.pg_operator AS o WHERE o.oid >= 16384
    UNION ALL
    SELECT 'cast from ' || o.castsource::regtype::text || ' to ' || o.casttarget::regtype::text,
        concat_ws('|', o.castcontext, o.castmethod)
    FROM pg_catalog.pg_cast AS o WHERE o.oid >= 16384
    UNION ALL
    SELECT 'collation ' || o.oid::regcollation::text, (pg_catalog.to_jsonb(o) - 'oid')::text
    FROM pg_catalog.pg_collation AS o WHERE o.oid >= 16384
    UNION ALL
    SELECT 'text search configuration ' || o.oid::regconfig::text, o.cfgowner::text
    FROM pg_catalog.pg_ts_config AS o WHERE o.oid >= 16384
    UNION ALL
    SELECT 'publication ' || pg_catalog.quote_ident(o.pubname), (pg_catalog.to_jsonb(o) - 'oid')::text
    FROM pg_catalog.pg_publication AS o
    UNION ALL
    SELECT 'event trigger ' || pg_catalog.quote_ident(o.evtname),
        concat_ws('|', o.evtevent, o.evtowner, o.evtfoid::regproc::text, o.evtenabled, o.evttags::text)
    FROM pg_catalog.pg_event_trigger AS o
    UNION ALL
    SELECT 'foreign server ' || pg_catalog.quote_ident(o.srvname),
        concat_ws('|', o.srvowner, o.srvtype, o.srvversion, o.srvacl::text, o.srvoptions::text)
    FROM pg_catalog.pg_foreign_server AS o
    UNION ALL
    SELECT concat_ws(' ', 'default privileges of', o.defaclrole::regrole::text, 'in schema ' || n.nspname, 'for',
            o.defaclobjtype::text), o.defaclacl::text
    FROM pg_catalog.pg_default_acl AS o LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = o.defaclnamespace
    UNION ALL
    SELECT 'extension ' || pg_catalog.quote_ident(e.extname), e.extversion FROM pg_catalog.pg_extension AS e
    UNION ALL
    SELECT 'settings of ' || coalesce('role ' || r.rolname || ' in ', '') || 'the database', s.setconfig::text
    FROM pg_catalog.pg_db_role_setting AS s JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase
    LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
    WHERE d.datname = pg_catalog.current_database()
"""
_DIGESTS = f"SELECT name, pg_catalog.left(pg_catalog.md5(coalesce(definition, '')), 12) FROM ({_OBJECTS}) AS o"
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
_PATIENCE = "SET lock_timeout = '1s'"  # reading a sequence waits for who alters it
_AT_ONCE = 500  # sequences, each of which is locked until the statement ends
_INDEXES = """
    SELECT s.indexrelid::regclass::text, c.relfilenode::int8
    FROM pg_catalog.pg_stat_user_indexes AS s JOIN pg_catalog.pg_class AS c ON c.oid = s.indexrelid
"""
# So that each name stands with its schema, whatever the search path of the role is.
_WITH_SCHEMAS = "SET search_path = ''"
_SIZE = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database())"
_OTHERS = """
    SELECT count(*) FROM pg_catalog.pg_stat_activity
    WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
        AND coalesce(backend_type, '') NOT LIKE 'autovacuum%'
        AND application_name IS DISTINCT FROM 'pgtrial watch' -- ours, which has just ended
"""

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
    it beside our own.
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
        await connection.execute(_WITH_SCHEMAS)
        objects = await _read_catalogue(connection) if catalogue else {}
        tables = await (await connection.execute(_TABLES)).fetchall()
        indexes = await (await connection.execute(_INDEXES)).fetchall()
        (defined,) = await (await connection.execute(_CATALOGUE_ROWS)).fetchone() or (0,)
        sequences = await _read_sequences(connection)
        (size,) = await (await connection.execute(_SIZE)).fetchone() or (0,)
        (others,) = await (await connection.execute(_OTHERS)).fetchone() or (0,)
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
        await connection.execute(_WITH_SCHEMAS)
        return await _read_catalogue(connection)


async def _read_catalogue(connection: "AsyncConnection[tuple[Any, ...]]") -> dict[str, str]:
    rows = await (await connection.execute(_DIGESTS.encode())).fetchall()
    return {str(name): str(digest) for name, digest in rows}


async def _read_sequences(connection: "AsyncConnection[tuple[Any, ...]]") -> dict[str, int | None]:
    await connection.execute(_PATIENCE)
    oids = [oid for (oid,) in await (await connection.execute(_SEQUENCES)).fetchall()]
    found: dict[str, int | None] = {}
    for begin in range(0, len(oids), _AT_ONCE):
        with suppress(Error):  # one was dropped, or somebody is altering it
            found |= dict(await (await connection.execute(_VALUES, [oids[begin : begin + _AT_ONCE]])).fetchall())
    return found


def compare_catalogues(before: Catalogue, after: Catalogue) -> str:
    """What is left over, missing or altered in a database that was to be left as found, in sentences; "" if nothing."""
    altered = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    said = []
    for names, words in (
        (sorted(after.keys() - before.keys()), "Left over"),
        (sorted(before.keys() - after.keys()), "No longer there"),
        (altered, "Altered"),
    ):
        if names:
            said.append(f"{words}: {', '.join(names)}.")
    return " ".join(said)


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
