"""Compare an arm with the control, block by block: the block is the unit of analysis.

Differences are taken on the log scale inside a block, so whatever slows a whole block slows both and cancels. What the
place in the block adds is estimated and taken out where the arms ran one after the other (``crossover``). What does not
cancel, such as a drift over the minutes of a block, gets a random sign from the random order of the arms.
That is why the differences of neighbouring blocks are uncorrelated even where the noise of neighbouring runs is not,
and why the interval needs no correction for autocorrelated noise (shown by tests/calibration/test_methods.py).
Source: Fisher, "The Design of Experiments" (1935), chapter IV; Cochran & Cox, "Experimental Designs" (1957), chapter 4.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.stats.base import Comparison, Interval
from pgtrial.stats.crossover import (
    crossed_averages,
    fit_crossover,
    randomisation_p,
    rank_sum_interval,
    smallest_p,
)
from pgtrial.stats.dependence import order_caveats
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, ratio_of, t_quantile, t_tail

FEW_BLOCKS = 6


def compare_blocks(
    control: Sequence[float] | NDArray[np.float64],
    treated: Sequence[float] | NDArray[np.float64],
    *,
    confidence: float = 0.95,
    comparisons: int = 1,
    after: Sequence[bool] | NDArray[np.bool_] | None = None,
    may_differ: bool = False,
) -> Comparison:
    """Ratio treated / control: t interval and p on the block log ratios, exact p over the orders, Hodges-Lehmann.

    control, treated : (n_blocks,), the same unit, > 0, in the order in which the blocks were run; NaN is no
    observation, and its block is left out. after : (n_blocks,), whether the arm ran after the control; None where both
    had the block's time together. The effect of the place in the block is then taken out (``fit_crossover``), unless
    too few blocks have one of the orders; ``may_differ`` as there. ``confidence`` holds for ``comparisons`` intervals
    together (Bonferroni: Miller, "Simultaneous Statistical Inference" (1981), section 2.3).
    ValueError: shapes differ, or confidence or comparisons is out of range.
    Caveats: no-log-ratio, missing-blocks, no-interval, zero-variance, few-blocks, methods-disagree, and those of
    ``order_caveats``.
    """
    one, other = np.asarray(control, dtype=np.float64), np.asarray(treated, dtype=np.float64)
    places = None if after is None else np.asarray(after, dtype=np.bool_)
    if one.ndim != 1 or one.shape != other.shape or (places is not None and places.shape != one.shape):
        raise ValueError(f"expected arrays of one shape (n_blocks,), got {one.shape} and {other.shape}")
    if not 0 < confidence < 1 or comparisons < 1:
        raise ValueError(f"expected 0 < confidence < 1 and comparisons >= 1, got {confidence} and {comparisons}")
    missing = int(np.count_nonzero(np.isnan(one) != np.isnan(other)))
    complete = ~(np.isnan(one) | np.isnan(other))
    one, other = one[complete], other[complete]
    lost = _lost_blocks(missing)
    usable = (one > 0) & np.isfinite(one) & (other > 0) & np.isfinite(other)
    if not usable.all():
        caveats = (*lost, _no_log_ratio(int(np.count_nonzero(~usable)), one.size))
        return without_interval(None, one.size, confidence, comparisons, caveats)
    log_ratios = np.log(other) - np.log(one)
    count = log_ratios.size
    if count < 2:
        ratio = math.exp(log_ratios[0]) if count else None
        return without_interval(ratio, count, confidence, comparisons, (*lost, _no_interval(count)))

    alpha = (1 - confidence) / comparisons
    fit = _fit(log_ratios, None if places is None else places[complete], confidence=1 - alpha, may_differ=may_differ)
    spread = fit.sd > NO_SPREAD
    error = fit.sd / math.sqrt(fit.information)
    half = t_quantile(1 - alpha / 2, fit.degrees) * error
    p_value = 2 * t_tail(abs(fit.effect) / error, fit.degrees) if spread else None
    in_order = order_caveats(fit.without_position) if spread else ()
    shape = _shape_caveats(count, p_value, fit.p_order, fit.smallest_p, alpha)
    return Comparison(
        ratio=math.exp(fit.effect),
        low=ratio_of(fit.effect - half) if spread else None,
        high=ratio_of(fit.effect + half) if spread else None,
        confidence=confidence,
        p_value=p_value,
        p_sign_flip=fit.p_order,
        hodges_lehmann=math.exp(fit.centre),
        hl_low=math.exp(fit.rank.low) if fit.rank else None,
        hl_high=math.exp(fit.rank.high) if fit.rank else None,
        blocks=count,
        sd_log_ratio=fit.sd,
        information=fit.information,
        degrees=fit.degrees,
        position=fit.position,
        comparisons=comparisons,
        caveats=(*lost, *shape, *in_order),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """All of a comparison that depends on whether the place in the block is taken out; on the log scale."""

    effect: float
    sd: float
    degrees: float
    information: float
    position: float | None
    without_position: NDArray[np.float64]
    p_order: float
    smallest_p: float
    centre: float
    rank: Interval | None


def _fit(
    log_ratios: NDArray[np.float64], after: NDArray[np.bool_] | None, *, confidence: float, may_differ: bool
) -> _Fit:
    crossed = None if after is None else fit_crossover(log_ratios, after, may_differ=may_differ)
    if after is None or crossed is None:
        mean, sd = mean_and_sd(log_ratios)
        return _Fit(
            effect=mean,
            sd=sd,
            degrees=log_ratios.size - 1,
            information=log_ratios.size,
            position=None,
            without_position=log_ratios,
            p_order=sign_flip_p(log_ratios),
            smallest_p=2.0 ** (1 - log_ratios.size),
            centre=hodges_lehmann(log_ratios),
            rank=signed_rank_interval(log_ratios, confidence=confidence),
        )
    averages, late = crossed_averages(log_ratios, after), int(after.sum())
    return _Fit(
        effect=crossed.effect,
        sd=crossed.sd,
        degrees=crossed.degrees,
        information=crossed.information,
        position=crossed.position,
        without_position=log_ratios - np.where(after, crossed.position, -crossed.position),
        p_order=randomisation_p(log_ratios, after),
        smallest_p=smallest_p(after),
        centre=float(np.median(averages)),
        rank=rank_sum_interval(averages, late, log_ratios.size - late, confidence=confidence),
    )


def without_interval(
    ratio: float | None, blocks: int, confidence: float, comparisons: int, caveats: tuple[CaveatFinding, ...]
) -> Comparison:
    """A comparison of so many complete blocks that tells no more than its ``ratio``, None for not even that."""
    return Comparison(
        ratio=ratio,
        low=None,
        high=None,
        confidence=confidence,
        p_value=None,
        p_sign_flip=None,
        hodges_lehmann=ratio,
        hl_low=None,
        hl_high=None,
        blocks=blocks,
        sd_log_ratio=None,
        information=blocks,
        degrees=max(0, blocks - 1),
        comparisons=comparisons,
        caveats=caveats,
    )


def _shape_caveats(
    count: int, p_value: float | None, flip: float, smallest: float, alpha: float
) -> Iterator[CaveatFinding]:
    if count < FEW_BLOCKS:
        yield caveat("few-blocks", count=count, p=smallest, fewest=FEW_BLOCKS)
    if p_value is None:
        yield caveat("zero-variance", count=count)
    elif smallest <= alpha and (p_value <= alpha) != (flip <= alpha):
        yield caveat("methods-disagree", p=p_value, flip=flip, alpha=alpha)


def _lost_blocks(missing: int) -> tuple[CaveatFinding, ...]:
    if not missing:
        return ()
    return (caveat("missing-blocks", blocks=missing),)


def _no_log_ratio(bad: int, count: int) -> CaveatFinding:
    return caveat("no-log-ratio", bad=bad, count=count)


def _no_interval(count: int) -> CaveatFinding:
    return caveat("no-interval", blocks=count)


# Fisher's sign-flip test: valid because the order of arms inside a block was drawn at random, and for no other reason.
#
# Under the hypothesis of no effect, the difference of a block would have had the opposite sign if the coin had fallen
# the other way. So all 2^n patterns of signs are equally likely, whatever the noise is distributed like and however it
# depends on the noise of the block before.
#
# Source: Fisher, "The Design of Experiments" (1935), section 21.


EXACT_BLOCKS = 32
RESAMPLES = 19_999
# Patterns whose sums differ from the observed one by rounding only count as equal to it.
_ROUNDING = 1e-10


def sign_flip_p(differences: NDArray[np.float64]) -> float:
    """Two-sided p-value of "the differences are symmetric about zero", with their sum as the statistic.

    differences : (n,), n >= 1, any unit. Exact over all 2^n patterns up to EXACT_BLOCKS; above that from RESAMPLES
    random patterns of a fixed seed, the observed one counted among them, so never zero.
    Source of the latter: Phipson & Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010) article 39.
    """
    sizes = np.sort(np.abs(differences))
    total = float(sizes.sum())
    observed = abs(float(np.sort(differences).sum())) - _ROUNDING * total
    if observed <= 0:
        return 1.0
    if sizes.size <= EXACT_BLOCKS:
        return float(2 * _count_at_least(sizes, observed) / 2**sizes.size)
    rng = np.random.default_rng(0)
    extreme = 0
    for rows in np.array_split(np.empty(RESAMPLES), 20):
        signs = rng.integers(0, 2, size=(rows.size, sizes.size), dtype=np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ sizes) >= observed))
    return (extreme + 1) / (RESAMPLES + 1)


def _count_at_least(sizes: NDArray[np.float64], threshold: float) -> int:
    """Number of sign patterns whose sum is at least ``threshold``.

    Meet in the middle (Horowitz & Sahni, J. ACM 21 (1974) 277-292): the sums of both halves are listed, and for
    each sum of the one those of the other that complete it are counted by bisection; 2·2^(n/2) numbers, not 2^n.
    """
    half = sizes.size // 2
    rest = np.sort(_signed_sums(sizes[half:]))
    missing = rest.size - np.searchsorted(rest, threshold - _signed_sums(sizes[:half]), side="left")
    return int(missing.sum())


def _signed_sums(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums - size, sums + size))
    return sums


# The Hodges-Lehmann estimate and the exact interval that belongs to Wilcoxon's signed-rank test.
#
# Sources: Hodges & Lehmann, Ann. Math. Statist. 34 (1963) 598-611; Hollander, Wolfe & Chicken, "Nonparametric
# Statistical Methods", 3rd ed. (2014), sections 3.2 and 3.3; for ties: Noether, J. Am. Stat. Assoc. 62 (1967) 184-188.


def walsh_averages(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of all pairs, each value also paired with itself: (n(n+1)/2,), sorted."""
    first, second = _pairs(values.size)
    return np.sort((values[first] + values[second]) / 2)


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(count)


