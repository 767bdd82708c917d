"""Rights on tables that a load needs and the role lacks."""

from collections.abc import Collection
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier

from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.checks import Missing


@dataclass(frozen=True, slots=True, order=True)
class TableUse:
    """``schema`` is "" for a name that the search path resolves; ``right`` is SELECT, INSERT, UPDATE or DELETE.

    ``columns`` are those that an INSERT names: of the others it takes the defaults. Without any, nothing is known.
    """

    schema: str
    name: str
    right: str
    columns: tuple[str, ...] = ()


# A right on one column is enough to ask no more here: which ones a statement needs its own check will tell.
_TABLE = """
    SELECT c.oid, n.nspname, c.relname, has_schema_privilege(n.oid, 'USAGE'),
        CASE WHEN %(right)s = 'DELETE' THEN has_table_privilege(c.oid, 'DELETE')
            ELSE has_any_column_privilege(c.oid, %(right)s) END
    FROM unnest(%(schemas)s::text[]) WITH ORDINALITY AS u (nspname, place)
        JOIN pg_namespace AS n ON n.nspname = u.nspname JOIN pg_class AS c ON c.relnamespace = n.oid
    WHERE c.relname = %(name)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY u.place LIMIT 1
"""
_SEQUENCES = """
    SELECT n.nspname, s.relname
    FROM pg_attrdef AS d
        JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN pg_depend AS p ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid
            AND p.refclassid = 'pg_class'::regclass
        JOIN pg_class AS s ON s.oid = p.refobjid JOIN pg_namespace AS n ON n.oid = s.relnamespace
    WHERE d.adrelid = %s AND a.attname <> ALL (%s)
        AND CASE WHEN s.relkind = 'S' THEN NOT has_sequence_privilege(s.oid, 'USAGE, UPDATE') ELSE false END
"""


async def find_missing_on_tables(conninfo: str, needs: Collection[TableUse]) -> tuple[Missing, ...]:
    """What the role that connects to the load's database lacks of ``needs``, with the statements that give it.

    A table that there is not is no matter of rights.
    """
    if not needs:
        return ()
    lacking: dict[tuple[str, tuple[str, ...]], list[str]] = {}  # rights by kind and name

    def add(right: str, kind: str, *name: str) -> None:
        rights = lacking.setdefault((kind, name), [])
        if right not in rights:
            rights.append(right)

    async with connect(conninfo, as_user=True) as connection:  # names without a schema are where its sessions find them
        answer = await connection.execute("SELECT pg_catalog.current_schemas(true)")
        path = [name for (names,) in await answer.fetchall() for name in names]
    async with connect(conninfo) as connection:
        for need in needs:
            wanted = {"schemas": [need.schema] if need.schema else path, "name": need.name, "right": need.right}
            found = await (await connection.execute(_TABLE, wanted)).fetchone()
            if found is None:
                continue
            oid, schema, table, may_enter, may = found
            if not may_enter:
                add("USAGE", "SCHEMA", schema)
            if not may:
                add(need.right, "TABLE", schema, table)
            if need.right == "INSERT" and need.columns:
                for name in await (await connection.execute(_SEQUENCES, [oid, list(need.columns)])).fetchall():
                    add("USAGE", "SEQUENCE", *name)
        user, database = connection.info.user, connection.info.dbname
    return tuple(
        Missing(
            text=f'role "{user}" may not {" or ".join(rights)} on {kind.lower()} {".".join(name)}, as a script does',
            grant=f"GRANT {', '.join(rights)} ON {kind} {_quoted(*name)} TO {_quoted(user)}",
            database=database,
        )
        for (kind, name), rights in lacking.items()
    )


def _quoted(*parts: str) -> str:
    return SQL(".").join(map(Identifier, parts)).as_string()
