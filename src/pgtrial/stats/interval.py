"""Student's t intervals of means; the only module that uses the quantile of t.

Source: Student, "The probable error of a mean", Biometrika 6 (1908) 1-25.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from pgtrial.findings.record import Estimate
from pgtrial.stats.base import Comparison, Interval

# Logs of measured ratios that differ by less than this differ only by rounding: no information about noise.
NO_SPREAD = 1e-12
_LARGEST_LOG = 700.0  # its exponential is still a number, and that of its negative is not yet zero


def ratio_of(log_ratio: float) -> float:
    """Exponential of a bound of an interval of logs; an infinite bound becomes a positive, finite number.

    With one degree of freedom and a small error probability a quantile of t is in the hundreds, and the interval of two
    blocks that differ by a few powers of ten is wider than numbers reach.
    """
    return math.exp(min(max(log_ratio, -_LARGEST_LOG), _LARGEST_LOG))


def mean_and_sd(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Mean and sample standard deviation of at least two numbers; independent of their order to the last bit."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def t_quantile(probability: float, degrees: float) -> float:
    """Quantile of Student's t with ``degrees`` degrees of freedom."""
    return float(stdtrit(degrees, probability))


def t_tail(t: float, degrees: float) -> float:
    """P(T > t)."""
    return float(stdtr(degrees, -t))


def t_interval(mean: float, sd: float, count: int, *, confidence: float) -> Interval:
    """Interval of a mean of ``count`` >= 2 independent values with standard deviation ``sd``, in their unit."""
    half = t_quantile((1 + confidence) / 2, count - 1) * sd / math.sqrt(count)
    return Interval(low=mean - half, high=mean + half, confidence=confidence)


def interval_about(mean: float, error: float, degrees: float, *, confidence: float) -> Interval:
    """Interval of an estimate whose standard ``error`` has ``degrees`` of freedom, in their unit."""
    half = t_quantile((1 + confidence) / 2, degrees) * error
    return Interval(low=mean - half, high=mean + half, confidence=confidence)


def estimate_about(mean: float, error: float, degrees: float, *, confidence: float) -> Estimate:
    """The estimate with that interval."""
    found = interval_about(mean, error, degrees, confidence=confidence)
    return Estimate(value=mean, low=found.low, high=found.high)


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


# Two estimates that have nothing in common, and the difference between them.
#
# For what no block holds together: arms of different experiments, and loads that were run one after the other. The
# noise of both is in the difference in full, which is why blocks exist. Sources: Welch, Biometrika 34 (1947) 28-35;
# Satterthwaite, Biometrics Bull. 2 (1946) 110-114. As an indirect comparison by way of a common control: Bucher,
# Guyatt, Griffith & Walter, J. Clin. Epidemiol. 50 (1997) 683-691.


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A mean with its standard error (> 0), in one unit; ``degrees`` of freedom (> 0) are those of the error."""

    mean: float
    error: float
    degrees: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDifference:
    """``mean`` of second - first, with its interval, in their unit; ``p_value`` is two-sided, of no difference."""

    mean: float
    interval: Interval
    error: float
    degrees: float
    p_value: float


def known_mean(values: Sequence[float]) -> Known | None:
    """Mean of independent values; None with fewer than two, or if all are equal, so that the noise is unknown."""
    if len(values) < 2:
        return None
    mean, sd = mean_and_sd(values)
    if sd <= NO_SPREAD:
        return None
    return Known(mean=mean, error=sd / math.sqrt(len(values)), degrees=len(values) - 1)


def difference(first: Known, second: Known, *, confidence: float = 0.95) -> MeanDifference:
    """Second minus first; for logarithms of ratios, the logarithm of their ratio."""
    variances = (first.error**2, second.error**2)
    error = math.sqrt(sum(variances))
    # As shares of the whole, so that small errors do not vanish when they are squared twice.
    shares = [variance / error**2 for variance in variances]
    degrees = 1 / (shares[0] ** 2 / first.degrees + shares[1] ** 2 / second.degrees)
    mean = second.mean - first.mean
    return MeanDifference(
        mean=mean,
        interval=interval_about(mean, error, degrees, confidence=confidence),
        error=error,
        degrees=degrees,
        p_value=2 * float(stdtr(degrees, -abs(mean) / error)),
    )


# Several tests at once: adjusted p-values. A missing p-value (None) stays missing and is no member of the family.


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusted p-values that limit the probability of any false alarm in the family, under any dependence.

    Source: Holm, Scand. J. Statist. 6 (1979) 65-70.
    """
    order = _known(p)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * value))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusted p-values that limit the expected share of false findings.

    For independent or positively dependent tests. Source: Benjamini & Hochberg, J. R. Statist. Soc. B 57 (1995)
    289-300.
    """
    order = _known(p)
    adjusted: list[float | None] = [None] * len(p)
    smallest = 1.0
    for rank, (value, index) in reversed(list(enumerate(order, start=1))):
        smallest = min(smallest, value * (len(order) / rank))
        adjusted[index] = smallest
    return tuple(adjusted)


def _known(p: Sequence[float | None]) -> list[tuple[float, int]]:
    return sorted((value, index) for index, value in enumerate(p) if value is not None)


def extend(comparison: Comparison, *, down: float, up: float) -> Comparison:
    """The comparison with an interval that also holds if the effect is lower by ``down``, or higher by ``up``, because
    of what is not among its blocks: logarithms, not below zero.
    """
    if comparison.low is None or comparison.high is None or down == up == 0:
        return comparison
    return replace(
        comparison,
        low=ratio_of(math.log(comparison.low) - down),
        high=ratio_of(math.log(comparison.high) + up),
        hidden=(comparison.hidden[0] + down, comparison.hidden[1] + up),
    )


def without_hidden(comparison: Comparison) -> Comparison:
    """The comparison as it would be if its blocks had in them all that there is."""
    down, up = comparison.hidden
    if comparison.low is None or comparison.high is None or down == up == 0:
        return comparison
    return replace(
        comparison,
        low=ratio_of(math.log(comparison.low) + down),
        high=ratio_of(math.log(comparison.high) - up),
        hidden=(0.0, 0.0),
        step=0.0,
        lost=0.0,
    )
