"""What a server remembers of its load, and what its statistics say of the data: read-only, for a load like it.

Values of the data (most common ones, histograms) are read only on demand: all else are counts, shares and names.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

import psycopg
from psycopg import pq, sql
from psycopg.errors import ObjectNotInPrerequisiteState

from pgtrial.errors import TargetError
from pgtrial.postgres.connect import connect, read_only
from pgtrial.postgres.production_effects import Effects, read_effects
from pgtrial.postgres.production_tables import note_constraints

TableName = tuple[str, str]  # schema, name
_Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_EXTENSION: LiteralString = """
SELECT n.nspname, EXISTS (
    SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = n.oid AND c.relname = 'pg_stat_statements' AND a.attname = 'toplevel')
FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'"""

# From version 1.9 on.
_COUNTED_FOR: LiteralString = """
SELECT pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - stats_reset)
FROM {schema}.pg_stat_statements_info"""
_HAS_INFO: LiteralString = """
SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
WHERE e.extname = 'pg_stat_statements' AND c.relname = 'pg_stat_statements_info'"""

# What one statement calls by another is counted in that one. NULL is the text of somebody else's.
_STATEMENTS: LiteralString = """
SELECT CASE WHEN query = '<insufficient privilege>' THEN NULL ELSE query END, sum(calls)::bigint, sum(rows)::bigint,
       sum(shared_blks_hit)::bigint, sum(shared_blks_read)::bigint, sum(total_exec_time)::float8
FROM {schema}.pg_stat_statements
WHERE toplevel AND dbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
  AND calls > 0
GROUP BY 1 ORDER BY 6 DESC"""

# A table has the rows of those that inherit from it, and its own statistics are of all of them. Autovacuum makes none
# of a partitioned one: then those of the largest partition have to do, but for its values, which others do not have.
_COLUMNS: LiteralString = """
WITH RECURSIVE tree AS (
    SELECT oid AS root, oid AS part FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p', 'm')
    UNION
    SELECT tree.root, i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.part
), whole AS (
    SELECT t.root, sum(greatest(p.reltuples, 0)::float8) AS rows, sum(greatest(p.relpages, 0)) AS pages,
           (pg_catalog.array_agg(p.oid ORDER BY p.reltuples DESC, p.oid) FILTER (WHERE p.oid <> t.root))[1] AS largest
    FROM tree t JOIN pg_catalog.pg_class p ON p.oid = t.part WHERE p.relkind <> 'p' GROUP BY t.root
)
SELECT n.nspname, c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
       coalesce(w.rows, 0), coalesce(w.pages, 0), coalesce(s.null_frac, 0),
       CASE WHEN s.n_distinct < 0 THEN -s.n_distinct * coalesce(w.rows, 0) ELSE coalesce(s.n_distinct, 0) END,
       coalesce(s.most_common_freqs, '{{}}'), coalesce(s.correlation, 0),
       EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indnkeyatts = 1
               AND i.indkey[0] = a.attnum AND i.indpred IS NULL),
       EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
               JOIN pg_catalog.pg_am m ON m.oid = ic.relam WHERE i.indrelid = c.oid AND i.indisvalid
               AND m.amname = 'btree' AND i.indkey[0] = a.attnum AND i.indpred IS NULL),
       f.schema, f.name, f.attname,
       EXISTS (SELECT FROM pg_catalog.pg_constraint k
               WHERE k.contype = 'c' AND k.conrelid = c.oid AND a.attnum = ANY (k.conkey)),
       CASE WHEN {with_values} AND s.is_own THEN s.most_common_vals::text::text[] END,
       CASE WHEN {with_values} AND s.is_own THEN s.histogram_bounds::text::text[] END
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN whole w ON w.root = c.oid
LEFT JOIN pg_catalog.pg_class p ON p.oid = w.largest LEFT JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
LEFT JOIN LATERAL (
    SELECT true AS is_own, s.* FROM pg_catalog.pg_stats s
    WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
    UNION ALL
    SELECT false, s.* FROM pg_catalog.pg_stats s
    WHERE s.schemaname = pn.nspname AND s.tablename = p.relname AND s.attname = a.attname
    ORDER BY is_own DESC, inherited DESC LIMIT 1) s ON true
LEFT JOIN LATERAL (
    SELECT rn.nspname AS schema, r.relname AS name, ra.attname FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_class r ON r.oid = k.confrelid JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
    JOIN pg_catalog.pg_attribute ra ON ra.attrelid = r.oid AND ra.attnum = k.confkey[1]
    WHERE k.contype = 'f' AND k.conrelid = c.oid AND k.conkey = ARRAY[a.attnum]
    ORDER BY r.relispartition LIMIT 1) f ON true
WHERE c.relkind IN ('r', 'p', 'm', 'v') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY c.oid, a.attnum"""

