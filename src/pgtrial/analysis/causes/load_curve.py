"""Load curves: the Universal Scalability Law of each arm, and where an arm and the control change places."""

import math
from collections.abc import Sequence

from pgtrial.analysis.effects import Estimated, find_effect
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.causes import Crossing, CurveModel
from pgtrial.findings.findings import Effect
from pgtrial.findings.message import Message, message
from pgtrial.findings.record import Estimate
from pgtrial.stats.scalability import Parameter, crossings, fit_scalability


def model_curves(evidence: Evidence, values: Values) -> tuple[CurveModel, ...]:
    """One per arm that has a valid run, where there are several load levels; without numbers where there is no fit."""
    if len(evidence.levels) < 2:
        return ()
    is_open = any(level.rate is not None for level in evidence.levels)
    return tuple(
        _without_numbers(arm.name, message("no-curve.open-loop")) if is_open else _model(evidence, values, arm.name)
        for arm in evidence.arms
        if evidence.runs_of(arm.name)
    )


def find_crossings(evidence: Evidence, estimated: tuple[Estimated, ...]) -> tuple[Crossing, ...]:
    """Where the throughput of a candidate and of the control cross between two load levels, arm by arm.

    It is certain where both levels have intervals that exclude 1.
    """
    if evidence.control is None or any(level.rate is not None for level in evidence.levels):
        return ()
    levels = sorted(evidence.levels, key=lambda level: level.clients)
    found = []
    for arm in evidence.candidates:
        effects = [_effect_at(evidence, estimated, arm.name, level.index) for level in levels]
        ratios = [math.log(effect.ratio) if effect is not None and effect.ratio else math.nan for effect in effects]
        for crossing in crossings([level.clients for level in levels], ratios):
            below, above = evidence.control.name, arm.name
            if not crossing.is_rising:
                below, above = above, below
            found.append(
                Crossing(
                    arm=arm.name,
                    control=evidence.control.name,
                    clients=crossing.clients,
                    below=below,
                    above=above,
                    is_certain=all(_excludes_one(effects[place]) for place in (crossing.lower, crossing.upper)),
                )
            )
    return tuple(found)


def _model(evidence: Evidence, values: Values, arm: str) -> CurveModel:
    throughput = [
        [values.get((run.id, evidence.load.throughput.name, None, level.index), math.nan) for level in evidence.levels]
        for run in evidence.runs_of(arm)
    ]
    fit = fit_scalability([level.clients for level in evidence.levels], throughput, confidence=evidence.confidence)
    if fit.reason:
        return _without_numbers(arm, fit.reason, error=fit.error)
    return CurveModel(
        arm=arm,
        throughput_of_one=_estimate(fit.one),
        contention=_estimate(fit.contention),
        coherency=_estimate(fit.coherency),
        peak=_estimate(fit.peak),
        knee=fit.knee,
        error=fit.error,
        reason=None,
    )


def _without_numbers(arm: str, reason: Message, *, error: float | None = None) -> CurveModel:
    return CurveModel(
        arm=arm,
        throughput_of_one=None,
        contention=None,
        coherency=None,
        peak=None,
        knee=None,
        error=error,
        reason=reason,
    )


def _estimate(parameter: Parameter | None) -> Estimate | None:
    """A limit that the data do not set is not known."""
    if parameter is None:
        return None
    high = parameter.high
    return Estimate(value=parameter.value, low=parameter.low, high=None if high is None or math.isinf(high) else high)


def _effect_at(evidence: Evidence, estimated: Sequence[Estimated], arm: str, level: int) -> Effect | None:
    metric = evidence.load.throughput.name
    found = find_effect(tuple(estimated), arm=arm, metric=metric, scenario=None, level=level)
    return found.effect if found is not None else None


def _excludes_one(effect: Effect | None) -> bool:
    if effect is None or effect.low is None or effect.high is None:
        return False
    return effect.low > 1 or effect.high < 1
