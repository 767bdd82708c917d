"""Two estimates that have nothing in common, and the difference between them.

For what no block holds together: arms of different experiments, and loads that were run one after the other. The noise
of both is in the difference in full, which is why blocks exist.
Sources: Welch, Biometrika 34 (1947) 28-35; Satterthwaite, Biometrics Bull. 2 (1946) 110-114. As an indirect comparison
by way of a common control: Bucher, Guyatt, Griffith & Walter, J. Clin. Epidemiol. 50 (1997) 683-691.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr

from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, t_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A mean with its standard error (> 0), in one unit; ``degrees`` of freedom (> 0) are those of the error."""

    mean: float
    error: float
    degrees: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """``mean`` of second - first, with its interval, in their unit; ``p_value`` is two-sided, of no difference."""

    mean: float
    interval: Interval
    error: float
    degrees: float
    p_value: float


def known_mean(values: Sequence[float]) -> Known | None:
    """Mean of independent values; None with fewer than two, or when all are the same and the noise is not known."""
    if len(values) < 2:
        return None
    mean, sd = mean_and_sd(values)
    if sd <= NO_SPREAD:
        return None
    return Known(mean=mean, error=sd / math.sqrt(len(values)), degrees=len(values) - 1)


def difference(first: Known, second: Known, *, confidence: float = 0.95) -> Difference:
    """Second less first; for logarithms of ratios that is the logarithm of the ratio of both."""
    variances = (first.error**2, second.error**2)
    error = math.sqrt(sum(variances))
    # As shares of the whole, so that small errors do not vanish when they are squared twice.
    shares = [variance / error**2 for variance in variances]
    degrees = 1 / (shares[0] ** 2 / first.degrees + shares[1] ** 2 / second.degrees)
    mean = second.mean - first.mean
    half = t_quantile((1 + confidence) / 2, degrees) * error
    return Difference(
        mean=mean,
        interval=Interval(low=mean - half, high=mean + half, confidence=confidence),
        error=error,
        degrees=degrees,
        p_value=2 * float(stdtr(degrees, -abs(mean) / error)),
    )