# As many as the largest table that a view reads, by the catalogue: to plan a view is to execute what it calls.
_VIEWS: LiteralString = """
WITH RECURSIVE reads AS (
    SELECT r.ev_class AS reader, d.refobjid AS relation FROM pg_catalog.pg_rewrite r
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
    WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> r.ev_class
), below AS (
    SELECT reader AS view, relation FROM reads
    UNION SELECT below.view, reads.relation FROM below JOIN reads ON reads.reader = below.relation
)
SELECT n.nspname, c.relname, bn.nspname, b.relname FROM below JOIN pg_catalog.pg_class c ON c.oid = below.view
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_class b ON b.oid = below.relation
JOIN pg_catalog.pg_namespace bn ON bn.oid = b.relnamespace
WHERE c.relkind = 'v' AND b.relkind IN ('r', 'p', 'm')"""

# An expression of an index is unique by the columns that it reads, those of its condition among them.
_UNIQUE: LiteralString = """
SELECT n.nspname, c.relname, array_agg(a.attname ORDER BY k.place, a.attnum)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT number, place FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS u (number, place)
    WHERE place <= i.indnkeyatts
    UNION ALL
    SELECT d.refobjsubid, i.indnkeyatts + 1 FROM pg_catalog.pg_depend d
    WHERE i.indexprs IS NOT NULL AND d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
          AND d.refclassid = d.classid AND d.refobjid = i.indrelid AND d.refobjsubid <> ALL (i.indkey)
) AS k
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number AND a.attnum > 0
WHERE i.indisunique
GROUP BY n.nspname, c.relname, i.indexrelid"""

# An expression of a constraint has the number 0: its columns are those on which the index depends.
_EXCLUDED: LiteralString = """
SELECT n.nspname, c.relname, array_agg(a.attname ORDER BY k.place, a.attnum),
       coalesce(array_agg(a.attname ORDER BY k.place) FILTER (WHERE k.is_equal), '{}')
FROM pg_catalog.pg_constraint x JOIN pg_catalog.pg_class c ON c.oid = x.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT u.number, u.place, o.oprname = '=' AS is_equal
    FROM ROWS FROM (pg_catalog.unnest(x.conkey), pg_catalog.unnest(x.conexclop)) WITH ORDINALITY
        AS u (number, operator, place)
    JOIN pg_catalog.pg_operator o ON o.oid = u.operator
    UNION ALL
    SELECT d.refobjsubid, 100, false FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = x.conindid AND d.refclassid = d.classid
          AND d.refobjid = x.conrelid AND d.refobjsubid <> ALL (x.conkey)
) AS k
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number AND a.attnum > 0
WHERE x.contype = 'x'
GROUP BY n.nspname, c.relname, x.oid"""

