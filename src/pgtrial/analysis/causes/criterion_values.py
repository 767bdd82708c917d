"""The numbers that arms are scored by: one per criterion, arm and block."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import ALL, Values
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.criteria import (
    CRITERIA,
    DIP_SHARE,
    FILE_LATENCY_P99,
    FILE_REQUESTS,
    LATENCY_P99,
    LOWEST,
    STALLED,
    SWAP_GROWTH,
    THROUGHPUT,
    VARIATION,
    Criterion,
)
from pgtrial.model.metric import Better
from pgtrial.stats.dips import Steadiness, find_dips

Array = NDArray[np.float64]

_DEFAULT = (THROUGHPUT, LATENCY_P99, LOWEST, VARIATION)
_DEFAULT_OF_FILES = (FILE_REQUESTS, FILE_LATENCY_P99, LOWEST, VARIATION)

_OF_STEADINESS: Mapping[str, Callable[[Steadiness], float]] = {
    LOWEST: lambda steadiness: steadiness.lowest,
    VARIATION: lambda steadiness: steadiness.coefficient_of_variation,
    DIP_SHARE: lambda steadiness: steadiness.dip_share,
    STALLED: lambda steadiness: steadiness.stalled_share,
}
_EDGE = 10  # s at both ends of a load level, whose medians are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """A criterion with the weight and direction that the file gives it."""

    criterion: Criterion
    better: Better
    weight: float


def chosen_criteria(evidence: Evidence) -> tuple[Weighted, ...]:
    """Those that the file declares; else throughput, latency p99 and how even throughput is, with equal weights."""
    declared = evidence.experiment.criteria
    if declared:
        return tuple(
            Weighted(
                criterion=CRITERIA[each.metric],
                better=Better(each.better) if each.better else CRITERIA[each.metric].better,
                weight=each.weight,
            )
            for each in declared
            if each.metric in CRITERIA
        )
    names = _DEFAULT_OF_FILES if evidence.is_on_files else _DEFAULT
    return tuple(Weighted(criterion=CRITERIA[name], better=CRITERIA[name].better, weight=1.0) for name in names)


def read_criterion(
    evidence: Evidence,
    values: Values,
    timelines: Sequence[Timeline],
    *,
    criterion: Criterion,
    arms: Sequence[str],
    blocks: Sequence[int],
) -> Array:
    """(arms, blocks) over all load levels, at least the criterion's floor; NaN where it was not measured."""
    runs = {(run.slot.arm, run.slot.block): run.id for run in evidence.valid}
    found = np.full((len(arms), len(blocks)), np.nan)
    for row, arm in enumerate(arms):
        for column, block in enumerate(blocks):
            run = runs.get((arm, block))
            value = None if run is None else _of_run(evidence, values, timelines, criterion=criterion, run=run)
            if value is not None:
                found[row, column] = max(value, criterion.floor)
    return found


def _of_run(
    evidence: Evidence, values: Values, timelines: Sequence[Timeline], *, criterion: Criterion, run: int
) -> float | None:
    steady = _OF_STEADINESS.get(criterion.metric)
    if steady is None and criterion.metric != SWAP_GROWTH:
        return values.get((run, criterion.metric, None, ALL))
    mine = [each for each in timelines if each.run == run]
    if steady is None:
        grown = [find_swap_growth(each) for each in mine]
        known = [value for value in grown if value is not None]
        return sum(known) if len(known) == len(evidence.levels) else None
    found = [steadiness for each in mine if (steadiness := find_dips(each.tps)) is not None]
    if not found or len(found) < len(evidence.levels):
        return None
    return _geometric_mean((steady(each) for each in found), floor=criterion.floor)


def find_swap_growth(timeline: Timeline) -> float | None:
    """Bytes that the swap in use grew by, from the first seconds to the last; a decrease is no growth."""
    used = timeline.get("vmstat.swpd")
    known = used[~np.isnan(used)] if used is not None else np.empty(0)
    if known.size < 2:
        return None
    edge = min(_EDGE, known.size // 2)
    return max(0.0, float(np.median(known[-edge:]) - np.median(known[:edge])))


def _geometric_mean(numbers: Iterable[float], *, floor: float) -> float:
    logs = [math.log(max(number, floor)) for number in numbers]
    return math.exp(sum(logs) / len(logs))
