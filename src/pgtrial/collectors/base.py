"""What a collector is: where to read, what the reading means. It reads nothing itself; the sampler does.

The sampler keeps what it read as it was read, and the parsers here run afterwards, when no load is on. So a collector
costs the load as little as possible, and is tested from captured text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pgtrial.model.metric import Kind, Metric

_SQL = Path(__file__).with_name("sql")

Value = str | None  # as PostgreSQL's text format gives it; None is NULL


class Reading(NamedTuple):
    """One value of one metric in base units; ``object`` is "" where there is only one."""

    metric: str
    object: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCollector:
    """Reads one file of the kernel. ``path`` is absolute, or with ``in_group`` a name in the server's control groups.

    ``per_device``: objects are names of block devices, only those under the data are kept. ``by_number``: objects are
    numbers of block devices ("254:0"), which get their names when the readings are stored.
    """

    name: str
    path: str
    metrics: tuple[Metric, ...]
    parse: Callable[[str], Iterator[Reading]]
    per_device: bool = False
    by_number: bool = False
    in_group: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCollector:
    """Reads a view of the server with sql/NAME.pgVERSION.sql. ``parameters`` name what its $1, $2, … stand for.

    A column is the metric NAME.column; the column "object", where there is one, says what the row is about.
    """

    name: str
    metrics: tuple[Metric, ...]
    parameters: tuple[str, ...] = ()

    def parse(self, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> Iterator[Reading]:
        """Readings of a result; NULL is no reading."""
        names = [None if column == "object" else f"{self.name}.{column}" for column in columns]
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


def counters(source: str, unit: str, *names: str) -> tuple[Metric, ...]:
    """Metrics that only grow."""
    return tuple(Metric(name=f"{source}.{name}", unit=unit, kind=Kind.COUNTER) for name in names)


def gauges(source: str, unit: str, *names: str) -> tuple[Metric, ...]:
    """Metrics that are momentary values."""
    return tuple(Metric(name=f"{source}.{name}", unit=unit, kind=Kind.GAUGE) for name in names)
