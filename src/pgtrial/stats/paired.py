"""An arm against the control, block by block: the block is the unit of analysis.

Differences are taken on the log scale inside a block, so whatever slows a whole block slows both and cancels. What
does not cancel, such as a drift over the minutes of a block, gets a random sign from the random order of the arms.
That is why the differences of neighbouring blocks are uncorrelated even where the noise of neighbouring runs is not,
and why the interval needs no correction for autocorrelated noise (shown by tests/stats/test_calibration.py).
Source: Fisher, "The Design of Experiments" (1935), chapter IV; Cochran & Cox, "Experimental Designs" (1957), chapter 4.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pgtrial.language import ntr, tr
from pgtrial.model.caveat import Caveat, Severity
from pgtrial.stats.base import Comparison
from pgtrial.stats.dependence import order_caveats
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, ratio_of, t_interval, t_tail
from pgtrial.stats.sign_flip import sign_flip_p
from pgtrial.stats.signed_rank import hodges_lehmann, signed_rank_interval
from pgtrial.units import format_significant

FEW_BLOCKS = 6


def compare_blocks(
    control: Sequence[float] | NDArray[np.float64],
    treated: Sequence[float] | NDArray[np.float64],
    *,
    confidence: float = 0.95,
    comparisons: int = 1,
) -> Comparison:
    """Ratio treated / control: t interval and p on the block log ratios, exact sign-flip p, Hodges-Lehmann.

    control, treated : (n_blocks,), the same unit, > 0, in the order in which the blocks were run; NaN is no
    observation, and its block is left out. ``confidence`` holds for ``comparisons`` intervals together (Bonferroni:
    Miller, "Simultaneous Statistical Inference" (1981), section 2.3).
    ValueError: shapes differ, or confidence or comparisons is out of range.
    Caveats: no-log-ratio, missing-blocks, no-interval, zero-variance, few-blocks, methods-disagree, and those of
    ``order_caveats``.
    """
    one, other = np.asarray(control, dtype=np.float64), np.asarray(treated, dtype=np.float64)
    if one.ndim != 1 or one.shape != other.shape:
        raise ValueError(f"expected two arrays of one shape (n_blocks,), got {one.shape} and {other.shape}")
    if not 0 < confidence < 1 or comparisons < 1:
        raise ValueError(f"expected 0 < confidence < 1 and comparisons >= 1, got {confidence} and {comparisons}")
    missing = int(np.count_nonzero(np.isnan(one) != np.isnan(other)))
    complete = ~(np.isnan(one) | np.isnan(other))
    one, other = one[complete], other[complete]
    lost = _lost_blocks(missing)
    usable = (one > 0) & np.isfinite(one) & (other > 0) & np.isfinite(other)
    if not usable.all():
        caveats = (*lost, _no_log_ratio(int(np.count_nonzero(~usable)), one.size))
        return _without_interval(None, one.size, confidence, comparisons, caveats)
    log_ratios = np.log(other) - np.log(one)
    count = log_ratios.size
    if count < 2:
        ratio = math.exp(log_ratios[0]) if count else None
        return _without_interval(ratio, count, confidence, comparisons, (*lost, _no_interval(count)))

    alpha = (1 - confidence) / comparisons
    mean, sd = mean_and_sd(log_ratios)
    flip = sign_flip_p(log_ratios)
    rank = signed_rank_interval(log_ratios, confidence=1 - alpha)
    spread = sd > NO_SPREAD
    interval = t_interval(mean, sd, count, confidence=1 - alpha) if spread else None
    p_value = 2 * t_tail(abs(mean) / (sd / math.sqrt(count)), count - 1) if spread else None
    in_order = order_caveats(log_ratios) if spread else ()
    caveats = (*lost, *_shape_caveats(count, p_value, flip, alpha), *in_order)
    return Comparison(
        ratio=math.exp(mean),
        low=ratio_of(interval.low) if interval else None,
        high=ratio_of(interval.high) if interval else None,
        confidence=confidence,
        p_value=p_value,
        p_sign_flip=flip,
        hodges_lehmann=math.exp(hodges_lehmann(log_ratios)),
        hl_low=math.exp(rank.low) if rank else None,
        hl_high=math.exp(rank.high) if rank else None,
        blocks=count,
        sd_log_ratio=sd,
        comparisons=comparisons,
        caveats=caveats,
    )


def _without_interval(
    ratio: float | None, blocks: int, confidence: float, comparisons: int, caveats: tuple[Caveat, ...]
) -> Comparison:
    return Comparison(
        ratio=ratio,
        low=None,
        high=None,
        confidence=confidence,
        p_value=None,
        p_sign_flip=None,
        hodges_lehmann=ratio,
        hl_low=None,
        hl_high=None,
        blocks=blocks,
        sd_log_ratio=None,
        comparisons=comparisons,
        caveats=caveats,
    )


def _shape_caveats(count: int, p_value: float | None, flip: float, alpha: float) -> Iterator[Caveat]:
    smallest = 2.0 ** (1 - count)
    if count < FEW_BLOCKS:
        yield Caveat(
            code="few-blocks",
            severity=Severity.WARNING,
            text=ntr(
                "Only {count} blocks: the interval relies on block log ratios that are normally distributed, and the "
                "exact test cannot get below p = {p}.",
                "Only {count} blocks: the interval relies on block log ratios that are normally distributed, and the "
                "exact test cannot get below p = {p}.",
                count,
                p=format_significant(smallest, 3),
            ),
            hint=ntr("Run at least {count} blocks.", "Run at least {count} blocks.", FEW_BLOCKS),
        )
    if p_value is None:
        yield Caveat(
            code="zero-variance",
            severity=Severity.WARNING,
            text=ntr(
                "All {count} block ratios are the same, so the noise between blocks is not known and there is no "
                "interval.",
                "All {count} block ratios are the same, so the noise between blocks is not known and there is no "
                "interval.",
                count,
            ),
            hint=tr("The metric is coarser than its noise; look at a mean instead of a quantile, or at raw values."),
        )
    elif smallest <= alpha and (p_value <= alpha) != (flip <= alpha):
        yield Caveat(
            code="methods-disagree",
            severity=Severity.WARNING,
            text=tr(
                "The t test (p = {p}) and the exact sign-flip test (p = {flip}) lie on different sides of {alpha}.",
                p=format_significant(p_value, 3),
                flip=format_significant(flip, 3),
                alpha=format_significant(alpha, 3),
            ),
            hint=tr("Look at the block ratios for outliers; more blocks settle it."),
        )


def _lost_blocks(missing: int) -> tuple[Caveat, ...]:
    if not missing:
        return ()
    return (
        Caveat(
            code="missing-blocks",
            severity=Severity.WARNING,
            text=tr("Blocks left out because one of the two arms has no observation: {blocks}.", blocks=missing),
            hint=tr("Find out why: when an arm fails because it is slow, leaving its blocks out favours it."),
        ),
    )


def _no_log_ratio(bad: int, count: int) -> Caveat:
    return Caveat(
        code="no-log-ratio",
        severity=Severity.WARNING,
        text=ntr(
            "In {bad} of {count} blocks an observation is zero, negative or infinite, so a ratio does not exist.",
            "In {bad} of {count} blocks an observation is zero, negative or infinite, so a ratio does not exist.",
            count,
            bad=bad,
        ),
        hint=tr("Look at the differences instead of ratios, or find out why nothing was processed."),
    )


def _no_interval(count: int) -> Caveat:
    return Caveat(
        code="no-interval",
        severity=Severity.WARNING,
        text=tr("Complete blocks: {blocks}. At least two are needed to know the noise between blocks.", blocks=count),
        hint=tr("Run more blocks."),
    )
