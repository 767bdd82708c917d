"""What a collector is: where to read, what the reading means. It reads nothing itself; the sampler does.

The sampler keeps what it read as it was read, and the parsers here run afterwards, when no load is on. So a collector
costs the load as little as possible, and is tested from captured text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pgtrial.model.metric import Kind, Metric, Sample

_SQL = Path(__file__).with_name("sql")
_EXTENSION_SCHEMA = "@extschema@"  # the notation of an extension's own scripts

Value = str | None  # as PostgreSQL's text format gives it; None is NULL
Columns = Sequence[str]
Rows = Sequence[Sequence[Value]]


class Reading(NamedTuple):
    """One value of one metric in base units; ``object`` is "" where there is only one."""

    metric: str
    object: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCollector:
    """Reads one file of the kernel. ``path`` is absolute, or with ``in_group`` a name in the server's control groups.

    ``per_device``: objects are names of block devices, only those under the data are kept. ``by_number``: objects are
    numbers of block devices ("254:0"), which get their names when the readings are stored. With ``lines`` only lines
    that begin with one of these are kept: of a file that is long for other reasons. ``optional``: mostly it is not
    there, and nobody expects it. ``otherwise``: another path with the same in another form, for where the first is not.
    """

    name: str
    path: str
    metrics: tuple[Metric, ...]
    parse: Callable[[str], Iterator[Reading]]
    per_device: bool = False
    by_number: bool = False
    in_group: bool = False
    lines: tuple[str, ...] = ()
    optional: bool = False
    otherwise: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCollector:
    """Reads a view of the server with sql/NAME.pgVERSION.sql. ``parameters`` name what its $1, $2, … stand for.

    A column is the metric NAME.column; the column "object", where there is one, says what the row is about. Where that
    is not so, ``understand`` makes readings of columns and rows. ``may_be_empty``: no row is an answer too; otherwise
    it means that what is asked for is not there.
    """

    name: str
    metrics: tuple[Metric, ...]
    parameters: tuple[str, ...] = ()
    understand: Callable[[Columns, Rows], Iterator[Reading]] | None = None
    may_be_empty: bool = False

    def parse(self, columns: Columns, rows: Rows) -> Iterator[Reading]:
        """Readings of a result; NULL is no reading."""
        return (self.understand or self._by_column)(columns, rows)

    def _by_column(self, columns: Columns, rows: Rows) -> Iterator[Reading]:
        return by_column(self.name, columns, rows)


# What has to be understood in order, because the meaning of a reading depends on those before it: time and reading, as
# they are in the sampler's file, to samples.
Follower = Callable[[float, Any], Iterator[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCollector:
    """Reads the CPU time of processes that another one has started: of the server, or of what drives the load.

    ``program`` is the name of those that are meant, "" all of them. ``follow`` begins to understand a file.
    """

    name: str
    metrics: tuple[Metric, ...]
    started_by: Literal["server", "load"]
    program: str
    follow: Callable[[], Follower]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionCollector:
    """Reads what an extension offers, where a database has it: sql/NAME.pgVERSION.sql; @extschema@ is its schema.

    Where it is not, nothing is read and nothing is said. ``every`` is the number of seconds between readings, 0 at each
    tick; also the first and the last tick have one. ``at_end``: it is read only once, when the load is over.
    ``in_database``: it has to be asked in the load's database. ``follow`` begins to understand a file.
    """

    name: str
    extension: str
    metrics: tuple[Metric, ...]
    follow: Callable[[], Follower]
    parameters: tuple[str, ...] = ()
    every: float = 0.0
    at_end: bool = False
    in_database: bool = False


def by_column(source: str, columns: Columns, rows: Rows) -> Iterator[Reading]:
    """Readings source.column; the column "object", where there is one, is what a row is about."""
    names = [None if column == "object" else f"{source}.{column}" for column in columns]
    objects = columns.index("object") if "object" in columns else None
    for row in rows:
        about = "" if objects is None else row[objects] or ""
        for name, value in zip(names, row, strict=True):
            if name is not None and value is not None:
                yield Reading(name, about, float(value))


def find_statement(name: str, version_num: int) -> str | None:
    """SQL of a collector for a server: of the newest file not above its version, None where there is none.

    ``version_num`` is the server's server_version_num, for example 150018.
    """
    texts = {
        int(match["major"]): path
        for path in _SQL.glob(f"{name}.pg*.sql")
        if (match := re.fullmatch(rf"{re.escape(name)}\.pg(?P<major>\d+)\.sql", path.name))
    }
    fitting = [major for major in texts if major <= version_num // 10000]
    return texts[max(fitting)].read_text(encoding="utf-8") if fitting else None


def in_schema(statement: str, schema: str) -> str:
    """The statement of an extension that lies in a schema; its name is quoted where SQL wants it."""
    return statement.replace(_EXTENSION_SCHEMA, schema)


def counters(source: str, unit: str, *names: str) -> tuple[Metric, ...]:
    """Metrics that only grow."""
    return tuple(Metric(name=f"{source}.{name}", unit=unit, kind=Kind.COUNTER) for name in names)


def gauges(source: str, unit: str, *names: str) -> tuple[Metric, ...]:
    """Metrics that are momentary values."""
    return tuple(Metric(name=f"{source}.{name}", unit=unit, kind=Kind.GAUGE) for name in names)
