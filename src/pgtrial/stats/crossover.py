"""Two arms in blocks of two runs: the effect of the arm with that of the place in the block taken out.

Whatever hits the second run of a block (a warm cache, a drift, a checkpoint that has become due) adds to the log ratio
of blocks in which the arm comes after the control, and takes from that of the others. The mean of the two groups' means
is free of it, whichever order came up how often; a random order alone leaves it in the estimate as noise.
Sources: Grizzle, Biometrics 21 (1965) 467-480, and Jones & Kenward, "Design and Analysis of Cross-Over Trials", 3rd
ed. (2014), section 2.3; for the ranks Koch, Biometrics 28 (1972) 577-584; for orders that scatter differently
Satterthwaite, Biometrics Bull. 2 (1946) 110-114, and Welch, Biometrika 34 (1947) 28-35.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd

FEWEST_OF_AN_ORDER = 2  # blocks, so that the noise inside both orders is known
# Chance below which the orders' scatter is taken for different. Always to do so would make intervals of six blocks
# half as wide again, because two blocks tell theirs with one degree of freedom.
_UNALIKE = 0.05
_EXACT = 20_000  # orders that are all tried; of more, as many are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """``effect`` of the arm and ``position`` of running second, both as log ratios.

    ``sd`` is the standard deviation inside the two orders, with ``degrees`` of freedom; ``information`` is the number
    of blocks, or fewer where the orders came up unequally often: the standard error is sd / √information.
    """

    effect: float
    position: float
    sd: float
    degrees: float
    information: float


def fit_crossover(
    log_ratios: NDArray[np.float64], after: NDArray[np.bool_], *, may_differ: bool = False
) -> Crossover | None:
    """The effect and the position; None with fewer than FEWEST_OF_AN_ORDER blocks of one of the orders.

    log_ratios : (n,), log(arm / control). after : (n,), whether the arm ran after the control. ``may_differ``: an arm
    may be restless as the second of a block alone. Where the scatter of the orders is seen to differ, the effect has
    the error that each order's own scatter makes, if that is larger, and its degrees of freedom, which are fewer.
    """
    if not has_both_orders(after):
        return None
    groups = [log_ratios[after], log_ratios[~after]]
    (late, late_sd), (early, early_sd) = (mean_and_sd(group) for group in groups)
    degrees = log_ratios.size - 2
    squares = late_sd**2 * (groups[0].size - 1) + early_sd**2 * (groups[1].size - 1)
    fit = Crossover(
        effect=(late + early) / 2,
        position=(late - early) / 2,
        sd=sqrt(squares / degrees),
        degrees=degrees,
        information=4 / (1 / groups[0].size + 1 / groups[1].size),
    )
    return _tell_apart(fit, ((late_sd, groups[0].size), (early_sd, groups[1].size))) if may_differ else fit


def _tell_apart(fit: Crossover, orders: Sequence[tuple[float, int]]) -> Crossover:
    """The fit with the scatter that blocks of each order, standard deviation and number, have of their own."""
    (small, of_small), (large, of_large) = sorted(orders)
    if large <= NO_SPREAD or 2 * fdtrc(of_large - 1, of_small - 1, (large / max(small, NO_SPREAD)) ** 2) >= _UNALIKE:
        return fit
    parts = [(sd / large) ** 2 / count for sd, count in orders]
    degrees = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, (_, count) in zip(parts, orders, strict=True))
    sd = large * sqrt(sum(parts) / 4 * fit.information)
    # Rounding may not bring them below those of the smaller order.
    return replace(fit, sd=max(fit.sd, sd), degrees=max(degrees, min(of_small, of_large) - 1))


def has_both_orders(after: NDArray[np.bool_]) -> bool:
    """Whether both orders of a block came up often enough that the place can be told from the arm."""
    late = int(after.sum())
    return min(late, after.size - late) >= FEWEST_OF_AN_ORDER


def randomisation_p(log_ratios: NDArray[np.float64], after: NDArray[np.bool_]) -> float:
    """Two-sided p-value of "no effect in any block", over the orders that could have been drawn.

    Without an effect the second run differs from the first by what it differs by, whichever arm it was. So all ways to
    choose the blocks in which the arm comes second, as many of them as there were, are equally likely to have given
    what was seen. Exact, or from random orders with the observed one among them, so never zero.
    Source: Fisher, "The Design of Experiments" (1935), section 21; for the orders that are drawn Phipson & Smyth, Stat.
    Appl. Genet. Mol. Biol. 9 (2010) article 39.
    """
    # Second run against first, which the order does not change.
    second = np.where(after, log_ratios, -log_ratios)
    count, late = log_ratios.size, int(after.sum())
    total = float(second.sum())
    rounding = 1e-10 * float(np.abs(second).sum())

    def effects(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(sums / late - (total - sums) / (count - late))

    observed = float(effects(np.array([second[after].sum()]))[0]) - rounding
    is_exact = comb(count, late) <= _EXACT
    choices = _choices(count, late) if is_exact else _drawn_choices(count, late)
    extreme = int(np.count_nonzero(effects(second[choices].sum(axis=1)) >= observed))
    return extreme / len(choices) if is_exact else (extreme + 1) / (len(choices) + 1)


def smallest_p(after: NDArray[np.bool_]) -> float:
    """The least that ``randomisation_p`` can come to with so many blocks of both orders."""
    count, late = after.size, int(after.sum())
    # The mirror image of an order has the same effect where both orders are as frequent.
    return max((2 if 2 * late == count else 1) / comb(count, late), 1 / _EXACT)


@lru_cache(maxsize=64)
def _choices(count: int, chosen: int) -> NDArray[np.intp]:
    return np.array(list(combinations(range(count), chosen)), dtype=np.intp)


@lru_cache(maxsize=4)  # 20 MB each with 500 blocks; the metrics of an experiment have mostly the same
def _drawn_choices(count: int, chosen: int) -> NDArray[np.int32]:
    """Of the many with ``count`` blocks, as many as are tried beside the one that was seen."""
    blocks = np.broadcast_to(np.arange(count, dtype=np.int32), (_EXACT - 1, count))
    return np.random.default_rng(0).permuted(blocks, axis=1)[:, :chosen].copy()


def crossed_averages(log_ratios: NDArray[np.float64], after: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Means of each block of one order with each of the other, sorted: their median is the Hodges-Lehmann estimate.

    Source: Hodges & Lehmann, Ann. Math. Statist. 34 (1963) 598-611.
    """
    return np.sort((log_ratios[after][:, None] + log_ratios[~after][None, :]).ravel() / 2)


