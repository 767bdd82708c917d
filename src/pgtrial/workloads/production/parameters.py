"""What the parameters of a statement are for: to which column each is compared, or into which it goes.

The server has parsed the text already and knows the types. Which column a parameter meets it does not tell, so a parser
reads the text a second time, and only for that: what it does not understand leaves parameters that are drawn by their
type, and the text that is run stays the server's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlglot import exp

from pgtrial.postgres.production import Load, Statement, TableName
from pgtrial.workloads.production.texts import read_text
from pgtrial.workloads.production.tokens import Token, token_at
from pgtrial.workloads.sql_tree import MARK, parse_statement

_LOWER = (exp.GT, exp.GTE)  # a column is above its parameter, which is the lower end of a range
_UPPER = (exp.LT, exp.LTE)
_WRITES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
_SCOPES = (exp.Select, *_WRITES)
_ESCAPE = re.compile(r"\bESCAPE\s+\$\d+", re.IGNORECASE)  # the parser knows no parameter there
_VARIABLE = re.compile("[A-Za-z0-9_]+")
_UNIT, _ZONE = "day", "UTC"
# Functions of whose first argument the server knows some words only.
_BY_FUNCTION = {"date_trunc": _UNIT, "date_part": _UNIT, "extract": _UNIT, "timezone": _ZONE}
_BESIDE = (exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Distance)
_PATTERNS = (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)
_TEXTS = frozenset(("text", "character varying", "character"))
_NOW = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)


class Role(StrEnum):
    """``SET`` is for values that are written into rows that are there, ``NEW`` for those of new rows."""

    EQUAL = "equal"
    ANY = "any of"
    LOW = "from"
    HIGH = "to"
    LIKE = "like"
    BESIDE = "beside"
    PATTERN = "pattern of"
    PART = "part of"
    ELEMENT = "element of"
    NEW = "new row"
    SET = "new value"
    LIMIT = "limit"
    OFFSET = "offset"
    FIXED = "word"
    OTHER = "by type"


_OF_TYPE = (Role.BESIDE, Role.PATTERN, Role.PART, Role.ELEMENT)  # only where the parameter has the type of the column


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Of parameter ``number``. Those of one ``row`` are drawn together, as columns of one row of ``table``.

    ``given`` are the columns for which a new row brings values; the server has those of the others. ``changes`` are
    those to which a changed row gets values of parameters. ``is_age``: the parameter is subtracted from the time that
    it is, and the column is compared to that. ``word`` is what a parameter is that only some words can be. The text of
    the statement puts ``before`` and ``after`` around it, and the column is compared to all of that.

    Where ON CONFLICT may find a row in the way, by the columns of ``conflict`` or by any if there are none, ``new`` is
    the part of the calls that make a new row, None where nothing tells. ``is_apart``: for a new row it is drawn of
    another one than the rest of it.
    """

    number: int
    role: Role
    table: TableName | None = None
    column: str = ""
    row: str = ""
    given: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    is_age: bool = False
    word: str = ""
    conflict: frozenset[str] | None = None
    new: float | None = 1.0
    is_apart: bool = False
    before: str = ""
    after: str = ""

    @property
    def is_mixed(self) -> bool:
        """Whether it is of a new row in a part of the calls only."""
        return self.role is Role.NEW and self.new is not None and self.new < 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``is_plain``: each row that is found is counted as one, because nothing groups, limits or joins them.

    ``target`` is the table that gets one new row, ``returned`` are the columns of it that come back, and as what.
    ``computed`` are columns that get what the statement makes of parameters, or of other rows. ``is_upsert``: the only
    row that is changed is the one in the way of a new one.
    """

    uses: tuple[Use, ...]
    is_plain: bool = False
    is_limited: bool = False
    writes: bool = False
    is_understood: bool = True
    target: TableName | None = None
    returned: tuple[tuple[str, str], ...] = ()
    computed: frozenset[tuple[TableName, str]] = frozenset()
    is_upsert: bool = False


def read_shape(statement: Statement, load: Load) -> Shape:
    """The use of every parameter that the server counts, in their order."""
    tree = parse_statement(_ESCAPE.sub("", statement.text))
    found = {use.number: use for use in _fixed(read_text(statement.text)[1].tokens)}
    if tree is not None:
        _assign_one_by_one(tree)
        finder = _Finder(load, _part_of_new(tree, statement), statement.types)
        for node in tree.find_all(exp.Column):
            if node.name.startswith(MARK) and not node.table:
                number = int(node.name.removeprefix(MARK))
                use = finder.find(node, number)
                if use.role in _OF_TYPE and not _has_type(use, statement, load):
                    use = _other(number)
                if found.get(number, _other(number)).role is Role.OTHER:  # of its uses one with a column tells most
                    found[number] = use
    numbers = range(1, len(statement.types) + 1)
    uses = tuple(found.get(number, Use(number=number, role=Role.OTHER)) for number in numbers)
    if tree is None:
        return Shape(uses=uses, writes=True, is_understood=False)
    has_limit = tree.find(exp.Limit, exp.Fetch) is not None
    target, returned = _returned(tree, load)
    return Shape(
        uses=uses,
        is_plain=not has_limit and tree.find(exp.Group, exp.Distinct, exp.AggFunc, exp.Join, exp.Insert) is None,
        is_limited=has_limit,
        writes=tree.find(*_WRITES) is not None,
        target=target,
        returned=returned,
        computed=frozenset(_Finder(load).computed(tree)),
        is_upsert=_is_upsert(tree),
    )


def _assign_one_by_one(tree: exp.Expr) -> None:
    """SET (a, b) = (x, y) is SET a = x, b = y."""
    for change in tree.find_all(exp.Update, exp.OnConflict):
        assigned: list[exp.Expr] = []
        for each in change.expressions:
            is_list = isinstance(each, exp.EQ) and isinstance(each.this, exp.Tuple)
            columns, values = (each.this.expressions, each.expression.expressions) if is_list else ((), ())
            if isinstance(each.expression, exp.Tuple) and len(columns) == len(values) > 0:
                assigned += (exp.EQ(this=one, expression=value) for one, value in zip(columns, values, strict=True))
            else:
                assigned.append(each)
        change.set("expressions", assigned)


def _has_type(use: Use, statement: Statement, load: Load) -> bool:
    assert use.table is not None
    types = (load.tables[use.table].columns[use.column].type, statement.types[use.number - 1])
    column, own = (re.sub(r"\(.*?\)", "", each) for each in types)
    if use.role is Role.ELEMENT:
        return column.endswith("[]") and (column[:-2] == own or {column[:-2], own} <= _TEXTS)
    if column in _TEXTS and own in _TEXTS:
        return use.role is not Role.PART
    return column == own and (use.role is not Role.PART or own.endswith("[]") or own == "jsonb")


def _fixed(tokens: Sequence[Token]) -> Iterator[Use]:
    """Parameters that the words before them tell."""
    for index, token in enumerate(tokens):
        if token.kind == "parameter":
            before, function = (token_at(tokens, index - step) for step in (1, 2))
            number = int(token.text[1:])
            if before.word == "ESCAPE":
                yield Use(number=number, role=Role.FIXED)
            elif before.text == "(" and function.name in _BY_FUNCTION:
                yield Use(number=number, role=Role.FIXED, word=_BY_FUNCTION[function.name])


def _is_upsert(tree: exp.Expr) -> bool:
    values = tree.expression if isinstance(tree, exp.Insert) and tree.args.get("conflict") is not None else None
    return isinstance(values, exp.Values) and len(values.expressions) == 1


def _part_of_new(tree: exp.Expr, statement: Statement) -> float | None:
    """Of an INSERT with ON CONFLICT DO NOTHING, by the rows that were counted; None where those are others, too."""
    conflict = tree.args.get("conflict") if isinstance(tree, exp.Insert) else None
    if conflict is None or conflict.expressions or conflict.args.get("where") is not None:
        return None
    values = tree.expression
    return min(1.0, statement.rows_per_call / (len(values.expressions) if isinstance(values, exp.Values) else 1))


def _returned(tree: exp.Expr, load: Load) -> tuple[TableName | None, tuple[tuple[str, str], ...]]:
    """Of an INSERT of one row, what "RETURNING" gives of it, if it is sure to give that."""
    values = tree.expression if isinstance(tree, exp.Insert) else None
    if not isinstance(values, exp.Values) or len(values.expressions) != 1 or tree.args.get("conflict") is not None:
        return None, ()
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    target = _Finder(load).resolve(table) if isinstance(table, exp.Table) else None
    returning = tree.args.get("returning")
    if target is None or returning is None:
        return target, ()
    found = [(_name(_innermost(each.unalias())), str(each.alias_or_name)) for each in returning.expressions]
    if not all(_VARIABLE.fullmatch(name) for _, name in found):
        return target, ()  # pgbench makes variables of all or ends
    return target, tuple(pair for pair in found if pair[0] in load.tables[target].columns)


@dataclass(frozen=True, slots=True)
class _Finder:
    """``new`` is the part of the calls of an INSERT that make a new row, where the counts tell. ``types`` are those of
    the parameters.
    """

    load: Load
    new: float | None = None
    types: Sequence[str] = ()

    def find(self, node: exp.Column, number: int) -> Use:
        value, parent = _outermost(node)
        if isinstance(parent, exp.DPipe):
            return self._joined(value, number) if _is_parameter(node) else _other(number)
        is_time = number <= len(self.types) and self.types[number - 1] == "interval"
        is_age = is_time and isinstance(parent, exp.Sub) and value.arg_key == "expression" and _is_now(parent.this)
        if is_age and parent is not None:
            value, parent = _outermost(parent)
        if parent is None:
            return _other(number)
        use = self._find(value, parent, number)
        return replace(use, is_age=is_age and use.role in (Role.LOW, Role.HIGH))

    def _joined(self, value: exp.Expr, number: int) -> Use:
        """Of a text that is put together of constants, which may be parameters by now, and of one that was always: that
        has the lowest number, and is what the others leave of a value of the column.
        """
        while isinstance(value.parent, exp.DPipe):
            value, _ = _outermost(value.parent)
        parts = list(_parts(value))
        numbers = [int(each.name.removeprefix(MARK)) if _is_parameter(each) else 0 for each in parts]
        own = min([each for each in numbers if each])
        are_texts = all(each <= len(self.types) and self.types[each - 1] in _TEXTS for each in numbers if each)
        are_known = all(_is_parameter(each) or (each.is_string and each.name.isprintable()) for each in parts)
        if value.parent is None or not are_texts or not are_known:
            return _other(number)
        use = self._find(value, value.parent, own)
        if use.role not in (Role.EQUAL, Role.LIKE, Role.ELEMENT):
            return _other(number)
        at = numbers.index(own)
        if number != own:
            is_open = use.role is Role.LIKE and numbers.index(number) < at
            return Use(number=number, role=Role.FIXED, word="%" if is_open else "")
        before, after = ("".join(each.name for each in some if each.is_string) for some in (parts[:at], parts[at:]))
        if use.role is Role.LIKE:
            before, after = before.strip("%"), after.strip("%")
        return replace(use, before=before, after=after)

    def _find(self, value: exp.Expr, parent: exp.Expr, number: int) -> Use:
        if value.arg_key == "zone":
            return Use(number=number, role=Role.FIXED, word=_ZONE)
        if isinstance(parent, exp.Limit | exp.Fetch):
            return Use(number=number, role=Role.LIMIT)
        if isinstance(parent, exp.Offset):
            return Use(number=number, role=Role.OFFSET)
        if isinstance(parent, exp.Any):
            above = parent.parent
            return self._compared(Role.ANY, above, parent, number) if isinstance(above, exp.EQ) else _other(number)
        if isinstance(parent, exp.EQ):
            if parent.arg_key == "expressions" and isinstance(parent.parent, exp.Update | exp.OnConflict):
                return self._changed(parent, value, number)
            other = parent.expression if value.arg_key == "this" else parent.this
            if isinstance(other, exp.Any):
                return self._of_column(Role.ELEMENT, other.this, number)
            return self._of_column(Role.EQUAL, other, number)
        if isinstance(parent, exp.Unnest | exp.Explode):
            return self._of_list(parent, value, number)
        if isinstance(parent, exp.Tuple):
            use = self._of_tuple(value, parent, number)
            if use.role is not Role.OTHER:
                return use
        if isinstance(parent, exp.Array):
            array, above = _outermost(parent)
            if isinstance(above, exp.Any) and isinstance(above.parent, exp.EQ):
                return self._compared(Role.EQUAL, above.parent, above, number, row=f"in {number}")
            is_met = above is not None and _role_beside(array, above) is not None
            return self._compared(Role.ELEMENT, above, array, number) if is_met and above else _other(number)
        if isinstance(parent, exp.In):
            return self._of_column(Role.EQUAL, parent.this, number, row=f"in {number}")
        if isinstance(parent, exp.Between):
            return self._of_column(Role.LOW if value.arg_key == "low" else Role.HIGH, parent.this, number)
        if isinstance(parent, exp.Like | exp.ILike):
            return self._compared(Role.LIKE, parent, value, number)
        if isinstance(parent, (*_LOWER, *_UPPER)):
            is_low = isinstance(parent, _LOWER) == (value.arg_key == "expression")
            return self._compared(Role.LOW if is_low else Role.HIGH, parent, value, number)
        if role := _role_beside(value, parent):
            use = self._compared(role, parent, value, number)
            return replace(use, row=f"{role} {number}") if use.table is not None else use
        return self._inserted(value, parent, number)

    def _of_tuple(self, value: exp.Expr, parent: exp.Tuple, number: int) -> Use:
        """Of several values that are compared together, each to its own, or that have a name together."""
        row, above = _outermost(parent)
        if isinstance(above, exp.Values):
            use = self._by_name(above, value, number)
            return use if len(above.expressions) == 1 else replace(use, row=f"in {_first(row)} {use.row}")
        is_range = isinstance(above, (*_LOWER, *_UPPER))
        if not is_range and not isinstance(above, exp.EQ | exp.In):
            return _other(number)
        assert above is not None
        others = _innermost(above.expression if row.arg_key == "this" else above.this)
        index = value.index
        if not isinstance(others, exp.Tuple) or index is None or index >= len(others.expressions):
            return _other(number)
        other = others.expressions[index]
        # The next page begins behind a row. Of a range the first decides, but where it is equal.
        if is_range and (index > 0 or row.root().find(exp.Limit, exp.Fetch)):
            return self._of_column(Role.BESIDE, other, number, row=f"{Role.BESIDE} {_first(row)}")
        if is_range:
            is_low = isinstance(above, _LOWER) == (row.arg_key == "expression")
            return self._of_column(Role.LOW if is_low else Role.HIGH, other, number)
        return self._of_column(Role.EQUAL, other, number, row=f"in {_first(row)}" if isinstance(above, exp.In) else "")

    def _by_name(self, values: exp.Expr, value: exp.Expr, number: int) -> Use:
        """As what the column of a list of values is used for. A key is not set so: each row would need its own."""
        alias, scope = values.args.get("alias"), values.find_ancestor(*_SCOPES)
        names = [_name(each) for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
        if alias is None or scope is None or value.index is None or value.index >= len(names):
            return _other(number)
        for column in scope.find_all(exp.Column):
            is_it = _name(column.args.get("table")) == _name(alias.this) and _name(column.this) == names[value.index]
            is_inside = column.find_ancestor(exp.Values, exp.Unnest) is not None
            use = self.find(column, number) if is_it and not is_inside else _other(number)
            is_set = use.role is Role.SET and use.conflict is None
            if use.table is not None and not (is_set and self._is_of_key(use.table, use.column)):
                return use
        return _other(number)

    def _of_list(self, rows: exp.Expr, value: exp.Expr, number: int) -> Use:
        """Of an array that is made rows, which are compared to a column."""
        if isinstance(rows, exp.Unnest):
            use = self._by_name(rows, value, number)
        else:
            query = rows.find_ancestor(exp.Subquery)
            searched = query.parent if query is not None else None
            is_all = query is not None and isinstance(query.this, exp.Select) and query.this.expressions == [rows]
            is_met = is_all and isinstance(searched, exp.In)
            use = self._of_column(Role.EQUAL, searched.this, number) if searched and is_met else _other(number)
        return replace(use, role=Role.ANY) if use.role is Role.EQUAL else _other(number)

    def _is_of_key(self, name: TableName, column: str) -> bool:
        table = self.load.tables[name]
        keys = [*table.unique, *(names for names, _ in table.excluded), table.conditions]
        return any(column in names for names in keys)

    def _compared(self, role: Role, comparison: exp.Expr, value: exp.Expr, number: int, *, row: str = "") -> Use:
        other = comparison.expression if value.arg_key == "this" else comparison.this
        return self._of_column(role, other, number, row=row)

    def _changed(self, assignment: exp.Expr, value: exp.Expr, number: int) -> Use:
        assert assignment.parent is not None
        use = self._compared(Role.SET, assignment, value, number)
        others = [each for each in assignment.parent.expressions if isinstance(each, exp.EQ)]
        changes = tuple(_name(each.this) for each in others if _is_parameter(each.expression))
        return replace(use, changes=changes) if use.role is Role.SET else use

    def _of_column(self, role: Role, node: exp.Expr, number: int, *, row: str = "") -> Use:
        column = _innermost(node)
        if not isinstance(column, exp.Column) or column.name.startswith(MARK):
            return _other(number)
        found = self._place_of(column)
        if found is None:
            return _other(number)
        alias, table, name = found
        if role in (Role.EQUAL, Role.LOW, Role.HIGH) and not self.load.tables[table].columns[name].has_order:
            role, row = Role.BESIDE, f"{Role.BESIDE} {number}"
        own_rows = {Role.SET: f"set {alias}", Role.ELEMENT: f"element {alias}.{name}"}
        own_rows |= dict.fromkeys((Role.LOW, Role.HIGH), f"range {alias}.{name}")
        return Use(number=number, role=role, table=table, column=name, row=row or own_rows.get(role, alias))

    def _place_of(self, column: exp.Column) -> tuple[str, TableName, str] | None:
        """The alias, the table and its column, by the nearest query around it that has one of that name."""
        scope = column.find_ancestor(*_SCOPES)
        while scope is not None:
            if found := self._found_in(scope, column):
                return found
            scope = scope.find_ancestor(*_SCOPES)
        return None

    def _found_in(self, scope: exp.Expr, column: exp.Column, name: str = "") -> tuple[str, TableName, str] | None:
        """``name`` is that of the column, where it is one of a star."""
        wanted, of = name or _name(column.this), _name(column.args.get("table"))
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
        names = [_name(each) for each in alias.columns] if alias is not None else []
        for index, each in enumerate(query.expressions):
            value = _innermost(each.unalias())
            own = names[index] if index < len(names) else _name(each.args.get("alias")) or _name(value)
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
        name, schema = _name(table.this), table.args.get("db")
        schemas: Sequence[str] = self.load.path if schema is None else (_name(schema),)
        return next(((one, name) for one in schemas if (one, name) in self.load.tables), None)

    def _inserted(self, value: exp.Expr, parent: exp.Expr, number: int) -> Use:
        """A value of a new row, if that is what it is."""
        insert = parent.find_ancestor(exp.Insert)
        is_of_values = isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values)
        is_of_select = insert is not None and parent is insert.expression and value.arg_key == "expressions"
        if insert is None or not (is_of_values or is_of_select):
            return _other(number)
        table, columns = self._target(insert)
        index = value.index
        if table is None or index is None or index >= len(columns):
            return _other(number)
        if columns[index] not in self.load.tables[table].columns:
            return _other(number)
        drawn = {name for name, each in zip(columns, parent.expressions, strict=False) if _is_parameter(each)}
        use = Use(
            number=number,
            role=Role.NEW,
            table=table,
            column=columns[index],
            row=f"row {parent.index or 0}",
            given=tuple(columns),
        )
        if not _may_meet_row(insert, columns[index], drawn):
            return use
        new = self.new if insert.parent is None else None
        guarded = frozenset(_conflict_columns(insert.args["conflict"]))
        return replace(use, role=Role.NEW if new else Role.SET, conflict=guarded, new=new)

    def _target(self, insert: exp.Insert) -> tuple[TableName | None, list[str]]:
        """The table that gets rows, and the columns for which they bring values."""
        target = insert.this.this if isinstance(insert.this, exp.Schema) else insert.this
        table = self.resolve(target) if isinstance(target, exp.Table) else None
        named = insert.this.expressions if isinstance(insert.this, exp.Schema) else ()
        return table, [_name(each) for each in named] or list(self.load.tables[table].columns if table else ())

    def computed(self, tree: exp.Expr) -> Iterator[tuple[TableName, str]]:
        """Columns that get something that is neither a parameter nor the server's."""
        for insert in tree.find_all(exp.Insert):
            table, columns = self._target(insert)
            conflict = insert.args.get("conflict")
            if table is not None and (conflict is None or _conflict_columns(conflict)):
                guarded = set() if conflict is None else _conflict_columns(conflict)
                for name in _computed_of(insert, columns):
                    if name not in guarded:
                        yield table, name
        for change in tree.find_all(exp.Update, exp.OnConflict):
            of = change.find_ancestor(exp.Insert) if isinstance(change, exp.OnConflict) else change
            place = of.this if of is not None else None
            place = place.this if isinstance(place, exp.Schema) else place
            table = self.resolve(place) if isinstance(place, exp.Table) else None
            if table is not None:
                for name in _computed_by(change.expressions):
                    yield table, name
        for merge in tree.find_all(exp.Merge):
            table = self.resolve(merge.this) if isinstance(merge.this, exp.Table) else None
            on = merge.args.get("on")
            matched = {_name(each) for each in on.find_all(exp.Column)} if on is not None else set()
            if table is not None and _has_parameter(merge):
                for name in _assigned_by(merge):
                    if name not in matched:
                        yield table, name


