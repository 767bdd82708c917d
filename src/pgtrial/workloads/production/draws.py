"""SQL that draws the parameters of statements: on the copy, from its own rows, so that no value has to leave a server.

A row of a table is drawn as a whole: its columns keep what they have to do with each other, most common values are
common, and the rest is spread as a histogram would say. What the counts say is used: how many rows a call found tells
whether keys were asked for alike or the more often the more rows they have, and how wide a range was. What nothing
tells is another thing in each ``Draw``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgtrial.postgres.production import Column, Load, Statement, Table, TableName
from pgtrial.workloads.production.parameters import Role, Shape, Use, is_fresh

SCHEMA = "pgtrial_workload"
COUNT = 20_000  # rows of parameters for each script
_MOST_SORTED = 5_000_000  # rows of a table that are sorted for a range
_DESCENT = 4  # blocks of an index down to its first entry, and one more of the table because a range begins anywhere
_ENTRIES = 300  # of an index in a block
_FEW = 3  # values in a list whose length nothing tells
_BY_TYPE = {
    "boolean": "random() < 0.5",
    "uuid": "gen_random_uuid()",
    "date": "current_date - (random() * 30)::int",
    "interval": "interval '1 day'",
    "json": "'{}'",
    "jsonb": "'{}'",
    "bytea": "decode('00', 'hex')",
    "inet": "'127.0.0.1'",
    "numeric": "round((random() * 100)::numeric, 2)",
    "real": "random() * 100",
    "double precision": "random() * 100",
    "money": "(random() * 100)::numeric::money",
    "time without time zone": "localtime",
    **dict.fromkeys(("smallint", "integer", "bigint", "oid"), "1 + (random() * 99)::int"),
    **dict.fromkeys(("text", "character varying", "character", "name", "unknown"), "left(md5(random()::text), 8)"),
    **dict.fromkeys(
        ("timestamp with time zone", "timestamp without time zone"), "now() - random() * interval '30 days'"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """``by_keys``: where nothing tells, values are drawn alike, and not the more often the more rows have them.

    ``exponent`` of Zipf's law prefers some of the rows of parameters. ``is_shared``: statements of one transaction are
    about the same row of a table. ``is_shuffled``: their order is drawn.
    """

    name: str
    by_keys: bool = False
    exponent: float | None = None
    is_shared: bool = True
    is_shuffled: bool = False


DRAWS = (
    Draw(name="rows"),
    Draw(name="keys", by_keys=True, is_shared=False, is_shuffled=True),
    Draw(name="hot", exponent=1.1),
)


def by_type(name: str) -> str | None:
    """An expression with some value of a type; None for one of which none is known."""
    plain = name.partition("(")[0].strip()
    return "'{}'" if name.endswith("[]") else _BY_TYPE.get(plain)


def is_known(statement: Statement, shape: Shape) -> bool:
    return all(by_type(statement.types[use.number - 1]) is not None or use.table is not None for use in shape.uses)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A parameter: an expression of what ``sources`` draw, and what is said of it."""

    expression: str
    how: str


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """As a script has it; a backslash is one, for standard_conforming_strings is on by default."""
    return "'" + text.replace("'", "''") + "'"


def name_of(table: TableName) -> str:
    return f"{quote(table[0])}.{quote(table[1])}"


