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

from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.stats.base import Comparison
from pgtrial.stats.dependence import order_caveats
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, ratio_of, t_interval, t_tail
from pgtrial.stats.sign_flip import sign_flip_p
from pgtrial.stats.signed_rank import hodges_lehmann, signed_rank_interval

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
    ratio: float | None, blocks: int, confidence: float, comparisons: int, caveats: tuple[CaveatFinding, ...]
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


def _shape_caveats(count: int, p_value: float | None, flip: float, alpha: float) -> Iterator[CaveatFinding]:
    smallest = 2.0 ** (1 - count)
    if count < FEW_BLOCKS:
        yield caveat("few-blocks", count=count, p=smallest, fewest=FEW_BLOCKS)
    if p_value is None:
        yield caveat("zero-variance", count=count)
    elif smallest <= alpha and (p_value <= alpha) != (flip <= alpha):
        yield caveat("methods-disagree", p=p_value, flip=flip, alpha=alpha)


def _lost_blocks(missing: int) -> tuple[CaveatFinding, ...]:
    if not missing:
        return ()
    return (caveat("missing-blocks", blocks=missing),)


def _no_log_ratio(bad: int, count: int) -> CaveatFinding:
    return caveat("no-log-ratio", bad=bad, count=count)


def _no_interval(count: int) -> CaveatFinding:
    return caveat("no-interval", blocks=count)
