"""To which column of which table a name in a statement refers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from pgtrial.postgres.production import Load, TableName
from pgtrial.workloads.sql_tree import innermost, name_of

WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
SCOPES = (exp.Select, *WRITES)


@dataclass(frozen=True, slots=True)
class Columns:
    """Those of the tables of ``load``."""

    load: Load

    def find(self, column: exp.Column) -> tuple[str, TableName, str] | None:
        """The alias, the table and its column, by the nearest query around it that has one of that name."""
        scope = column.find_ancestor(*SCOPES)
        while scope is not None:
            if found := self._found_in(scope, column):
                return found
            scope = scope.find_ancestor(*SCOPES)
        return None

    def _found_in(self, scope: exp.Expr, column: exp.Column, name: str = "") -> tuple[str, TableName, str] | None:
        """``name`` is that of the column, where it is one of a star."""
        wanted, of = name or name_of(column.this), name_of(column.args.get("table"))
        found = (self._found_at(place, alias, wanted) for alias, place in _places_in(scope) if of in ("", alias))
        return next((each for each in found if each is not None), None)

    def _found_at(self, place: exp.Expr, alias: str, name: str) -> tuple[str, TableName, str] | None:
        query = _query_named(place) if isinstance(place, exp.Table) else place
        if query is not None:
            found = self._handed_on(query, name)
            return None if found is None else (f"{alias}.{found[0]}", *found[1:])
        table = self.resolve(place) if isinstance(place, exp.Table) else None
        return (alias, table, name) if table is not None and name in self.load.tables[table].columns else None

    def _handed_on(self, place: exp.Expr, name: str) -> tuple[str, TableName, str] | None:
        """What the query in the place of a table has under a name, if that is a column as it is."""
        alias, query = place.args.get("alias"), place.this
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        names = [name_of(each) for each in alias.columns] if alias is not None else []
        for index, each in enumerate(query.expressions):
            value = innermost(each.unalias())
            own = names[index] if index < len(names) else name_of(each.args.get("alias")) or name_of(value)
            if each.is_star:
                column = value if isinstance(value, exp.Column) else exp.Column()
                if found := self._found_in(query, column, name):
                    return found
            elif own == name:
                return self._found_in(query, value) if isinstance(value, exp.Column) else None
        return None

    def resolve(self, table: exp.Table) -> TableName | None:
        if not isinstance(table.this, exp.Identifier):
            return None
        name, schema = name_of(table.this), table.args.get("db")
        schemas: Sequence[str] = self.load.path if schema is None else (name_of(schema),)
        return next(((one, name) for one in schemas if (one, name) in self.load.tables), None)


def _places_in(scope: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The tables of a query, and the queries that stand in the place of one, with the names that they have there."""
    places: list[exp.Expr | None] = [scope.args.get("from_"), *(scope.args.get("joins") or ())]
    if isinstance(scope, WRITES):
        this = scope.this.this if isinstance(scope.this, exp.Schema) else scope.this
        using = scope.args.get("using") or ()
        places += [this, *(using if isinstance(using, list | tuple) else [using])]
    for place in places:
        for found in place.find_all(exp.Table, exp.Subquery) if place is not None else ():
            if found.find_ancestor(*SCOPES) is scope:
                named = found.parent if isinstance(found.parent, exp.Lateral) else found
                alias = named.args.get("alias")
                if alias is not None or isinstance(found, exp.Table):
                    yield name_of(alias.this if alias is not None else found.this), found


def _query_named(table: exp.Table) -> exp.CTE | None:
    """The query of WITH whose name stands in the place of a table."""
    node: Any = table if table.args.get("db") is None else None
    around = set[int]()
    while node is not None:
        around.add(id(node))
        queries = node.args.get("with_")
        for each in queries.expressions if queries is not None else ():
            if id(each) in around:
                break  # those behind it are not known in it
            if isinstance(each, exp.CTE) and name_of(each.args["alias"].this) == name_of(table.this):
                return each
        node = node.parent
    return None
