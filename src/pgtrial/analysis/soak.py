"""Does an arm stay as it is? Slopes over a soak, with intervals that bear that its windows depend on each other.

The windows of one run are no independent blocks: what is slow in one is slow in the next. So the slope is one of a
series (stats/trend.py), whose interval is as wide as its autocorrelation makes it, and it is a fact of this one run: a
neighbour who came in the evening shows as a drift as well. After an interruption the data begin anew, so only the
longest stretch without one is looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.experiment import count_windows
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_metric
from pgtrial.findings.questions import Drift, Soak, SoakArm
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.observable import find_observable
from pgtrial.model.run import PhaseName, RunRow
from pgtrial.stats.trend import MOST, Trend, trend

Array = NDArray[np.float64]

# What a server that does not stay as it is shows by.
METRICS = (
    "pgbench.tps",
    "pgbench.latency_mean",
    "pgbench.latency_p99",
    "tables.bytes",
    "tables.indexes",
    "tables.dead",
    "vmstat.available",
    "cgroup.memory",
)
_EVERY = 10.0  # s between two readings of sizes
_HOUR = 3600.0
_SIZES = "tables."
_MATTERS = 0.1  # of a size, by which it has changed


def describe_soak(evidence: Evidence, values: Values, timelines: Sequence[Timeline]) -> Soak | None:
    """None where the experiment is no soak."""
    design = evidence.experiment.design
    if design.soak is None:
        return None
    stretches = {arm.name: found for arm in evidence.arms if (found := _stretches(evidence.runs_of(arm.name)))}
    # All that is said of all arms holds together.
    confidence = 1 - (1 - evidence.confidence) / (len(METRICS) * max(1, len(stretches)))
    return Soak(
        planned=count_windows(design),
        window=evidence.experiment.workload.duration,
        confidence=evidence.confidence,
        arms=tuple(_describe(name, found, values, timelines, confidence) for name, found in stretches.items()),
    )


def _stretches(runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Windows between which the server was neither restarted nor its data put back."""
    found: list[list[RunRow]] = []
    for run in runs:
        if not found or any(phase.name is PhaseName.RESTORE for phase in run.phases):
            found.append([])
        found[-1].append(run)
    return found


