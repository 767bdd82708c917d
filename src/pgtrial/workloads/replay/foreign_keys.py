"""Tables whose rows the server looks at because of a foreign key, which no text of a statement tells."""

from collections import defaultdict
from collections.abc import Mapping, Set
from typing import Any

import psycopg

Table = tuple[str, str]  # schema, "" for one that the search path resolves, and name
Looked = Mapping[tuple[Table, str], Set[Table]]  # at which tables, by the one that is written and the right for it

_KEYS = b"""
SELECT child_schema.nspname, child.relname, parent_schema.nspname, parent.relname
FROM pg_catalog.pg_constraint
JOIN pg_catalog.pg_class AS child ON child.oid OPERATOR(pg_catalog.=) conrelid
JOIN pg_catalog.pg_namespace AS child_schema ON child_schema.oid OPERATOR(pg_catalog.=) child.relnamespace
JOIN pg_catalog.pg_class AS parent ON parent.oid OPERATOR(pg_catalog.=) confrelid
JOIN pg_catalog.pg_namespace AS parent_schema ON parent_schema.oid OPERATOR(pg_catalog.=) parent.relnamespace
WHERE contype OPERATOR(pg_catalog.=) 'f'
"""


async def find_looked(connection: "psycopg.AsyncConnection[tuple[Any, ...]]") -> Looked:
    """Who writes a row with a reference looks for the row that it refers to, and who deletes one for those that refer
    to it. A table is also known without its schema, whatever the search path of a session is.
    """
    found: dict[tuple[Table, str], set[Table]] = defaultdict(set)
    cursor = await connection.execute(_KEYS)
    for child_schema, child, parent_schema, parent in await cursor.fetchall():
        children, parents = {(child_schema, child), ("", child)}, {(parent_schema, parent), ("", parent)}
        for table in children:
            for right in ("INSERT", "UPDATE"):
                found[table, right] |= parents
        for table in parents:
            found[table, "DELETE"] |= children
    return found
