"""Decisions by interval against the margin, the smallest effect that matters.

Better and worse need the interval wholly beyond a bound; equivalent needs
two one-sided tests (TOST), that is, the interval with twice the error probability wholly inside both.
Sources: Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987) 657-680; Berger & Hsu, Statist. Sci. 11 (1996) 283-319.
"""

import math
from enum import StrEnum

from pgtrial.model.metric import Better
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.interval import t_tail


class Region(StrEnum):
    """Position of the interval relative to the margin, regardless of which direction is better."""

    ABOVE = "above"
    BELOW = "below"
    INSIDE = "inside"
    UNCLEAR = "unclear"


# Logarithms of the ratios between which an effect does not matter; ``Rules.log_bounds`` gives those of a margin.
Bounds = tuple[float, float]


def equivalence_p(comparison: Comparison, *, bounds: Bounds) -> float | None:
    """P-value of the two one-sided t tests of "the ratio is outside the margin"; None without an interval."""
    lower, upper = bounds
    error, degrees = comparison.error, comparison.degrees
    if comparison.low is None or comparison.ratio is None or error is None:
        return None
    mean, (down, up) = math.log(comparison.ratio), comparison.hidden
    return max(t_tail((mean - down - lower) / error, degrees), t_tail((upper - mean - up) / error, degrees))


def beyond_p(comparison: Comparison, *, bounds: Bounds) -> float | None:
    """Two-sided p-value of "the ratio does not lie beyond the bound that the estimate lies beyond".

    At least one half where the estimate lies between the bounds; None without an interval.
    """
    lower, upper = bounds
    error, degrees = comparison.error, comparison.degrees
    if comparison.low is None or comparison.ratio is None or error is None:
        return None
    mean, (down, up) = math.log(comparison.ratio), comparison.hidden
    return min(1.0, 2 * t_tail(max(mean - down - upper, lower - mean - up) / error, degrees))


def find_region(comparison: Comparison, *, bounds: Bounds) -> Region:
    """The region that the data establish; UNCLEAR without an interval."""
    lower, upper = bounds
    p_value = equivalence_p(comparison, bounds=bounds)
    if comparison.low is None or comparison.high is None or p_value is None:
        return Region.UNCLEAR
    low, high = math.log(comparison.low), math.log(comparison.high)
    if low > upper:
        return Region.ABOVE
    if high < lower:
        return Region.BELOW
    if comparison.is_anytime:
        # Of an interval that holds at every look no narrower one is known for two one-sided tests.
        return Region.INSIDE if lower < low and high < upper else Region.UNCLEAR
    # With margin 0 nothing lies inside, and p is then at least one half.
    return Region.INSIDE if p_value < comparison.alpha else Region.UNCLEAR


def decide(comparison: Comparison, *, bounds: Bounds, better: Better) -> Decision:
    """Decide about an effect. A metric without a better direction can only be equivalent or inconclusive."""
    good = {Better.HIGHER: Region.ABOVE, Better.LOWER: Region.BELOW, Better.NEITHER: None}[better]
    match find_region(comparison, bounds=bounds):
        case Region.INSIDE:
            return Decision.EQUIVALENT
        case Region.UNCLEAR:
            return Decision.INCONCLUSIVE
        case region if good is not None:
            return Decision.BETTER if region is good else Decision.WORSE
        case _:
            return Decision.INCONCLUSIVE


def claim_bound(expect: str, *, bounds: Bounds, better: Better) -> tuple[float, bool] | None:
    """For a claim about one side: the log bound, and whether the claim says that the ratio is above it.

    None for "equivalent" and "different", and for a metric without a good direction.
    """
    if expect in ("equivalent", "different") or better is Better.NEITHER:
        return None
    lower, upper = bounds
    above = (better is Better.HIGHER) == (expect != "worse")
    # "better" must clear the bound on the good side; "worse" and "not-worse" are about the one on the bad side.
    higher_bound = (better is Better.HIGHER) == (expect == "better")
    return (upper if higher_bound else lower), above


def judge(comparison: Comparison, *, expect: str, bounds: Bounds, better: Better) -> Verdict:
    """Judge the claim that the arm is better, worse, not-worse, equivalent or different.

    INCONCLUSIVE without an interval, and for a one-sided claim on a metric without a good direction.
    ValueError: ``expect`` is none of these.
    """
    if expect not in ("better", "worse", "not-worse", "equivalent", "different"):
        raise ValueError(f'expected better, worse, not-worse, equivalent or different, got "{expect}"')
    if expect in ("equivalent", "different"):
        region = find_region(comparison, bounds=bounds)
        if region is Region.UNCLEAR:
            return Verdict.INCONCLUSIVE
        return Verdict.SUPPORTED if (region is Region.INSIDE) == (expect == "equivalent") else Verdict.REFUTED
    claim = claim_bound(expect, bounds=bounds, better=better)
    if claim is None or comparison.low is None or comparison.high is None:
        return Verdict.INCONCLUSIVE
    bound, above = claim
    if math.log(comparison.low) > bound:
        return Verdict.SUPPORTED if above else Verdict.REFUTED
    if math.log(comparison.high) < bound:
        return Verdict.REFUTED if above else Verdict.SUPPORTED
    return Verdict.INCONCLUSIVE
