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
from scipy.special import chdtri, gammainc, gammaln, ndtr, ndtri

from pgtrial.model.metric import Better
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import Bounds, claim_bound, decide, judge
from pgtrial.stats.interval import NO_SPREAD, t_interval, t_quantile

Array = NDArray[np.float64]

# No knob changes throughput by more; a detectable effect beyond it is none.
LARGEST = 1000.0
# Gauss-Legendre nodes and weights on (0, 1), to integrate over the standard deviation that will be observed.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(96))
_NODES = _NODES + 0.5
_TRUTHS = (np.arange(12) + 0.5) / 12  # probabilities that stand for a posterior distribution
_SPREAD_OF_TRUTHS = 0.1  # of them need fewer blocks than ``Needed.low``, and as many more than ``high``


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreBlocks:
    """``blocks`` further blocks; None with ``reachable`` if already decided, None without it if out of reach.

    ``low`` and ``high``: what four of five truths that go with the data would need lies between; None: out of reach.
    """

    blocks: int | None
    reachable: bool
    low: int | None = None
    high: int | None = None


def find_power(shift: float, *, degrees: float, alpha: float) -> float:
    """Probability that a two-sided t test at ``alpha`` rejects, on either side; shift: effect / standard error."""
    cut = t_quantile(1 - alpha / 2, degrees)
    return float(_beyond(np.array(shift), cut, degrees) + _beyond(np.array(-shift), cut, degrees))


def detectable_ratio(
    sd_log: float | None,
    blocks: int,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    comparisons: int = 1,
    degrees: float | None = None,
) -> float | None:
    """Smallest relative change (0.05 is +5 %) that ``blocks`` blocks detect with probability ``power``.

    sd_log : standard deviation between blocks of the log ratio, which ``blocks`` of them tell with ``degrees`` of
    freedom (default: one less than there are). None when it is not known or zero, without a degree of freedom, and when
    not even a factor of LARGEST would be found. The same distance on the log scale downwards is a decrease by
    1 - 1/(1 + change).
    """
    degrees = blocks - 1 if degrees is None else degrees
    if sd_log is None or sd_log <= NO_SPREAD or degrees < 1:
        return None
    alpha = (1 - confidence) / comparisons
    distance = _detectable_shift(degrees, alpha, power) * sd_log / math.sqrt(blocks)
    return math.expm1(distance) if distance <= math.log(LARGEST) else None


@cache
def _detectable_shift(degrees: float, alpha: float, power: float) -> float:
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
    bounds: Bounds,
    better: Better,
    power: float = 0.8,
    comparisons: int | None = None,
    confidence: float | None = None,
    cap: int = 1000,
    in_range: bool = False,
) -> MoreBlocks:
    """Further blocks until an experiment of that many in all decides with probability ``power``.

    Where hosts are the observations, further hosts. The probability is an average over the truths that go with what was
    observed: the effect and the standard deviation are estimates, and to take them for the truth promises too much.
    With ``expect`` the decision is the verdict on that claim, without it the region rule of ``decide``. It will be at
    ``confidence``, and for ``comparisons`` at a time; default: as in the comparison. ``cap`` limits the blocks
    altogether. ``low`` and ``high`` are found where ``in_range`` asks for them. Out of reach: no interval, or an effect
    that may as well lie on one side of a bound as on the other, so that no number of blocks is likely enough to tell.
    Source: O'Hagan, Stevens & Campbell, Pharm. Stat. 4 (2005) 187-201: assurance.
    """
    if expect is None:
        decided = decide(comparison, bounds=bounds, better=better) is not Decision.INCONCLUSIVE
    else:
        decided = judge(comparison, expect=expect, bounds=bounds, better=better) is not Verdict.INCONCLUSIVE
    if decided:
        return MoreBlocks(blocks=None, reachable=True)
    if comparison.ratio is None or comparison.sd_log_ratio is None or comparison.sd_log_ratio <= NO_SPREAD:
        return MoreBlocks(blocks=None, reachable=False)
    done, lost = comparison.observations, comparison.observations - comparison.degrees
    alpha = (1 - (confidence or comparison.confidence)) / (comparisons or comparison.comparisons)
    means, sds = _truths(comparison, math.log(comparison.ratio), comparison.sd_log_ratio)

    @cache
    def found(blocks: int) -> Array:
        return _decision_power(
            *(means, sds / math.sqrt(blocks)),
            degrees=blocks - lost,
            alpha=alpha,
            expect=expect,
            bounds=bounds,
            better=better,
        )

    wanted = _first(lambda blocks: float(found(blocks).mean()) >= power, done + 1, cap)
    if wanted is None:
        return MoreBlocks(blocks=None, reachable=False)

    def suffices(blocks: int) -> float:
        """Share of the truths for which so many are enough."""
        return float((found(blocks) >= power).mean())

    low = high = None
    if in_range:
        low = _first(lambda blocks: suffices(blocks) >= _SPREAD_OF_TRUTHS, done + 1, cap)
        high = _first(lambda blocks: suffices(blocks) >= 1 - _SPREAD_OF_TRUTHS, done + 1, cap)
    return MoreBlocks(
        blocks=wanted - done,
        reachable=True,
        low=None if low is None else low - done,
        high=None if high is None else high - done,
    )


def _first(is_enough: Callable[[int], bool], first: int, last: int) -> int | None:
    """The first number that is enough, of those from which all larger ones are; None where the last is not."""
    if first > last or not is_enough(last):
        return None
    low, high = first - 1, first
    while high < last and not is_enough(high):
        low, high = high, min(2 * high, last)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _truths(comparison: Comparison, mean: float, sd: float) -> tuple[Array, Array]:
    """Means and standard deviations that stand, each as likely as the others, for those that go with the data.

    Source: Gelman et al., "Bayesian Data Analysis", 3rd ed. (2013), section 3.2: the posterior without prior knowledge.
    """
    sds = sd * np.sqrt(comparison.degrees / chdtri(comparison.degrees, _TRUTHS))
    means = mean + ndtri(_TRUTHS)[:, None] * sds / math.sqrt(comparison.information)
    return means.ravel(), np.broadcast_to(sds, means.shape).ravel()


