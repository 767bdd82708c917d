"""The rows of state.sqlite, checked while they are read: whatever a folder holds, they have the types and bounds given
here. The folder may come from anybody, and its tables from any other program.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pgtrial.errors import StoreError
from pgtrial.model.arm import Role
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import HOST_NAME, PAGES, PLANS, TRANSLATIONS, PhaseName, RunState
from pgtrial.safe_text import parse_json

BLOCK_HOST = "block_host"  # the table that only folders of several hosts have
MOST_ROWS = 5_000_000  # of one table
_ROOM = 1 << 20  # bytes that a file which is written to may have more than its size was
_LAST = 253_402_300_800.0  # s since the epoch: the year 10000


def _are_settings(text: str) -> str:
    found = parse_json(text)
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("it is not a JSON object of texts")
    return text


def _are_knobs(text: str) -> str:
    found = parse_json(text)
    if not isinstance(found, list) or not all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(each, str) for each in row) for row in found
    ):
        raise ValueError("it is not a JSON list of knob, name and value")
    return text


Number = Annotated[int, Field(strict=True, ge=0, le=2**53)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0, lt=_LAST, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True)]
# It becomes part of the name of a run's folder.
ArmName = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.=+,-]{0,62}$")]
HostName = Annotated[str, Field(strict=True, pattern=f"^{HOST_NAME}$")]


class MetaRow(NamedTuple):
    key: Text
    value: Text


class ArmRow(NamedTuple):
    position: Number
    name: ArmName
    role: Role
    settings: Annotated[Text, AfterValidator(_are_settings)]
    knobs: Annotated[Text, AfterValidator(_are_knobs)]


class LevelRow(NamedTuple):
    level: Number
    clients: Number
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class SlotRow(NamedTuple):
    number: Number
    block: Number
    position: Number
    arm: ArmName


class BlockHostRow(NamedTuple):
    block: Number
    host: HostName


class AttemptRow(NamedTuple):
    id: Number
    slot: Number
    attempt: Number
    state: RunState
    started: Time
    ended: Time | None
    reason: Text


class PhaseRow(NamedTuple):
    run: Number
    name: PhaseName
    level: Number | None
    started: Time
    ended: Time


class SliceRow(NamedTuple):
    run: Number
    level: Number
    number: Number
    started: Time
    counted: Time
    ended: Time


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clock:
    ahead: list[Finite]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    page: Number
    transparent: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    moment: Text
    pools: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9} ?[kKMG]?B$")], dict[str, Number]]
    shared: _Shared | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Translations:
    level: Number
    seconds: Finite
    counts: dict[str, Finite]
    reason: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatementPlan:
    scenario: Text
    statement: Text
    shown: list[Text]
    shape: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plans:
    statements: list[_StatementPlan]
    reason: Text


# What the analysis uses of the data of an event; of other kinds it uses none.
_EVENTS: dict[str, type] = {"clock": _Clock, PAGES: _Pages, TRANSLATIONS: _Translations, PLANS: _Plans}


def _is_event(row: "EventRow") -> "EventRow":
    found = parse_json(row.data)
    if not isinstance(found, dict):
        raise ValueError("its data are not a JSON object")  # noqa: TRY004  # what pydantic understands
    if row.kind in _EVENTS:
        _checker(_EVENTS[row.kind]).validate_python(found)
    return row


class EventRow(NamedTuple):
    t: Time
    run: Number | None
    kind: Text
    data: Text


class SettingRow(NamedTuple):
    run: Number
    name: Text
    value: Text
    source: Text


class ChangeRow(NamedTuple):
    run: Number | None
    t: Time
    knob: Text
    name: Text
    old_value: Text | None
    new_value: Text


class FactRow(NamedTuple):
    run: Number | None
    moment: Moment | None
    name: Text
    value: Text


class OldCaveatRow(NamedTuple):
    """As folders of older versions have it: sentences alone."""

    run: Number | None
    code: Text
    severity: Severity
    text: Text
    hint: Text


class CaveatRow(NamedTuple):
    run: Number | None
    code: Text
    severity: Severity
    text: Text
    hint: Text
    said: Text | None


Row = TypeVar("Row", bound=tuple[Any, ...])

_CHECKED: dict[type, Any] = {EventRow: Annotated[EventRow, AfterValidator(_is_event)]}
_TABLES: dict[type, str] = {
    MetaRow: "meta",
    ArmRow: "arm",
    LevelRow: "load_level",
    SlotRow: "slot",
    BlockHostRow: BLOCK_HOST,
    AttemptRow: "run",
    PhaseRow: "phase",
    SliceRow: "slice",
    EventRow: "event",
    SettingRow: "setting",
    ChangeRow: "setting_change",
    FactRow: "fingerprint",
    CaveatRow: "caveat",
    OldCaveatRow: "caveat",
}

# By table those with rows of runs, and of them those with rows of no run, too.
RUN_TABLES: dict[str, type[tuple[Any, ...]]] = {
    _TABLES[kind]: kind for kind in (PhaseRow, SliceRow, EventRow, SettingRow, ChangeRow, FactRow, CaveatRow)
}
OF_WHOLE = tuple(name for name, kind in RUN_TABLES.items() if NoneType in get_args(kind.__annotations__["run"]))
NEWER = {"caveat": "said"}  # column that folders of older versions do not have


def columns_of(table: str) -> tuple[str, ...]:
    """Those of a table with rows of runs, but for that of the run."""
    return tuple(name for name in RUN_TABLES[table].__annotations__ if name != "run")


def read_rows(
    db: sqlite3.Connection, kind: type[Row], rest: str = "", values: Sequence[object] = (), *, path: Path
) -> list[Row]:
    """Rows of the table of this kind, or those of a WHERE or ORDER BY in ``rest``. StoreError says what is wrong."""
    table, columns = _TABLES[kind], kind.__annotations__
    try:
        rows = [*_bounded(db.execute(f"SELECT {', '.join(columns)} FROM {table} {rest}", values), table, path)]
    except (sqlite3.Error, OverflowError, OSError) as err:
        raise damaged(path, f"cannot read table {table}: {err}") from err
    try:
        return check_rows(kind, rows)
    except ValueError as err:
        raise damaged(path, str(err)) from err


def check_rows(kind: type[Row], rows: Sequence[tuple[Any, ...]]) -> list[Row]:
    """Rows of the table of this kind, whose columns they have, in its order. ValueError says what is wrong."""
    try:
        found: list[Row] = _checker(list[_CHECKED.get(kind, kind)]).validate_python(rows)  # type: ignore[misc]
    except ValidationError as err:
        first = err.errors(include_url=False, include_input=False)[0]
        number, *column = first["loc"]
        where = f"row {int(number) + 1}" + (f", {tuple(kind.__annotations__)[int(column[0])]}" if column else "")
        raise ValueError(f"table {_TABLES[kind]}, {where}: {first['msg']}") from err
    return found


def _bounded(cursor: sqlite3.Cursor, table: str, path: Path) -> Iterator[tuple[Any, ...]]:
    """The rows of a query. In a file that was forged they can be many, and all of them have the same pages of text."""
    size = _ROOM + sum(each.stat().st_size for each in (path, path.with_name(f"{path.name}-wal")) if each.exists())
    length = 0
    for number, row in enumerate(cursor):
        if number == MOST_ROWS:
            raise damaged(path, f"table {table} has more than {MOST_ROWS} rows")
        length += sum(len(value) for value in row if isinstance(value, str | bytes))
        if length > size:
            raise damaged(path, f"table {table} has more text than the file has room for")
        yield row


def damaged(path: Path, what: str) -> StoreError:
    """The error for a state.sqlite that is not as pgtrial writes it."""
    return StoreError(
        f'"{path}" is damaged: {what}',
        hint="Use a copy of the folder as pgtrial wrote it. If somebody else sent it, do not trust the rest of it.",
    )


@cache
def _checker(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
