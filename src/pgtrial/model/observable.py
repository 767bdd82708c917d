"""What a claim can be about: everything of which a run gives one number, by its name.

The names of samples are those of timelines (model/series.py), "vmstat.wa", with the object after a slash where there
are several: "iostat.r_await/vda", "wait.IO/DataFileRead". Without it a metric of devices is of the one that the data
are on, and another of all its objects together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from pgtrial.model.formulas import SessionMetric, TimelineMetric
from pgtrial.model.metric import Metric, MetricKind
from pgtrial.model.metrics import COSTS, LOADS, METRICS, PGBENCH, STEADINESS, SWAP_GROWTH
from pgtrial.model.series import METRICS as SERIES
from pgtrial.model.series import SESSION_METRICS, WAIT, WAITS, find_metric

OF_DEVICES = "iostat."
_OF_SESSIONS = (WAITS, WAIT, "sessions.active", "sessions.idle_in_transaction")
# By unit, what is next to nothing: see Metric.
_FLOORS = {"share": 1e-3, "s": 1e-6, "B": 4096.0, "B/s": 1024.0, "1/s": 0.01, "s/s": 1e-3, "": 0.01}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observable:
    """``is_sampled``: from the samples, so that it is known of no scenario alone.

    ``is_of_server``: about the arm's server and load, and not about the machine and all that runs there.
    ``is_of_sessions``: about the load's sessions, and so known of a scenario that has its own.
    """

    metric: Metric
    is_sampled: bool
    is_of_server: bool

    @property
    def is_of_sessions(self) -> bool:
        return self.is_sampled and self.metric.name.startswith(_OF_SESSIONS)

    def is_of(self, load: str) -> bool:
        """Whether a load of a kind has it: one on files has no server."""
        kind = self.metric.name.partition(".")[0]
        if kind in LOADS:
            return LOADS[kind] is LOADS[load]
        return LOADS[load] is PGBENCH or not self.is_of_server or self.metric in STEADINESS


@cache
def find_observable(name: str) -> Observable | None:
    """None for a name that there is not; whether an object exists only the samples tell."""
    known = _by_name().get(name)
    if known is not None:
        return None if name.endswith(".") else known
    source, slash, about = name.partition("/")
    found = find_metric(source)
    if found is None or source.endswith(".") or bool(slash) != bool(about):
        return None
    if isinstance(found, SessionMetric):
        return None if about and found.name != WAIT else _sampled(name, found)
    return _sampled(name, found) if about and found.per_object else None


def is_sampled(name: str) -> bool:
    """Whether a number of it takes the samples of a run."""
    found = find_observable(name)
    return found is not None and found.is_sampled


def floor_of(name: str) -> float:
    found = find_observable(name)
    return 0.0 if found is None else found.metric.floor


def observable_names(load: str) -> tuple[str, ...]:
    """All that a kind of load has, without objects; those that end with "." stand for all that begin so."""
    return tuple(name for name, each in _by_name().items() if each.is_of(load))


@cache
def _by_name() -> dict[str, Observable]:
    return {each.metric.name: each for each in _list()}


def _list() -> Iterator[Observable]:
    machine = {cost.metric.name for cost in COSTS if not cost.is_of_server}
    for metric in METRICS:
        yield Observable(metric=metric, is_sampled=False, is_of_server=metric.name not in machine)
    for metric in STEADINESS:
        yield Observable(metric=metric, is_sampled=True, is_of_server=True)
    yield Observable(metric=SWAP_GROWTH, is_sampled=True, is_of_server=False)
    for series in SERIES:
        yield _sampled(series.name, series)
    for sessions in SESSION_METRICS:
        yield _sampled(sessions.name, sessions)


def _sampled(name: str, series: TimelineMetric | SessionMetric) -> Observable:
    is_of_server = isinstance(series, SessionMetric) or series.is_of_server
    metric = Metric(
        name=name, unit=series.unit, kind=MetricKind.GAUGE, better=series.better, floor=_FLOORS.get(series.unit, 0.0)
    )
    return Observable(metric=metric, is_sampled=True, is_of_server=is_of_server)
