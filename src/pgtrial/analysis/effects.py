"""Observations -> effects: every arm against the control, over the blocks in which both have a valid run."""

from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.caveats import as_finding
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import Effect
from pgtrial.analysis.metrics import COMPARED, METRICS
from pgtrial.analysis.observations import ALL, Values
from pgtrial.model.arm import Arm
from pgtrial.model.metric import Metric
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import decide
from pgtrial.stats.multiplicity import holm
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.power import blocks_needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """An effect as the findings show it, and the comparison that it comes from."""

    effect: Effect
    comparison: Comparison


def estimate_effects(evidence: Evidence, values: Values, *, scenarios: tuple[str | None, ...]) -> tuple[Estimated, ...]:
    """Effects of the candidates, then of the placebo, for every metric, scenario and load level that was observed.

    Intervals hold simultaneously for all candidates (Bonferroni); p-values of the candidates are adjusted by Holm's
    method within a metric, scenario and load level. The placebo is no claim of the experiment, so its p-value stays
    as it is; its interval has the candidates' level, so that both can be compared at sight.
    """
    found: list[Estimated] = []
    levels: tuple[int | str, ...] = (ALL, *(level.index for level in evidence.levels))
    claimed = tuple(metric for metric in METRICS if metric.name == evidence.experiment.hypothesis.metric)
    for metric in dict.fromkeys((*COMPARED, *claimed)):
        for scenario in scenarios:
            for level in levels:
                found += _adjust(
                    [
                        _estimate(evidence, values, arm=arm, metric=metric, scenario=scenario, level=level)
                        for arm in evidence.candidates
                        if _is_observed(evidence, values, arm, (metric.name, scenario, level))
                    ]
                )
                found += [
                    _estimate(evidence, values, arm=arm, metric=metric, scenario=scenario, level=level)
                    for arm in (evidence.placebo,)
                    if arm is not None and _is_observed(evidence, values, arm, (metric.name, scenario, level))
                ]
    return tuple(found)


def find_effect(
    estimated: tuple[Estimated, ...], *, arm: str, metric: str, scenario: str | None, level: int | str = ALL
) -> Estimated | None:
    wanted = (arm, metric, scenario, level)
    return next(
        (
            one
            for one in estimated
            if (one.effect.arm, one.effect.metric, one.effect.scenario, one.effect.load_level) == wanted
        ),
        None,
    )


def find_primary(evidence: Evidence, estimated: tuple[Estimated, ...], *, arm: str) -> Estimated | None:
    """The arm's effect on the hypothesis' metric over all load levels."""
    hypothesis = evidence.experiment.hypothesis
    # The only scenario is all scenarios together, which is how it was observed.
    scenario = None if evidence.scenarios == (hypothesis.scenario,) else hypothesis.scenario
    return find_effect(estimated, arm=arm, metric=hypothesis.metric, scenario=scenario)


def _is_observed(evidence: Evidence, values: Values, arm: Arm, key: tuple[str, str | None, int | str]) -> bool:
    """Whether at least one block gives a ratio."""
    return any(
        values.get((control.id, *key), 0) > 0 and values.get((run.id, *key), 0) > 0
        for control, run in evidence.pairs(arm.name)
    )


def _estimate(
    evidence: Evidence, values: Values, *, arm: Arm, metric: Metric, scenario: str | None, level: int | str
) -> Estimated:
    pairs = evidence.pairs(arm.name)
    control, treated = (
        np.array([values.get((run.id, metric.name, scenario, level), np.nan) for run in runs])
        for runs in zip(*pairs, strict=True)
    )
    comparison = compare_blocks(control, treated, confidence=evidence.confidence, comparisons=evidence.comparisons)
    needed = blocks_needed(
        comparison,
        expect=None,
        margin=evidence.margin,
        better=metric.better,
        comparisons=evidence.comparisons,
    )
    effect = Effect(
        arm=arm.name,
        metric=metric.name,
        better=metric.better,
        scenario=scenario,
        load_level=level,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        confidence=evidence.confidence,
        p_value=comparison.p_value,
        p_adjusted=comparison.p_value,
        p_sign_flip=comparison.p_sign_flip,
        hodges_lehmann=comparison.hodges_lehmann,
        margin=evidence.margin,
        decision=decide(comparison, margin=evidence.margin, better=metric.better),
        blocks=comparison.blocks,
        needed=needed.blocks,
        block_ratios=tuple(float(y / x) if x > 0 and y > 0 else None for x, y in zip(control, treated, strict=True)),
        caveats=tuple(as_finding(caveat) for caveat in comparison.caveats),
    )
    return Estimated(effect=effect, comparison=comparison)


def _adjust(estimated: list[Estimated]) -> list[Estimated]:
    """Put Holm's adjusted p-values in."""
    adjusted = holm([one.comparison.p_value for one in estimated])
    return [
        Estimated(effect=one.effect.model_copy(update={"p_adjusted": p}), comparison=one.comparison)
        for one, p in zip(estimated, adjusted, strict=True)
    ]
