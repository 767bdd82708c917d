"""Power: what a number of blocks can detect. The only module that uses the noncentral t distribution.

Sources: Cohen, "Statistical Power Analysis for the Behavioral Sciences" (1988), chapter 2; Owen, Biometrika 52 (1965)
437-446 and Phillips, J. Pharmacokinet. Biopharm. 18 (1990) 137-144 for the power of two one-sided tests.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, ndtr

from pgtrial.model.metric import Better
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import claim_bound, decide, judge, log_bounds
from pgtrial.stats.interval import NO_SPREAD, t_interval, t_quantile

# No knob changes throughput by more; a detectable effect beyond it is none.
LARGEST = 1000.0
# Gauss-Legendre nodes and weights on (0, 1), to integrate over the standard deviation that will be observed.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(96))
_NODES = _NODES + 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """``blocks`` further blocks; None with ``reachable`` if already decided, None without it if out of reach."""

    blocks: int | None
    reachable: bool


def find_power(shift: float, *, degrees: float, alpha: float) -> float:
    """Probability that a two-sided t test at ``alpha`` rejects, on either side; shift: effect / standard error."""
    cut = t_quantile(1 - alpha / 2, degrees)
    return _beyond(shift, cut, degrees) + _beyond(-shift, cut, degrees)


def find_equivalence_power(lower: float, upper: float, *, degrees: float, alpha: float) -> float:
    """Probability that two one-sided t tests at ``alpha`` both reject.

    ``lower`` < 0 < ``upper`` are (bound - effect) / standard error. The mean is normal and independent of the
    observed standard deviation, over whose distribution is integrated.
    """
    cut = t_quantile(1 - alpha, degrees)
    # No room is left between the bounds from this observed standard deviation on; the true one is 1.
    return _integrate(
        0.0, (upper - lower) / (2 * cut), degrees, lambda x: ndtr(upper - cut * x) - ndtr(lower + cut * x)
    )


def detectable_ratio(
    sd_log: float | None, blocks: int, *, confidence: float = 0.95, power: float = 0.8, comparisons: int = 1
) -> float | None:
    """Smallest relative change (0.05 is +5 %) that ``blocks`` blocks detect with probability ``power``.

    sd_log : standard deviation between blocks of the log ratio. None when it is not known or zero, with fewer than
    two blocks, and when not even a factor of LARGEST would be found. The same distance on the log scale downwards is a
    decrease by 1 - 1/(1 + change).
    """
    if sd_log is None or sd_log <= NO_SPREAD or blocks < 2:
        return None
    alpha = (1 - confidence) / comparisons
    distance = _detectable_shift(blocks - 1, alpha, power) * sd_log / math.sqrt(blocks)
    return math.expm1(distance) if distance <= math.log(LARGEST) else None


@cache
def _detectable_shift(degrees: int, alpha: float, power: float) -> float:
    """In standard errors, whatever these are: experiments with as many blocks have the same."""
    low, high = 0.0, 1.0
    while find_power(high, degrees=degrees, alpha=alpha) < power:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if find_power(middle, degrees=degrees, alpha=alpha) < power:
            low = middle
        else:
            high = middle
    return high


def blocks_needed(
    comparison: Comparison,
    *,
    expect: str | None = None,
    margin: float,
    better: Better,
    power: float = 0.8,
    comparisons: int | None = None,
    cap: int = 1000,
) -> Needed:
    """Further blocks until a decision is reached with probability ``power``, if the truth is what was observed.

    With ``expect`` the decision is the verdict on that claim, without it the region rule of ``decide``.
    ``comparisons``: default as in the comparison. ``cap`` limits the blocks altogether. Out of reach: no interval,
    an estimate so close to a bound that ``cap`` blocks do not tell the sides apart, or nothing that could be decided.
    A forecast from few blocks is rough: their standard deviation is itself an estimate.
    """
    if expect is None:
        decided = decide(comparison, margin=margin, better=better) is not Decision.INCONCLUSIVE
    else:
        decided = judge(comparison, expect=expect, margin=margin, better=better) is not Verdict.INCONCLUSIVE
    if decided:
        return Needed(blocks=None, reachable=True)
    if comparison.ratio is None or comparison.sd_log_ratio is None or comparison.sd_log_ratio <= NO_SPREAD:
        return Needed(blocks=None, reachable=False)
    mean, sd = math.log(comparison.ratio), comparison.sd_log_ratio
    alpha = (1 - comparison.confidence) / (comparisons or comparison.comparisons)

    def is_enough(blocks: int) -> bool:
        error = sd / math.sqrt(blocks)
        found = _decision_power(
            mean, error, degrees=blocks - 1, alpha=alpha, expect=expect, margin=margin, better=better
        )
        return found >= power

    # The power of reaching a decision grows with the blocks: double until enough, then halve the step.
    low, high = comparison.blocks, comparison.blocks + 1
    while high < cap and not is_enough(high):
        low, high = high, min(2 * high, cap)
    if high > cap or not is_enough(high):
        return Needed(blocks=None, reachable=False)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return Needed(blocks=high - comparison.blocks, reachable=True)


def _decision_power(
    mean: float, error: float, *, degrees: int, alpha: float, expect: str | None, margin: float, better: Better
) -> float:
    if expect not in (None, "equivalent", "different"):
        claim = claim_bound(expect, margin=margin, better=better)
        return 0.0 if claim is None else find_power((mean - claim[0]) / error, degrees=degrees, alpha=alpha)
    lower, upper = ((bound - mean) / error for bound in log_bounds(margin))
    inside = find_equivalence_power(lower, upper, degrees=degrees, alpha=alpha)
    if expect is None and better is Better.NEITHER:
        return inside
    cut = t_quantile(1 - alpha / 2, degrees)
    return inside + _beyond(-upper, cut, degrees) + _beyond(lower, cut, degrees)


def _beyond(shift: float, cut: float, degrees: float) -> float:
    """P(T > cut) of the noncentral t with noncentrality ``shift``; cut > 0.

    Integrated here because scipy's nctdtr (1.17) gives NaN for many negative and some large noncentralities. The
    integrand is one before ``start`` and zero after ``end``.
    """
    start, end = max(0.0, (shift - 9) / cut), (shift + 9) / cut
    certain = float(gammainc(degrees / 2, degrees * start**2 / 2))
    return certain + _integrate(start, end, degrees, lambda x: ndtr(shift - cut * x))


def _integrate(
    start: float, end: float, degrees: float, integrand: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> float:
    """Expectation of ``integrand`` between ``start`` and ``end`` over observed / true standard deviation.

    Its density, that of sqrt(chi-squared / degrees), is nothing ten of its own standard deviations away from 1.
    """
    reach = 10 / math.sqrt(2 * degrees)
    start, end = max(start, 1 - reach), min(end, 1 + reach)
    if end <= start:
        return 0.0
    x = start + (end - start) * _NODES
    half = degrees / 2
    log_density = math.log(2) + half * math.log(half) - gammaln(half) + (degrees - 1) * np.log(x) - half * x**2
    return (end - start) * float(np.sum(_WEIGHTS * np.exp(log_density) * integrand(x)))


# How long until an experiment that looks as it goes will end: the first look that is enough for its purpose.


# (number of blocks, confidence of its intervals as nominal_confidence gives it) of a look
Look = tuple[int, float]


def blocks_to_decision(
    comparison: Comparison,
    *,
    looks: Sequence[Look],
    expect: str,
    margin: float,
    better: Better,
    power: float = 0.8,
) -> Needed:
    """Further blocks to the first of ``looks`` that decides the claim with probability ``power``.

    looks : those still to come, in order. It takes the observed effect and standard deviation for the true ones, and
    the blocks that are done for blocks that could still come out otherwise: a rough number, the more so the fewer
    blocks there are. Out of reach: no look is enough.
    """
    for blocks, confidence in looks:
        needed = blocks_needed(
            replace(comparison, confidence=confidence),
            expect=expect,
            margin=margin,
            better=better,
            power=power,
            cap=blocks,
        )
        # Reachable without a number of blocks: what is there would be enough at this look's level.
        if needed.reachable and comparison.blocks + (needed.blocks or 0) <= blocks:
            return Needed(blocks=blocks - comparison.blocks, reachable=True)
    return Needed(blocks=None, reachable=False)


def blocks_to_precision(
    sd_log: float | None, *, blocks: int, looks: Sequence[int], confidence: float, half_width: float
) -> Needed:
    """Further blocks to the first of ``looks`` at which half the interval, on the log scale, is ``half_width``.

    sd_log : standard deviation between blocks of the log ratio after ``blocks`` blocks, taken for the true one. Out of
    reach when it is not known or zero, or when no look is enough.
    """
    if sd_log is None or sd_log <= NO_SPREAD:
        return Needed(blocks=None, reachable=False)
    for look in looks:
        if t_interval(0.0, sd_log, look, confidence=confidence).high <= half_width:
            return Needed(blocks=look - blocks, reachable=True)
    return Needed(blocks=None, reachable=False)


def half_width(comparison: Comparison) -> float | None:
    """Half the interval on the log scale; None without an interval."""
    if comparison.low is None or comparison.high is None:
        return None
    return (math.log(comparison.high) - math.log(comparison.low)) / 2
