"""A table of findings: self-describing columns, and rows of plain values."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL

Value = str | float | bool | None  # an int too, which is a float to the type checker


class ColumnType(StrEnum):
    """``time`` is a number of seconds since the epoch; formats that know times write it as one, in UTC."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    TIME = "time"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``unit`` is a base unit (s, B, 1/s, ratio, share, probability), "" where there is none."""

    name: str
    kind: ColumnType
    about: str
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``name`` is that of a file, a sheet, a table of a database; None in a row is what is not known."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]


def table(name: str, title: str, columns: Iterable[Column], rows: Iterable[Iterable[Value]]) -> Table:
    """A table, with the members of enumerations as plain texts."""
    plain = (tuple(str(value) if isinstance(value, str) else value for value in row) for row in rows)
    return Table(name=name, title=title, columns=tuple(columns), rows=tuple(plain))


def text(name: str, about: str) -> Column:
    return Column(name=name, kind=ColumnType.TEXT, about=about)


def integer(name: str, about: str) -> Column:
    return Column(name=name, kind=ColumnType.INTEGER, about=about)


def number(name: str, about: str, unit: str = "") -> Column:
    return Column(name=name, kind=ColumnType.NUMBER, about=about, unit=unit)


def time(name: str, about: str) -> Column:
    return Column(name=name, kind=ColumnType.TIME, about=about)


def truth(name: str, about: str) -> Column:
    return Column(name=name, kind=ColumnType.TRUTH, about=about)


RUN = (integer("run", "id of the run"), text("arm", "arm"), integer("block", "block"))
ARM = text("arm", "arm")
SCENARIO = text("scenario", "scenario; unknown: all scenarios together")
LEVEL = (
    text("load_level", 'index of the load level, or "all"'),
    text("load", "the load level in words"),
    integer("clients", "clients at that level, of arms that have no other; unknown for all levels together"),
)


def level_row(findings: Findings, level: int | str) -> tuple[Value, Value, Value]:
    """The three columns LEVEL of a load level."""
    for known in findings.experiment.levels:
        if known.index == level:
            return (str(level), say(known.label), known.clients)
    return (str(level), "all load levels" if level == ALL else f"load level {level}", None)
