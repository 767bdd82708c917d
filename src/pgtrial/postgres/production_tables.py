"""What the catalogue says of tables beside their columns and keys: what ties columns together, and how long rows are.

Nothing here waits for a lock, or calls what a user may have made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString

if TYPE_CHECKING:
    import psycopg

    from pgtrial.postgres.production import Table, TableName

    _Tables = dict[TableName, Table]

# Of a domain its type counts, of an array that of its elements. Ranges, enums and rows have an order.
_UNORDERED: LiteralString = """
SELECT n.nspname, c.relname, a.attname
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
JOIN pg_catalog.pg_type e ON e.oid = CASE WHEN b.typcategory = 'A' AND b.typelem <> 0 THEN b.typelem ELSE b.oid END
WHERE a.attnum > 0 AND e.typtype = 'b' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_opclass o JOIN pg_catalog.pg_am m ON m.oid = o.opcmethod
    WHERE m.amname = 'btree' AND o.opcdefault AND (o.opcintype = e.oid OR EXISTS (
        SELECT FROM pg_catalog.pg_cast k WHERE k.castsource = e.oid AND k.casttarget = o.opcintype
        AND k.castmethod = 'b' AND k.castcontext = 'i')))"""

_GENERATED: LiteralString = """
SELECT n.nspname, c.relname, g.attname, pg_catalog.array_agg(DISTINCT a.attname)
FROM pg_catalog.pg_attribute g
JOIN pg_catalog.pg_class c ON c.oid = g.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attrdef x ON x.adrelid = g.attrelid AND x.adnum = g.attnum
JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = g.attrelid
    AND (d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = x.oid
         OR d.classid = d.refclassid AND d.objid = g.attrelid AND d.objsubid = g.attnum)
JOIN pg_catalog.pg_attribute a ON a.attrelid = g.attrelid AND a.attnum = d.refobjsubid
WHERE g.attgenerated <> '' AND a.attnum > 0 AND a.attnum <> g.attnum
GROUP BY 1, 2, 3"""

# A partition that is referred to has a constraint of its own beside that of its table, which comes last.
_JOINT: LiteralString = """
SELECT n.nspname, c.relname, a.attname, rn.nspname, r.relname, ra.attname
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_class r ON r.oid = k.confrelid JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey)) AS u (own, other)
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.own
JOIN pg_catalog.pg_attribute ra ON ra.attrelid = r.oid AND ra.attnum = u.other
WHERE k.contype = 'f' AND pg_catalog.cardinality(k.conkey) > 1
ORDER BY r.relispartition DESC, k.oid"""

_CHECKS: LiteralString = """
SELECT n.nspname, c.relname, pg_catalog.array_agg(a.attname ORDER BY a.attnum)
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (k.conkey)
WHERE k.contype = 'c' AND pg_catalog.cardinality(k.conkey) > 1
GROUP BY n.nspname, c.relname, k.oid"""

# Views of one table, with the columns of that which they name; those of other views come after these.
_SIMPLE_VIEWS: LiteralString = """
SELECT n.nspname, c.relname, pg_catalog.min(bn.nspname), pg_catalog.min(b.relname),
       pg_catalog.array_agg(DISTINCT a.attname)
FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class AND c.relkind = 'v'
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
    AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> c.oid
JOIN pg_catalog.pg_class b ON b.oid = d.refobjid JOIN pg_catalog.pg_namespace bn ON bn.oid = b.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = b.oid AND a.attnum = d.refobjsubid AND a.attnum > 0
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
GROUP BY c.oid, n.nspname, c.relname HAVING count(DISTINCT b.oid) = 1 ORDER BY c.oid"""

# With what is stored apart of long values, as far as it has been vacuumed.
_BYTES: LiteralString = """
SELECT n.nspname, c.relname, sum((p.relpages + s.relpages) * pg_catalog.current_setting('block_size')::float8)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT c.oid UNION SELECT relid FROM pg_catalog.pg_partition_tree(c.oid)) AS tree (part)
JOIN pg_catalog.pg_class p ON p.oid = tree.part JOIN pg_catalog.pg_class s ON s.oid = p.reltoastrelid
WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
GROUP BY 1, 2"""


async def note_constraints(connection: psycopg.AsyncConnection[tuple[Any, ...]], tables: _Tables) -> None:
    """Put into ``tables``, of which each has its columns and keys, what else the catalogue says of them."""

    async def read(query: LiteralString) -> list[tuple[Any, ...]]:
        rows = await (await connection.execute(query)).fetchall()
        return [((schema, name), *rest) for schema, name, *rest in rows if (schema, name) in tables]

    for name, column in await read(_UNORDERED):
        _change(tables, name, column, has_order=False)
    for name, column, schema, other, other_column in await read(_JOINT):
        _change(tables, name, column, joint=((schema, other), other_column))
    for name, columns in await read(_CHECKS):
        tables[name] = replace(tables[name], checks=(*tables[name].checks, tuple(columns)))
    for name, column, made_of in await read(_GENERATED):
        # A value is new if those that it is made of are.
        keys = (tuple(dict.fromkeys(_exchanged(key, column, made_of))) for key in tables[name].unique if column in key)
        tables[name] = replace(tables[name], unique=(*tables[name].unique, *keys))
    for name, size in await read(_BYTES):
        tables[name] = replace(tables[name], width=size / max(tables[name].rows, 1.0))
    for name, schema, below, read_columns in await read(_SIMPLE_VIEWS):
        if (schema, below) in tables:
            tables[name] = _view_of(tables[schema, below], tables[name], frozenset(read_columns))


def _change(tables: _Tables, name: TableName, column: str, **changes: Any) -> None:
    table = tables[name]
    if column in table.columns:
        columns = {**table.columns, column: replace(table.columns[column], **changes)}
        tables[name] = replace(table, columns=columns)


def _exchanged(key: tuple[str, ...], column: str, others: list[str]) -> list[str]:
    return [one for each in key for one in (others if each == column else [each])]


def _view_of(table: Table, view: Table, read: frozenset[str]) -> Table:
    """With what its table does not allow, by the columns that have the same name in both."""
    same = {name for name in read if name in view.columns and view.columns[name].type == table.columns[name].type}
    columns = dict(view.columns)
    for name in same:
        of_table = table.columns[name]
        columns[name] = replace(
            columns[name],
            is_unique=of_table.is_unique,
            is_checked=of_table.is_checked,
            references=of_table.references,
            joint=of_table.joint,
            sequence=of_table.sequence,
        )
    return replace(
        view,
        columns=columns,
        unique=tuple(key for key in table.unique if same.issuperset(key)),
        excluded=tuple(each for each in table.excluded if same.issuperset(each[0])),
        conditions=table.conditions & same,
        checks=tuple(each for each in table.checks if same.issuperset(each)),
        width=table.width,
    )
