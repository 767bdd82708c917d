"""Collectors: where to read, and how to parse a reading. The sampler does the reading.

The sampler stores readings unparsed, and the parsers here run afterwards, when there is no load. A collector therefore
costs the load as little as possible, and is tested on captured text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pgtrial.model.metric import Metric, MetricKind, Sample

_SQL = Path(__file__).with_name("sql")
NO_EXTENSION = ""  # what is read in the same way, and is there without an extension
_EXTENSION_SCHEMA = "@extschema@"  # the notation of an extension's own scripts

Value = str | None  # as PostgreSQL's text format gives it; None is NULL
Columns = Sequence[str]
Rows = Sequence[Sequence[Value]]


class Reading(NamedTuple):
    """One value of one metric in base units; ``object`` is "" if there is only one."""

    metric: str
    object: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCollector:
    """Reads one kernel file. ``path`` is absolute, or with ``in_group`` a file name in the server's control groups.

    ``per_device``: objects are names of block devices, and only those under the data are kept. ``by_number``: objects
    are numbers of block devices ("254:0"), replaced by names when the readings are stored. ``lines``: keep only lines
    that begin with one of these, for a long file. ``optional``: the file usually does not exist, which is not worth a
    caveat. ``otherwise``: a second path, with the same content in another form, for kernels without the first.
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
    """Reads a server view with sql/NAME.pgVERSION.sql. ``parameters`` names the values of its $1, $2, ….

    Each column is the metric NAME.column; the column "object", if any, names the object of the row. For other shapes,
    ``understand`` turns columns and rows into readings. ``may_be_empty``: an empty result is valid; otherwise it means
    that the source does not exist.
    """

    name: str
    metrics: tuple[Metric, ...]
    parameters: tuple[str, ...] = ()
    understand: Callable[[Columns, Rows], Iterator[Reading]] | None = None
    may_be_empty: bool = False

    def parse(self, columns: Columns, rows: Rows) -> Iterator[Reading]:
        """Readings from a query result; NULL gives none."""
        return (self.understand or self._by_column)(columns, rows)

    def _by_column(self, columns: Columns, rows: Rows) -> Iterator[Reading]:
        return by_column(self.name, columns, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleCollector:
    """Reads the console of a pooler by one of its commands, if a pooler stands in front of the server."""

    name: str
    command: str
    metrics: tuple[Metric, ...]
    parse: Callable[[Columns, Rows], Iterator[Reading]]


# What has to be understood in order, because the meaning of a reading depends on those before it: time and reading, as
# they are in the sampler's file, to samples.
Follower = Callable[[float, Any], Iterator[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCollector:
    """Reads the CPU time of the child processes of the server or of pgtrial, which starts load drivers and poolers.

    ``program`` selects processes by name, "" all of them. ``follow`` returns a new parser for a file.
    """

    name: str
    metrics: tuple[Metric, ...]
    started_by: Literal["server", "load", "pooler"]
    program: str
    follow: Callable[[], Follower]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionCollector:
    """Reads an extension, if a database has it, with sql/NAME.pgVERSION.sql; @extschema@ stands for its schema. With
    NO_EXTENSION it is what every database has.

    Without the extension, nothing is read and nothing is reported. ``every`` is the number of seconds between readings,
    0 for every tick; the first and the last tick always have one. ``at_end``: read only once, when the load is over.
    ``in_database``: must be queried in the load's database. ``follow`` returns a new parser for a file.
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
    """Readings named source.column; the column "object", if any, names the object of a row."""
    names = [None if column == "object" else f"{source}.{column}" for column in columns]
    objects = columns.index("object") if "object" in columns else None
    for row in rows:
        about = "" if objects is None else row[objects] or ""
        for name, value in zip(names, row, strict=True):
            if name is not None and value is not None:
                yield Reading(name, about, float(value))


def follow_columns(source: str) -> Callable[[], Follower]:
    """Makes Followers of readings whose columns are the metrics, see ``by_column``."""

    def follow(t: float, payload: Any) -> Iterator[Sample]:
        for metric, about, value in by_column(source, payload["columns"], payload["rows"]):
            yield Sample(t, metric, about, value)

    return lambda: follow


def find_statement(name: str, version_num: int) -> str | None:
    """SQL of a collector for a server: from the newest file not above its version; None if there is none.

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
    """The statement with @extschema@ replaced by the extension's schema, quoted as SQL requires."""
    return statement.replace(_EXTENSION_SCHEMA, schema)


def counters(source: str, unit: str, *names: str) -> tuple[Metric, ...]:
    """Counter metrics."""
    return tuple(Metric(name=f"{source}.{name}", unit=unit, kind=MetricKind.COUNTER) for name in names)


def gauges(source: str, unit: str, *names: str) -> tuple[Metric, ...]:
    """Gauge metrics."""
    return tuple(Metric(name=f"{source}.{name}", unit=unit, kind=MetricKind.GAUGE) for name in names)
