"""Data for the charts: the load curve, the time series of each run, latency distributions and heat maps."""

import math
from collections.abc import Iterator

import numpy as np

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, reported_scenarios
from pgtrial.analysis.reduction import Histogram, Reduction
from pgtrial.analysis.slices import windows
from pgtrial.findings.findings import CurvePoint, Distribution, LatencyMap, Series
from pgtrial.findings.record import ALL
from pgtrial.model.histogram import bucket_bounds, row_bounds
from pgtrial.model.metrics import LOADS, LoadMetrics
from pgtrial.model.run import RunRow
from pgtrial.stats.interval import mean_log_interval
from pgtrial.stats.quantiles import merge

MAX_DISTRIBUTION_POINTS = 150
MAX_COLUMNS = 100  # of a heat map, about; every load level begins with a column of its own

_CURVE = tuple(dict.fromkeys(metric for load in LOADS.values() for metric in (*load.shown, load.quantiles[2][0])))


def trace_curve(evidence: Evidence, values: Values) -> tuple[CurvePoint, ...]:
    """Geometric mean over the blocks with a t interval, per arm, load level and metric, all scenarios together.

    These intervals show how an arm varies from block to block; whether two arms differ is for the effects to say.
    """
    points = []
    for arm in evidence.arms:
        runs = evidence.runs_of(arm.name)
        for level in evidence.levels:
            for metric in _CURVE:
                keys = [(run.id, metric.name, None, level.index) for run in runs]
                found = [values[key] for key in keys if values.get(key, 0.0) > 0]
                if not found:
                    continue
                mean, low, high = mean_log_interval(found, confidence=evidence.confidence)
                points.append(
                    CurvePoint(
                        arm=arm.name,
                        load_level=level.index,
                        metric=metric.name,
                        value=mean,
                        low=low,
                        high=high,
                        blocks=len(found),
                    )
                )
    return tuple(points)


def trace_series(evidence: Evidence, reduction: Reduction) -> tuple[Series, ...]:
    """Throughput and latency of each valid run over its measured time.

    One value per second, or per so many seconds that a run has about 300. A bin without a transaction has a
    throughput of zero, which is true because the load was running, and no latency. A last bin that its window fills
    by less than half is left out. The time between two load levels is a gap. The time of a run of slices is what
    counts of them, put end to end.
    """
    return tuple(series for run in evidence.valid for series in _trace_run(evidence.load, reduction, run))


def _trace_run(load: LoadMetrics, reduction: Reduction, run: RunRow) -> Iterator[Series]:
    times: list[float] = []
    measured = windows(run)
    throughput, mean, p95 = load.shown
    points: dict[str, list[float | None]] = {metric.name: [] for metric in load.shown}
    for place, window in enumerate(measured):
        width = reduction.widths[run.id]
        bins = {bin_.index: bin_ for bin_ in reduction.bins.get((run.id, window.level), ())}
        begin = window.started - measured[0].started
        if run.slices:
            begin = sum(earlier.counted for earlier in measured[:place])
        elif place and begin > (end := measured[place - 1].ended - measured[0].started):
            times.append(round(end, 3))
            for values in points.values():
                values.append(None)
        for index in range(round(window.counted / width)):
            found = bins.get(index)
            times.append(round(begin + index * width, 3))
            length = min(width, window.counted - index * width)
            points[throughput.name].append((found.count if found else 0) / length)
            points[mean.name].append(found.latency_mean if found else None)
            points[p95.name].append(found.latency_p95 if found else None)
    for metric in load.shown:
        if times:
            yield Series(
                run=run.id,
                arm=run.slot.arm,
                block=run.slot.block,
                metric=metric.name,
                unit=metric.unit,
                t=tuple(times),
                value=tuple(points[metric.name]),
            )


