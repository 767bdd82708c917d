"""Is an arm enough? Its own values against a fixed limit, which no other arm has a part in."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.attempts import count_failed, count_interrupted
from pgtrial.analysis.effects.comparison import compare_when_due, owners_before, read_reach, value_of
from pgtrial.analysis.effects.lost import Key, bear_mean, hides_times, lost_share
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import LOST, STEP, Values
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.questions import Acceptance
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.observable import find_observable
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison
from pgtrial.stats.carry_over import CarryOver, bound_in_use, find_left_by
from pgtrial.stats.equivalence import judge
from pgtrial.stats.failures import bound_failures, interrupted_share
from pgtrial.stats.interval import extend
from pgtrial.stats.quantiles import median_interval
from pgtrial.stats.steps import bound_steps

_AT = (0.0, 0.0)  # no margin: the limit itself is what was declared


def judge_acceptance(evidence: Evidence, values: Values, caveats: Sequence[CaveatFinding]) -> tuple[Acceptance, ...]:
    """Every limit in every arm that it is about, at every load level; the intervals hold together (Bonferroni).

    A block's value by the limit is a ratio like that of an arm by its control, with a control that does not vary, so
    the same t interval over blocks holds for it, and the same rules say when one is due. Nothing cancels: what is slow
    in a block counts in full. Runs that were interrupted, and what runs leave for the next one, are borne as by
    effects, and what was lost as if it had been the slowest. An arm of which a run failed, or has no value because no
    transaction ended in it, is never enough, nor is a time that what was lost leaves without a bound.
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
    key, observable = (wanted.metric, scenario, level), find_observable(wanted.metric)
    held = _hold(evidence, values, wanted, arm=arm, key=key, comparisons=comparisons)
    failed = count_failed(evidence, arm)
    is_hidden = hides_times(evidence, values, arm, None, key)
    may_be_enough = not failed and not held.missing and not is_hidden
    verdict = held.verdict if may_be_enough or held.verdict is not Verdict.SUPPORTED else Verdict.INCONCLUSIVE
    return Acceptance(
        arm=arm,
        metric=wanted.metric,
        unit="" if observable is None else observable.metric.unit,
        scenario=scenario,
        load_level=level,
        limit=wanted.limit.value,
        is_most=wanted.at_most is not None,
        value=held.value,
        blocks=held.blocks,
        failed=failed,
        missing=held.missing,
        interrupted=_count_interrupted(evidence, arm),
        lost=lost_share(evidence, values, arm, key) if key[0] in evidence.load.times else 0.0,
        verdict=Verdict.INVALID if is_invalid else verdict,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What an arm's runs that have a value say of the limit; ``missing`` have none."""

    value: Estimate | None
    blocks: int
    missing: int
    verdict: Verdict


def _hold(
    evidence: Evidence, values: Values, wanted: AcceptanceTable, *, arm: str, key: Key, comparisons: int
) -> _Held:
    runs, rules, observable = evidence.runs_of(arm), evidence.rules, find_observable(key[0])
    if rules.bears_alike:  # the value itself: the floor is for ratios of two arms
        reached = np.array([values.get((run.id, *key), np.nan) for run in runs])
    else:
        reached = np.array([value_of(evidence, values, (run.id, *key)) for run in runs])
    missing = int(np.isnan(reached).sum()) if rules.bears_alike else 0
    if missing and observable is not None and not observable.is_sampled:
        # No transaction ended in them, which is worse than any limit: what the others have is still too bad, or not
        # enough to tell. What is sampled may be missing for other reasons.
        runs = tuple(run for run, value in zip(runs, reached, strict=True) if not np.isnan(value))
        reached = reached[~np.isnan(reached)]
    if rules.bears_alike and (reached == 0).any():
        left = _read_left_with_zeros(evidence, values, arm, key)
        return _hold_median(evidence, reached, wanted, left, arm=arm, missing=missing, comparisons=comparisons)
    blocks = [run.slot.block for run in runs]
    limit = np.full(reached.shape, wanted.limit.value)
    comparison = compare_when_due(evidence, limit, reached, comparisons=comparisons, after=None, blocks=blocks)
    if rules.bears_alike:
        known = ((run.id, values.get((run.id, *key), 0.0)) for run in evidence.valid)
        left = _read_left(evidence, {run: math.log(value) for run, value in known if value > 0}, arm)
        comparison = bound_in_use(comparison, left)
    comparison = bound_steps(comparison, (reached,), reach=read_reach(values, runs, key, STEP))
    if rules.bears_alike:
        share = interrupted_share(_count_interrupted(evidence, arm), comparison.blocks)
        logs = np.log(reached / wanted.limit.value)
        lost = read_reach(values, runs, key, LOST) + bear_mean(evidence, values, arm, None, key)
        comparison = extend(comparison, down=0.0, up=lost if math.isfinite(lost) else 0.0)
        comparison = bound_failures(comparison, logs[np.isfinite(logs)], share=share)
    return _Held(
        value=_value(comparison, wanted.limit.value),
        blocks=comparison.blocks,
        missing=missing,
        verdict=_verdict(evidence, comparison, wanted),
    )


def _read_left(evidence: Evidence, reached: Mapping[int, float], arm: str) -> CarryOver | None:
    """What the arm leaves for the run after it, of what runs reached, by run: told from all of these runs, as it rarely
    comes after itself.
    """
    owners = owners_before(evidence, {arm: 1})
    runs = [run for run in evidence.valid if run.id in reached]
    mine = [owners[run.id] for run in runs if run.slot.arm == arm]
    return find_left_by(
        np.array([reached[run.id] for run in runs]),
        np.array([owners[run.id] > 0 for run in runs]),
        [(run.slot.arm, evidence.hosts.get(run.slot.block)) for run in runs],
        share=sum(mine) / len(mine) if mine else 0.0,
    )


def _read_left_with_zeros(evidence: Evidence, values: Values, arm: str, key: Key) -> CarryOver | None:
    """In the metric's own unit, in which arms may be far apart: told from the arm's own runs, and from those of all
    arms only where these do not tell.
    """
    told = [run for run in evidence.valid if math.isfinite(values.get((run.id, *key), math.nan))]
    of_arm, of_all = (
        {run.id: values[run.id, *key] for run in told if is_all or run.slot.arm == arm} for is_all in (False, True)
    )
    return _read_left(evidence, of_arm, arm) or _read_left(evidence, of_all, arm)


def _hold_median(
    evidence: Evidence,
    reached: NDArray[np.float64],
    wanted: AcceptanceTable,
    left: CarryOver | None,
    *,
    arm: str,
    missing: int,
    comparisons: int,
) -> _Held:
    """Of values that have no logarithm, since some are zero, by the interval of their median, which needs none.

    Nothing where more than the values bear on it: interruptions, several hosts, blocks that are still to come. Few that
    are far beyond the limit do not move a median, so the mean has to be within it as well, both with the most that the
    arm in use may have beyond them.
    """
    known, limit = reached[~np.isnan(reached)], wanted.limit.value
    is_open = evidence.is_provisional or evidence.is_spread or known.size < reached.size
    due = None if is_open or _count_interrupted(evidence, arm) else evidence.confidence_at(known.size)
    interval = None if due is None else median_interval(known, confidence=1 - (1 - due) / comparisons)
    middle, verdict = float(np.median(known)), Verdict.INCONCLUSIVE
    if interval is None or left is None:
        return _Held(value=Estimate(value=middle), blocks=known.size, missing=missing, verdict=verdict)
    down, up = (max(0.0, left.reach + side * left.missing) for side in (-1, 1))
    low, high = max(0.0, interval.low - down), interval.high + up
    if known.size >= evidence.rules.fewest_blocks:
        if wanted.at_most is None:
            verdict = Verdict.REFUTED if high < limit else verdict
        elif low > limit:
            verdict = Verdict.REFUTED
        elif high <= limit and known.mean() + up <= limit:
            verdict = Verdict.SUPPORTED
    value = Estimate(value=middle, low=low, high=high)
    return _Held(value=value, blocks=known.size, missing=missing, verdict=verdict)


def _count_interrupted(evidence: Evidence, arm: str) -> int:
    return count_interrupted(evidence, arm) if evidence.rules.bears_alike else 0


def _value(comparison: Comparison, limit: float) -> Estimate | None:
    if comparison.ratio is None:
        return None
    low, high = (None if end is None else end * limit for end in (comparison.low, comparison.high))
    return Estimate(value=comparison.ratio * limit, low=low, high=high)


def _verdict(evidence: Evidence, comparison: Comparison, wanted: AcceptanceTable) -> Verdict:
    if comparison.blocks < evidence.rules.fewest_blocks:
        return Verdict.INCONCLUSIVE
    better = Better.HIGHER if wanted.at_most is None else Better.LOWER
    return judge(comparison, expect="better", bounds=_AT, better=better)
