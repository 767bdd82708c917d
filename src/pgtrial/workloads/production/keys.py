"""Values that no row may have twice: which parameters are new each time, and which statements none can be made for."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pgtrial.postgres.production import Column, Load, Table, TableName
from pgtrial.workloads.production.uses import Role, Shape, Use, range_of

_SIZE = re.compile(r"\((\d+)(?:,(-?\d+))?\)")
_LENGTH_OF_NEW = 10  # characters of a new text: "new", and the number of one of ten million
_DIGITS_OF_NEW = 9  # before the point, as an integer has
_EXACT = 6  # digits of a second, below which two moments are the same too often


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """Columns of which no two rows have the same values. A new value of one of ``decisive`` makes a row differ."""

    columns: tuple[str, ...]
    decisive: tuple[str, ...]


def _keys(table: Table) -> Iterator[_Key]:
    yield from (_Key(columns=names, decisive=names) for names in table.unique)
    yield from (_Key(columns=names, decisive=equal) for names, equal in table.excluded)


def is_fresh(use: Use, load: Load) -> bool:
    """Whether a row needs a value there that no row has yet."""
    if use.table is None:
        return False
    keys = [key for key in _keys(load.tables[use.table]) if use.column in key.columns]
    return any(use.column == _varied(key, use, load) for key in keys)


def keep_own(shape: Shape, load: Load) -> Shape:
    """With the values that a row has already where none can be made for it: they are drawn with what it is found by."""
    uses = tuple(
        replace(use, row=found[0].row) if use.changes and (found := _found_by(shape, use, load)) else use
        for use in shape.uses
    )
    return replace(shape, uses=uses)


def tie_ranges(shape: Shape, load: Load) -> Shape:
    """With the ends of a range drawn of the row that a key beside it finds: of two rows that have nothing to do with
    each other one is hardly in the range of the other.
    """
    return replace(shape, uses=tuple(_tied_to_row(use, shape, load) for use in shape.uses))


def _tied_to_row(use: Use, shape: Shape, load: Load) -> Use:
    if use.table is None or use.role not in (Role.LOW, Role.HIGH):
        return use
    beside = [
        each
        for each in shape.uses
        if each.role is Role.EQUAL and each.table == use.table and use.row == range_of(each.row, use.column)
    ]
    names, table = {each.column for each in beside}, load.tables[use.table]
    # A unique index may have some rows only, and others the same key.
    is_one = any(table.columns[name].is_unique for name in names)
    is_one = is_one or (not table.conditions and _is_key(names, use.table, load))
    return replace(use, row=beside[0].row) if is_one else use


def settle_conflicts(shape: Shape, load: Load) -> Shape:
    """With keys of new rows that ON CONFLICT would find in the way made new: by a new value, or, of a key of several
    columns, by one of them of another row. A row with a key that cannot be made new is one that is there.
    """
    rows: dict[str, list[Use]] = {}
    for use in shape.uses:
        if use.conflict is not None and use.role is Role.NEW:
            rows.setdefault(use.row, []).append(use)
    settled = {}
    for uses in rows.values():
        apart = _apart(uses, load)
        for use in uses:
            if apart is None:
                settled[use] = replace(use, role=Role.SET)
            else:
                settled[use] = replace(use, is_apart=use.column in apart)
    return replace(shape, uses=tuple(settled.get(use, use) for use in shape.uses))


def _apart(uses: Sequence[Use], load: Load) -> set[str] | None:
    """Columns of a row to be drawn of another one, which makes its keys new; None where that makes not all of them."""
    first, table, found = uses[0], _table_of(uses[0], load), set[str]()
    for key in _keys(table):
        if not set(key.columns) <= set(first.given):
            continue
        own = [use for use in uses if use.column in key.columns and table.columns[use.column].joint is None]
        if any(is_fresh(use, load) for use in own):
            continue
        if len(own) < 2 or (first.conflict and first.conflict != set(key.columns)):
            return None
        found.add(max(own, key=lambda use: table.columns[use.column].distinct).column)
    return found


def _table_of(use: Use, load: Load) -> Table:
    assert use.table is not None
    return load.tables[use.table]


def _found_by(shape: Shape, use: Use, load: Load) -> tuple[Use, ...]:
    """What the row of a value that is never missing, and cannot be a new one, is found by."""
    assert use.table is not None
    table = load.tables[use.table]
    if table.columns[use.column].nulls or is_fresh(use, load):
        return ()
    is_bound = any(use.column in key.columns and _varied(key, use, load) is None for key in _keys(table))
    # Of what a CHECK compares with each other another statement may change a part only.
    is_bound = is_bound or use.column in table.conditions.union(*table.checks)
    return _unique_search(shape, use.table, load) if is_bound else ()


def find_obstacle(shape: Shape, load: Load, returned: Collection[tuple[TableName, str]]) -> str:
    """Why a statement would write a row that cannot be there beside the others, or find others, "" if it would not.

    A key that refers to another row can be new only where that row is, and its statement has it ``returned``.
    """
    if any(use.role is Role.KEY for use in shape.uses):
        return "the key of a document is not known"
    for name, column in sorted(shape.computed):
        for key in _keys(load.tables[name]):
            news = (each for each in shape.uses if each.table == name and each.column in key.columns)
            if column in key.columns and not any(is_fresh(each, load) for each in news):
                return f"{_say(name, key)} may be there once, and gets what the statement makes of other values"
    for use in shape.uses:
        if use.table is None or use.role not in (Role.NEW, Role.SET) or is_own(use) or use.conflict is not None:
            continue
        for key in _keys(load.tables[use.table]):
            if use.column not in key.columns or not _is_at_risk(key, use):
                continue
            said, varied = _say(use.table, key), _varied(key, use, load)
            other = None if varied is None else load.tables[use.table].columns[varied]
            if other is None or other.joint or (other.references and other.references not in returned):
                row = "new" if use.role is Role.NEW else "changed"
                return f"a {row} row needs a value of {said} that no row has, and none can be made"
            if use.role is Role.SET and not (shape.is_upsert or _unique_search(shape, use.table, load)):
                return f"it may give several rows the same value of {said}, which may be there once"
    return ""


def is_own(use: Use) -> bool:
    """Whether a row keeps the value that it has."""
    return bool(use.changes) and not use.row.startswith("set ")


def _say(table: TableName, key: _Key) -> str:
    return f"{table[1]} ({', '.join(key.columns)})"


def _is_at_risk(key: _Key, use: Use) -> bool:
    """A new row without one of the columns has a NULL there, or what the server makes."""
    return set(key.columns) <= set(use.given) if use.role is Role.NEW else bool(use.changes)


def _unique_search(shape: Shape, table: TableName, load: Load) -> tuple[Use, ...]:
    """What one row of a table is searched by, if no other row can be found by it."""
    searched = tuple(
        each
        for each in shape.uses
        if each.role is Role.EQUAL and each.table == table and not each.row.startswith("in ")
    )
    return searched if _is_key({each.column for each in searched}, table, load) else ()


def _is_key(columns: Collection[str], table: TableName, load: Load) -> bool:
    """Whether one row at most has the same values of them."""
    return any(names and set(names) <= set(columns) for names in load.tables[table].unique)


def can_number(type_: str) -> bool:
    return _plain(type_) in ("smallint", "integer", "bigint", "numeric")


def room_of(type_: str) -> int:
    """Numbers from it on stand for something else, as the largest that there is does; new ones are below them."""
    size, scale = _size(type_)
    if type_ == "integer":
        return 2 * 10**9
    return int(9 * 10 ** (min(18, size - scale - 1) if size is not None and can_number(type_) else 18))


def is_text(type_: str) -> bool:
    return _plain(type_) in ("text", "character varying", "character", "name", "citext")


def _plain(type_: str) -> str:
    return type_.partition("(")[0].strip()


def _size(type_: str) -> tuple[int | None, int]:
    found = _SIZE.search(type_)
    return (None, 0) if found is None else (int(found[1]), int(found[2] or 0))


def _can_be_new(column: Column) -> bool:
    """Whether a value can be made that no row has: of a date, say, it would lie in no partition."""
    size, scale = _size(column.type)
    if can_number(column.type):
        return _plain(column.type) != "smallint" and (size is None or size - scale >= _DIGITS_OF_NEW)
    if is_text(column.type):
        return (size is None or size >= _LENGTH_OF_NEW) and not column.is_checked
    is_moment = column.type.startswith("timestamp") and (size is None or size >= _EXACT)
    return is_moment or _plain(column.type) == "uuid"


def _is_numbered(key: _Key, use: Use, table: Table) -> bool:
    """Whether the server may number new rows by itself."""
    kinds = [table.columns[name].type for name in key.columns if name not in use.given and name in table.columns]
    return any(can_number(kind) or kind == "uuid" for kind in kinds)


def _varied(key: _Key, use: Use, load: Load) -> str | None:
    """The column of a key that is to differ: the last that refers to nothing. None where there is none, and where the
    server numbers the rows by itself.
    """
    assert use.table is not None
    table = load.tables[use.table]
    free = [name for name in key.decisive if name in table.columns and _can_be_new(table.columns[name])]
    if use.role is Role.SET:
        free = [name for name in free if name in use.changes and not _is_tied(use.table, name, load)]
        return _best(free, table)
    if use.role is not Role.NEW or _is_numbered(key, use, table):
        return None
    own = _best([name for name in free if not _refers(table.columns[name])], table)
    return own or (_best(free, table) if use.conflict is None else None)


def _best(names: Sequence[str], table: Table) -> str | None:
    """The last, of those of which no CHECK may refuse a new value if there are such."""
    unchecked = [name for name in names if not table.columns[name].is_checked]
    return next(reversed(unchecked or names), None)


def _is_tied(table: TableName, name: str, load: Load) -> bool:
    """Whether another table has the value, too: a row cannot change it alone."""
    return _refers(load.tables[table].columns[name]) or (table, name) in load.referred


def _refers(column: Column) -> bool:
    return column.references is not None or column.joint is not None
