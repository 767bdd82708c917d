"""The numbers that arms are scored by: one per criterion, arm and block."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import ALL, Values
from pgtrial.experiment_file.criteria import (
    CRITERIA,
    FILE_LATENCY_P99,
    FILE_REQUESTS,
    LATENCY_P99,
    LOWEST,
    THROUGHPUT,
    VARIATION,
    Criterion,
)
from pgtrial.model.metric import Better

Array = NDArray[np.float64]

_DEFAULT = (THROUGHPUT, LATENCY_P99, LOWEST, VARIATION)
_DEFAULT_OF_FILES = (FILE_REQUESTS, FILE_LATENCY_P99, LOWEST, VARIATION)


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
    *,
    criterion: Criterion,
    arms: Sequence[str],
    blocks: Sequence[int],
) -> Array:
    """(arms, blocks) over all load levels, at least the criterion's floor; NaN where it was not measured.

    Of zero, which a run may count where the criterion has no floor (CPU time in ticks of a clock), there is no ratio:
    it is NaN, too.
    """
    runs = {(run.slot.arm, run.slot.block): run.id for run in evidence.valid}
    found = np.full((len(arms), len(blocks)), np.nan)
    for row, arm in enumerate(arms):
        for column, block in enumerate(blocks):
            run = runs.get((arm, block))
            value = None if run is None else values.get((run, criterion.metric, None, ALL))
            if value is not None and max(value, criterion.floor) > 0:
                found[row, column] = max(value, criterion.floor)
    return found
