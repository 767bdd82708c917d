"""The claim's effect at equal values of a covariate, where the file declared one before the first run."""

import math

import numpy as np

from pgtrial.analysis.covariate import FEWEST_BLOCKS, Adjusted, adjust_for
from pgtrial.analysis.effects import Estimated
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.findings import Adjustment
from pgtrial.analysis.metrics import CPU_BUSY, CPU_IDLE, CPU_OBJECT, CPU_PRESSURE, CPU_STEAL
from pgtrial.analysis.reduce import Reduction
from pgtrial.model.run import RunRow
from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, t_interval
from pgtrial.units import format_change, format_percent, format_share

_LABELS = {"steal": "stolen CPU time", "pressure": "CPU pressure"}
_POINT = 0.01  # a slope is told for one percentage point
_LARGEST_LOG = 20.0  # of a ratio that is put into words


def adjust_primary(evidence: Evidence, reduction: Reduction, primary: Estimated | None) -> Adjustment | None:
    """The effect that the claim is about, ``primary``, adjusted; None where the file declares no covariate.

    For the report beside the unadjusted effect: no verdict, caveat or rule for stopping looks at it.
    """
    covariate = evidence.experiment.design.covariate
    if covariate is None:
        return None
    if any(run.slices for run in evidence.valid):
        return _without(covariate, 0, "the arms shared the time of each block, so they shared it too, and it cancels")
    if primary is None:
        return _without(covariate, 0, "no block has a ratio")
    log_ratios = np.array([np.nan if each is None else math.log(each) for each in primary.effect.block_ratios])
    differences = np.array(
        [
            _share(reduction, run, covariate) - _share(reduction, control, covariate)
            for control, run in evidence.pairs(primary.effect.arm)
        ]
    )
    known = np.isfinite(log_ratios) & np.isfinite(differences)
    blocks = int(known.sum())
    due = evidence.confidence_at(primary.comparison.blocks)
    found = adjust_for(log_ratios, differences, confidence=due or evidence.confidence, comparisons=evidence.comparisons)
    if found is None:
        if blocks == 0:
            return _without(covariate, blocks, "it was not read")
        if blocks < FEWEST_BLOCKS:
            return _without(covariate, blocks, f"it takes {FEWEST_BLOCKS} blocks, and {blocks} have it in both arms")
        return _without(covariate, blocks, "its difference between the arms was the same in all blocks, or nearly so")
    mean, sd = mean_and_sd(differences[known])
    shift = t_interval(mean, sd, blocks, confidence=evidence.confidence)
    return Adjustment(
        covariate=covariate,
        ratio=found.ratio,
        low=found.low if due else None,
        high=found.high if due else None,
        slope=found.slope,
        slope_low=found.slope_low if due else None,
        slope_high=found.slope_high if due else None,
        difference=mean,
        difference_low=shift.low,
        difference_high=shift.high,
        sd_before=found.sd_before,
        sd_after=found.sd_after,
        blocks=blocks,
        text=_words(evidence, covariate, found, unadjusted=primary.comparison.ratio, mean=mean, shift=shift, due=due),
    )


def _share(reduction: Reduction, run: RunRow, covariate: str) -> float:
    """The covariate over all measured windows of a run; NaN where it was not read."""
    part, whole = 0.0, 0.0
    for window in measured(run):
        level = window.level or 0
        if covariate == "pressure":
            waited, passed = reduction.increase(run.id, level, (CPU_PRESSURE,)), window.end - window.start
        else:
            waited = reduction.increase(run.id, level, (CPU_STEAL,), object=CPU_OBJECT)
            used = reduction.increase(run.id, level, (*CPU_BUSY, *CPU_IDLE), object=CPU_OBJECT)
            passed = math.nan if waited is None or used is None else waited + used
        part += math.nan if waited is None else waited
        whole += passed
    return part / whole if whole else math.nan


def _without(covariate: str, blocks: int, why: str) -> Adjustment:
    return Adjustment(
        covariate=covariate,
        ratio=None,
        low=None,
        high=None,
        slope=None,
        slope_low=None,
        slope_high=None,
        difference=None,
        difference_low=None,
        difference_high=None,
        sd_before=None,
        sd_after=None,
        blocks=blocks,
        text=f"The effect is not adjusted for {_LABELS[covariate]}: {why}.",
    )


def _words(
    evidence: Evidence,
    covariate: str,
    found: Adjusted,
    *,
    unadjusted: float | None,
    mean: float,
    shift: Interval,
    due: float | None,
) -> str:
    label = _LABELS[covariate]
    interval = f"{format_share(evidence.confidence)} interval {_between(math.log(found.low), math.log(found.high))}"
    text = (
        f"At equal {label} the change would be {_change(math.log(found.ratio))} "
        f"({interval if due else 'without an interval yet'}; from {found.blocks} blocks)"
    )
    if unadjusted is not None:
        text += f" instead of {format_change(unadjusted)}"
    text += f". One percentage point more of it goes with {_change(found.slope * _POINT)}"
    if due:
        text += f" ({_between(found.slope_low * _POINT, found.slope_high * _POINT)})"
    text += (
        f"; the standard deviation between blocks is {format_percent(found.sd_after)} with the adjustment and "
        f"{format_percent(found.sd_before)} without. The verdict is about the unadjusted effect."
    )
    if shift.low > NO_SPREAD or shift.high < -NO_SPREAD:
        text += (
            f" The arm's runs have {format_percent(abs(mean))} {'more' if mean > 0 else 'less'} {label} than the "
            "control's: if the arm itself is the cause, the adjustment takes away part of its effect."
        )
    return text


def _between(low: float, high: float) -> str:
    return f"{_change(low)} to {_change(high)}"


def _change(log_ratio: float) -> str:
    return format_change(math.exp(min(log_ratio, _LARGEST_LOG)))
