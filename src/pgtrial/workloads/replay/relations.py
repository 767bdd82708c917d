"""Tables that a statement is about and does not name: what a view or a part of a table stands for, and where the server
looks because of a foreign key.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import psycopg

Table = tuple[str, str]  # schema, "" for one that the search path resolves, and name
Uses = tuple[tuple[Table, str], ...]  # the tables of a statement, and the right that it needs on each

# Of the server's own objects, whose numbers are smaller, only the names that statements write are known.
_RELATIONS = b"""
WITH found (kind, relation, other) AS (
    SELECT 'key', conrelid, confrelid FROM pg_catalog.pg_constraint WHERE contype OPERATOR(pg_catalog.=) 'f'
    UNION ALL
    SELECT 'part', inhrelid, inhparent FROM pg_catalog.pg_inherits
    UNION ALL
    SELECT 'part', ev_class, refobjid
    FROM pg_catalog.pg_rewrite AS rule
    JOIN pg_catalog.pg_depend ON objid OPERATOR(pg_catalog.=) rule.oid
        AND classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
        AND refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND refobjid OPERATOR(pg_catalog.<>) ev_class
    JOIN pg_catalog.pg_class AS view ON view.oid OPERATOR(pg_catalog.=) ev_class
        AND relkind OPERATOR(pg_catalog.=) 'v'
    WHERE ev_class OPERATOR(pg_catalog.>=) 16384
)
SELECT kind, relation_schema.nspname, relation.relname, other_schema.nspname, other.relname
FROM found
JOIN pg_catalog.pg_class AS relation ON relation.oid OPERATOR(pg_catalog.=) found.relation
JOIN pg_catalog.pg_namespace AS relation_schema ON relation_schema.oid OPERATOR(pg_catalog.=) relation.relnamespace
JOIN pg_catalog.pg_class AS other ON other.oid OPERATOR(pg_catalog.=) found.other
JOIN pg_catalog.pg_namespace AS other_schema ON other_schema.oid OPERATOR(pg_catalog.=) other.relnamespace
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """``parts``: what a view reads, and of what a table is a part. ``keys``: the tables at which the server looks, by
    the one that is written and the right for it. A table that has them is also known without its schema, whatever the
    search path of a session is.
    """

    parts: Mapping[Table, Set[Table]]
    keys: Mapping[tuple[Table, str], Set[Table]]

    def reach(self, uses: Iterable[tuple[Table, str]]) -> Uses:
        """These, and all that come with them."""
        found = dict.fromkeys(uses)
        to_do = list(found)
        while to_do:
            table, right = to_do.pop()
            more = {(other, right) for other in self.parts.get(table, ())}
            more |= {(other, "SELECT") for other in self.keys.get((table, right), ())}
            to_do += more - found.keys()
            found |= dict.fromkeys(more)
        return tuple(found)


async def find_relations(connection: "psycopg.AsyncConnection[tuple[Any, ...]]") -> Relations:
    """Who writes a row with a reference looks for the row that it refers to, and who deletes one for those that refer
    to it.
    """
    parts: dict[Table, set[Table]] = defaultdict(set)
    keys: dict[tuple[Table, str], set[Table]] = defaultdict(set)
    cursor = await connection.execute(_RELATIONS)
    for kind, *names in await cursor.fetchall():
        table, other = (names[0], names[1]), (names[2], names[3])
        for one in (table, ("", table[1])):
            if kind == "part":
                parts[one].add(other)
            else:
                keys[one, "INSERT"].add(other)
                keys[one, "UPDATE"].add(other)
        if kind == "key":
            for one in (other, ("", other[1])):
                keys[one, "DELETE"].add(table)
    return Relations(parts=parts, keys=keys)
