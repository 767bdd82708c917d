"""Adjust the effect for a covariate, such as stolen CPU time: as if both arms of each block had the same value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.comparison import places
from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import Adjustment
from pgtrial.findings.message import Message, message
from pgtrial.model.metrics import CPU_BUSY, CPU_IDLE, CPU_OBJECT, CPU_PRESSURE, CPU_STEAL
from pgtrial.model.run import RunRow
from pgtrial.stats.base import Interval
from pgtrial.stats.interval import NO_SPREAD, mean_and_sd, t_interval, t_quantile

FEWEST_BLOCKS = 4  # two are spent on the effect and the slope
_LARGEST_EXPONENT = 700.0  # its exponential is still a number


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
    after: Sequence[bool] | NDArray[np.bool_] | None = None,
) -> Adjusted | None:
    """Analysis of covariance of paired blocks: the intercept of the log ratio over the covariate's difference.

    log_ratios : (n_blocks,), log(arm / control); NaN is a block without a ratio.
    differences : (n_blocks,), covariate of the arm's run - that of the control's, in its unit; NaN is unknown.
    after : (n_blocks,), whether the arm ran after the control: what the place in the block does is then taken out too.
    Blocks in which either is missing are left out. None with fewer than FEWEST_BLOCKS, or where the difference was the
    same in all blocks, or so nearly that no slope can be told from it; the unadjusted estimate is then all there is.

    It is unbiased only for a covariate that the arm itself does not change, such as what other guests of the host do:
    to adjust for something the arm causes takes away part of its effect. One that all arms of a block share, because
    they took turns, cancels in the ratio already. It counts only where it was declared before the first run, and beside
    the unadjusted estimate. The interval has n - 2 degrees of freedom, or n - 3, and holds for ``comparisons`` arms
    together (Bonferroni); the slope's is of itself alone.
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
    if np.ptp(x) <= NO_SPREAD * max(1.0, float(np.abs(x).max())):
        return None
    sides = None if after is None else np.where(np.asarray(after, dtype=np.bool_)[known], 1.0, -1.0)
    if sides is not None and np.ptp(sides) == 0:
        sides = None
    plain = np.column_stack([np.ones(count), *(() if sides is None else (sides,))])
    design = np.column_stack([plain, x])
    degrees = count - design.shape[1]
    if degrees < 1 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    coefficients, residual = _least_squares(design, y)
    errors = residual * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    level = 1 - (1 - confidence) / comparisons
    intercept, slope = float(coefficients[0]), float(coefficients[-1])
    half = t_quantile((1 + level) / 2, degrees) * float(errors[0])
    if abs(intercept) + half > _LARGEST_EXPONENT:
        return None
    slope_half = t_quantile((1 + confidence) / 2, degrees) * float(errors[-1])
    return Adjusted(
        ratio=math.exp(intercept),
        low=math.exp(intercept - half),
        high=math.exp(intercept + half),
        slope=slope,
        slope_low=slope - slope_half,
        slope_high=slope + slope_half,
        sd_before=_least_squares(plain, y)[1],
        sd_after=residual,
        blocks=count,
    )


def _least_squares(design: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Coefficients, and the standard deviation of what is left."""
    coefficients = np.asarray(np.linalg.lstsq(design, y)[0], dtype=np.float64)
    left = y - design @ coefficients
    return coefficients, math.sqrt(float(left @ left) / (y.size - design.shape[1]))


# The claim's effect at equal values of a covariate, where the file declared one before the first run.


_LABELS = {"steal": "covariate.steal", "pressure": "covariate.pressure"}
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
        return _without(covariate, 0, message("adjustment.shared-time"))
    if primary is None or primary.effect.ratio is None:
        return _without(covariate, 0, message("adjustment.no-ratio"))
    if evidence.is_spread:
        return _without(covariate, 0, message("adjustment.hosts"))
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
    found = adjust_for(
        log_ratios,
        differences,
        confidence=due or evidence.confidence,
        comparisons=evidence.comparisons,
        after=places(evidence, evidence.pairs(primary.effect.arm)),
    )
    if found is None:
        if blocks == 0:
            return _without(covariate, blocks, message("adjustment.not-read"))
        if blocks < FEWEST_BLOCKS:
            few = message("adjustment.few-blocks", needed=FEWEST_BLOCKS, blocks=blocks)
            return _without(covariate, blocks, few)
        return _without(covariate, blocks, message("adjustment.same"))
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
        text=_describe(
            evidence, covariate, found, unadjusted=primary.comparison.ratio, mean=mean, shift=shift, due=due
        ),
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


def _without(covariate: str, blocks: int, why: Message) -> Adjustment:
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
        text=message("adjustment.none", covariate=message(_LABELS[covariate]), why=why),
    )


def _describe(
    evidence: Evidence,
    covariate: str,
    found: Adjusted,
    *,
    unadjusted: float | None,
    mean: float,
    shift: Interval,
    due: float | None,
) -> Message:
    label = message(_LABELS[covariate])
    interval = message("adjustment.no-interval")
    if due:
        interval = message(
            "adjustment.interval",
            confidence=evidence.confidence,
            low=_ratio(math.log(found.low)),
            high=_ratio(math.log(found.high)),
        )
    sentences = [
        message(
            "adjustment.change-alone" if unadjusted is None else "adjustment.change",
            covariate=label,
            change=_ratio(math.log(found.ratio)),
            interval=interval,
            count=found.blocks,
            unadjusted=unadjusted,
        ),
        message(
            "adjustment.slope-between" if due else "adjustment.slope",
            change=_ratio(found.slope * _POINT),
            low=_ratio(found.slope_low * _POINT),
            high=_ratio(found.slope_high * _POINT),
            after=found.sd_after,
            before=found.sd_before,
        ),
        message("adjustment.verdict"),
    ]
    if shift.low > NO_SPREAD or shift.high < -NO_SPREAD:
        code = "adjustment.more" if mean > 0 else "adjustment.less"
        sentences.append(message(code, share=abs(mean), covariate=label))
    return message("sentences", parts=tuple(sentences))


def _ratio(log_ratio: float) -> float:
    return math.exp(min(log_ratio, _LARGEST_LOG))
