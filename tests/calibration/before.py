"""How pgtrial judged before its statistics were audited: what the calibration holds today's ways against.

Each simulated machine is judged twice, by today's plan and rules and by these. What the product still does for folders
of that time it does here as well: by ``RULES``, intervals are Student's over the blocks, whatever the place of a run,
whoever failed, whatever an arm leaves behind and however often one looks, and two blocks decide. What no rules do any
more is written out, as it was at the commit that was audited, 8cc66a3.
"""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from calibration.trials import make_run
from pgtrial.analysis.causes.sessions import estimate_mean
from pgtrial.analysis.evidence import Evidence
from pgtrial.design.slices import Step, shuffled
from pgtrial.findings.causes import BudgetDifference
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import BudgetPart, LatencyBudget
from pgtrial.model import rules
from pgtrial.model.run import Slot
from pgtrial.stats.base import Comparison, Interval
from pgtrial.stats.interval import t_quantile
from pgtrial.stats.power import find_power

# Bounds are today's, so that one truth lies on those of both; line 11 of the table is about the others.
RULES = replace(rules.RULES[1], is_reciprocal=True)
SEED = 1  # of every experiment
SLICE, GUARD = 1.0, 0.1  # s
POWER, MOST_BLOCKS = 0.8, 1000
NAMED_PARTS, NAMED_SHARE = 2, 0.2
SURE = 0.95


def judged_as_before(evidence: Evidence) -> Evidence:
    """The experiment as it is planned today, judged as it was then: what is wrong, the order has no part in."""
    return replace(evidence, rules=RULES, is_provisional=False)


def planned_as_before(evidence: Evidence, *, seed: int = SEED) -> Evidence:
    """The experiment in the order that it had then, judged as then: a coin for each block, of the same seed for all."""
    rng, names = random.Random(seed), [arm.name for arm in evidence.arms]
    slots = slots_of([shuffled(names, rng) for _ in range(max(slot.block for slot in evidence.slots))])
    runs = tuple(make_run(slot) for slot in slots)
    return replace(judged_as_before(evidence), slots=slots, runs=runs, valid=runs)


def slots_of(orders: Sequence[Sequence[str]]) -> tuple[Slot, ...]:
    """One block of each order."""
    return tuple(
        Slot(number=(block - 1) * len(order) + position, block=block, position=position, arm=name)
        for block, order in enumerate(orders, start=1)
        for position, name in enumerate(order, start=1)
    )


def turns_before(evidence: Evidence, block: int) -> tuple[Step, ...]:
    """The slices of two arms in a block: rounds of ABBA or BAAB, and a guard of a tenth of a slice."""
    rng, names = random.Random(f"{SEED}/{block}/0"), [arm.name for arm in evidence.arms]
    seconds = evidence.experiment.workload.duration * SLICE / (SLICE - GUARD)
    rounds = (shuffled(names, rng) for _ in range(max(1, round(seconds / SLICE / 2))))
    return tuple(
        Step(arms=(name,), length=SLICE, guard=GUARD) for one, other in rounds for name in (one, other, other, one)
    )


def blocks_needed_before(comparison: Comparison, *, bound: float) -> int | None:
    """Further blocks that decide on which side of a log bound the effect lies, with a probability of POWER if the truth
    is what was observed; None where MOST_BLOCKS would not do.
    """
    assert comparison.ratio is not None
    assert comparison.sd_log_ratio is not None
    away = abs(math.log(comparison.ratio) - bound) / comparison.sd_log_ratio

    def is_enough(blocks: int) -> bool:
        return find_power(away * math.sqrt(blocks), degrees=blocks - 1, alpha=comparison.alpha) >= POWER

    low, high = comparison.blocks, MOST_BLOCKS
    if not is_enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high - comparison.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledBefore:
    interval: Interval
    prediction: Interval


def combine_before(effects: ArrayLike, errors: ArrayLike) -> PooledBefore:
    """Mean of experiments by random effects, and where the next one is to be expected, in the unit of the effects.

    effects, errors : (k,), k >= 3. The variance between experiments is that of Paule and Mandel, weights go by it and
    by the estimated errors as if these were known; intervals are those of Hartung, Knapp, Sidik and Jonkman, never
    narrower than without their factor, and of Higgins, Thompson and Spiegelhalter.
    """
    y, v = np.asarray(effects, dtype=np.float64), np.asarray(errors, dtype=np.float64) ** 2
    degrees = y.size - 1

    def pool(tau2: float) -> tuple[float, float, float]:
        """Mean, sum of the weights, and weighted sum of squares around the mean."""
        weights = 1 / (v + tau2)
        mean = float(weights @ y / weights.sum())
        return mean, float(weights.sum()), float(weights @ (y - mean) ** 2)

    tau2 = 0.0
    if pool(0.0)[2] > degrees:
        tau2 = float(brentq(lambda t: pool(t)[2] - degrees, 0.0, float(((y - y.mean()) ** 2).sum()) + 1e-12))
    mean, weight, squares = pool(tau2)
    error = math.sqrt(max(1.0, squares / degrees) / weight)
    return PooledBefore(
        interval=_around(mean, error, degrees), prediction=_around(mean, math.sqrt(tau2 + error**2), degrees - 1)
    )


def _around(mean: float, error: float, degrees: int) -> Interval:
    half = t_quantile(0.975, degrees) * error
    return Interval(low=mean - half, high=mean + half, confidence=0.95)


def parts_named_before(split: BudgetDifference) -> tuple[BudgetPart, ...]:
    """Parts of a difference of latencies that the text named: the largest of those that go the same way, whatever their
    intervals say, where the whole excludes zero.
    """
    whole = split.difference
    if whole.side() == 0:
        return ()
    return tuple(part for part in split.parts if part.seconds.value / whole.value >= NAMED_SHARE)[:NAMED_PARTS]


def mean_before(of_runs: Iterable[LatencyBudget], arm: str, part: BudgetPart) -> Estimate:
    """A part of an arm's latency with Student's interval over its runs, as if sampling had no error beside theirs."""
    values = [
        sum(each.seconds.value for each in run.parts if (each.kind, each.event) == (part.kind, part.event))
        for run in of_runs
        if run.arm == arm
    ]
    found = estimate_mean(values, confidence=0.95)
    assert found is not None
    return found


def was_sure(best_shares: Sequence[float]) -> bool:
    """Whether the best arm was called surely so: it is the best in so many draws, whatever its interval says."""
    return max(best_shares) >= SURE
