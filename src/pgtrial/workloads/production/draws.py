"""SQL that draws the parameters of statements: on the copy, from its own rows, so that no value has to leave a server.

A row of a table is drawn as a whole: its columns keep what they have to do with each other, most common values are
common, and the rest is spread as a histogram would say. What the counts say is used: how many rows a call found tells
how much more often keys are asked for that have more rows, and how wide a range was. What nothing tells is another
thing in each ``Draw``.

Both are dials of a script: settings at the top of its set-up, which its queries read, so that another value can be
tried on a copy without the server that was counted.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.postgres.production import Column, Load, Statement, Table, TableName
from pgtrial.units import format_share
from pgtrial.workloads.production.keys import can_number, is_fresh
from pgtrial.workloads.production.uses import AMOUNT, Role, Shape, Use

SCHEMA = "pgtrial_workload"
COUNT = 20_000  # rows of parameters for each script
_MOST_BYTES = 32 * 2**20  # of long values in them
_LEAST = 500  # rows of parameters, however long their values are
_MOST_SORTED = 5_000_000  # rows of a table that are sorted for a range
_DESCENT = 4  # blocks of an index down to its first entry, and one more of the table because a range begins anywhere
_ENTRIES = 300  # of an index in a block
_SAMPLED = 20 * COUNT  # rows of a table of which parameters are drawn
_LEAST_NEW = 100  # rows that new ones are drawn of
_MOST_STATES = 20  # values of a column of which an application may ask for one only
_FEW = 3  # values in a list whose length nothing tells
_UNSEEN = 0.5  # rows that a key counts as having beside its own, so that those without any are asked for, too
_MOST_LOVED = 4.0  # exponent of the rows of a key that counts may tell
_BY_TYPE = {
    "boolean": "random() < 0.5",
    "uuid": "gen_random_uuid()",
    "date": "current_date - (random() * 30)::int",
    "interval": "interval '1 day'",
    "json": "'{}'",
    "jsonb": "'{}'",
    "bytea": "decode('00', 'hex')",
    "regconfig": "'simple'",
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
_LONG = frozenset(("text", "character varying", "bytea", "json", "jsonb", "xml"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """``exponent``: where nothing tells, a value is asked for as often as its rows to this power, 0 is all alike.

    ``zipf`` is the exponent of Zipf's law that prefers some of the rows of parameters. ``is_shared``: statements of one
    transaction are about the same row of a table. ``is_shuffled``: their order is drawn.
    """

    name: str
    exponent: float = 1.0
    zipf: float | None = None
    is_shared: bool = True
    is_shuffled: bool = False


DRAWS = (
    Draw(name="rows"),
    Draw(name="keys", exponent=0.0, is_shared=False, is_shuffled=True),
    Draw(name="hot", zipf=1.1),
)


class Dial(StrEnum):
    """What it sets: the exponent of the rows that a key has, or a factor of how wide ranges are.

    A key of several columns has another one, the exponent of the rows with a value of a column but the first: an
    application may ask for some states more than for others. Where a column of it has few values, it may ask for one of
    them only: that is its number, from the most common one on, and 0 for all.
    """

    KEYS = "keys"
    OTHERS = "others"
    ONLY = "only"
    WIDTH = "width"


def dial(script: str, kind: Dial) -> str:
    """The name of the setting."""
    return f"{SCHEMA}.{script}_{kind}"


def _read_dial(script: str, kind: Dial) -> str:
    return f"current_setting('{dial(script, kind)}')::float8"


def by_type(name: str) -> str | None:
    """An expression with some value of a type; None for one of which none is known."""
    plain = name.partition("(")[0].strip()
    return "'{}'" if name.endswith("[]") else _BY_TYPE.get(plain)


def count_of(asked: Iterable[tuple[Statement, Shape]], load: Load) -> int:
    """Rows of parameters for a script: fewer where it writes documents, or many rows, which each row has whole."""
    rows: dict[TableName, float] = {}
    for statement, shape in asked:
        for use in shape.uses:
            if use.table is not None and ((use.role is Role.ANY and use.given) or _may_be_long(use, load)):
                of_call = statement.rows_per_call if use.role is Role.ANY else 1.0
                rows[use.table] = max(rows.get(use.table, 0.0), of_call)
    width = sum(load.tables[table].width * number for table, number in rows.items())
    return max(_LEAST, min(COUNT, int(_MOST_BYTES / width))) if width else COUNT


def _may_be_long(use: Use, load: Load) -> bool:
    """A key of an index is short."""
    if use.table is None or use.role not in (Role.NEW, Role.SET):
        return False
    column = load.tables[use.table].columns[use.column]
    return (column.type in _LONG or column.type.endswith("[]")) and not (column.is_unique or column.is_indexed)


def is_known(statement: Statement, shape: Shape, load: Load) -> bool:
    """Whether there is a value for each parameter: by its type, or of a row of its column."""
    return all(by_type(statement.types[use.number - 1]) is not None or _has_values(use, load) for use in shape.uses)


def _has_values(use: Use, load: Load) -> bool:
    return use.table is not None and load.tables[use.table].columns[use.column].nulls < 1


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
    """Of one statement of ``script``, whose sources are called ``prefix`` and a number, and have ``count`` rows."""

    script: str
    statement: Statement
    shape: Shape
    load: Load
    draw: Draw
    prefix: str
    count: int

    def sources(self) -> Iterator[tuple[str, str, dict[int, Drawn]]]:
        """(name, query with the column n and those of the expressions, parameters by number)."""
        for index, uses in enumerate(self._by_row().values()):
            name = f"{self.prefix}_{index}"
            query, drawn = self._range(name, uses) if self._is_range(uses) else self._row(name, uses)
            yield name, query, drawn

    def _by_row(self) -> dict[tuple[TableName, str], list[Use]]:
        rows: dict[tuple[TableName, str], list[Use]] = {}
        for use in self.shape.uses:
            if use.table is not None and (use.is_mixed or not is_fresh(use, self.load)):
                rows.setdefault((use.table, use.row), []).append(use)
        return rows

    def _is_range(self, uses: Sequence[Use]) -> bool:
        return all(use.role in (Role.LOW, Role.HIGH) for use in uses)

    def other(self, use: Use) -> Drawn:
        """A parameter that no row has."""
        if use.role is Role.LIMIT:
            return Drawn(str(max(1, -(-self.statement.rows // self.statement.calls))), "rows of a call")
        if use.role is Role.OFFSET:
            return Drawn("0", "0")
        if use.role is Role.FIXED:
            return Drawn(literal(use.word), literal(use.word))
        type_ = self.statement.types[use.number - 1]
        return Drawn(by_type(type_) or "NULL", f"some {type_}")

    def _row(self, name: str, uses: Sequence[Use]) -> tuple[str, dict[int, Drawn]]:
        table = uses[0].table
        assert table is not None
        columns = list(dict.fromkeys(use.column for use in uses))
        exponent = self._exponent(uses)
        how = "as rows have it" if exponent is None else f"rows to the power of {exponent:.3g}"
        newest = self._newest(table, uses) if exponent is None and not self._known(table, columns) else None
        if newest is not None:
            how = f"as the newest {newest[1]} rows have it"
        rows = self._rows(table, columns, uses, newest) if exponent is None else self._keys(table, columns)
        parts = [_left_of(f"c{columns.index(use.column)}", use) for use in uses]
        if needed := [f"({part}) IS NOT NULL" for part in parts if part]:
            rows = f"SELECT * FROM ({rows}) AS r WHERE {' AND '.join(needed)}"
        names = ", ".join(f"c{index}" for index in range(len(columns)))
        # A list of values is that of a row and of those before it.
        query = f"SELECT row_number() OVER (ORDER BY random()) AS n, {names} FROM ({_repeat(rows, self.count)}) AS u"
        drawn = {}
        for use in uses:
            column, why = f"{name}.c{columns.index(use.column)}", how
            column = f"({part})" if (part := _left_of(column, use)) else column
            if use.role is Role.ANY:
                length = self._list_length(use)
                column = f"array_agg({column}) OVER (ORDER BY n ROWS BETWEEN {length - 1} PRECEDING AND CURRENT ROW)"
            elif use.role is Role.LIKE:
                column = f"left({column}::text, 3) || '%'"
            elif use.role in (Role.LOW, Role.HIGH):
                column, why = self._end(column, use, uses)
            elif use.role is Role.PATTERN:
                column = f"regexp_replace(left({column}::text, 3), '[^A-Za-z0-9 ]', '.', 'g')"
            elif use.role is Role.PART:
                column = _part(column, self.load.tables[table].columns[use.column])
            at = "" if use.path is None else f" {' '.join(use.path)}"
            drawn[use.number] = Drawn(column, f"{use.role} {table[1]}.{use.column}{at}, {why}")
        return query, drawn

    def _end(self, column: str, use: Use, uses: Sequence[Use]) -> tuple[str, str]:
        """The end of a range beside the key of a row: outermost, or, in as many calls as found no row, innermost.

        Of several ends the first one leaves the row out.
        """
        assert use.table is not None
        ends = [f"first_value({column}) OVER (ORDER BY {column}{order} NULLS LAST)" for order in ("", " DESC")]
        outer, inner = ends if use.role is Role.LOW else reversed(ends)
        is_taken = use.role is Role.LOW and (use.table, use.column) in self.shape.computed
        if is_taken and can_number(self.load.tables[use.table].columns[use.column].type):
            outer = AMOUNT  # what is taken away is there
        found = min(1.0, self.statement.rows_per_call)
        is_first = use == next(each for each in uses if each.role in (Role.LOW, Role.HIGH))
        end = f"CASE WHEN random() < {found:.6g} THEN {outer} ELSE {inner} END" if is_first else outer
        why = f"so that {format_share(found)} of the calls find the row of the key"
        return self._age(end, use) if use.is_age else end, why

    def _age(self, moment: str, use: Use) -> str:
        """In whole days where the statement subtracts these from a day."""
        is_days = self.statement.types[use.number - 1] == "integer"
        return f"current_date - {moment}::date" if is_days else f"now() - {moment}"

    def _known(self, table: TableName, columns: Sequence[str]) -> str:
        """The values that statistics tell of one column; "" of several, and where they tell none."""
        return _known_values(self.load.tables[table].columns[columns[0]]) if len(columns) == 1 else ""

    def _newest(self, table: TableName, uses: Sequence[Use]) -> tuple[str, int] | None:
        """The column that numbers the rows of a table that gets new ones, and how many were written while counting."""
        columns = self.load.tables[table].columns.items()
        numbers = [name for name, column in columns if column.sequence is not None and column.is_indexed]
        if not numbers or any(use.role is not Role.NEW for use in uses):
            return None
        return numbers[0], min(max(self.statement.rows, _LEAST_NEW), _SAMPLED)

    def _rows(
        self, table: TableName, columns: Sequence[str], uses: Sequence[Use], newest: tuple[str, int] | None
    ) -> str:
        """Those that are there. New rows are as the ``newest``: what an application writes changes over the years."""
        if known := self._known(table, columns):
            many = f"({known}) AS k, generate_series(1, ceil(rows)::int)"
            return f"SELECT c0 FROM {many} ORDER BY random() LIMIT {self.count}"
        selected = ", ".join(f"{quote(name)} AS c{index}" for index, name in enumerate(columns))
        compared = {use.column for use in uses if use.role not in (Role.NEW, Role.SET)}
        where = " AND ".join(f"{quote(name)} IS NOT NULL" for name in columns if name in compared) or "true"
        place = f"{name_of(table)}{self._sample(table, _SAMPLED)}"
        if newest is not None:
            number, count = newest
            place = f"(SELECT * FROM {name_of(table)} ORDER BY {quote(number)} DESC LIMIT {count}) AS newest"
        return f"SELECT {selected} FROM {place} WHERE {where} ORDER BY random() LIMIT {self.count}"

    def _keys(self, table: TableName, columns: Sequence[str]) -> str:
        """A systematic sample of the values, each with the chance of its rows to the power that the dial says."""
        weight = f"power(rows + {_UNSEEN}, {_read_dial(self.script, Dial.KEYS)})"
        names = ", ".join(f"c{index}" for index in range(len(columns)))
        for index in range(1, len(columns)):
            others = f"sum(rows) OVER (PARTITION BY c{index}) / sum(rows) OVER ()"
            weight += f" * power(({others})::float8, {_read_dial(self.script, Dial.OTHERS)})"
        counts = self._counts(table, columns)
        if states := self._states(table, columns):
            of_state = ", ".join(f"c{index}" for index in states)
            order = ", ".join(f"c{index}::text" for index in states)
            counts = f"SELECT q.*, sum(rows) OVER (PARTITION BY {of_state}) AS together FROM ({counts}) AS q"
            counts = f"SELECT q.*, dense_rank() OVER (ORDER BY together DESC, {order}) AS state FROM ({counts}) AS q"
            only = _read_dial(self.script, Dial.ONLY)  # the last of fewer states is asked for
            weight += f" * ({only} = 0 OR state = least({only}, max(state) OVER ()))::int"
        return (
            f"WITH k AS (SELECT k.*, {weight} AS w, random() AS o FROM ({counts}) AS k), "
            "s AS (SELECT k.*, sum(w) OVER (ORDER BY o) / nullif(sum(w) OVER (), 0) AS upto FROM k), "
            "t AS (SELECT s.*, coalesce(lag(upto) OVER (ORDER BY o), 0) AS since FROM s) "
            f"SELECT {names} FROM t, "
            f"generate_series(1 + floor(since * {self.count})::int, floor(upto * {self.count})::int)"
        )

    def _states(self, table: TableName, columns: Sequence[str]) -> list[int]:
        """Places of the columns of a key that have few values, beside others that have many."""
        distinct = [self.load.tables[table].columns[name].distinct for name in columns]
        few = [place for place, each in enumerate(distinct) if 1 < each <= _MOST_STATES]
        return few if len(few) < len(columns) else []

    def _counts(self, table: TableName, columns: Sequence[str]) -> str:
        """Each value, and how many ``rows`` have it."""
        if known := self._known(table, columns):
            return known
        first = self.load.tables[table].columns[columns[0]]
        selected = ", ".join(f"{quote(name)} AS c{index}" for index, name in enumerate(columns))
        where = " AND ".join(f"{quote(name)} IS NOT NULL" for name in columns)
        numbers = ", ".join(str(index + 1) for index in range(len(columns)))
        counted = (
            f"SELECT {selected}, count(*) AS rows FROM {name_of(table)}{self._sample(table)} "
            f"WHERE {where} GROUP BY {numbers}"
        )
        if len(columns) > 1 or first.references is None:
            return counted
        place, name = first.references  # values that no row has are asked for, too
        return (
            f"SELECT r.{quote(name)} AS c0, coalesce(f.rows, 0) AS rows FROM {name_of(place)} AS r "
            f"LEFT JOIN ({counted}) AS f ON f.c0 = r.{quote(name)}"
        )

    def _sample(self, table: TableName, most: int = _MOST_SORTED) -> str:
        """Of so many rows; of a view, which has no pages, all are read."""
        found = self.load.tables[table]
        return f" TABLESAMPLE SYSTEM ({100 * most / found.rows:.6g})" if found.pages and found.rows > most else ""

    def _exponent(self, uses: Sequence[Use]) -> float | None:
        """Where the dial stands at first; None where values are drawn as rows have them."""
        compared = [use for use in uses if use.role is Role.EQUAL]
        if not compared or len(compared) < len(uses) or self._is_unique(compared):
            return None
        told = self._told_exponent()
        return self.draw.exponent if told is None else told

    def _is_unique(self, uses: Sequence[Use]) -> bool:
        """Whether every value has one row at most."""
        return any(use.table is not None and self.load.tables[use.table].columns[use.column].is_unique for use in uses)

    def _told_exponent(self) -> float | None:
        """From the rows of a call, where they say it: with one comparison, to a column that is not unique."""
        compared = [use for use in self.shape.uses if use.role not in (Role.SET, Role.OTHER, Role.FIXED)]
        if len(compared) != 1 or compared[0].role is not Role.EQUAL or not self.shape.is_plain:
            return None
        (use,) = compared
        if use.table is None:
            return None
        table = self.load.tables[use.table]
        return told_exponent(table, table.columns[use.column], self.load, self.statement.rows_per_call)

    def dials(self) -> dict[Dial, float]:
        """Those that the queries read, and where they stand at first, in the order in which they are to be turned.

        How wide a range is stands first: that is guessed, and what else the statement compares is not.
        """
        found = {}
        for uses in sorted(self._by_row().values(), key=self._is_range, reverse=True):
            if self._is_range(uses):
                found[Dial.WIDTH] = 1.0
            elif (exponent := self._exponent(uses)) is not None:
                found.setdefault(Dial.KEYS, exponent)
                columns = list(dict.fromkeys(use.column for use in uses))
                if len(columns) > 1:
                    found[Dial.OTHERS] = 0.0
                table = uses[0].table
                if table is not None and self._states(table, columns):
                    found[Dial.ONLY] = 0.0
        return found

    def _list_length(self, use: Use) -> int:
        if use.given:  # a new row of each element
            return max(1, round(self.statement.rows_per_call))
        if not self.shape.is_plain or use.table is None:
            return _FEW
        found = self.load.tables[use.table]
        column = found.columns[use.column]
        each = 1.0 if column.is_unique else max(1.0, found.rows / max(column.distinct, 1))
        return max(1, round(self.statement.rows_per_call / each))

    def _range(self, name: str, uses: Sequence[Use]) -> tuple[str, dict[int, Drawn]]:
        """Both ends in one go, as far apart as makes the rows of a call; of one end what leaves that many."""
        place, column = uses[0].table, uses[0].column
        assert place is not None
        table = self.load.tables[place]
        share = self._wanted(table, table.columns[column]) / max(table.rows, 1)
        factor = _read_dial(self.script, Dial.WIDTH)
        sorted_ = (
            f"SELECT {quote(column)} AS c, row_number() OVER (ORDER BY {quote(column)}) AS i, count(*) OVER () AS m "
            f"FROM {name_of(place)}{self._sample(place)} WHERE {quote(column)} IS NOT NULL"
        )
        roles = {use.role for use in uses}
        if self.shape.is_limited or len(roles) == 2:
            start = "1 + floor(random() * greatest(m - width, 1))"
        elif roles == {Role.LOW}:
            start = "greatest(1, m - width * (0.5 + random()))"
        else:
            start = "least(m, 1 + width * (0.5 + random()) - width)"
        query = (
            f"WITH s AS MATERIALIZED ({sorted_}), "
            f"a AS (SELECT m, least({share:.9g} * {factor}, 1) * m AS width FROM s LIMIT 1), "
            f"b AS (SELECT n, round({start})::bigint AS i, greatest(round(width) - 1, 0)::bigint AS w, m "
            f"FROM a, generate_series(1, {self.count}) AS n) "
            "SELECT b.n, low.c AS c0, high.c AS c1 FROM b JOIN s AS low ON low.i = greatest(b.i, 1) "
            "JOIN s AS high ON high.i = greatest(least(b.i + b.w, b.m), 1)"
        )
        drawn = {}
        for use in uses:
            end = f"{name}.c{0 if use.role is Role.LOW else 1}"
            how = f"{use.role} {place[1]}.{column}, about {share * table.rows:.3g} rows"
            drawn[use.number] = Drawn(self._age(end, use), f"the age of {how}") if use.is_age else Drawn(end, how)
        return query, drawn

    def _wanted(self, table: Table, column: Column) -> float:
        """How many rows a call went through: those it found, or as many as its blocks have."""
        if self.shape.is_plain:
            return max(self.statement.rows_per_call, 1.0)
        together = column.correlation**2
        per_row = together * table.pages / max(table.rows, 1) + (1 - together) + 1 / _ENTRIES
        return min(table.rows, max(1.0, (self.statement.blocks_per_call - _DESCENT) / per_row))


def _left_of(value: str, use: Use) -> str:
    """What is left of a value, or of an element of it that is drawn, without the text that the statement puts around
    it, or what a document has at a path: NULL if that is not there, "" where all of the value is meant.
    """
    if use.path is not None:
        operator, key = use.path
        return f"{value} {operator} {literal(key)}"
    before, after = len(use.before), len(use.after)
    text = "e::text" if use.role is Role.ELEMENT else f"{value}::text"
    is_there = (
        f"length({text}) >= {before + after} AND starts_with({text}, {literal(use.before)}) "
        f"AND right({text}, {after}) = {literal(use.after)}"
    )
    # The server may evaluate it of an element that the condition is to leave out.
    left = f"substr({text}, {before + 1}, greatest(length({text}) - {before + after}, 0))"
    if use.role is Role.ELEMENT:
        return f"SELECT {left} FROM unnest({value}) AS e WHERE {is_there} ORDER BY random() LIMIT 1"
    return f"CASE WHEN {is_there} THEN {left} END" if before or after else ""


def _part(value: str, column: Column) -> str:
    """One of what an array, or an object, has in it, drawn: so what most rows have is drawn most often."""
    if column.type.endswith("[]"):
        return f"ARRAY(SELECT e FROM unnest({value}) AS e ORDER BY random() LIMIT 1)"
    one = f"SELECT jsonb_build_object(key, value) FROM jsonb_each({value}) ORDER BY random() LIMIT 1"
    return f"CASE WHEN jsonb_typeof({value}) = 'object' THEN coalesce(({one}), '{{}}') ELSE {value} END"


def told_exponent(table: Table, column: Column, load: Load, rows_per_call: float) -> float | None:
    """The power of a key's rows with which calls find so many on average; None where the rows cannot tell.

    The most common values have their own rows, the others share the rest.
    """
    keys = column.distinct
    if column.references is not None and column.references[0] in load.tables:
        keys = max(keys, load.tables[column.references[0]].rows)
    if column.distinct < 1 or keys < 1:
        return None
    others = max(column.distinct - len(column.common), 1.0)
    rest = max(0.0, 1 - column.nulls - sum(column.common))
    sizes = [(1.0, share * table.rows) for share in column.common]  # how many keys, with how many rows each
    sizes += [(others, rest * table.rows / others), (max(keys - column.distinct, 0.0), 0.0)]

    def found(exponent: float) -> float:
        weights = [number * (rows + _UNSEEN) ** exponent for number, rows in sizes]
        return math.fsum(weight * rows for weight, (_, rows) in zip(weights, sizes, strict=True)) / math.fsum(weights)

    low, high = 0.0, _MOST_LOVED
    if found(high) <= found(low) * 1.01:
        return None
    while high - low > 0.001:
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) < rows_per_call else (low, middle)
    return round((low + high) / 2, 2)


def _repeat(query: str, count: int) -> str:
    """The rows of a query, one after the other and again, until there are enough."""
    return (
        f"(WITH q AS MATERIALIZED (SELECT row_number() OVER () AS k, s.* FROM ({query}) AS s), "
        "m AS (SELECT greatest(count(*), 1) AS m FROM q) "
        f"SELECT q.* FROM (SELECT 1 + (g - 1) % m AS k FROM m, generate_series(1, {count}) AS g) AS i JOIN q USING (k))"
    )


def _known_values(column: Column) -> str:
    """The original's own values, where they were read: the common ones with their rows, then the rest."""
    rest = max(0.0, 1 - column.nulls - sum(column.common))
    weighted = [*zip(column.values, column.common, strict=False)]
    weighted += [(value, rest / len(column.bounds)) for value in column.bounds]
    rows = ", ".join(f"({literal(value)}, {weight * COUNT:.6g})" for value, weight in weighted if value.isprintable())
    return f"SELECT v::{column.type} AS c0, rows FROM (VALUES {rows}) AS t (v, rows)" if rows else ""
