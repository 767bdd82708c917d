"""Observations -> effects: every arm against the control, over the blocks in which both have a valid run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.effects.claim import Claim, claims_of
from pgtrial.analysis.effects.comparison import (
    bear_failures_of,
    blocks_per_observation,
    compare_metric,
    is_partly_known,
    read_pairs,
    value_of,
)
from pgtrial.analysis.effects.lost import Key, hides_times
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.findings import Effect, SingleRuns
from pgtrial.findings.record import ALL
from pgtrial.model.arm import Arm
from pgtrial.model.metric import Metric
from pgtrial.model.metrics import COMPARED
from pgtrial.model.verdict import Decision
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import beyond_p, decide, equivalence_p
from pgtrial.stats.interval import holm
from pgtrial.stats.power import blocks_needed


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """An effect as the findings show it, and the comparison that it comes from."""

    effect: Effect
    comparison: Comparison


def estimate_effects(evidence: Evidence, values: Values, *, scenarios: tuple[str | None, ...]) -> tuple[Estimated, ...]:
    """Effects of the candidates, then of the placebo, for every metric, scenario and load level that was observed.

    Intervals hold simultaneously for all candidates (Bonferroni), and for all looks of a rule for stopping; p-values of
    the candidates are adjusted by Holm's method within a metric, scenario and load level, as if there were one look.
    The placebo is no claim of the experiment, so its p-value stays as it is; its interval has the candidates' level, so
    that both can be compared at sight. Decisions that hold over all metrics, scenarios and levels at once are marked.
    """
    found: list[Estimated] = []
    levels: tuple[int | str, ...] = (ALL, *(level.index for level in evidence.levels))
    metrics = {metric.name: metric for metric in (*COMPARED, *(claim.metric for claim in claims_of(evidence)))}
    for metric in metrics.values():
        for scenario in scenarios:
            for level in levels:
                found += _adjust(
                    [
                        estimate_effect(evidence, values, arm=arm, metric=metric, scenario=scenario, level=level)
                        for arm in evidence.candidates
                        if is_observed(evidence, values, arm, (metric.name, scenario, level))
                    ]
                )
                found += [
                    estimate_effect(evidence, values, arm=arm, metric=metric, scenario=scenario, level=level)
                    for arm in (evidence.placebo,)
                    if arm is not None and is_observed(evidence, values, arm, (metric.name, scenario, level))
                ]
    return mark_sure(evidence, found)


def find_effect(
    estimated: Sequence[Estimated], *, arm: str, metric: str, scenario: str | None, level: int | str = ALL
) -> Estimated | None:
    return next((one for one in estimated if one.effect.key == (arm, metric, scenario, level)), None)


def find_claimed(estimated: tuple[Estimated, ...], claim: Claim, *, arm: str) -> Estimated | None:
    """The arm's effect on a metric of the hypothesis over all load levels."""
    return find_effect(estimated, arm=arm, metric=claim.metric.name, scenario=claim.scenario)


def find_primary(evidence: Evidence, estimated: tuple[Estimated, ...], *, arm: str) -> Estimated | None:
    """The arm's effect on the hypothesis' first metric over all load levels."""
    first = next(iter(claims_of(evidence)), None)
    return None if first is None else find_claimed(estimated, first, arm=arm)


def estimate_claimed(evidence: Evidence, values: Values, claim: Claim) -> Estimated | None:
    """An effect that the hypothesis is about, estimated alone; its p-value is not adjusted for other arms."""
    arm = next((arm for arm in evidence.arms if arm.name == evidence.hypothesis_arm), None)
    if arm is None or not is_observed(evidence, values, arm, (claim.metric.name, claim.scenario, ALL)):
        return None
    return estimate_effect(evidence, values, arm=arm, metric=claim.metric, scenario=claim.scenario, level=ALL)


def estimate_primary(evidence: Evidence, values: Values) -> Estimated | None:
    """The effect that the hypothesis' first metric is about."""
    first = next(iter(claims_of(evidence)), None)
    return None if first is None else estimate_claimed(evidence, values, first)


def is_observed(evidence: Evidence, values: Values, arm: Arm, key: tuple[str, str | None, int | str]) -> bool:
    """Whether at least one block gives a ratio to the control."""
    return any(all(value_of(evidence, values, (run.id, *key)) > 0 for run in pair) for pair in evidence.pairs(arm.name))


