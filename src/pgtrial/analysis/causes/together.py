"""Intervals of several differences that hold together: what sentences about arms are asserted by.

A sentence picks, of many parts, limits or criteria, those that stand out. So their intervals share the error
probability (Bonferroni), with those of the other arms, of all looks of a rule for stopping, and of whoever looks before
the last block; and as many blocks are needed as for a claim. ``Estimate.side`` says which of them exclude "no
difference"; nothing else asserts one.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.estimate import compare_when_due
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import NO_SPREAD


def estimate_difference(
    evidence: Evidence,
    differences: Sequence[float] | NDArray[np.float64],
    *,
    members: int,
    after: Sequence[bool] | None = None,
    blocks: Sequence[int] | None = None,
) -> Estimate:
    """Mean of the differences of the blocks, with an interval that holds for ``members`` statements of each arm.

    differences : (n >= 1,), arm less control, one per block in which it is known. after : (n,), whether the arm ran
    after the control, for the effect of the place in the block to be taken out. ``blocks``: (n,), their numbers, for
    the hosts on which they ran. No interval with fewer blocks than decide a claim, nor where all agree exactly.
    """
    values: NDArray[np.float64] = np.asarray(differences, dtype=np.float64)
    mean, size = math.fsum(values) / values.size, float(np.abs(values).max())
    if size == 0 or np.ptp(values) <= NO_SPREAD * size:
        return Estimate(value=mean)
    # In units of the largest one they are logarithms as those of any ratio.
    comparison = compare_when_due(
        *(evidence, np.ones(values.size), np.exp(values / size)),
        comparisons=evidence.comparisons * members,
        after=after,
        blocks=blocks,
    )
    if comparison.hosts is not None and comparison.ratio is not None:
        mean = size * math.log(comparison.ratio)
    is_enough = comparison.blocks >= evidence.rules.fewest_blocks
    if not is_enough or comparison.low is None or comparison.high is None:
        return Estimate(value=mean)
    return Estimate(value=mean, low=size * math.log(comparison.low), high=size * math.log(comparison.high))
