"""Student's t interval of a mean: the one place where its quantile is taken.

Source: Student, "The probable error of a mean", Biometrika 6 (1908) 1-25.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from pgtrial.stats.base import Interval

# Logs of measured ratios that differ by less than this differ only by rounding: no information about noise.
NO_SPREAD = 1e-12
_LARGEST_LOG = 700.0  # its exponential is still a number, and that of its negative is not yet zero


def ratio_of(log_ratio: float) -> float:
    """Exponential of a bound of an interval of logs; a bound without end stays a positive, finite number.

    With one degree of freedom and a small error probability a quantile of t is in the hundreds, and the interval of two
    blocks that differ by a few powers of ten is wider than numbers reach.
    """
    return math.exp(min(max(log_ratio, -_LARGEST_LOG), _LARGEST_LOG))


def mean_and_sd(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Mean and sample standard deviation of at least two numbers; exactly the same in whatever order they come."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def t_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t with ``degrees`` degrees of freedom."""
    return float(stdtrit(degrees, probability))


def t_tail(t: float, degrees: int) -> float:
    """P(T > t)."""
    return float(stdtr(degrees, -t))


def t_interval(mean: float, sd: float, count: int, *, confidence: float) -> Interval:
    """Interval of a mean of ``count`` >= 2 independent values with standard deviation ``sd``, in their unit."""
    half = t_quantile((1 + confidence) / 2, count - 1) * sd / math.sqrt(count)
    return Interval(low=mean - half, high=mean + half, confidence=confidence)


def mean_log_interval(
    values: Sequence[float] | NDArray[np.float64], *, confidence: float = 0.95
) -> tuple[float | None, float | None, float | None]:
    """Geometric mean of one arm's observations with its t interval: (value, low, high), in their unit.

    values : (n_blocks,), one per block; NaN is no observation and is left out.
    (None, None, None) without observations, or when one of them is zero or negative and so has no logarithm; no
    interval with fewer than two, or when all are the same.

    The interval answers "where does this arm lie", with the noise that is common to all arms in it. Two arms whose
    intervals overlap may differ all the same: compare arms with ``compare_blocks``.
    """
    seen = np.asarray(values, dtype=np.float64)
    seen = seen[~np.isnan(seen)]
    if seen.size == 0 or not np.all((seen > 0) & np.isfinite(seen)):
        return None, None, None
    logs = np.log(seen)
    if seen.size == 1:
        return float(seen[0]), None, None
    mean, sd = mean_and_sd(logs)
    if sd <= NO_SPREAD:
        return math.exp(mean), None, None
    interval = t_interval(mean, sd, seen.size, confidence=confidence)
    return math.exp(mean), ratio_of(interval.low), ratio_of(interval.high)
