"""What the parameters of a statement are for: to which column each is compared, or into which it goes.

The server has parsed the text already and knows the types. Which column a parameter meets it does not tell, so a parser
reads the text a second time, and only for that: what it does not understand leaves parameters that are drawn by their
type, and the text that is run stays the server's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pgtrial.postgres.production import Load, Statement, TableName
from pgtrial.workloads.production.columns import SCOPES, WRITES, Columns
from pgtrial.workloads.production.indexes import keys_in, state_in
from pgtrial.workloads.production.keys import can_number
from pgtrial.workloads.production.rows import (
    computed_by,
    conflict_columns,
    is_upsert,
    may_meet_row,
    part_of_new,
    returned_by,
    target_of,
)
from pgtrial.workloads.production.texts import read_text
from pgtrial.workloads.production.tokens import Token, token_at
from pgtrial.workloads.production.uses import AMOUNT, Role, Shape, Use, range_of
from pgtrial.workloads.sql_tree import MARK, innermost, is_parameter, name_of, outermost, parse_statement

_LOWER = (exp.GT, exp.GTE)  # a column is above its parameter, which is the lower end of a range
_UPPER = (exp.LT, exp.LTE)
_ESCAPE = re.compile(r"\bESCAPE\s+\$\d+", re.IGNORECASE)  # the parser knows no parameter there
_UNIT, _ZONE = "day", "UTC"
# Functions of whose first argument the server knows some words only.
_BY_FUNCTION = {"date_trunc": _UNIT, "date_part": _UNIT, "extract": _UNIT, "timezone": _ZONE}
_BESIDE = (exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Distance)
_PATTERNS = (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)
_TEXTS = frozenset(("text", "character varying", "character"))
_DOCUMENTS: dict[type[exp.Expr], str] = {
    exp.JSONExtract: "->",
    exp.JSONExtractScalar: "->>",
    exp.JSONBExtract: "#>",
    exp.JSONBExtractScalar: "#>>",
}
_NOW = (exp.CurrentTimestamp, exp.Localtimestamp, exp.CurrentDate)
_AGES = ("interval", "integer")  # what the server subtracts from a time, or from a day
_OF_TYPE = (Role.BESIDE, Role.PATTERN, Role.PART, Role.ELEMENT)  # only where the parameter has the type of the column


def read_shape(statement: Statement, load: Load) -> Shape:
    """The use of every parameter that the server counts, in their order."""
    columns, tree = Columns(load), parse_statement(_ESCAPE.sub("", statement.text))
    found = {use.number: use for use in _fixed(read_text(statement.text)[1].tokens)}
    if tree is not None:
        _assign_one_by_one(tree)
        finder = _Finder(columns, part_of_new(tree, statement), statement.types)
        for node in tree.find_all(exp.Column):
            if node.name.startswith(MARK) and not node.table:
                number = int(node.name.removeprefix(MARK))
                use = finder.find(node, number)
                if use.role in _OF_TYPE and not _has_type(use, statement, load):
                    use = _other(number)
                if found.get(number, _other(number)).role is Role.OTHER:  # of its uses one with a column tells most
                    found[number] = use
        for number in _amounts(tree, statement):
            if found[number].role is Role.OTHER:
                found[number] = Use(number=number, role=Role.FIXED, word=AMOUNT)
    numbers = range(1, len(statement.types) + 1)
    uses = tuple(found.get(number, Use(number=number, role=Role.OTHER)) for number in numbers)
    if tree is None:
        return Shape(uses=uses, writes=True, is_understood=False)
    has_limit = tree.find(exp.Limit, exp.Fetch) is not None
    target, returned = returned_by(tree, columns)
    return Shape(
        uses=uses,
        is_plain=not has_limit and tree.find(exp.Group, exp.Distinct, exp.AggFunc, exp.Join, exp.Insert) is None,
        is_limited=has_limit,
        writes=tree.find(*WRITES) is not None,
        target=target,
        returned=returned,
        computed=frozenset(computed_by(tree, columns)),
        is_upsert=is_upsert(tree),
    )


def _amounts(tree: exp.Expr, statement: Statement) -> Iterator[int]:
    """Numbers that UPDATE takes away from a column."""
    for change in tree.find_all(exp.Update):
        for each in change.expressions:
            taken = innermost(each.expression) if isinstance(each, exp.EQ) else None
            amount = innermost(taken.expression) if isinstance(taken, exp.Sub) else None
            if is_parameter(amount) and isinstance(amount, exp.Column):
                number = int(amount.name.removeprefix(MARK))
                if number <= len(statement.types) and can_number(statement.types[number - 1]):
                    yield number


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
    if use.path is not None:
        return True
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


@dataclass(frozen=True, slots=True)
class _Finder:
    """``new`` is the part of the calls of an INSERT that make a new row, where the counts tell. ``types`` are those of
    the parameters.
    """

    columns: Columns
    new: float | None = None
    types: Sequence[str] = ()

    def find(self, node: exp.Column, number: int) -> Use:
        value, parent = outermost(node)
        if isinstance(parent, exp.DPipe):
            return self._joined(value, number) if is_parameter(node) else _other(number)
        is_time = number <= len(self.types) and self.types[number - 1] in _AGES
        is_age = is_time and isinstance(parent, exp.Sub) and value.arg_key == "expression" and _is_now(parent.this)
        if is_age and parent is not None:
            value, parent = outermost(parent)
        if parent is None:
            return _other(number)
        use = self._find(value, parent, number)
        return replace(use, is_age=is_age and use.role in (Role.LOW, Role.HIGH))

    def _joined(self, value: exp.Expr, number: int) -> Use:
        """Of a text that is put together of constants, which may be parameters by now, and of one that was always: that
        has the lowest number, and is what the others leave of a value of the column.
        """
        while isinstance(value.parent, exp.DPipe):
            value, _ = outermost(value.parent)
        parts = list(_parts(value))
        numbers = [int(each.name.removeprefix(MARK)) if is_parameter(each) else 0 for each in parts]
        own = min([each for each in numbers if each])
        are_texts = all(each <= len(self.types) and self.types[each - 1] in _TEXTS for each in numbers if each)
        are_known = all(is_parameter(each) or (each.is_string and each.name.isprintable()) for each in parts)
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
        if isinstance(parent, tuple(_DOCUMENTS)) and value.arg_key == "expression":
            keys = self._paths_of(parent)
            if len(keys) == 1:
                return Use(number=number, role=Role.FIXED, word=keys[0][2][1])
            # Without an index the table is read whatever the key is.
            decides = keys and parent.find_ancestor(exp.Where, exp.Join, exp.Group, exp.Having)
            return Use(number=number, role=Role.KEY) if decides else _other(number)
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
            array, above = outermost(parent)
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
        row, above = outermost(parent)
        if isinstance(above, exp.Values):
            use = self._by_name(above, value, number)
            return use if len(above.expressions) == 1 else replace(use, row=f"in {_first(row)} {use.row}")
        is_range = isinstance(above, (*_LOWER, *_UPPER))
        if not is_range and not isinstance(above, exp.EQ | exp.In):
            return _other(number)
        assert above is not None
        others = innermost(above.expression if row.arg_key == "this" else above.this)
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
        alias, scope = values.args.get("alias"), values.find_ancestor(*SCOPES)
        names = [name_of(each) for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
        if alias is None or scope is None or value.index is None or value.index >= len(names):
            return _other(number)
        for column in scope.find_all(exp.Column):
            full = name_of(column.args.get("table")), name_of(column.this)
            is_it = full == (name_of(alias.this), names[value.index])
            is_inside = column.find_ancestor(exp.Values, exp.Unnest) is not None
            use = self.find(column, number) if is_it and not is_inside else _other(number)
            is_set = use.role is Role.SET and use.conflict is None
            if use.table is not None and not (is_set and self._is_of_key(use.table, use.column)):
                return use
        return _other(number)

    def _of_list(self, rows: exp.Expr, value: exp.Expr, number: int) -> Use:
        """Of an array that is made rows, which are compared to a column."""
        if isinstance(rows, exp.Unnest):
            use = self._of_new_rows(rows, value, number) or self._by_name(rows, value, number)
            if use.given and use.role is Role.ANY:
                return use
        else:
            query = rows.find_ancestor(exp.Subquery)
            searched = query.parent if query is not None else None
            is_all = query is not None and isinstance(query.this, exp.Select) and query.this.expressions == [rows]
            is_met = is_all and isinstance(searched, exp.In)
            use = self._of_column(Role.EQUAL, searched.this, number) if searched and is_met else _other(number)
        return replace(use, role=Role.ANY) if use.role is Role.EQUAL else _other(number)

    def _of_new_rows(self, rows: exp.Unnest, value: exp.Expr, number: int) -> Use | None:
        """Of arrays of which each has a column of new rows. None where those have a key: each would need its own."""
        insert = rows.find_ancestor(exp.Insert)
        source = insert.expression if insert is not None else None
        if insert is None or not isinstance(source, exp.Select) or rows.find_ancestor(exp.Select) is not source:
            return None
        table, columns = target_of(insert, self.columns)
        is_whole = len(source.expressions) == 1 and source.is_star and not source.args.get("joins")
        is_whole = is_whole and len(columns) == len(rows.expressions) and all(map(is_parameter, rows.expressions))
        if table is None or value.index is None or not is_whole:
            return None
        if any(self._is_of_key(table, each) or each not in self.columns.load.tables[table].columns for each in columns):
            return None
        return Use(
            number=number, role=Role.ANY, table=table, column=columns[value.index], row="new rows", given=tuple(columns)
        )

    def _is_of_key(self, name: TableName, column: str) -> bool:
        table = self.columns.load.tables[name]
        keys = [*table.unique, *(names for names, _ in table.excluded), table.conditions]
        return any(column in names for names in keys)

    def _compared(self, role: Role, comparison: exp.Expr, value: exp.Expr, number: int, *, row: str = "") -> Use:
        other = comparison.expression if value.arg_key == "this" else comparison.this
        return self._of_column(role, other, number, row=row)

    def _changed(self, assignment: exp.Expr, value: exp.Expr, number: int) -> Use:
        assert assignment.parent is not None
        use = self._compared(Role.SET, assignment, value, number)
        others = [each for each in assignment.parent.expressions if isinstance(each, exp.EQ)]
        changes = tuple(name_of(each.this) for each in others if is_parameter(each.expression))
        return replace(use, changes=changes) if use.role is Role.SET else use

    def _of_column(self, role: Role, node: exp.Expr, number: int, *, row: str = "") -> Use:
        column = innermost(node)
        paths = self._paths_of(column) if role is Role.EQUAL and column is not None else ()
        if len(paths) == 1:
            ((table, name, at),) = paths
            return Use(
                number=number, role=Role.BESIDE, table=table, column=name, row=f"{Role.BESIDE} {number}", path=at
            )
        if not isinstance(column, exp.Column) or column.name.startswith(MARK):
            return _other(number)
        found = self.columns.find(column)
        if found is None:
            return _other(number)
        alias, table, name = found
        if role in (Role.EQUAL, Role.LOW, Role.HIGH) and not self.columns.load.tables[table].columns[name].has_order:
            role, row = Role.BESIDE, f"{Role.BESIDE} {number}"
        if role is Role.EQUAL and _skips_locked(node) and (state := state_in(self.columns.load.tables[table], name)):
            return Use(number=number, role=Role.FIXED, word=state)
        own_rows = {Role.SET: f"set {alias}", Role.ELEMENT: f"element {alias}.{name}"}
        own_rows |= dict.fromkeys((Role.LOW, Role.HIGH), range_of(alias, name))
        return Use(number=number, role=role, table=table, column=name, row=row or own_rows.get(role, alias))

    def _paths_of(self, node: exp.Expr) -> tuple[tuple[TableName, str, tuple[str, str]], ...]:
        """The column with documents, and the operator and each key with which an index has them."""
        operator = _DOCUMENTS.get(type(node))
        column = innermost(node.this) if operator is not None and is_parameter(node.expression) else None
        found = self.columns.find(column) if isinstance(column, exp.Column) else None
        if operator is None or found is None:
            return ()
        _, table, name = found
        keys = keys_in(self.columns.load.tables[table], name, operator)
        return tuple((table, name, (operator, key)) for key in sorted(keys))

    def _inserted(self, value: exp.Expr, parent: exp.Expr, number: int) -> Use:
        """A value of a new row, if that is what it is."""
        insert = parent.find_ancestor(exp.Insert)
        is_of_values = isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values)
        is_of_select = insert is not None and parent is insert.expression and value.arg_key == "expressions"
        if insert is None or not (is_of_values or is_of_select):
            return _other(number)
        table, columns = target_of(insert, self.columns)
        index = value.index
        if table is None or index is None or index >= len(columns):
            return _other(number)
        if columns[index] not in self.columns.load.tables[table].columns:
            return _other(number)
        drawn = {name for name, each in zip(columns, parent.expressions, strict=False) if is_parameter(each)}
        use = Use(
            number=number,
            role=Role.NEW,
            table=table,
            column=columns[index],
            row=f"row {parent.index or 0}",
            given=tuple(columns),
        )
        if not may_meet_row(insert, columns[index], drawn):
            return use
        new = self.new if insert.parent is None else None
        guarded = frozenset(conflict_columns(insert.args["conflict"]))
        return replace(use, role=Role.NEW if new else Role.SET, conflict=guarded, new=new)


def _parts(joined: exp.Expr) -> Iterator[exp.Expr]:
    """What a text is put together of, from left to right."""
    found = innermost(joined)
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


def _skips_locked(node: exp.Expr) -> bool:
    """Whether it is of a query that takes what nobody else has taken."""
    query = node.find_ancestor(exp.Select)
    return query is not None and any(each.args.get("wait") is False for each in query.args.get("locks") or ())


def _first(values: exp.Expr) -> int:
    """The first parameter of some that are about one row: the name of that."""
    return min(int(each.name.removeprefix(MARK)) for each in values.find_all(exp.Column) if is_parameter(each))


def _is_now(node: exp.Expr) -> bool:
    return isinstance(innermost(node), _NOW)


def _other(number: int) -> Use:
    return Use(number=number, role=Role.OTHER)
