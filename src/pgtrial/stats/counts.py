"""Exact intervals of what was counted: how often sampling found something that is rare.

Where it was found in a few runs and not in the others, the spread of the runs says nothing of how often it is there,
and where it was never found they all agree on zero. Counts know better: 0 of a Poisson variable exclude a mean above
3.7 (95 %). Sources: Garwood, Biometrika 28 (1936) 437-442; for counts with weights Fay & Feuer, Stat. Med. 16 (1997)
791-801; for differences Zou & Donner, Stat. Med. 27 (2008) 1693-1702; which counts are large enough to matter Tarone,
Biometrics 46 (1990) 515-522.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv

from pgtrial.stats.base import Interval


def count_interval(counts: ArrayLike, weights: ArrayLike, *, alpha: float) -> Interval:
    """Interval of the sum of weights times Poisson means, by Fay and Feuer's gamma distributions.

    counts : (n,), not negative. weights : (n,), > 0, what one of each counts for; the interval is in their unit. With
    equal weights it is Garwood's.
    """
    count, weight = np.asarray(counts, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    total, variance, most = float(weight @ count), float(weight**2 @ count), float(weight.max())
    low = 0.0
    if total > 0:
        low = variance / total * float(gammaincinv(total**2 / variance, alpha / 2))
    above, spread = total + most, variance + most**2
    high = spread / above * float(gammaincinv(above**2 / spread, 1 - alpha / 2))
    return Interval(low=low, high=high, confidence=1 - alpha)


def difference_interval(first: tuple[float, Interval], second: tuple[float, Interval]) -> Interval:
    """Interval of second - first, each an estimate with its interval of the same confidence."""
    (one, of_one), (other, of_other) = first, second
    return Interval(
        low=other - one - math.hypot(other - of_other.low, of_one.high - one),
        high=other - one + math.hypot(of_other.high - other, one - of_one.low),
        confidence=of_one.confidence,
    )


def count_members(counts: Sequence[float], *, alpha: float) -> int:
    """Among how many statements ``alpha`` has to be divided, so that those that could be asserted hold together.

    counts : what was counted for each, of both arms together; infinite of what is no count. If arms do not differ, all
    of it comes in one arm with the probability 2^(1 - count): too few can never be asserted, and take no share.
    """
    least = [2.0 ** (1 - count) for count in counts]
    for members in range(1, len(least)):
        if sum(p <= alpha / members for p in least) <= members:
            return members
    return max(1, len(least))
