"""Intervals that hold at every number of blocks at once: for whoever looks while it runs, or stops when it suits.

A t interval holds for a number of blocks that was fixed beforehand. One that may be looked at after each block, and
acted on, has to leave the effect outside with probability 1 - confidence over all blocks together. Here the effect in
standard deviations has a normal prior with variance GAIN, and the noise none: the ratio of the likelihoods is then a
martingale under each single effect, which exceeds 1 / alpha with probability alpha at most (Ville 1939).
Sources: Lai, Ann. Statist. 4 (1976) 265-280; Lindon, Ham, Tingley & Bojinov, "Anytime-valid linear models and
regression adjusted causal inference" (2022); Wang & Ramdas, "Anytime-valid t-tests" (2025).
"""

import math
from dataclasses import replace

from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import NO_SPREAD, ratio_of

GAIN = 1.0


def anytime_t(alpha: float, *, degrees: float, information: float) -> float:
    """The t beyond which, on either side, an effect is excluded; infinite where there are too few blocks.

    ``information``: as of a comparison. The value that Student's quantile has in an interval of one look.
    """
    growth = 1 + information * GAIN
    cut = (math.sqrt(growth) / alpha) ** (2 / (degrees + 1))
    return math.inf if cut >= growth else math.sqrt(degrees * (cut - 1) / (1 - cut / growth))


def widen(comparison: Comparison) -> Comparison:
    """The comparison with an interval that holds whenever one looks; without one where there are too few blocks."""
    error, ratio = comparison.error, comparison.ratio
    if error is None or ratio is None or comparison.degrees < 1 or error <= NO_SPREAD:
        return replace(comparison, is_anytime=True)
    half = error * anytime_t(comparison.alpha, degrees=comparison.degrees, information=comparison.information)
    centre = math.log(ratio)
    is_finite = math.isfinite(half)
    return replace(
        comparison,
        low=ratio_of(centre - half) if is_finite else None,
        high=ratio_of(centre + half) if is_finite else None,
        hl_low=None,
        hl_high=None,
        is_anytime=True,
    )
