"""Diagnostics from the slices inside blocks: leaks between arms, and sources of noise.

None of this enters an effect or its interval, for which a block stays one number.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc

from pgtrial.findings.record import Estimate
from pgtrial.stats.base import Interval
from pgtrial.stats.dependence import lag1
from pgtrial.stats.interval import (
    NO_SPREAD,
    Known,
    difference,
    estimate_about,
    mean_and_sd,
    ratio_of,
    t_interval,
    t_quantile,
)
from pgtrial.stats.power import detectable_ratio

PARTS = 4  # of the counted time of a slice
FEWEST_PAIRS = 8  # of slices in a block, to tell how neighbours depend on each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Standard deviation of the log ratio between blocks: expected from the slices alone, and observed.

    ``p_value`` is one-sided: how often blocks would differ at least as much if only the noise of slices parted them.
    """

    expected: float
    observed: float
    p_value: float


def carry_over(
    control: NDArray[np.float64], treated: NDArray[np.float64], *, confidence: float = 0.95
) -> Estimate | None:
    """Factor by which the ratio treated / control changes from the first half of a slice to the second: 1 is no leak.

    control, treated : (n_blocks, PARTS), transactions in each quarter of the counted time of the slices, summed over
    the slices of a block; NaN or zero leaves the block out. What the other arm has left behind (its pages in the cache,
    its writes in the queue) fades while a slice lasts, so an effect that is understated for that reason grows inside
    the slices. The interval is the t interval over the blocks: a contrast inside each block, as for every effect.
    What outlives a slice does not show here, but in slices of another length.
    Source: Student 1908, on the differences; carry-over in designs with turns: Jones & Kenward, "Design and Analysis of
    Cross-Over Trials", 3rd ed. (2014), chapter 2.
    ValueError: the arrays are not of one shape (n_blocks, PARTS).
    """
    one, other = np.asarray(control, dtype=np.float64), np.asarray(treated, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 2 or one.shape[1] != PARTS:
        raise ValueError(f"expected two arrays of one shape (n_blocks, {PARTS}), got {one.shape} and {other.shape}")
    halves = np.stack([part.reshape(-1, 2, PARTS // 2).sum(axis=2) for part in (one, other)])
    halves = halves[:, np.all(halves > 0, axis=(0, 2))]  # NaN is not above zero
    early, late = (np.log(halves[1, :, half]) - np.log(halves[0, :, half]) for half in (0, 1))
    return _mean_ratio(late - early, confidence)


def left_behind(
    washout: NDArray[np.float64], counted: NDArray[np.float64], *, confidence: float = 0.95
) -> Estimate | None:
    """Factor by which the ratio of two arms changes from their washout to what counts: 1 is nothing left behind.

    washout, counted : (n_blocks, 2), throughput of the control and of the arm; NaN or zero leaves the block out. In its
    washout an arm follows the other one, in what counts itself: the change is what one arm does to the next that the
    other does not. The interval is the t interval over the blocks.
    Source: Jones & Kenward, "Design and Analysis of Cross-Over Trials", 3rd ed. (2014), section 2.3.
    """
    both = np.stack([np.asarray(each, dtype=np.float64).reshape(-1, 2) for each in (washout, counted)])
    both = both[:, np.all(both > 0, axis=(0, 2))]
    ratios = np.log(both[:, :, 1]) - np.log(both[:, :, 0])
    return _mean_ratio(ratios[1] - ratios[0], confidence)


def growth_with_length(
    short: NDArray[np.float64], long: NDArray[np.float64], *, confidence: float = 0.95
) -> Estimate | None:
    """Factor by which the ratio treated / control is larger in blocks with long slices than with short ones.

    short, long : log ratios of blocks. What builds up over more than a slice shows here, where ``carry_over`` cannot
    see it. The interval is Welch's, for two groups whose variances may differ (``difference``).
    """
    groups = [np.asarray(group, dtype=np.float64) for group in (short, long)]
    groups = [group[~np.isnan(group)] for group in groups]
    if any(group.size == 0 for group in groups):
        return None
    change = float(groups[1].mean() - groups[0].mean())
    if any(group.size < 2 for group in groups):
        return Estimate(value=math.exp(change))
    known = [
        Known(mean=float(group.mean()), error=float(group.std(ddof=1)) / math.sqrt(group.size), degrees=group.size - 1)
        for group in groups
    ]
    if math.hypot(*(each.error for each in known)) <= NO_SPREAD:
        return Estimate(value=math.exp(change))
    found = difference(*known, confidence=confidence).interval
    return Estimate(value=change, low=found.low, high=found.high).mapped(ratio_of)


def pair_autocorrelation(log_ratios: NDArray[np.float64]) -> float | None:
    """Lag-1 autocorrelation of the log ratios of successive pairs of slices inside a block.

    log_ratios : (n_blocks, n_pairs), log(treated / control) of the first slice of each, the second, and so on, in order
    of time; NaN is no pair. Zero says that each pair brings news, so that shorter slices with more of them gain nothing
    more; well above zero, neighbouring pairs share their noise, and longer ones would lose little.
    Blocks with fewer than FEWEST_PAIRS pairs are left out. In each of the others r is corrected for its bias,
    -(1 + 4ρ) / n; the result is their mean, None without such a block.
    Source of the correction: Kendall, Biometrika 41 (1954) 403-404; Marriott & Pope, ibid. 390-402.
    """
    found = []
    for block in np.asarray(log_ratios, dtype=np.float64):
        count = int(np.count_nonzero(~np.isnan(block)))
        value = lag1(block) if count >= FEWEST_PAIRS else None
        if value is not None:
            found.append((value + 1 / count) / (1 - 4 / count))
    return math.fsum(found) / len(found) if found else None


def compare_spread(log_ratios: NDArray[np.float64]) -> Spread | None:
    """Whether blocks differ by more than the noise of their slices explains: one-way analysis of variance.

    log_ratios : (n_blocks, n_pairs) as for pair_autocorrelation; NaN is no pair. Noise that lasts longer than a pair,
    or something that differs from block to block (the data's place on the disk, the state that a block began with),
    makes ``observed`` larger: then more blocks help, and longer ones do not. Autocorrelation inside the blocks does so
    too; look at it first. None with fewer than two blocks, fewer than two pairs in one of them, or
    without noise in the slices.
    Source: Fisher, "Statistical Methods for Research Workers" (1925), chapter VII.
    """
    values = [block[~np.isnan(block)] for block in np.asarray(log_ratios, dtype=np.float64)]
    sizes = np.array([block.size for block in values if block.size], dtype=np.float64)
    values = [block for block in values if block.size]
    if sizes.size < 2 or sizes.min() < 2:
        return None
    means = np.array([block.mean() for block in values])
    degrees = float(sizes.sum()) - sizes.size
    within = sum(float(((block - mean) ** 2).sum()) for block, mean in zip(values, means, strict=True)) / degrees
    if within <= NO_SPREAD**2:
        return None
    grand = float((sizes * means).sum() / sizes.sum())
    between = float((sizes * (means - grand) ** 2).sum()) / (sizes.size - 1)
    return Spread(
        expected=math.sqrt(within * float((1 / sizes).mean())),
        observed=mean_and_sd(means)[1],
        p_value=float(fdtrc(sizes.size - 1, degrees, between / within)),
    )


def sd_per_minute(sd_log: float, seconds: float) -> float:
    """Standard deviation of the log ratio for one minute of testing, the measure for comparing designs.

    sd_log : between blocks of ``seconds`` each, all arms together. It falls with the root of the time as long as blocks
    are independent, so a design with half of it needs a quarter of the time.
    ValueError unless ``seconds`` is positive.
    """
    if seconds <= 0:
        raise ValueError(f"expected a positive time, got {seconds}")
    return sd_log * math.sqrt(seconds / 60)


def detectable_in(
    sd_log: float | None,
    block_seconds: float,
    budget: float,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    comparisons: int = 1,
) -> float | None:
    """Smallest relative change detectable with the whole blocks that fit into ``budget`` seconds; see detectable_ratio.

    ``block_seconds`` is everything that a block takes, restoring and warming up included. None with fewer than two.
    """
    blocks = math.floor(budget / block_seconds * (1 + 1e-9))
    return detectable_ratio(sd_log, blocks, confidence=confidence, power=power, comparisons=comparisons)


def _mean(values: NDArray[np.float64], confidence: float) -> Estimate | None:
    """No interval with fewer than two blocks or where all agree exactly; None without a block."""
    count = values.size
    if count < 2:
        return Estimate(value=float(values[0])) if count else None
    mean, sd = mean_and_sd(values)
    if sd <= NO_SPREAD:
        return Estimate(value=mean)
    interval = t_interval(mean, sd, count, confidence=confidence)
    return Estimate(value=mean, low=interval.low, high=interval.high)


def _mean_ratio(log_ratios: NDArray[np.float64], confidence: float) -> Estimate | None:
    found = _mean(log_ratios, confidence)
    return None if found is None else found.mapped(ratio_of)


# The standard deviation of the noise itself, from one series of blocks or from several that were made apart.


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledNoise:
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


def pool_groups(groups: Sequence[Sequence[float]]) -> PooledNoise | None:
    """Pool values of several groups, such as block log ratios of consecutive experiments.

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
    return PooledNoise(
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


def average_estimates(
    estimates: Sequence[tuple[int, Estimate]], *, confidence: float, wanted: float
) -> Estimate | None:
    """The mean of independent estimates of one quantity, each with the weight of the blocks that it is made of.

    Theirs are t intervals at level ``confidence``, that of the result is at ``wanted``. Their variances are added, with
    the degrees of freedom of such a sum (Welch-Satterthwaite). No interval where one of them has none; None of none.
    Source: Welch, Biometrika 34 (1947) 28-35.
    """
    blocks = sum(number for number, _ in estimates)
    if not blocks:
        return None
    mean = math.fsum(number * one.value for number, one in estimates) / blocks
    variances = []
    for number, one in estimates:
        if one.low is None or one.high is None:
            return Estimate(value=mean)
        error = (one.high - one.low) / 2 / t_quantile((1 + confidence) / 2, number - 1)
        variances.append((number / blocks * error) ** 2)
    total = math.fsum(variances)
    degrees = total**2 / math.fsum(v**2 / (number - 1) for v, (number, _) in zip(variances, estimates, strict=True))
    return estimate_about(mean, math.sqrt(total), degrees, confidence=wanted)
