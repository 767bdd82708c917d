"""The Hodges-Lehmann estimate and the exact interval that belongs to Wilcoxon's signed-rank test.

Sources: Hodges & Lehmann, Ann. Math. Statist. 34 (1963) 598-611; Hollander, Wolfe & Chicken, "Nonparametric
Statistical Methods", 3rd ed. (2014), sections 3.2 and 3.3; for ties: Noether, J. Am. Stat. Assoc. 62 (1967) 184-188.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.base import Interval


def walsh_averages(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of all pairs, each value paired with itself too: (n(n+1)/2,), sorted."""
    first, second = _pairs(values.size)
    return np.sort((values[first] + values[second]) / 2)


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(count)


def hodges_lehmann(values: NDArray[np.float64]) -> float:
    """Median of the Walsh averages of at least one value: the centre of symmetry, in the unit of the values."""
    return float(np.median(walsh_averages(values)))


def signed_rank_interval(values: NDArray[np.float64], *, confidence: float) -> Interval | None:
    """Exact interval of the centre of symmetry; None where so few values do not allow this confidence.

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