_CONDITIONS: LiteralString = """
SELECT n.nspname, c.relname, array_agg(DISTINCT a.attname)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = i.indexrelid
    AND d.refclassid = d.classid AND d.refobjid = i.indrelid AND d.refobjsubid <> ALL (i.indkey)
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND a.attnum > 0
WHERE (i.indisunique OR i.indisexclusion) AND i.indpred IS NOT NULL
GROUP BY 1, 2"""

# It locks a table for a moment, as parsing a statement about it does.
_INDEXES: LiteralString = """
SELECT n.nspname, c.relname,
       coalesce(pg_catalog.array_agg(e.expressions) FILTER (WHERE e.expressions IS NOT NULL), '{}'),
       coalesce(pg_catalog.array_agg(e.predicate) FILTER (WHERE e.predicate IS NOT NULL), '{}')
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT pg_catalog.pg_get_expr(i.indexprs, i.indrelid) AS expressions,
                           pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS predicate) AS e
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
GROUP BY 1, 2"""

# That number the rows of a table: identity, serial, and other defaults.
_SEQUENCES: LiteralString = """
SELECT n.nspname, c.relname, a.attname, qn.nspname, q.relname
FROM (
    SELECT x.adrelid AS relation, x.adnum AS number, d.refobjid AS sequence FROM pg_catalog.pg_attrdef x
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = x.oid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass
    UNION ALL
    SELECT refobjid, refobjsubid, objid FROM pg_catalog.pg_depend
    WHERE classid = 'pg_catalog.pg_class'::regclass AND refclassid = classid AND refobjsubid > 0 AND deptype = 'i'
) AS u
JOIN pg_catalog.pg_class q ON q.oid = u.sequence AND q.relkind = 'S'
JOIN pg_catalog.pg_namespace qn ON qn.oid = q.relnamespace
JOIN pg_catalog.pg_class c ON c.oid = u.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.number"""

# Analysed tables of which pg_stats does not show every column to the role.
_UNSEEN: LiteralString = """
SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND c.reltuples > 0
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (c.relrowsecurity AND pg_catalog.row_security_active(c.oid) OR EXISTS (
      SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND NOT pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')))"""

_TYPES: LiteralString = """
SELECT pg_catalog.format_type(oid, NULL) FROM pg_catalog.unnest(%s::oid[]) WITH ORDINALITY AS t (oid, n) ORDER BY n"""


