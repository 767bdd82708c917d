"""Does the order of the blocks matter? Trend and autocorrelation over the blocks.

Sources: Theil, Indag. Math. 12 (1950) 85-91; Sen, J. Am. Stat. Assoc. 63 (1968) 1379-1389; Mann, Econometrica 13
(1945) 245-259; Kendall, "Rank Correlation Methods", 4th ed. (1970), chapters 1, 4 and 5; Moran, Biometrika 35 (1948)
255-260 for the moments of the lag-1 autocorrelation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pgtrial.findings.caveat import CaveatFinding, caveat

ORDER_ALPHA = 0.01
FEWEST_FOR_LAG = 8
_EXACT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTrend:
    """``slope_per_block`` in the unit of the values; ``p_value`` two-sided. None with fewer than two values."""

    slope_per_block: float | None
    p_value: float | None


def drift(values: Sequence[float] | NDArray[np.float64]) -> OrderTrend:
    """Theil-Sen slope over the block number, and the Mann-Kendall test of "no trend".

    values : (n_blocks,), in block order; NaN is a block without observation. The p-value is exact up to 50 values
    without ties, otherwise from the normal distribution with the variance corrected for ties and for continuity.
    The test assumes independent values: positive autocorrelation makes it find trends that are only slow noise.
    """
    series = np.asarray(values, dtype=np.float64)
    at = np.flatnonzero(~np.isnan(series))
    if at.size < 2:
        return OrderTrend(slope_per_block=None, p_value=None)
    first, second = _pairs(at.size)
    rises = series[at[second]] - series[at[first]]
    score = int(np.sign(rises).sum())
    ties = np.unique(series[at], return_counts=True)[1]
    exact = at.size <= _EXACT and bool((ties == 1).all())
    return OrderTrend(
        slope_per_block=float(np.median(rises / (at[second] - at[first]))),
        p_value=_exact_kendall_p(score, at.size) if exact else _normal_kendall_p(score, ties),
    )


def autocorrelation(x: Sequence[float] | NDArray[np.float64], lag: int) -> float | None:
    """Sample autocorrelation at ``lag`` >= 1; None with too few values or without spread.

    x : (n,), in order of time; NaN is a gap, and pairs with a gap are left out. The mean is that of the whole
    series, which makes the estimate too low by about (1 + 4ρ) / n: with few values a small or negative number proves
    nothing.
    Source: Box & Jenkins, "Time Series Analysis" (1976), section 2.1.5; bias: Kendall, Biometrika 41 (1954) 403-404.
    """
    series = np.asarray(x, dtype=np.float64)
    if np.count_nonzero(~np.isnan(series)) < lag + 2:
        return None
    centred = series - np.nanmean(series)
    total = float(np.nansum(centred**2))
    if total <= (1e-12 * float(np.nanmax(np.abs(series)))) ** 2:
        return None
    return float(np.nansum(centred[lag:] * centred[:-lag])) / total


def lag1(x: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Lag-1 autocorrelation; see ``autocorrelation``."""
    return autocorrelation(x, 1)


def order_caveats(values: Sequence[float] | NDArray[np.float64]) -> tuple[CaveatFinding, ...]:
    """ "drift" and "autocorrelated-blocks" for block log ratios in the order of the blocks.

    Each false alarm has probability ORDER_ALPHA or less. Autocorrelation is looked for only where it is positive, which
    makes intervals too narrow, and from FEWEST_FOR_LAG blocks on: below, nothing can be seen.
    """
    series = np.asarray(values, dtype=np.float64)
    found = []
    trend = drift(series)
    if trend.slope_per_block is not None and trend.p_value is not None and trend.p_value <= ORDER_ALPHA:
        found.append(caveat("drift", change=math.exp(trend.slope_per_block), p=trend.p_value))
    correlation = lag1(series)
    if correlation is not None and series.size >= FEWEST_FOR_LAG:
        # Mean and variance of the estimate for independent normal values, n large enough for a normal tail.
        n = series.size
        p_value = float(ndtr(-(correlation + 1 / n) / ((n - 2) / (n * math.sqrt(n - 1)))))
        if p_value <= ORDER_ALPHA:
            found.append(caveat("autocorrelated-blocks", correlation=correlation, p=p_value))
    return tuple(found)


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every pair of different places, each once."""
    return np.triu_indices(count, k=1)


@lru_cache(maxsize=64)
def _inversions(count: int) -> NDArray[np.float64]:
    """Probability of k = 0 .. n(n-1)/2 inversions in a random order of n values."""
    chance = np.ones(1)
    for size in range(2, count + 1):
        chance = np.convolve(chance, np.full(size, 1 / size))
    chance.setflags(write=False)
    return chance


def _exact_kendall_p(score: int, count: int) -> float:
    """P(|S| >= |score|) where all orders are equally likely; S = pairs - 2·inversions."""
    chance = _inversions(count)
    fewer = (count * (count - 1) // 2 - abs(score)) // 2
    return min(1.0, 2 * float(chance[: fewer + 1].sum()))


def _normal_kendall_p(score: int, ties: NDArray[np.int64]) -> float:
    n = int(ties.sum())
    lost = int((ties * (ties - 1) * (2 * ties + 5)).sum())
    variance = (n * (n - 1) * (2 * n + 5) - lost) / 18
    if score == 0 or variance == 0:
        return 1.0
    return min(1.0, 2 * float(ndtr(-(abs(score) - 1) / math.sqrt(variance))))
