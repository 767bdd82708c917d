"""The effect as it would be if a covariate, such as stolen CPU time, had been the same for both arms of each block."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.interval import NO_SPREAD, t_quantile

FEWEST_BLOCKS = 4  # two are spent on the effect and the slope
_LARGEST_LOG = 700.0  # its exponential is still a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjusted:
    """``ratio``, ``low`` and ``high`` are arm / control at equal covariates, dimensionless.

    ``slope`` is the change of the log ratio per unit by which the covariate is larger in the arm's run, with its
    interval. ``sd_before`` and ``sd_after`` are the standard deviations between blocks of the log ratio, without and
    with the covariate: an adjustment that does not lower it has only cost a degree of freedom.
    """

    ratio: float
    low: float
    high: float
    slope: float
    slope_low: float
    slope_high: float
    sd_before: float
    sd_after: float
    blocks: int


def adjust_for(
    log_ratios: Sequence[float] | NDArray[np.float64],
    differences: Sequence[float] | NDArray[np.float64],
    *,
    confidence: float = 0.95,
    comparisons: int = 1,
) -> Adjusted | None:
    """Analysis of covariance of paired blocks: the intercept of the log ratio over the covariate's difference.

    log_ratios : (n_blocks,), log(arm / control); NaN is a block without a ratio.
    differences : (n_blocks,), covariate of the arm's run - that of the control's, in its unit; NaN is unknown.
    Blocks in which either is missing are left out. None with fewer than FEWEST_BLOCKS, or where the difference was the
    same in all blocks, or so nearly that no slope can be told from it; the unadjusted estimate is then all there is.

    It is unbiased only for a covariate that the arm itself does not change, such as what other guests of the host do:
    to adjust for something the arm causes takes away part of its effect. One that all arms of a block share, because
    they took turns, cancels in the ratio already. It counts only where it was declared before the first run, and beside
    the unadjusted estimate. The interval has n - 2 degrees of freedom and holds for ``comparisons`` arms together
    (Bonferroni); the slope's is of itself alone.
    Source: Fisher, "Statistical Methods for Research Workers", 4th ed. (1932), section 49.1; for differences of pairs:
    Cox & McCullagh, Biometrics 38 (1982) 541-561. ValueError when the lengths differ.
    """
    ratios, shifts = np.asarray(log_ratios, dtype=np.float64), np.asarray(differences, dtype=np.float64)
    if ratios.shape != shifts.shape:
        raise ValueError(f"expected a difference for each block, got {shifts.size} for {ratios.size}")
    known = np.isfinite(ratios) & np.isfinite(shifts)
    y, x = ratios[known], shifts[known]
    count = int(y.size)
    if count < FEWEST_BLOCKS:
        return None
    spread = float(((x - x.mean()) ** 2).sum())
    if math.sqrt(spread / count) <= NO_SPREAD * max(1.0, float(np.abs(x).max())):
        return None
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    intercept = float(y.mean()) - slope * float(x.mean())
    residual = math.sqrt(float(((y - intercept - slope * x) ** 2).sum()) / (count - 2))
    # Half widths with n - 2 degrees of freedom: of the mean at zero difference, and of the slope.
    level = 1 - (1 - confidence) / comparisons
    of_intercept = residual * math.sqrt(1 / count + float(x.mean()) ** 2 / spread)
    half = t_quantile((1 + level) / 2, count - 2) * of_intercept
    if abs(intercept) + half > _LARGEST_LOG:
        return None
    slope_half = t_quantile((1 + confidence) / 2, count - 2) * residual / math.sqrt(spread)
    return Adjusted(
        ratio=math.exp(intercept),
        low=math.exp(intercept - half),
        high=math.exp(intercept + half),
        slope=slope,
        slope_low=slope - slope_half,
        slope_high=slope + slope_half,
        sd_before=float(y.std(ddof=1)),
        sd_after=residual,
        blocks=count,
    )