_SYNTAX_ERROR = "42601"
_EXTRACT = re.compile(r"\bextract\s*\(\s*(\$\d+)\s+from\b", re.IGNORECASE)
# Without what may follow "interval" and its constant: a field.
_TYPED = re.compile(
    r"\b(date|interval|timetz|timestamptz|time(?:stamp)?(?:\s+with(?:out)?\s+time\s+zone)?)\s+(\$\d+)\b"
    r"(?!\s+(?:year|month|day|hour|minute|second)\b)",
    re.IGNORECASE,
)
# What is not said of the type of a parameter there, the server takes from the other side, if that is no parameter.
_DIFFERENCE = re.compile(r"\$\d+(?:\s*[-+]\s*\$\d+)+|([-+]\s*\$\d+)\b(?!\s*::)")
_CASTS = ("", "::int", "::interval")
_MOST_DIFFERENCES = 3  # of which each may have another type
_UNTYPED = "42P18"  # indeterminate_datatype
_OF_TYPES = (_UNTYPED, "42883", "42804")  # beside no such function, and no type that all of them have


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What was counted of a statement; ``time`` in seconds. ``types`` are those of its parameters, by the server.

    ``refused`` is the SQLSTATE with which the server does not understand its text, 42P18 where that is for want of the
    type of a parameter.
    """

    text: str
    calls: int
    rows: int
    hit: int
    read: int
    time: float
    types: tuple[str, ...] = ()
    refused: str = ""

    @property
    def rows_per_call(self) -> float:
        return self.rows / self.calls

    @property
    def blocks_per_call(self) -> float:
        return (self.hit + self.read) / self.calls

    def plus(self, other: "Statement", sign: int = 1) -> "Statement":
        """With the counts of the same statement added, or subtracted."""
        return replace(
            self,
            calls=self.calls + sign * other.calls,
            rows=self.rows + sign * other.rows,
            hit=self.hit + sign * other.hit,
            read=self.read + sign * other.read,
            time=self.time + sign * other.time,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``distinct`` is how many different values there are, ``common`` the shares of the most common ones.

    ``values`` are these, and ``bounds`` those of the histogram: empty unless they were asked for. ``references`` is the
    column of another table that a foreign key names, ``sequence`` is what numbers new rows. ``is_indexed``: an index
    begins with it, so that rows come in its order without a sort. ``joint`` is the column that a foreign key of several
    names for it. ``has_order``: values can be sorted, unlike those of a box.
    """

    type: str
    nulls: float = 0.0
    distinct: float = 0.0
    common: tuple[float, ...] = ()
    correlation: float = 0.0
    is_unique: bool = False
    is_indexed: bool = False
    is_checked: bool = False
    references: tuple[TableName, str] | None = None
    sequence: TableName | None = None
    joint: tuple[TableName, str] | None = None
    has_order: bool = True
    values: tuple[str, ...] = field(default=(), repr=False)
    bounds: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``columns`` are in the order of the table; ``unique`` are the columns of each unique index, ``excluded`` those of
    each exclusion constraint, and which of them it compares by "=". ``conditions`` are columns that decide whether
    such an index has a row, ``checks`` those that a CHECK compares with each other. ``width`` is what a row takes, in
    bytes, 0 where it is not known. ``expressions`` are what indexes compute, ``predicates`` the conditions of partial
    ones, as the server writes them.

    A view is one, too: without ``pages``, and with the rows of the largest table that it reads.
    """

    rows: float
    pages: float
    columns: Mapping[str, Column]
    unique: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    conditions: frozenset[str] = frozenset()
    checks: tuple[tuple[str, ...], ...] = ()
    width: float = 0.0
    expressions: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A database's load and shape. ``path`` are the schemas in which names without one are looked up.

    ``hidden`` is how many statements others have sent whose text the role may not see, ``effects`` is what statements
    may do beside reading and writing rows. ``unseen`` is how many analysed tables have statistics that it may not see,
    ``counted_for`` since how many seconds the server counts, None where it does not say.
    """

    statements: tuple[Statement, ...]
    tables: Mapping[TableName, Table]
    path: tuple[str, ...]
    effects: Effects
    hidden: int
    unseen: int = 0
    counted_for: float | None = None
    referred: frozenset[tuple[TableName, str]] = field(init=False, repr=False)  # columns that foreign keys name

    def __post_init__(self) -> None:
        columns = (column for table in self.tables.values() for column in table.columns.values())
        named = (other for each in columns for other in (each.references, each.joint) if other is not None)
        object.__setattr__(self, "referred", frozenset(named))


