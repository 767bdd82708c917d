"""What the parameters of a statement are for, once its text has been read."""

from dataclasses import dataclass
from enum import StrEnum

from pgtrial.postgres.production import Load, TableName

AMOUNT = "1"  # that is taken away from a column: with more of it a row would soon have nothing left


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
    KEY = "key"
    OTHER = "by type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Of parameter ``number``. Those of one ``row`` are drawn together, as columns of one row of ``table``.

    ``given`` are the columns for which a new row, or each of many, has values; the server has those of the others.
    ``changes`` are those to which a changed row gets values of parameters. ``is_age``: the parameter is subtracted
    from the time that it is, and the column is compared to that. ``word`` is what a parameter is that only some words
    can be. The text of the statement puts ``before`` and ``after`` around it, and the column is compared to all of
    that. Of a document it is compared to what is at ``path``, an operator and a key; a parameter that is a key is
    ``Role.KEY`` where several have an index.

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
    path: tuple[str, str] | None = None

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


def range_of(alias: str, column: str) -> str:
    """What the row is called of which the ends of a range are drawn, apart from what else is compared."""
    return f"range {alias}.{column}"


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