def _decision_power(
    means: Array,
    errors: Array,
    *,
    degrees: float,
    alpha: float,
    expect: str | None,
    bounds: Bounds,
    better: Better,
) -> Array:
    cut = t_quantile(1 - alpha / 2, degrees)
    if expect not in (None, "equivalent", "different"):
        claim = claim_bound(expect, bounds=bounds, better=better)
        if claim is None:
            return np.zeros(means.shape)
        shift = (means - claim[0]) / errors
        return _beyond(shift, cut, degrees) + _beyond(-shift, cut, degrees)
    lower, upper = ((bound - means) / errors for bound in bounds)
    inside = find_equivalence_power(lower, upper, degrees=degrees, alpha=alpha)
    if expect is None and better is Better.NEITHER:
        return inside
    return inside + _beyond(-upper, cut, degrees) + _beyond(lower, cut, degrees)


def _beyond(shift: Array, cut: float, degrees: float) -> Array:
    """P(T > cut) of the noncentral t with noncentrality ``shift``; cut > 0.

    Integrated here because scipy's nctdtr (1.17) gives NaN for many negative and some large noncentralities. The
    integrand is one before ``start`` and zero after ``end``.
    """
    start, end = np.maximum(0.0, (shift - 9) / cut), (shift + 9) / cut
    certain = gammainc(degrees / 2, degrees * start**2 / 2)
    return np.asarray(certain + _integrate(start, end, degrees, lambda x: ndtr(shift[..., None] - cut * x)))


def find_equivalence_power(lower: Array, upper: Array, *, degrees: float, alpha: float) -> Array:
    """Probability that two one-sided t tests at ``alpha`` both reject.

    ``lower`` < 0 < ``upper`` are (bound - effect) / standard error. The mean is normal and independent of the
    observed standard deviation, over whose distribution is integrated.
    """
    cut = t_quantile(1 - alpha, degrees)
    # No room is left between the bounds from this observed standard deviation on; the true one is 1.
    end = np.maximum(0.0, (upper - lower) / (2 * cut))
    return _integrate(
        np.zeros(np.shape(end)),
        end,
        degrees,
        lambda x: ndtr(upper[..., None] - cut * x) - ndtr(lower[..., None] + cut * x),
    )


def _integrate(start: Array, end: Array, degrees: float, integrand: Callable[[Array], Array]) -> Array:
    """Expectations of ``integrand`` between ``start`` and ``end`` over observed / true standard deviation.

    Its density, that of sqrt(chi-squared / degrees), is nothing ten of its own standard deviations away from 1.
    """
    reach = 10 / math.sqrt(2 * degrees)
    start, end = np.maximum(start, 1 - reach), np.minimum(end, 1 + reach)
    width = np.maximum(0.0, end - start)
    x = np.where(width > 0, start, 1.0)[..., None] + width[..., None] * _NODES
    half = degrees / 2
    log_density = math.log(2) + half * math.log(half) - gammaln(half) + (degrees - 1) * np.log(x) - half * x**2
    return np.asarray(width * np.sum(_WEIGHTS * np.exp(log_density) * integrand(x), axis=-1))


# How long until an experiment that looks as it goes will end: the first look that is enough for its purpose.


# (number of blocks, confidence of its intervals as nominal_confidence gives it) of a look
Look = tuple[int, float]


def blocks_to_decision(
    comparison: Comparison,
    *,
    looks: Sequence[Look],
    expect: str,
    bounds: Bounds,
    better: Better,
) -> MoreBlocks:
    """Further blocks to the first of ``looks`` that decides the claim with a probability of 80 %.

    looks : those still to come, in order. It takes the observed effect and standard deviation for the true ones, and
    the blocks that are done for blocks that could still come out otherwise: a rough number, the more so the fewer
    blocks there are. Out of reach: no look is enough.
    """
    for blocks, confidence in looks:
        needed = blocks_needed(
            replace(comparison, confidence=confidence),
            expect=expect,
            bounds=bounds,
            better=better,
            cap=blocks,
        )
        # Reachable without a number of blocks: what is there would be enough at this look's level.
        if needed.reachable and comparison.blocks + (needed.blocks or 0) <= blocks:
            return MoreBlocks(blocks=blocks - comparison.blocks, reachable=True)
    return MoreBlocks(blocks=None, reachable=False)


def blocks_to_precision(
    sd_log: float | None, *, blocks: int, looks: Sequence[int], confidence: float, half_width: float
) -> MoreBlocks:
    """Further blocks to the first of ``looks`` at which half the interval, on the log scale, is ``half_width``.

    sd_log : standard deviation between blocks of the log ratio after ``blocks`` blocks, taken for the true one. Out of
    reach when it is not known or zero, or when no look is enough.
    """
    if sd_log is None or sd_log <= NO_SPREAD:
        return MoreBlocks(blocks=None, reachable=False)
    for look in looks:
        if t_interval(0.0, sd_log, look, confidence=confidence).high <= half_width:
            return MoreBlocks(blocks=look - blocks, reachable=True)
    return MoreBlocks(blocks=None, reachable=False)


def half_width(comparison: Comparison) -> float | None:
    """Half the interval on the log scale; None without an interval."""
    if comparison.low is None or comparison.high is None:
        return None
    return (math.log(comparison.high) - math.log(comparison.low)) / 2