def hodges_lehmann(values: NDArray[np.float64]) -> float:
    """Median of the Walsh averages of at least one value: the centre of symmetry, in the unit of the values."""
    return float(np.median(walsh_averages(values)))


def signed_rank_interval(values: NDArray[np.float64], *, confidence: float) -> Interval | None:
    """Exact interval of the centre of symmetry; None with too few values for this confidence.

    Its confidence is the attained one, at least what was asked: the signed-rank statistic takes steps. With ties
    or zeros the closed interval covers at least as often as that, so ties need no correction.
    """
    tail = _null_distribution(values.size)
    attainable = np.flatnonzero(tail <= (1 - confidence) / 2 * (1 + 1e-12))
    if attainable.size == 0:
        return None
    cut = int(attainable[-1])
    averages = walsh_averages(values)
    return Interval(
        low=float(averages[cut]),
        high=float(averages[averages.size - 1 - cut]),
        confidence=1 - 2 * float(tail[cut]),
    )


@lru_cache(maxsize=64)
def _null_distribution(count: int) -> NDArray[np.float64]:
    """P(T <= k) for k = 0 .. n(n+1)/2 - 1, T the sum of the ranks 1..n that a fair coin picks."""
    chance = np.ones(1)
    for rank in range(1, count + 1):
        longer = np.zeros(chance.size + rank)
        longer[: chance.size] += chance / 2
        longer[rank:] += chance / 2
        chance = longer
    cumulative = np.cumsum(chance)[:-1]
    cumulative.setflags(write=False)
    return cumulative
