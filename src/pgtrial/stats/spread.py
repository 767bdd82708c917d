"""The standard deviation of the noise itself, from one series of blocks or from several that were made apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import chdtri

from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, t_interval, t_quantile
from pgtrial.stats.slices import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """``mean`` of all values; ``sd`` inside the groups, with ``degrees`` of freedom; ``count`` values in all."""

    mean: float
    sd: float
    degrees: int
    count: int

    def mean_interval(self, confidence: float) -> Interval | None:
        """Of the mean; None where all values of a group are the same, so that their noise is not known."""
        if self.sd <= NO_SPREAD:
            return None
        # The variance of the mean of ``count`` values, by an estimate with fewer degrees of freedom than count - 1.
        scale = self.sd * math.sqrt((self.degrees + 1) / self.count)
        return t_interval(self.mean, scale, self.degrees + 1, confidence=confidence)


def pool_groups(groups: Sequence[Sequence[float]]) -> Pooled | None:
    """Values of several groups, such as block log ratios of experiments that were made one after the other.

    Each group is compared with its own mean, so what a group has in common (its data's place on the disk) is not noise
    of a block. Groups with fewer than two values are left out; None without any other.
    Source: Snedecor & Cochran, "Statistical Methods", 8th ed. (1989), section 6.7: the pooled variance.
    """
    used = [group for group in groups if len(group) >= 2]
    count = sum(map(len, used))
    degrees = count - len(used)
    if not used:
        return None
    squares = math.fsum((value - math.fsum(group) / len(group)) ** 2 for group in used for value in group)
    return Pooled(
        mean=math.fsum(value for group in used for value in group) / count,
        sd=math.sqrt(squares / degrees),
        degrees=degrees,
        count=count,
    )


def sd_interval(sd: float, degrees: int, *, confidence: float = 0.95) -> Interval:
    """Chi-square interval of a standard deviation that was estimated with ``degrees`` >= 1 degrees of freedom.

    It holds for normally distributed values; with heavier tails it is too narrow.
    Source: Snedecor & Cochran, as above, section 5.11.
    """
    tail = (1 - confidence) / 2
    low, high = (sd * math.sqrt(degrees / float(chdtri(degrees, p))) for p in (tail, 1 - tail))
    return Interval(low=low, high=high, confidence=confidence)


def average_estimates(estimates: Sequence[Estimate], *, confidence: float, wanted: float) -> Estimate:
    """The mean of independent estimates of one quantity, each with the weight of its blocks.

    Theirs are t intervals at level ``confidence``, that of the result is at ``wanted``. Their variances are added, with
    the degrees of freedom of such a sum (Welch-Satterthwaite). No interval where one of them has none.
    Source: Welch, Biometrika 34 (1947) 28-35.
    """
    known = [(one, one.value) for one in estimates if one.value is not None]
    blocks = sum(one.blocks for one, _ in known)
    if not blocks:
        return Estimate(value=None, low=None, high=None, blocks=0)
    mean = math.fsum(one.blocks * value for one, value in known) / blocks
    variances = []
    for one, _ in known:
        if one.low is None or one.high is None:
            return Estimate(value=mean, low=None, high=None, blocks=blocks)
        error = (one.high - one.low) / 2 / t_quantile((1 + confidence) / 2, one.blocks - 1)
        variances.append((one.blocks / blocks * error) ** 2)
    total = math.fsum(variances)
    degrees = total**2 / math.fsum(v**2 / (one.blocks - 1) for v, (one, _) in zip(variances, known, strict=True))
    half = t_quantile((1 + wanted) / 2, degrees) * math.sqrt(total)
    return Estimate(value=mean, low=mean - half, high=mean + half, blocks=blocks)