@dataclass(frozen=True, slots=True)
class Drawer:
    """Of one statement, whose sources are called ``prefix`` and a number."""

    statement: Statement
    shape: Shape
    load: Load
    draw: Draw
    prefix: str

    def sources(self) -> Iterator[tuple[str, str, dict[int, Drawn]]]:
        """(name, query with the column n and those of the expressions, parameters by number)."""
        rows: dict[str, list[Use]] = {}
        for use in self.shape.uses:
            if use.table is not None and not is_fresh(use, self.load):
                rows.setdefault(use.row, []).append(use)
        for index, uses in enumerate(rows.values()):
            name = f"{self.prefix}_{index}"
            query, drawn = self._range(name, uses) if self._is_range(uses) else self._row(name, uses)
            yield name, query, drawn

    def _is_range(self, uses: Sequence[Use]) -> bool:
        return any(use.role in (Role.LOW, Role.HIGH) for use in uses)

    def other(self, use: Use) -> Drawn:
        """A parameter that no row has."""
        if use.role is Role.LIMIT:
            return Drawn(str(max(1, -(-self.statement.rows // self.statement.calls))), "rows of a call")
        if use.role is Role.OFFSET:
            return Drawn("0", "0")
        type_ = self.statement.types[use.number - 1]
        return Drawn(by_type(type_) or "NULL", f"some {type_}")

    def _row(self, name: str, uses: Sequence[Use]) -> tuple[str, dict[int, Drawn]]:
        table = uses[0].table
        assert table is not None
        share, why = self._key_share(uses)
        columns = list(dict.fromkeys(use.column for use in uses))
        by_keys = round(share * COUNT)
        parts = [_repeat(self._rows(table, columns, uses), COUNT - by_keys)] if by_keys < COUNT else []
        parts += [_repeat(self._keys(table, columns), by_keys)] if by_keys else []
        names = ", ".join(f"c{index}" for index in range(len(columns)))
        # A list of values is that of a row and of those before it.
        query = f"SELECT row_number() OVER (ORDER BY random()) AS n, {names} FROM ({' UNION ALL '.join(parts)}) AS u"
        drawn = {}
        for use in uses:
            column = f"{name}.c{columns.index(use.column)}"
            if use.role is Role.ANY:
                length = self._list_length(table, use.column)
                column = f"array_agg({column}) OVER (ORDER BY n ROWS BETWEEN {length - 1} PRECEDING AND CURRENT ROW)"
            elif use.role is Role.LIKE:
                column = f"left({column}::text, 3) || '%'"
            drawn[use.number] = Drawn(column, f"{use.role} {table[1]}.{use.column}, {why}")
        return query, drawn

    def _rows(self, table: TableName, columns: Sequence[str], uses: Sequence[Use]) -> str:
        if len(columns) == 1 and (known := _known_values(self.load.tables[table].columns[columns[0]])):
            return known
        selected = ", ".join(f"{quote(name)} AS c{index}" for index, name in enumerate(columns))
        compared = {use.column for use in uses if use.role not in (Role.NEW, Role.SET)}
        where = " AND ".join(f"{quote(name)} IS NOT NULL" for name in columns if name in compared) or "true"
        share = 100 * min(1.0, 20 * COUNT / max(self.load.tables[table].rows, 1))
        sample = "" if share >= 100 else f" TABLESAMPLE SYSTEM ({share:.6g})"
        return f"SELECT {selected} FROM {name_of(table)}{sample} WHERE {where} ORDER BY random() LIMIT {COUNT}"

    def _keys(self, table: TableName, columns: Sequence[str]) -> str:
        reference = self.load.tables[table].columns[columns[0]].references
        if len(columns) == 1 and reference is not None:
            table, columns = reference[0], [reference[1]]
        selected = ", ".join(f"{quote(name)} AS c{index}" for index, name in enumerate(columns))
        where = " AND ".join(f"{quote(name)} IS NOT NULL" for name in columns)
        distinct = f"SELECT DISTINCT {selected} FROM {name_of(table)} WHERE {where}"
        return f"SELECT * FROM ({distinct}) AS d ORDER BY random() LIMIT {COUNT}"

    def _key_share(self, uses: Sequence[Use]) -> tuple[float, str]:
        """How much of the draws are of values alike, 0 to 1, and why."""
        compared = [use for use in uses if use.role is Role.EQUAL]
        if not compared or len(compared) < len(uses):
            return 0.0, "as rows have it"
        if (share := self._told_share()) is not None:
            return share, f"{share:.0%} of the values alike and the rest as rows have it, by rows of a call"
        return (1.0, "values alike") if self.draw.by_keys else (0.0, "as rows have it")

    def _told_share(self) -> float | None:
        """From the rows of a call, where they say it: with one comparison, to a column that is not unique."""
        compared = [use for use in self.shape.uses if use.role not in (Role.SET, Role.OTHER)]
        if len(compared) != 1 or compared[0].role is not Role.EQUAL or not self.shape.is_plain:
            return None
        (use,) = compared
        if use.table is None:
            return None
        table = self.load.tables[use.table]
        by_row, by_key = rows_found(table, table.columns[use.column], self.load)
        if by_row <= by_key * 1.01:
            return None
        return min(1.0, max(0.0, (by_row - self.statement.rows_per_call) / (by_row - by_key)))

    def _list_length(self, table: TableName, column: str) -> int:
        if not self.shape.is_plain:
            return _FEW
        found = self.load.tables[table]
        each = 1.0 if found.columns[column].is_unique else max(1.0, found.rows / max(found.columns[column].distinct, 1))
        return max(1, round(self.statement.rows_per_call / each))

    def _range(self, name: str, uses: Sequence[Use]) -> tuple[str, dict[int, Drawn]]:
        """Both ends in one go, as far apart as makes the rows of a call; of one end what leaves that many."""
        place, column = uses[0].table, uses[0].column
        assert place is not None
        table = self.load.tables[place]
        share = self._wanted(table, table.columns[column]) / max(table.rows, 1)
        sample = ""
        if table.rows > _MOST_SORTED:
            sample = f" TABLESAMPLE SYSTEM ({100 * _MOST_SORTED / table.rows:.6g})"
        sorted_ = (
            f"SELECT {quote(column)} AS c, row_number() OVER (ORDER BY {quote(column)}) AS i, count(*) OVER () AS m "
            f"FROM {name_of(place)}{sample} WHERE {quote(column)} IS NOT NULL"
        )
        roles = {use.role for use in uses}
        if self.shape.is_limited or len(roles) == 2:
            start = "1 + floor(random() * greatest(m - width, 1))"
        elif roles == {Role.LOW}:
            start = "greatest(1, m - width * (0.5 + random()))"
        else:
            start = "least(m, 1 + width * (0.5 + random()) - width)"
        query = (
            f"WITH s AS MATERIALIZED ({sorted_}), a AS (SELECT m, {share:.9g} * m AS width FROM s LIMIT 1), "
            f"b AS (SELECT n, round({start})::bigint AS i, greatest(round(width) - 1, 0)::bigint AS w, m "
            f"FROM a, generate_series(1, {COUNT}) AS n) "
            "SELECT b.n, low.c AS c0, high.c AS c1 FROM b JOIN s AS low ON low.i = greatest(b.i, 1) "
            "JOIN s AS high ON high.i = greatest(least(b.i + b.w, b.m), 1)"
        )
        how = f"{{}} {place[1]}.{column}, about {share * table.rows:.3g} rows"
        return query, {
            use.number: Drawn(f"{name}.c{0 if use.role is Role.LOW else 1}", how.format(use.role)) for use in uses
        }

    def _wanted(self, table: Table, column: Column) -> float:
        """How many rows a call went through: those it found, or as many as its blocks have."""
        if self.shape.is_plain:
            return max(self.statement.rows_per_call, 1.0)
        together = column.correlation**2
        per_row = together * table.pages / max(table.rows, 1) + (1 - together) + 1 / _ENTRIES
        return min(table.rows, max(1.0, (self.statement.blocks_per_call - _DESCENT) / per_row))


def rows_found(table: Table, column: Column, load: Load) -> tuple[float, float]:
    """Rows that have a value: where values are drawn as rows have them, and where they are drawn alike."""
    keys = column.distinct
    if column.references is not None and column.references[0] in load.tables:
        keys = max(keys, load.tables[column.references[0]].rows)
    if column.distinct < 1 or keys < 1:
        return 0.0, 0.0
    rest = max(0.0, 1 - column.nulls - sum(column.common))
    others = max(column.distinct - len(column.common), 1.0)
    by_row = table.rows * (sum(share**2 for share in column.common) + rest**2 / others)
    return by_row, table.rows * (1 - column.nulls) / keys


def _repeat(query: str, count: int) -> str:
    """The rows of a query, one after the other and again, until there are ``count``."""
    return (
        f"(WITH q AS MATERIALIZED (SELECT row_number() OVER () AS k, s.* FROM ({query}) AS s), "
        "m AS (SELECT greatest(count(*), 1) AS m FROM q) "
        f"SELECT q.* FROM (SELECT 1 + (g - 1) % m AS k FROM m, generate_series(1, {count}) AS g) AS i JOIN q USING (k))"
    )


def _known_values(column: Column) -> str:
    """A sample of the original's own values, where they were read: the common ones as often as there, then the rest."""
    if not column.values and not column.bounds:
        return ""
    rest = max(0.0, 1 - column.nulls - sum(column.common))
    weighted = [*zip(column.values, column.common, strict=False)]
    weighted += [(value, rest / len(column.bounds)) for value in column.bounds]
    rows = ", ".join(
        f"({literal(value)}, {max(1, round(weight * COUNT))})" for value, weight in weighted if value.isprintable()
    )
    if not rows:
        return ""
    return (
        f"SELECT v::{column.type} AS c0 FROM (VALUES {rows}) AS t (v, times), generate_series(1, times) "
        f"ORDER BY random() LIMIT {COUNT}"
    )