def rank_sum_interval(averages: NDArray[np.float64], late: int, early: int, *, confidence: float) -> Interval | None:
    """Exact interval of the effect that belongs to the rank-sum test; None with too few blocks for this confidence.

    averages : as ``crossed_averages`` gives them, of ``late`` and ``early`` blocks.
    Source: Mann & Whitney, Ann. Math. Statist. 18 (1947) 50-60; Hollander, Wolfe & Chicken, "Nonparametric Statistical
    Methods", 3rd ed. (2014), section 4.3.
    """
    tail = _rank_sum_tail(late, early)
    attainable = np.flatnonzero(tail <= (1 - confidence) / 2 * (1 + 1e-12))
    if attainable.size == 0:
        return None
    cut = int(attainable[-1])
    return Interval(
        low=float(averages[cut]),
        high=float(averages[averages.size - 1 - cut]),
        confidence=1 - 2 * float(tail[cut]),
    )


@lru_cache(maxsize=64)
def _rank_sum_tail(late: int, early: int) -> NDArray[np.float64]:
    """P(U <= k) for k = 0 .. late·early - 1, U Mann and Whitney's statistic, from its generating function."""
    # The Gaussian binomial coefficient: (1 - q^(early+1))···(1 - q^(early+late)) / (1 - q)···(1 - q^late).
    size = late * early + 1
    ways = np.zeros(size)
    ways[0] = 1
    for part in range(1, late + 1):
        if (step := early + part) < size:
            ways[step:] -= ways[:-step].copy()
        rows = np.concatenate((ways, np.zeros(-size % part))).reshape(-1, part)
        ways = rows.cumsum(axis=0).ravel()[:size]
    tail = np.cumsum(ways / comb(late + early, late))[:-1]
    tail.setflags(write=False)
    return tail
