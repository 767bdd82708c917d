"""Decisions by interval against the margin, the smallest effect that matters.

The bounds are 1 - margin and 1 + margin. Better and worse need the interval wholly beyond a bound; equivalent needs
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


def log_bounds(margin: float) -> tuple[float, float]:
    """Logs of 1 - margin and 1 + margin; ValueError unless 0 <= margin < 1."""
    if not 0 <= margin < 1:
        raise ValueError(f"expected 0 <= margin < 1, got {margin}")
    return math.log1p(-margin), math.log1p(margin)


def equivalence_p(comparison: Comparison, *, margin: float) -> float | None:
    """P-value of the two one-sided t tests of "the ratio is outside the margin"; None without an interval."""
    lower, upper = log_bounds(margin)
    if comparison.low is None or comparison.ratio is None or comparison.sd_log_ratio is None:
        return None
    error = comparison.sd_log_ratio / math.sqrt(comparison.blocks)
    mean, degrees = math.log(comparison.ratio), comparison.blocks - 1
    return max(t_tail((mean - lower) / error, degrees), t_tail((upper - mean) / error, degrees))


def find_region(comparison: Comparison, *, margin: float) -> Region:
    """The region that the data establish; UNCLEAR without an interval."""
    lower, upper = log_bounds(margin)
    p_value = equivalence_p(comparison, margin=margin)
    if comparison.low is None or comparison.high is None or p_value is None:
        return Region.UNCLEAR
    if math.log(comparison.low) > upper:
        return Region.ABOVE
    if math.log(comparison.high) < lower:
        return Region.BELOW
    # With margin 0 nothing lies inside, and p is then at least one half.
    return Region.INSIDE if p_value < comparison.alpha else Region.UNCLEAR


def decide(comparison: Comparison, *, margin: float, better: Better) -> Decision:
    """Decide about an effect. A metric without a better direction can only be equivalent or inconclusive."""
    good = {Better.HIGHER: Region.ABOVE, Better.LOWER: Region.BELOW, Better.NEITHER: None}[better]
    match find_region(comparison, margin=margin):
        case Region.INSIDE:
            return Decision.EQUIVALENT
        case Region.UNCLEAR:
            return Decision.INCONCLUSIVE
        case region if good is not None:
            return Decision.BETTER if region is good else Decision.WORSE
        case _:
            return Decision.INCONCLUSIVE


def claim_bound(expect: str, *, margin: float, better: Better) -> tuple[float, bool] | None:
    """For a claim about one side: the log bound, and whether the claim says that the ratio is above it.

    None for "equivalent" and "different", and for a metric without a good direction.
    """
    if expect in ("equivalent", "different") or better is Better.NEITHER:
        return None
    lower, upper = log_bounds(margin)
    above = (better is Better.HIGHER) == (expect != "worse")
    # "better" must clear the bound on the good side; "worse" and "not-worse" are about the one on the bad side.
    higher_bound = (better is Better.HIGHER) == (expect == "better")
    return (upper if higher_bound else lower), above


def judge(comparison: Comparison, *, expect: str, margin: float, better: Better) -> Verdict:
    """Judge the claim that the arm is better, worse, not-worse, equivalent or different.

    INCONCLUSIVE without an interval, and for a one-sided claim on a metric without a good direction.
    ValueError: ``expect`` is none of these.
    """
    if expect not in ("better", "worse", "not-worse", "equivalent", "different"):
        raise ValueError(f'expected better, worse, not-worse, equivalent or different, got "{expect}"')
    if expect in ("equivalent", "different"):
        region = find_region(comparison, margin=margin)
        if region is Region.UNCLEAR:
            return Verdict.INCONCLUSIVE
        return Verdict.SUPPORTED if (region is Region.INSIDE) == (expect == "equivalent") else Verdict.REFUTED
    claim = claim_bound(expect, margin=margin, better=better)
    if claim is None or comparison.low is None or comparison.high is None:
        return Verdict.INCONCLUSIVE
    bound, above = claim
    if math.log(comparison.low) > bound:
        return Verdict.SUPPORTED if above else Verdict.REFUTED
    if math.log(comparison.high) < bound:
        return Verdict.REFUTED if above else Verdict.SUPPORTED
    return Verdict.INCONCLUSIVE
