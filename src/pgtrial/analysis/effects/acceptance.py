"""Is an arm enough? Its own values against a fixed limit, which no other arm has a part in."""

from collections.abc import Iterator, Sequence

import numpy as np

from pgtrial.analysis.effects.attempts import count_failed, count_interrupted
from pgtrial.analysis.effects.estimate import compare_when_due, read_step, value_of
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.questions import Acceptance
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.observable import find_observable
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import judge
from pgtrial.stats.failures import bound_failures, interrupted_share
from pgtrial.stats.steps import bound_steps

_AT = (0.0, 0.0)  # no margin: the limit itself is what was declared


def judge_acceptance(evidence: Evidence, values: Values, caveats: Sequence[CaveatFinding]) -> tuple[Acceptance, ...]:
    """Every limit in every arm that it is about, at every load level; the intervals hold together (Bonferroni).

    A block's value by the limit is a ratio like that of an arm by its control, with a control that does not vary, so
    the same t interval over blocks holds for it, and the same rules say when one is due. Nothing cancels: what is slow
    in a block counts in full. Runs that were interrupted are borne as by effects. An arm of which a run failed, or has
    no value because no transaction ended in it, is never enough.
    """
    asked = [
        (wanted, *place) for wanted in evidence.experiment.acceptance for place in _places(evidence, values, wanted)
    ]
    is_invalid = any(caveat.severity is Severity.INVALID for caveat in caveats)
    return tuple(
        _judge(evidence, values, wanted, arm=arm, level=level, comparisons=len(asked), is_invalid=is_invalid)
        for wanted, arm, level in asked
    )


def _places(evidence: Evidence, values: Values, wanted: AcceptanceTable) -> Iterator[tuple[str, int | str]]:
    """Arm and load level; a metric without values by level has the one over all."""
    known = {level for _, metric, _, level in values if metric == wanted.metric}
    levels: list[int | str] = [level.index for level in evidence.levels if level.index in known]
    for arm in evidence.arms:
        if wanted.arm in (None, arm.name) and arm is not evidence.placebo:
            yield from ((arm.name, level) for level in levels or [ALL])


def _judge(
    evidence: Evidence,
    values: Values,
    wanted: AcceptanceTable,
    *,
    arm: str,
    level: int | str,
    comparisons: int,
    is_invalid: bool,
) -> Acceptance:
    scenario = None if evidence.scenarios == (wanted.scenario,) else wanted.scenario
    runs, key = evidence.runs_of(arm), (wanted.metric, scenario, level)
    reached = np.array([value_of(evidence, values, (run.id, *key)) for run in runs])
    failed, interrupted, observable = count_failed(evidence, arm), 0, find_observable(wanted.metric)
    missing = int(np.isnan(reached).sum()) if evidence.rules.bears_alike else 0
    if missing and observable is not None and not observable.is_sampled:
        # No transaction ended in them, which is worse than any limit: what the others have is still too bad, or not
        # enough to tell. What is sampled may be missing for other reasons.
        runs = tuple(run for run, value in zip(runs, reached, strict=True) if not np.isnan(value))
        reached = reached[~np.isnan(reached)]
    limit = np.full(reached.shape, wanted.limit.value)
    comparison = compare_when_due(
        *(evidence, limit, reached),
        comparisons=comparisons,
        after=None,
        blocks=[run.slot.block for run in runs],
    )
    comparison = bound_steps(comparison, (reached,), reach=read_step(values, [run.id for run in runs], key))
    if evidence.rules.bears_alike:
        interrupted = count_interrupted(evidence, arm)
        share = interrupted_share(interrupted, comparison.blocks)
        comparison = bound_failures(comparison, np.log(reached[reached > 0] / wanted.limit.value), share=share)
    verdict = Verdict.INVALID
    if not is_invalid:
        verdict = _verdict(evidence, comparison, wanted, may_be_enough=not failed and not missing)
    return Acceptance(
        arm=arm,
        metric=wanted.metric,
        unit="" if observable is None else observable.metric.unit,
        scenario=scenario,
        load_level=level,
        limit=wanted.limit.value,
        is_most=wanted.at_most is not None,
        value=_value(comparison, wanted.limit.value),
        blocks=comparison.blocks,
        failed=failed,
        missing=missing,
        interrupted=interrupted,
        verdict=verdict,
    )


def _value(comparison: Comparison, limit: float) -> Estimate | None:
    if comparison.ratio is None:
        return None
    low, high = (None if end is None else end * limit for end in (comparison.low, comparison.high))
    return Estimate(value=comparison.ratio * limit, low=low, high=high)


def _verdict(evidence: Evidence, comparison: Comparison, wanted: AcceptanceTable, *, may_be_enough: bool) -> Verdict:
    better = Better.HIGHER if wanted.at_most is None else Better.LOWER
    found = judge(comparison, expect="better", bounds=_AT, better=better)
    if comparison.blocks < evidence.rules.fewest_blocks:
        return Verdict.INCONCLUSIVE
    return found if may_be_enough or found is not Verdict.SUPPORTED else Verdict.INCONCLUSIVE