def _places_in(scope: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """The tables of a query, and the queries that stand in the place of one, with the names that they have there."""
    places: list[exp.Expr | None] = [scope.args.get("from_"), *(scope.args.get("joins") or ())]
    if isinstance(scope, _WRITES):
        this = scope.this.this if isinstance(scope.this, exp.Schema) else scope.this
        using = scope.args.get("using") or ()
        places += [this, *(using if isinstance(using, list | tuple) else [using])]
    for place in places:
        for found in place.find_all(exp.Table, exp.Subquery) if place is not None else ():
            if found.find_ancestor(*_SCOPES) is scope:
                named = found.parent if isinstance(found.parent, exp.Lateral) else found
                alias = named.args.get("alias")
                if alias is not None or isinstance(found, exp.Table):
                    yield _name(alias.this if alias is not None else found.this), found


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
            if isinstance(each, exp.CTE) and _name(each.args["alias"].this) == _name(table.this):
                return each
        node = node.parent
    return None


def _parts(joined: exp.Expr) -> Iterator[exp.Expr]:
    """What a text is put together of, from left to right."""
    found = _innermost(joined)
    if isinstance(found, exp.DPipe):
        yield from _parts(found.this)
        yield from _parts(found.expression)
    elif found is not None:
        yield found


def _role_beside(value: exp.Expr, parent: exp.Expr) -> Role | None:
    """By an operator that has no range and is not "="; None of one that computes."""
    is_right = value.arg_key == "expression"
    if isinstance(parent, _PATTERNS):
        return Role.PATTERN if is_right else None
    if isinstance(parent, exp.ArrayContainsAll | exp.ArrayContainedBy):
        return Role.PART if is_right == isinstance(parent, exp.ArrayContainsAll) else Role.BESIDE
    if isinstance(parent, exp.ArrayOverlaps):
        return Role.PART
    return Role.BESIDE if isinstance(parent, _BESIDE) else None


def _may_meet_row(insert: exp.Insert, column: str, drawn: set[str]) -> bool:
    """Whether a row that is there already may make the conflict that is asked for, so that no new one comes.

    ``drawn`` are the columns that get parameters, all of one row.
    """
    conflict = insert.args.get("conflict")
    if conflict is None:
        return False
    names = _conflict_columns(conflict)
    return names <= drawn or column in names


def _conflict_columns(conflict: exp.Expr) -> set[str]:
    keys = conflict.args.get("conflict_keys") or ()
    return {_name(each) for key in keys for each in key.find_all(exp.Column)}


def _computed_of(insert: exp.Insert, columns: Sequence[str]) -> Iterator[str]:
    source = insert.expression
    if isinstance(source, exp.Values):
        rows = [each.expressions for each in source.expressions if isinstance(each, exp.Tuple)]
        yield from (
            name
            for row in rows
            for name, value in zip(columns, row, strict=False)
            if _has_parameter(value) and not _is_parameter(value)
        )
    elif isinstance(source, exp.Select):
        values = [each.unalias() for each in source.expressions]
        if any(each.is_star for each in values):
            yield from columns
            return
        for name, value in zip(columns, values, strict=False):
            is_copied = isinstance(_innermost(value), exp.Column)
            if not _is_parameter(value) and (is_copied or _has_parameter(value)):
                yield name


def _computed_by(assignments: Sequence[exp.Expr]) -> Iterator[str]:
    for each in assignments:
        if isinstance(each, exp.EQ) and _has_parameter(each.expression):
            if isinstance(each.this, exp.Tuple):
                yield from (_name(column) for column in each.this.expressions)
            elif not _is_parameter(each.expression) or not isinstance(each.this, exp.Column):
                yield from (_name(column) for column in each.this.find_all(exp.Column))


def _assigned_by(merge: exp.Merge) -> Iterator[str]:
    for when in merge.find_all(exp.When):
        then = when.args.get("then")
        if isinstance(then, exp.Insert) and isinstance(then.this, exp.Tuple):
            yield from (_name(each) for each in then.this.expressions)
        elif isinstance(then, exp.Update):
            yield from (_name(each.this) for each in then.expressions if isinstance(each, exp.EQ))


def _first(values: exp.Expr) -> int:
    """The first parameter of some that are about one row: the name of that."""
    return min(int(each.name.removeprefix(MARK)) for each in values.find_all(exp.Column) if _is_parameter(each))


def _is_parameter(node: exp.Expr | None) -> bool:
    found = _innermost(node)
    return isinstance(found, exp.Column) and found.name.startswith(MARK)


def _has_parameter(node: exp.Expr | None) -> bool:
    return node is not None and any(each.name.startswith(MARK) for each in node.find_all(exp.Column))


def _is_now(node: exp.Expr) -> bool:
    return isinstance(_innermost(node), _NOW)


def _other(number: int) -> Use:
    return Use(number=number, role=Role.OTHER)


def _outermost(node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """The node with what is around it and keeps it apart from other values, and what that is in."""
    while isinstance(node.parent, exp.Paren | exp.Cast | exp.Lower | exp.Upper) and node.arg_key == "this":
        node = node.parent
    return node, node.parent


def _innermost(node: exp.Expr | None) -> exp.Expr | None:
    while isinstance(node, exp.Paren | exp.Cast | exp.Lower | exp.Upper):
        node = node.this
    return node


def _name(node: exp.Expr | None) -> str:
    """As the server's catalogue has it; "" of what has no name."""
    if isinstance(node, exp.Column):
        node = node.this
    if not isinstance(node, exp.Identifier):
        return ""
    return str(node.name) if node.args.get("quoted") else str(node.name).lower()


def key_of(use: Use, load: Load) -> tuple[TableName, str] | None:
    """The unique column whose values the parameter has, at the end of foreign keys; None where it has not such."""
    if use.table is None or use.role not in (Role.EQUAL, Role.NEW) or use.before or use.after:
        return None
    table, name = use.table, use.column
    for _ in range(8):  # keys may refer to each other
        column = load.tables[table].columns.get(name)
        if column is None or column.references is None or column.references[0] not in load.tables:
            return (table, name) if column is not None and column.is_unique else None
        table, name = column.references
    return None
