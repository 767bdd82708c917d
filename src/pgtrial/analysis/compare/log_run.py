"""What one run's log says: throughput and latencies, each with the error of this run's own level."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.comparison_findings import LogDistribution, LogRun, LogSeries, Value
from pgtrial.analysis.metrics import LATENCY_MEAN, QUANTILES, TPS
from pgtrial.model.histogram import bucket_bounds, bucket_value
from pgtrial.stats.bootstrap import FEWEST_STRETCHES, draw_weights, known_from_draws, stretch_length
from pgtrial.stats.interval import Known, t_quantile
from pgtrial.stats.quantiles import histogram_quantile
from pgtrial.stats.trend import trend
from pgtrial.store.plain_run import PlainRun

Array = NDArray[np.float64]

FEWEST_SECONDS = 60  # of a log, for an interval
FEWEST_BEYOND = 50  # transactions slower than a percentile, for an interval of it
TREND_CONFIDENCE = 0.99
MOST_TREND = 0.05  # change of throughput over the log that is small enough to speak of one level
MOST_POINTS = 400  # of a series in the chart
_MOST_SHARES = 150  # points of a distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """``values`` are metric to value, ``known`` the logarithms of those with an error; ``trend`` the relative change of
    throughput over the whole log, None where there is none to speak of. ``stretch`` in seconds.
    """

    run: PlainRun
    values: Mapping[str, float]
    known: Mapping[str, Known]
    stretch: float | None
    trend: float | None

    @property
    def has_interval(self) -> bool:
        return bool(self.known)


def measure_run(run: PlainRun, *, rng: np.random.Generator) -> MeasuredRun:
    """Values of a run; an error only where its log can tell it.

    It can if it is FEWEST_SECONDS long, holds FEWEST_STRETCHES stretches of the length that its noise asks for, and its
    throughput has no trend by which it changes by more than MOST_TREND: what moves has no one level to be sure of.
    """
    values = _values(run)
    moved = _moved(run)
    length = max(1, math.ceil(max(stretch_length(run.counts), _latency_length(run))))
    is_long = run.seconds >= FEWEST_SECONDS and run.counts.size >= FEWEST_STRETCHES * length
    known = _bootstrap(run, values, length=length, rng=rng) if is_long and moved is None else {}
    return MeasuredRun(
        run=run,
        values=values,
        known=known,
        stretch=length * run.width if known else None,
        trend=moved,
    )


def _values(run: PlainRun) -> dict[str, float]:
    """Metric to value, of those that the log tells: no percentiles of an aggregated one."""
    total = float(run.counts.sum())
    found = {TPS.name: total / run.seconds / run.logged_share}
    if total > 0:
        found[LATENCY_MEAN.name] = float(run.latencies.sum()) / total
    sums = run.histogram.sum(axis=0).astype(np.int64)
    for metric, q in QUANTILES:
        value = histogram_quantile(run.buckets, sums, q)
        if value is not None:
            found[metric.name] = value
    return found


def _bootstrap(
    run: PlainRun, values: Mapping[str, float], *, length: int, rng: np.random.Generator
) -> dict[str, Known]:
    """Logarithms of the values with their errors."""
    weights = draw_weights(run.counts.size, length, rng=rng)
    totals = weights @ run.counts
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = {TPS.name: np.log(totals), LATENCY_MEAN.name: np.log(weights @ run.latencies) - np.log(totals)}
        # Only differences between draws matter, so that constant factors may be left out.
        drawn |= _drawn_quantiles(run, weights)
    found = {}
    for metric, logs in drawn.items():
        if values.get(metric, 0.0) > 0:
            known = known_from_draws(math.log(values[metric]), logs, count=run.counts.size, length=length)
            if known is not None:
                found[metric] = known
    return found


def _drawn_quantiles(run: PlainRun, weights: Array) -> dict[str, Array]:
    """Logarithms of the quantiles of each draw, interpolated between buckets on the log scale."""
    if not run.buckets.size:
        return {}
    places = np.log([bucket_value(bucket) for bucket in run.buckets.tolist()])
    ends = np.cumsum(weights @ run.histogram, axis=1)
    found = {}
    for metric, q in QUANTILES:
        if float(run.histogram.sum()) * (1 - q) < FEWEST_BEYOND:
            continue
        ranks = q * ends[:, -1]
        after = np.minimum((ends < ranks[:, None]).sum(axis=1), places.size - 1)
        before = np.where(after > 0, ends[np.arange(len(ends)), np.maximum(after - 1, 0)], 0.0)
        inside = ends[np.arange(len(ends)), after] - before
        share = np.divide(ranks - before, inside, out=np.zeros_like(ranks), where=inside > 0)
        lower = np.where(after > 0, places[np.maximum(after - 1, 0)], places[0])
        found[metric.name] = lower + share * (places[after] - lower)
    return found


def _latency_length(run: PlainRun) -> float:
    """Stretches that keep what neighbouring latencies have in common; of bins with transactions."""
    busy = run.counts > 0
    return stretch_length(run.latencies[busy] / run.counts[busy]) if busy.any() else 1.0


def _moved(run: PlainRun) -> float | None:
    """Relative change of throughput over the log, where it is sure and not small."""
    found = trend(run.counts, spacing=run.width, confidence=TREND_CONFIDENCE)
    level = float(run.counts.mean())
    if found is None or level <= 0 or found.low <= 0 <= found.high:
        return None
    change = found.slope * run.seconds / level
    return change if abs(change) > MOST_TREND else None


def describe_run(measured: MeasuredRun, *, confidence: float) -> LogRun:
    run = measured.run
    return LogRun(
        name=run.name,
        files=run.files,
        is_aggregated=run.is_aggregated,
        started=run.started,
        seconds=run.seconds,
        transactions=float(run.counts.sum()),
        failed=run.failed,
        skipped=run.skipped,
        clients=run.clients,
        scripts=run.scripts,
        has_rate=run.has_rate,
        logged_share=run.logged_share,
        stretch=measured.stretch,
        values=tuple(
            as_value(metric, math.log(value) if value > 0 else None, measured.known.get(metric), confidence=confidence)
            for metric, value in measured.values.items()
        ),
    )


def as_value(metric: str, log_value: float | None, known: Known | None, *, confidence: float) -> Value:
    """A value from its logarithm, with the interval that its error gives."""
    if log_value is None:
        return Value(metric=metric, value=0.0, low=None, high=None)
    if known is None:
        return Value(metric=metric, value=math.exp(log_value), low=None, high=None)
    half = t_quantile((1 + confidence) / 2, known.degrees) * known.error
    return Value(
        metric=metric,
        value=math.exp(log_value),
        low=math.exp(known.mean - half),
        high=math.exp(known.mean + half),
    )


def trace_run(run: PlainRun) -> LogSeries:
    """Throughput over the time of a run, at most MOST_POINTS points; what is left over at the end is left out."""
    step = max(1, math.ceil(run.counts.size / MOST_POINTS))
    groups = run.counts[: run.counts.size // step * step].reshape(-1, step)
    rates = groups.sum(axis=1) / (step * run.width) / run.logged_share
    return LogSeries(
        run=run.name,
        t=tuple(float(place * step * run.width) for place in range(len(groups))),
        tps=tuple(rates.tolist()),
    )


def describe_distribution(runs: tuple[PlainRun, ...]) -> LogDistribution | None:
    """Latencies of all runs together; None of aggregated logs."""
    counts: dict[int, float] = {}
    for run in runs:
        for bucket, number in zip(run.buckets.tolist(), run.histogram.sum(axis=0).tolist(), strict=True):
            counts[bucket] = counts.get(bucket, 0.0) + number
    total = sum(counts.values())
    if total <= 0:
        return None
    buckets = sorted(counts)
    shares = np.cumsum([counts[bucket] for bucket in buckets]) / total
    kept = np.unique(np.linspace(0, len(buckets) - 1, min(len(buckets), _MOST_SHARES)).round().astype(int))
    return LogDistribution(
        latency=tuple(bucket_bounds(buckets[place])[1] for place in kept.tolist()),
        share=tuple(shares[kept].tolist()),
    )