def collect_distributions(evidence: Evidence, reduction: Reduction) -> tuple[Distribution, ...]:
    """Latency distributions per arm, scenario and load level, and over all levels, all transactions together."""
    found = []
    for arm in evidence.arms:
        runs = [run.id for run in evidence.runs_of(arm.name)]
        for scenario in reported_scenarios(evidence):
            levels: dict[int | str, tuple[int, ...]] = {
                ALL: tuple(level.index for level in evidence.levels),
                **{level.index: (level.index,) for level in evidence.levels},
            }
            for name, indexes in levels.items():
                cells = [(run, index, scenario) for run in runs for index in indexes]
                histograms = [reduction.histograms[cell] for cell in cells if cell in reduction.histograms]
                if histograms:
                    found.append(_distribution(histograms, arm=arm.name, scenario=scenario, level=name))
    return tuple(found)


def _distribution(histograms: list[Histogram], *, arm: str, scenario: str | None, level: int | str) -> Distribution:
    """Upper ends of at most 150 buckets, evenly thinned; the shares are exact at the ends that are kept."""
    buckets, counts = merge((histogram.buckets, histogram.counts) for histogram in histograms)
    shares = np.cumsum(counts) / counts.sum()
    kept = np.unique(np.linspace(0, len(buckets) - 1, min(len(buckets), MAX_DISTRIBUTION_POINTS)).round().astype(int))
    return Distribution(
        arm=arm,
        scenario=scenario,
        load_level=level,
        latency=tuple(bucket_bounds(bucket)[1] for bucket in buckets[kept].tolist()),
        share=tuple(shares[kept].tolist()),
    )


def map_latencies(evidence: Evidence, reduction: Reduction) -> tuple[LatencyMap, ...]:
    """One map for each arm with transactions, all its valid runs and all scenarios together."""
    found = (_map_arm(reduction, arm.name, evidence.runs_of(arm.name)) for arm in evidence.arms)
    return tuple(each for each in found if each is not None)


def _map_arm(reduction: Reduction, arm: str, runs: tuple[RunRow, ...]) -> LatencyMap | None:
    """Runs are laid on each other level by level; where a level begins is taken from the first run that has it."""
    known = [run for run in runs if any((run.id, window.level) in reduction.latency_rows for window in windows(run))]
    if not known:
        return None
    counted = max(sum(window.counted for window in windows(run)) for run in known)
    unit = max(reduction.widths[run.id] for run in known)  # of the bins; a column has whole ones, each the same number
    width = float(unit * math.ceil(counted / unit / MAX_COLUMNS))
    begins: dict[int, tuple[float, float]] = {}  # of each level, with its length
    cells: dict[tuple[int, int, int], int] = {}  # transactions by level, column in it, and row
    for run in known:
        for level, begin, length in _levels(run):
            first, longest = begins.get(level, (begin, length))
            begins[level] = first, max(longest, length)
            for index, row, count in reduction.latency_rows.get((run.id, level), np.empty((0, 3), np.int64)).tolist():
                column = int(index * reduction.widths[run.id] // width)
                cells[level, column, row] = cells.get((level, column, row), 0) + count
    rows = range(min(row for _, _, row in cells), max(row for _, _, row in cells) + 1)
    columns = sorted({(level, column) for level, column, _ in cells}, key=lambda each: (begins[each[0]][0], each[1]))
    starts = [begins[level][0] + column * width for level, column in columns]
    ends = [
        min(start + width, begins[level][0] + begins[level][1])
        for start, (level, _) in zip(starts, columns, strict=True)
    ]
    return LatencyMap(
        arm=arm,
        runs=len(known),
        latency=(row_bounds(rows[0])[0], *(row_bounds(row)[1] for row in rows)),
        start=tuple(round(start, 3) for start in starts),
        end=tuple(round(end, 3) for end in ends),
        counts=tuple(tuple(cells.get((level, column, row), 0) for row in rows) for level, column in columns),
    )


def _levels(run: RunRow) -> list[tuple[int, float, float]]:
    """(level, begin, length) of the measured windows, in seconds since the run's first measured second.

    As in the time series: the time of a run of slices is what counts of them, put end to end.
    """
    measured = windows(run)
    found, counted = [], 0.0
    for window in measured:
        begin = counted if run.slices else window.started - measured[0].started
        found.append((window.level, begin, window.counted))
        counted += window.counted
    return found
