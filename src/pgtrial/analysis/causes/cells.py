"""The second-by-second series of an arm at a load level, all its runs together."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.metrics import LOADS, PGBENCH
from pgtrial.analysis.timeline import Timeline
from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, t_interval

Array = NDArray[np.float64]

THROUGHPUT = PGBENCH.throughput.name
THROUGHPUTS = frozenset(load.throughput.name for load in LOADS.values())
# What is a mean over the requests of a second, and the metric with the number of these.
_REQUESTS: Mapping[str, str] = {
    **{f"iostat.{kind}_await": f"iostat.{kind}" for kind in "rwdf"},
    "iostat.rareq": "iostat.r",
    "iostat.wareq": "iostat.w",
}
LATENCIES = frozenset(load.latency_mean.name for load in LOADS.values())


def group_cells(timelines: Iterable[Timeline]) -> Mapping[tuple[str, int], tuple[Timeline, ...]]:
    """Timelines by (arm, load level), arms in the order in which they come first, levels ascending."""
    found: dict[tuple[str, int], list[Timeline]] = {}
    for timeline in timelines:
        found.setdefault((timeline.arm, timeline.level), []).append(timeline)
    arms = list(dict.fromkeys(arm for arm, _ in found))
    return {key: tuple(found[key]) for key in sorted(found, key=lambda key: (arms.index(key[0]), key[1]))}


def find_series(timeline: Timeline, metric: str, about: str = "") -> Array | None:
    """Values of a metric, with throughput and mean latency of the load among them."""
    if metric in THROUGHPUTS:
        return timeline.tps
    return timeline.latency if metric in LATENCIES else timeline.get(metric, about)


def find_objects(timelines: Iterable[Timeline], metric: str) -> tuple[str, ...]:
    """All objects of a metric in any of the timelines, sorted; ("",) where it has none of its own."""
    if metric in THROUGHPUTS or metric in LATENCIES:
        return ("",)
    return tuple(sorted({about for timeline in timelines for name, about in timeline.series if name == metric}))


def pooled_values(timelines: Iterable[Timeline], metric: str, about: str = "") -> Array:
    """(seconds,) what is known of a metric in all timelines together."""
    found = [series for each in timelines if (series := find_series(each, metric, about)) is not None]
    together = np.concatenate(found) if found else np.empty(0)
    return together[~np.isnan(together)]


def undisturbed_values(timelines: Iterable[Timeline], metric: str, about: str = "", *, steal: float) -> Array:
    """A metric second by second, all timelines one after the other with a NaN between them.

    NaN are also the seconds in which the hypervisor took more than ``steal`` of the CPU time: what is done then is too
    little, and in the next second too much. Where those are most seconds, all are left in.
    """
    parts: list[Array] = []
    for each in timelines:
        series = find_series(each, metric, about)
        if series is None:
            continue
        taken = each.get("vmstat.st")
        is_disturbed = np.zeros(series.size, dtype=np.bool_) if taken is None else np.nan_to_num(taken) > steal
        mostly = np.count_nonzero(is_disturbed) > series.size / 2
        parts += [series if mostly else np.where(is_disturbed, np.nan, series), np.array([np.nan])]
    return np.concatenate(parts) if parts else np.empty(0)


def pooled_mean(timelines: Iterable[Timeline], metric: str, about: str = "") -> float | None:
    """Mean of a metric over all seconds in which it is known; None where it never is.

    Of what is told of each request, such as its time, it is the mean over requests, as iostat's of the whole time: a
    second with a thousand of them counts for a thousand times as much as one with a single one.
    """
    cell, beside = tuple(timelines), _REQUESTS.get(metric)
    if beside is not None:
        mean = _mean_over_requests(cell, metric, beside, about)
        if mean is not None:
            return mean
    values = pooled_values(cell, metric, about)
    return float(values.mean()) if values.size else None


def _mean_over_requests(cell: Sequence[Timeline], metric: str, beside: str, about: str) -> float | None:
    """``beside`` is the metric with the number of requests; None where no second is known to have any."""
    found = [(each.get(metric, about), each.get(beside, about)) for each in cell]
    pairs = [np.stack((value, number)) for value, number in found if value is not None and number is not None]
    of_each, requests = np.concatenate([np.empty((2, 0)), *pairs], axis=1)
    known = ~np.isnan(of_each) & (requests > 0)
    if not known.any():
        return None
    least = of_each[known].min()  # taken off, so that rounding makes no difference of equal values
    return float(least + (of_each[known] - least) @ requests[known] / requests[known].sum())


def rank_objects(timelines: Sequence[Timeline], metric: str) -> tuple[tuple[str, float], ...]:
    """(object, mean) of a metric, the largest first, those above zero."""
    means = [(about, pooled_mean(timelines, metric, about) or 0.0) for about in find_objects(timelines, metric)]
    return tuple(sorted((each for each in means if each[1] > 0), key=lambda each: (-each[1], each[0])))


def estimate_mean(values: Iterable[float | None], *, confidence: float) -> Estimate | None:
    """Mean of one number per block with Student's t interval; None where there is no number.

    No interval with fewer than two blocks, nor where all agree exactly, so that their noise is not known.
    """
    known = [value for value in values if value is not None and np.isfinite(value)]
    if not known:
        return None
    if len(known) == 1:
        return Estimate(value=known[0])
    mean, sd = mean_and_sd(known)
    if sd <= NO_SPREAD * max(map(abs, known)):
        return Estimate(value=mean)
    interval = t_interval(mean, sd, len(known), confidence=confidence)
    return Estimate(value=mean, low=interval.low, high=interval.high)
