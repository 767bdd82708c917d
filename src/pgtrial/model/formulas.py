"""Formulas of timeline metrics, over readings of samples.parquet or over sampled sessions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pgtrial.model.metric import Better, MetricKind

# What the server tells, and what its processes and the load's use: it stands still while the arm does.
_OF_THE_SERVER = ("pg_", "relations.", "backend_cpu.", "pgbench_cpu.", "pgbouncer.", "pgbouncer_cpu.")
_ALL = ".*"

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A metric of samples.parquet, of the objects that ``only`` (a regular expression) matches as a whole."""

    metric: str
    only: str = _ALL

    def select(self, objects: Mapping[str, _Value]) -> Mapping[str, _Value]:
        """Those of the objects that it takes."""
        if self.only == _ALL:
            return objects
        return {about: value for about, value in objects.items() if re.fullmatch(self.only, about)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMetric:
    """A metric of timelines.

    Its value is the sum of ``of``, less ``minus``, divided by the sum of ``per``; of counters the rates are taken,
    increase per second. All of the sources must have been read, or with ``is_any`` one of each sum. ``otherwise``
    stands for ``of`` where that was not read. ``less`` is taken off the value, which does not fall below zero by it.
    With ``in_pages`` the sources count pages of memory, and the value is bytes. There is a series for every object of
    the sources ``per_object``, else one of their sum. Where objects ``come_and_go``, one that is not there when others
    are read counts nothing. ``every`` is how many seconds readings are usually apart.
    """

    name: str
    unit: str
    kind: MetricKind  # of the sources
    of: tuple[Source, ...]
    minus: tuple[Source, ...] = ()
    per: tuple[Source, ...] = ()
    otherwise: tuple[Source, ...] = ()
    less: float = 0.0
    per_object: bool = False
    is_any: bool = False
    in_pages: bool = False
    come_and_go: bool = False
    every: float = 1.0
    better: Better = Better.NEITHER

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.of, *self.minus, *self.per, *self.otherwise)

    @property
    def is_of_server(self) -> bool:
        """Whether it is about the arm's server and load, and not about the machine and all that runs there."""
        return all(source.metric.startswith(_OF_THE_SERVER) for source in self.sources)

    @property
    def is_timed(self) -> bool:
        """Whether it is of times that the server or its pooler takes, by a clock that goes on while it stands still."""
        return (
            self.is_of_server
            and self.kind is MetricKind.COUNTER
            and any(source.metric.endswith("_time") for source in self.sources)
        )

    @property
    def formula(self) -> str:
        """How it is computed, as in "Δdisk.read_time / Δdisk.reads"."""
        value = self._sum(self.of) + "".join(f" − {self._sum((source,))}" for source in self.minus)
        if self.less:
            value += f" − {self.less:g}"
        if self.per:
            value = f"{_bracketed(value)} / {_bracketed(self._sum(self.per))}"
        elif self.kind is MetricKind.COUNTER:
            value = f"{_bracketed(value)} / Δt"
        if self.in_pages:
            value = f"{_bracketed(value)} × page size"
        return f"{value}; or {replace(self, of=self.otherwise, otherwise=()).formula}" if self.otherwise else value

    def _sum(self, sources: tuple[Source, ...]) -> str:
        sign = "Δ" if self.kind is MetricKind.COUNTER else ""
        return " + ".join(
            f"{sign}{source.metric}" + (f"[{source.only}]" if source.only != _ALL else "") for source in sources
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMetric:
    """A metric of timelines that comes from the sampled sessions, waits.parquet: sessions / polls of the second."""

    name: str
    unit: str = ""
    formula: str = "sessions / polls"
    better: Better = Better.NEITHER


def _bracketed(value: str) -> str:
    return f"({value})" if " " in value else value


def _sources(names: str) -> tuple[Source, ...]:
    found = (name.partition("/") for name in names.split())
    return tuple(Source(metric=metric, only=only or _ALL) for metric, _, only in found)


def make_metric(
    kind: MetricKind,
    name: str,
    unit: str,
    of: str,
    *,
    minus: str = "",
    per: str = "",
    otherwise: str = "",
    less: float = 0.0,
    per_object: bool = False,
    is_any: bool = False,
    in_pages: bool = False,
    come_and_go: bool = False,
    every: float = 1.0,
    better: Better = Better.NEITHER,
) -> TimelineMetric:
    """A metric whose sources are written as "disk.reads disk.writes"; which objects, if not all, follows a slash."""
    return TimelineMetric(
        kind=kind,
        name=name,
        unit=unit,
        of=_sources(of),
        minus=_sources(minus),
        per=_sources(per),
        otherwise=_sources(otherwise),
        less=less,
        per_object=per_object,
        is_any=is_any,
        in_pages=in_pages,
        come_and_go=come_and_go,
        every=every,
        better=better,
    )
