"""The claim's effect at equal values of a covariate, where the file declared one before the first run."""

import math

import numpy as np

from pgtrial.analysis.covariate import FEWEST_BLOCKS, Adjusted, adjust_for
from pgtrial.analysis.effects import Estimated
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.metrics import CPU_BUSY, CPU_IDLE, CPU_OBJECT, CPU_PRESSURE, CPU_STEAL
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import Adjustment
from pgtrial.language import N_, ntr, tr
from pgtrial.model.run import RunRow
from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, t_interval
from pgtrial.units import format_change, format_percent, format_share

_LABELS = {"steal": N_("stolen CPU time"), "pressure": N_("CPU pressure")}
_MORE_OF_IT = N_(
    "The arm's runs have {share} more {covariate} than the control's: if the arm itself is the cause, the adjustment "
    "takes away part of its effect."
)
_LESS_OF_IT = N_(
    "The arm's runs have {share} less {covariate} than the control's: if the arm itself is the cause, the adjustment "
    "takes away part of its effect."
)
_SLOPE = N_(
    "One percentage point more of it goes with {change}; the standard deviation between blocks is {after} with the "
    "adjustment and {before} without."
)
_SLOPE_BETWEEN = N_(
    "One percentage point more of it goes with {change} ({low} to {high}); the standard deviation between blocks is "
    "{after} with the adjustment and {before} without."
)
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
        shared = tr("the arms shared the time of each block, so they shared it too, and it cancels")
        return _without(covariate, 0, shared)
    if primary is None:
        return _without(covariate, 0, tr("no block has a ratio"))
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
            return _without(covariate, blocks, tr("it was not read"))
        if blocks < FEWEST_BLOCKS:
            few = tr("it takes {needed} blocks, and {blocks} have it in both arms", needed=FEWEST_BLOCKS, blocks=blocks)
            return _without(covariate, blocks, few)
        same = tr("its difference between the arms was the same in all blocks, or nearly so")
        return _without(covariate, blocks, same)
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
        text=tr("The effect is not adjusted for {covariate}: {why}.", covariate=tr(_LABELS[covariate]), why=why),
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
    label = tr(_LABELS[covariate])
    interval = tr("without an interval yet")
    if due:
        interval = tr(
            "{confidence} interval {low} to {high}",
            confidence=format_share(evidence.confidence),
            low=_change(math.log(found.low)),
            high=_change(math.log(found.high)),
        )
    adjusted = {
        "covariate": label,
        "change": _change(math.log(found.ratio)),
        "interval": interval,
        "unadjusted": "" if unadjusted is None else format_change(unadjusted),
    }
    sentences = [
        _tell_adjusted(found.blocks, **adjusted),
        _tell_slope(found, has_interval=bool(due)),
        tr("The verdict is about the unadjusted effect."),
    ]
    if shift.low > NO_SPREAD or shift.high < -NO_SPREAD:
        text = _MORE_OF_IT if mean > 0 else _LESS_OF_IT
        sentences.append(tr(text, share=format_percent(abs(mean)), covariate=label))
    return " ".join(sentences)


def _tell_adjusted(blocks: int, *, covariate: str, change: str, interval: str, unadjusted: str) -> str:
    told = {"covariate": covariate, "change": change, "interval": interval}
    if not unadjusted:
        return ntr(
            "At equal {covariate} the change would be {change} ({interval}; from {count} blocks).",
            "At equal {covariate} the change would be {change} ({interval}; from {count} blocks).",
            blocks,
            **told,
        )
    return ntr(
        "At equal {covariate} the change would be {change} ({interval}; from {count} blocks) instead of {unadjusted}.",
        "At equal {covariate} the change would be {change} ({interval}; from {count} blocks) instead of {unadjusted}.",
        blocks,
        **told,
        unadjusted=unadjusted,
    )


def _tell_slope(found: Adjusted, *, has_interval: bool) -> str:
    return tr(
        _SLOPE_BETWEEN if has_interval else _SLOPE,
        change=_change(found.slope * _POINT),
        low=_change(found.slope_low * _POINT),
        high=_change(found.slope_high * _POINT),
        after=format_percent(found.sd_after),
        before=format_percent(found.sd_before),
    )


def _change(log_ratio: float) -> str:
    return format_change(math.exp(min(log_ratio, _LARGEST_LOG)))