async def read_load(conninfo: str, *, with_values: bool = False) -> Load:
    """What there is to know. Raises ConnectError, and TargetError where pg_stat_statements is not there."""
    counted = await _read_statements(conninfo)
    async with connect(conninfo) as connection, read_only(connection):
        query = sql.SQL(_COLUMNS).format(with_values=sql.Literal(with_values))
        unique = await (await connection.execute(_UNIQUE)).fetchall()
        excluded = await (await connection.execute(_EXCLUDED)).fetchall()
        tables = _tables_of(await (await connection.execute(query)).fetchall(), unique, excluded)
        for schema, table, names in await (await connection.execute(_CONDITIONS)).fetchall():
            if (indexed := (schema, table)) in tables:
                tables[indexed] = replace(tables[indexed], conditions=frozenset(names))
        _note_sequences(tables, await (await connection.execute(_SEQUENCES)).fetchall())
        for schema, name, *below in await (await connection.execute(_VIEWS)).fetchall():
            if (view := tables.get((schema, name))) and (read := tables.get(tuple(below))):
                tables[schema, name] = replace(view, rows=max(view.rows, read.rows))
        await note_constraints(connection, tables)
        ((unseen,),) = await (await connection.execute(_UNSEEN)).fetchall()
        effects = await read_effects(connection)
        counted_for = await _read_time(connection)
    async with connect(conninfo, as_user=True) as connection:  # names in statements mean what they mean to the role
        async with read_only(connection):
            for schema, table, expressions, predicates in await (await connection.execute(_INDEXES)).fetchall():
                if found := tables.get((schema, table)):
                    computed, conditions = tuple(expressions), tuple(predicates)
                    tables[schema, table] = replace(found, expressions=computed, predicates=conditions)
        ((path,),) = await (await connection.execute("SELECT pg_catalog.current_schemas(true)::text[]")).fetchall()
        described = [await _describe(connection, each) for each in counted if each.text]
    return Load(
        statements=tuple(described),
        tables=tables,
        path=tuple(path),
        effects=effects,
        hidden=sum(not each.text for each in counted),
        unseen=unseen,
        counted_for=counted_for,
    )


async def _read_time(connection: _Connection) -> float | None:
    for (schema,) in await (await connection.execute(_HAS_INFO)).fetchall():
        query = sql.SQL(_COUNTED_FOR).format(schema=sql.Identifier(schema))
        ((seconds,),) = await (await connection.execute(query)).fetchall()
        return None if seconds is None else max(0.0, seconds)
    return None


async def count_statements(conninfo: str) -> tuple[Statement, ...]:
    """The counts alone. Raises ConnectError, TargetError."""
    return tuple(each for each in await _read_statements(conninfo) if each.text)


async def _read_statements(conninfo: str) -> list[Statement]:
    """The text is empty where the role may not see it."""
    async with connect(conninfo) as connection, read_only(connection):
        found = await (await connection.execute(_EXTENSION)).fetchall()
        if not found:
            raise TargetError(
                "the database has no pg_stat_statements",
                hint="Put it into shared_preload_libraries, restart, and run CREATE EXTENSION pg_stat_statements.",
            )
        ((schema, is_of_today),) = found
        if not is_of_today:
            raise TargetError(
                "pg_stat_statements of the database is that of PostgreSQL 13 or older",
                hint="On a newer server run ALTER EXTENSION pg_stat_statements UPDATE.",
            )
        query = sql.SQL(_STATEMENTS).format(schema=sql.Identifier(schema))
        try:
            counted = await (await connection.execute(query)).fetchall()
        except ObjectNotInPrerequisiteState as err:
            raise TargetError(
                "the server has not loaded pg_stat_statements, so that it counts nothing",
                hint="Put it into shared_preload_libraries, and restart the server.",
            ) from err
        return [
            Statement(text=text or "", calls=calls, rows=rows, hit=hit, read=read, time=milliseconds / 1000)
            for text, calls, rows, hit, read, milliseconds in counted
        ]


