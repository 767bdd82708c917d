"""What a statement puts into rows: the table that gets them, and the columns with something of its own."""

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from pgtrial.postgres.production import Statement, TableName
from pgtrial.workloads.production.columns import Columns
from pgtrial.workloads.sql_tree import has_parameter, innermost, is_parameter, name_of

_VARIABLE = re.compile("[A-Za-z0-9_]+")


def is_upsert(tree: exp.Expr) -> bool:
    values = tree.expression if isinstance(tree, exp.Insert) and tree.args.get("conflict") is not None else None
    return isinstance(values, exp.Values) and len(values.expressions) == 1


def part_of_new(tree: exp.Expr, statement: Statement) -> float | None:
    """Of an INSERT with ON CONFLICT DO NOTHING, by the rows that were counted; None where those are others, too."""
    conflict = tree.args.get("conflict") if isinstance(tree, exp.Insert) else None
    if conflict is None or conflict.expressions or conflict.args.get("where") is not None:
        return None
    values = tree.expression
    return min(1.0, statement.rows_per_call / (len(values.expressions) if isinstance(values, exp.Values) else 1))


def returned_by(tree: exp.Expr, columns: Columns) -> tuple[TableName | None, tuple[tuple[str, str], ...]]:
    """Of an INSERT of one row, what "RETURNING" gives of it, if it is sure to give that."""
    values = tree.expression if isinstance(tree, exp.Insert) else None
    if not isinstance(values, exp.Values) or len(values.expressions) != 1 or tree.args.get("conflict") is not None:
        return None, ()
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    target = columns.resolve(table) if isinstance(table, exp.Table) else None
    returning = tree.args.get("returning")
    if target is None or returning is None:
        return target, ()
    found = [(name_of(innermost(each.unalias())), str(each.alias_or_name)) for each in returning.expressions]
    if not all(_VARIABLE.fullmatch(name) for _, name in found):
        return target, ()  # pgbench makes variables of all or ends
    return target, tuple(pair for pair in found if pair[0] in columns.load.tables[target].columns)


def target_of(insert: exp.Insert, columns: Columns) -> tuple[TableName | None, list[str]]:
    """The table that gets rows, and the columns for which they bring values."""
    target = insert.this.this if isinstance(insert.this, exp.Schema) else insert.this
    table = columns.resolve(target) if isinstance(target, exp.Table) else None
    named = insert.this.expressions if isinstance(insert.this, exp.Schema) else ()
    return table, [name_of(each) for each in named] or list(columns.load.tables[table].columns if table else ())


def computed_by(tree: exp.Expr, columns: Columns) -> Iterator[tuple[TableName, str]]:
    """Columns that get something that is neither a parameter nor the server's."""
    for insert in tree.find_all(exp.Insert):
        table, names = target_of(insert, columns)
        conflict = insert.args.get("conflict")
        if table is not None and (conflict is None or conflict_columns(conflict)):
            guarded = set() if conflict is None else conflict_columns(conflict)
            for name in _computed_of(insert, names):
                if name not in guarded:
                    yield table, name
    for change in tree.find_all(exp.Update, exp.OnConflict):
        of = change.find_ancestor(exp.Insert) if isinstance(change, exp.OnConflict) else change
        place = of.this if of is not None else None
        place = place.this if isinstance(place, exp.Schema) else place
        table = columns.resolve(place) if isinstance(place, exp.Table) else None
        if table is not None:
            for name in _computed_by(change.expressions):
                yield table, name
    for merge in tree.find_all(exp.Merge):
        table = columns.resolve(merge.this) if isinstance(merge.this, exp.Table) else None
        on = merge.args.get("on")
        matched = {name_of(each) for each in on.find_all(exp.Column)} if on is not None else set()
        if table is not None and has_parameter(merge):
            for name in _assigned_by(merge):
                if name not in matched:
                    yield table, name


def may_meet_row(insert: exp.Insert, column: str, drawn: set[str]) -> bool:
    """Whether a row that is there already may make the conflict that is asked for, so that no new one comes.

    ``drawn`` are the columns that get parameters, all of one row.
    """
    conflict = insert.args.get("conflict")
    if conflict is None:
        return False
    names = conflict_columns(conflict)
    return names <= drawn or column in names


def conflict_columns(conflict: exp.Expr) -> set[str]:
    keys = conflict.args.get("conflict_keys") or ()
    return {name_of(each) for key in keys for each in key.find_all(exp.Column)}


def _computed_of(insert: exp.Insert, columns: Sequence[str]) -> Iterator[str]:
    source = insert.expression
    if isinstance(source, exp.Values):
        rows = [each.expressions for each in source.expressions if isinstance(each, exp.Tuple)]
        yield from (
            name
            for row in rows
            for name, value in zip(columns, row, strict=False)
            if has_parameter(value) and not is_parameter(value)
        )
    elif isinstance(source, exp.Select):
        values = [each.unalias() for each in source.expressions]
        if any(each.is_star for each in values):
            yield from columns
            return
        for name, value in zip(columns, values, strict=False):
            is_copied = isinstance(innermost(value), exp.Column)
            if not is_parameter(value) and (is_copied or has_parameter(value)):
                yield name


def _computed_by(assignments: Sequence[exp.Expr]) -> Iterator[str]:
    for each in assignments:
        if isinstance(each, exp.EQ) and has_parameter(each.expression):
            if isinstance(each.this, exp.Tuple):
                yield from (name_of(column) for column in each.this.expressions)
            elif not is_parameter(each.expression) or not isinstance(each.this, exp.Column):
                yield from (name_of(column) for column in each.this.find_all(exp.Column))


def _assigned_by(merge: exp.Merge) -> Iterator[str]:
    for when in merge.find_all(exp.When):
        then = when.args.get("then")
        if isinstance(then, exp.Insert) and isinstance(then.this, exp.Tuple):
            yield from (name_of(each) for each in then.this.expressions)
        elif isinstance(then, exp.Update):
            yield from (name_of(each.this) for each in then.expressions if isinstance(each, exp.EQ))