def _describe(
    name: str, stretches: Sequence[Sequence[RunRow]], values: Values, timelines: Sequence[Timeline], confidence: float
) -> SoakArm:
    stretch = _read(max(stretches, key=len), values, timelines)
    drifts = tuple(_drift(stretch, metric, confidence) for metric in METRICS if metric in stretch.by_window)
    return SoakArm(
        arm=name,
        windows=stretch.windows,
        done=sum(map(len, stretches)),
        stretches=len(stretches),
        hours=tuple(middle / _HOUR for middle in stretch.middles),
        drifts=drifts,
        text=tell_drifts(name, drifts),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Windows without a restart between them; ``middles`` in seconds since the first began, values by metric."""

    windows: tuple[int, ...]
    middles: tuple[float, ...]
    timelines: tuple[Timeline, ...]
    by_window: Mapping[str, tuple[float | None, ...]]


def _read(runs: Sequence[RunRow], values: Values, timelines: Sequence[Timeline]) -> _Stretch:
    by_run = {each.run: each for each in timelines}
    own = [by_run[run.id] for run in runs]
    found = {metric: tuple(values.get((run.id, metric, None, ALL)) for run in runs) for metric in METRICS}
    return _Stretch(
        windows=tuple(run.slot.block for run in runs),
        middles=tuple(each.started + each.seconds / 2 - own[0].started for each in own),
        timelines=tuple(own),
        by_window={metric: each for metric, each in found.items() if any(value is not None for value in each)},
    )


def _drift(stretch: _Stretch, metric: str, confidence: float) -> Drift:
    by_window = stretch.by_window[metric]
    step, series = _finer(metric, stretch.timelines)
    if series is None:  # a percentile is one of all transactions of a window
        step = (stretch.middles[-1] - stretch.middles[0]) / max(1, len(by_window) - 1)
        series = np.array([np.nan if value is None else value for value in by_window])
    found = trend(series, spacing=step / _HOUR, confidence=confidence) if step > 0 else None
    known = [value for value in by_window if value is not None]
    share = found.slope * step * series.size / _HOUR / known[0] if found is not None and known[0] else None
    is_size = metric.startswith(_SIZES)
    if is_size:
        share = known[-1] / known[0] - 1 if known[0] else None
    observable = find_observable(metric)
    return Drift(
        metric=metric,
        unit="" if observable is None else observable.metric.unit,
        values=by_window,
        per_hour=None if found is None else _estimate(found),
        share=share,
        grown=find_growth(known) if is_size else 0,
    )


def find_growth(known: Sequence[float]) -> int:
    """Whether a size has grown (1) or shrunk (-1): each window of the later half is beyond all of the earlier one.

    Sizes are facts, whatever a slope would say of what comes next; but two ends of a sawtooth, as of rows that die
    between two vacuums, say nothing.
    """
    early, late = known[: len(known) // 2], known[(len(known) + 1) // 2 :]
    if not early or not known[0] or abs(known[-1] / known[0] - 1) < _MATTERS:
        return 0
    return 1 if min(late) > max(early) else -1 if max(late) < min(early) else 0


def _finer(metric: str, timelines: Sequence[Timeline]) -> tuple[float, Array | None]:
    """Means of at most MOST equal stretches of time, none shorter than sizes are read, and their length in seconds.

    None of what has no series. NaN where nothing is known, as while the load reconnects.
    """
    ways: Mapping[str, str] = {"pgbench.tps": "tps", "pgbench.latency_mean": "latency"}
    seconds, known = list[float](), list[float]()
    for each in timelines:
        series = getattr(each, ways[metric]) if metric in ways else _total(each, metric)
        if series is not None:
            at = np.flatnonzero(np.isfinite(series))
            seconds += (each.started - timelines[0].started + at).tolist()
            known += series[at].tolist()
    if not known:
        return 0.0, None
    length = timelines[-1].started + timelines[-1].seconds - timelines[0].started
    step = max(_EVERY if metric.startswith(_SIZES) else 1.0, length / MOST)
    count = max(1, int(length // step))
    place = np.minimum((np.array(seconds) / step).astype(int), count - 1)
    sums, counts = np.bincount(place, known, count), np.bincount(place, minlength=count)
    with np.errstate(invalid="ignore"):
        return step, np.where(counts > 0, sums / counts, np.nan)


def _total(timeline: Timeline, metric: str) -> Array | None:
    """Of all objects together."""
    found = [timeline.series[metric, about] for about in timeline.objects(metric)]
    return np.sum(found, axis=0) if found else None


def _estimate(found: Trend) -> Estimate:
    low, high = (bound if np.isfinite(bound) else None for bound in (found.low, found.high))
    return Estimate(value=found.slope, low=low, high=high)


def tell_drifts(name: str, drifts: Sequence[Drift]) -> Message:
    """What surely drifts, or that nothing does."""
    told = tuple(_parts(drifts))
    return message("soak.drifts", arm=name, parts=told) if told else message("soak.stays", arm=name)


def _parts(drifts: Sequence[Drift]) -> Iterator[Message]:
    for each in drifts:
        side = 0 if each.per_hour is None else each.per_hour.side()
        if each.grown and each.share is not None:
            code = "soak.grew" if each.grown > 0 else "soak.shrank"
            yield message(code, metric=name_metric(each.metric), change=abs(each.share))
        elif side and each.share is not None and each.share * side > 0:
            code = "soak.rises" if side > 0 else "soak.falls"
            yield message(code, metric=name_metric(each.metric), change=abs(each.share))