def _tables_of(
    rows: list[tuple[Any, ...]], unique: list[tuple[Any, ...]], excluded: list[tuple[Any, ...]]
) -> dict[TableName, Table]:
    tables: dict[TableName, Table] = {}
    indexes: dict[TableName, list[tuple[str, ...]]] = {}
    for schema, table, names in unique:
        indexes.setdefault((schema, table), []).append(tuple(names))
    constraints: dict[TableName, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for schema, table, names, equal in excluded:
        constraints.setdefault((schema, table), []).append((tuple(names), tuple(equal)))
    columns: dict[TableName, dict[str, Column]] = {}
    for schema, table, name, type_, row_count, pages, nulls, distinct, common, correlation, is_unique, *rest in rows:
        if not f"{schema}{table}{name}".isprintable():
            continue  # as if it were not there: each statement of a set-up is one line
        is_indexed, ref_schema, ref_table, ref_column, is_checked, values, bounds = rest
        of_table = columns.setdefault((schema, table), {})
        tables.setdefault(
            (schema, table),
            Table(
                rows=row_count,
                pages=pages,
                columns=of_table,
                unique=tuple(indexes.get((schema, table), ())),
                excluded=tuple(constraints.get((schema, table), ())),
            ),
        )
        of_table[name] = Column(
            type=type_,
            nulls=nulls,
            distinct=distinct,
            common=tuple(common),
            correlation=correlation,
            is_unique=is_unique,
            is_indexed=is_indexed,
            is_checked=is_checked,
            references=None if ref_column is None else ((ref_schema, ref_table), ref_column),
            values=tuple(values or ()),
            bounds=tuple(bounds or ()),
        )
    return tables


def _note_sequences(tables: dict[TableName, Table], rows: list[tuple[Any, ...]]) -> None:
    for schema, table, name, *sequence in rows:
        found = tables.get((schema, table))
        if found is not None and name in found.columns:
            numbered = replace(found.columns[name], sequence=tuple(sequence))
            tables[schema, table] = replace(found, columns={**found.columns, name: numbered})


async def _describe(connection: _Connection, statement: Statement) -> Statement:
    """With the types of its parameters, and a text that the server understands where there is one.

    The server parses the text and no more: nothing of it is executed.
    """
    refused, oids = await _parse(connection, statement.text)
    text = statement.text
    if refused == _SYNTAX_ERROR and (text := _with_parameters(text)) != statement.text:
        refused, oids = await _parse(connection, text)
    if refused in _OF_TYPES:
        for other in _with_types(text):
            refused_again, oids = await _parse(connection, other)
            if not refused_again:
                refused, text = "", other
                break
    if refused:
        return replace(statement, refused=refused)
    rows = await (await connection.execute(_TYPES, (oids,))).fetchall()
    return replace(statement, text=text, types=tuple(name for (name,) in rows))


async def _parse(connection: _Connection, text: str) -> tuple[str, list[int]]:
    """The SQLSTATE with which the server refuses a text, or "", and the types of its parameters.

    In a transaction: between two, a pooler may go on with another session of the server.
    """
    server = connection.pgconn
    async with read_only(connection, {}):
        parsed = server.prepare(b"", text.encode())
        if parsed.status == pq.ExecStatus.FATAL_ERROR:
            return _state(parsed, text), []
        described = server.describe_prepared(b"")
        return "", [described.param_type(index) for index in range(described.nparams)]


def _state(result: pq.abc.PGresult, text: str) -> str:
    no_operator = result.error_field(pq.DiagnosticField.SOURCE_FUNCTION) == b"op_error"
    if no_operator and any(_DIFFERENCE.findall(text)):
        return _UNTYPED
    return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"XX000").decode()


def _with_parameters(text: str) -> str:
    """Where the grammar takes a constant only, the same with a parameter. A text with strings stays as it is."""
    if "'" in text or "$$" in text:
        return text
    return _TYPED.sub(r"\2::\1", _EXTRACT.sub(r'"extract"(\1,', text))


def _with_types(text: str) -> Iterator[str]:
    """The same with types of parameters that are added or subtracted, of as few as it takes first; not with strings."""
    if "'" in text or "$$" in text:
        return
    number = len([each for each in _DIFFERENCE.findall(text) if each])
    choices: Iterable[tuple[str, ...]] = itertools.product(_CASTS, repeat=number)
    if number > _MOST_DIFFERENCES:
        choices = [(cast,) * number for cast in _CASTS]
    for casts in sorted(choices, key=lambda casts: number - casts.count("")):
        if any(casts):
            yield _cast(text, iter(casts))


def _cast(text: str, casts: Iterator[str]) -> str:
    return _DIFFERENCE.sub(lambda found: found[0] + next(casts) if found[1] else found[0], text)