def estimate_effect(
    evidence: Evidence,
    values: Values,
    *,
    arm: Arm,
    metric: Metric,
    scenario: str | None,
    level: int | str,
    comparisons: int | None = None,
) -> Estimated:
    """Of an arm against the control, where ``is_observed``; the interval holds for ``comparisons`` together, the arms
    unless another number is given.
    """
    key, comparisons = (metric.name, scenario, level), comparisons or evidence.comparisons
    control, treated = pairs = read_pairs(evidence, values, arm.name, key)
    comparison = compare_metric(evidence, values, arm.name, key, comparisons=comparisons, pairs=pairs)
    margin = _margin(evidence, metric.name, scenario)
    bounds = evidence.rules.log_bounds(margin)
    needed = blocks_needed(
        comparison,
        expect=None,
        bounds=bounds,
        better=metric.better,
        comparisons=comparisons,
        confidence=evidence.confidence_of_more(comparison.confidence),
    )
    block_ratios = tuple(float(y / x) if x > 0 and y > 0 else None for x, y in zip(control, treated, strict=True))
    excess = find_excess(evidence, arm.name) if evidence.rules.bears_failures else None
    bounded = comparison
    if excess is not None:
        bounded = bear_failures_of(evidence, comparison, arm.name, block_ratios, share=excess.share)
    decision = decide(comparison, bounds=bounds, better=metric.better)
    # By rules 14: a run in which no transaction ended has no time. It is one of the slow ones, and was left out.
    is_partial = metric.name in evidence.load.times and is_partly_known(comparison)
    fails_more = (excess is not None and excess.decides) or loses_more(evidence, values, comparison, arm.name, key)
    is_decided = (
        not is_partial
        and comparison.blocks >= evidence.rules.fewest_blocks  # fewer decide nothing, here as little as in the verdict
        and not fails_more
        and (bounded is comparison or decide(bounded, bounds=bounds, better=metric.better) is decision)
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
        log_error=comparison.error,
        degrees=comparison.degrees if comparison.error is not None else None,
        position=None if comparison.position is None else math.exp(comparison.position),
        carry_over=None if comparison.carry_over is None else math.exp(comparison.carry_over),
        margin=margin,
        hidden_below=bounded.hidden[0],
        hidden_above=bounded.hidden[1],
        fails_more=fails_more,
        decision=decision if is_decided else Decision.INCONCLUSIVE,
        blocks=comparison.blocks,
        needed=needed.blocks if needed.blocks is None else needed.blocks * blocks_per_observation(comparison),
        block_ratios=block_ratios,
        caveats=comparison.caveats,
    )
    return Estimated(effect=effect, comparison=comparison)


def loses_more(
    evidence: Evidence,
    values: Values,
    comparison: Comparison,
    arm: str,
    key: Key,
) -> bool:
    """Whether the arm or the control lost so many more transactions that nothing bounds its time, and is not seen to be
    the longer one anyway, by more than the margin.
    """
    control = "" if evidence.control is None else evidence.control.name
    least, most = evidence.rules.bounds(_margin(evidence, *key[:2]))
    if hides_times(evidence, values, arm, control, key):
        return comparison.low is None or comparison.low <= most
    if hides_times(evidence, values, control, arm, key):
        return comparison.high is None or comparison.high >= least
    return False


def _margin(evidence: Evidence, metric: str, scenario: str | None) -> float:
    """Of the claim where it has the metric, else that of its first one."""
    own = (claim.margin for claim in claims_of(evidence) if (claim.metric.name, claim.scenario) == (metric, scenario))
    return next(own, evidence.margin)


def _adjust(estimated: list[Estimated]) -> list[Estimated]:
    """Put Holm's adjusted p-values in."""
    adjusted = holm([one.comparison.p_value for one in estimated])
    return [
        Estimated(effect=one.effect.model_copy(update={"p_adjusted": p}), comparison=one.comparison)
        for one, p in zip(estimated, adjusted, strict=True)
    ]


def mark_sure(evidence: Evidence, estimated: Sequence[Estimated]) -> tuple[Estimated, ...]:
    """Mark the decisions of which, beside the claims, probably none is wrong (Holm over all that was decided).

    Beyond the margin, inside it and beyond its other end exclude each other, so of each effect that one is tested which
    was decided. The claims were named before the data were there, and are no members of the family; nor is the placebo.
    """
    claims = {(evidence.hypothesis_arm, each.metric.name, each.scenario, ALL) for each in claims_of(evidence)}
    candidates = {arm.name for arm in evidence.candidates}
    chances: dict[tuple[str, str, str | None, int | str], float | None] = {}
    for one in estimated:
        effect, key = one.effect, _key_of(evidence, one.effect)
        if key in chances:
            continue
        if key in claims or effect.arm not in candidates or one.comparison.is_anytime:
            chances[key] = None
        elif effect.decision is Decision.INCONCLUSIVE:
            chances[key] = 1.0
        else:
            test = equivalence_p if effect.decision is Decision.EQUIVALENT else beyond_p
            chances[key] = test(one.comparison, bounds=evidence.rules.log_bounds(effect.margin))
    adjusted = dict(zip(chances, holm(list(chances.values())), strict=True))
    return tuple(
        replace(one, effect=one.effect.model_copy(update={"sure": True}))
        if (p := adjusted[_key_of(evidence, one.effect)]) is not None and p <= 1 - one.comparison.confidence
        else one
        for one in estimated
    )


def _key_of(evidence: Evidence, effect: Effect) -> tuple[str, str, str | None, int | str]:
    """What an effect is of: the only load level is all load there is."""
    return (effect.arm, effect.metric, effect.scenario, effect.load_level if len(evidence.levels) > 1 else ALL)


# What would have been concluded from one run per arm: the blocks of the experiment, each taken alone.


def take_single_runs(evidence: Evidence, estimated: tuple[Estimated, ...]) -> tuple[SingleRuns, ...]:
    """Every arm beside the control whose primary metric has a ratio in at least one block, in the arms' order.

    A single ratio has no interval, so all one can do is compare the ratio itself with the margin.
    """
    found = []
    low, high = evidence.rules.bounds(evidence.margin)
    for arm in evidence.arms:
        primary = find_primary(evidence, estimated, arm=arm.name)
        ratios = [ratio for ratio in primary.effect.block_ratios if ratio is not None] if primary else []
        if ratios:
            found.append(
                SingleRuns(
                    arm=arm.name,
                    blocks=len(ratios),
                    above=sum(ratio > high for ratio in ratios),
                    below=sum(ratio < low for ratio in ratios),
                    lowest=min(ratios),
                    highest=max(ratios),
                )
            )
    return tuple(found)
