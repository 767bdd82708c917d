"""The latency budget: where the mean latency of a transaction goes, and what of it differs between arms.

Little's law, L = λW (Little, "A proof for the queuing formula: L = λW", Operations Research 9 (1961) 383-387): the
average number of sessions in a state, divided by the throughput, is the mean time that a transaction spends in it. It
holds for every state alone, whatever the distributions, so the mean latency splits exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.analysis.causes.sessions import Kind, estimate_mean, split_sessions, tier
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.metrics import LATENCY_MEAN, TPS
from pgtrial.analysis.observations import ALL, Values, reported_scenarios
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.causes import OUTSIDE, SCHEDULE_LAG, BudgetDifference, BudgetPart, LatencyBudget
from pgtrial.findings.record import Estimate
from pgtrial.model.run import RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    evidence: Evidence
    reduction: Reduction
    values: Values
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunBudget:
    """Of one run at one load level, or the mean over all of them; times in seconds, the parts add up to ``latency``."""

    latency: float
    parts: Mapping[Kind, float]
    closure: float | None


def describe_budgets(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[LatencyBudget, ...]:
    """Per arm, load level and scenario; means over the arm's runs, with t intervals over the blocks.

    "outside the server" is the mean latency less all that the server accounts for: the way through the network, the
    load generator, pauses of the client. As a difference it has the sampling error of all other parts, so where there
    is hardly any it may be slightly negative. It is kept like that, because only so the parts add up. In an open loop
    the time for which transactions were due and had no client yet is measured, and a part of its own. Sessions are busy
    with transactions that fail as well, so the parts of the server are means over all that ended; failed ones have no
    latency, and where they take another time than the others, "outside the server" has the difference.

    "all" load levels: the mean over the levels in each run that has all of them. A scenario has a budget of its own
    where it has sessions of its own. ``closure`` is there for a closed loop.
    """
    measured = _Measured(evidence=evidence, reduction=reduction, values=values, tier=tier(evidence, reduction))
    found = []
    for arm in evidence.arms:
        for scenario in reported_scenarios(evidence):
            for level in _levels(evidence):
                runs = [_measure(measured, run, level, scenario) for run in evidence.runs_of(arm.name)]
                known = [run for run in runs if run is not None]
                if known:
                    found.append(_describe(evidence, known, arm=arm.name, level=level, scenario=scenario))
    return tuple(found)


def compare_budgets(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[BudgetDifference, ...]:
    """Every arm less the control, per load level; t intervals over the pairs of a block.

    What a whole block has in common cancels in the difference, as in the effects. Each interval holds for itself.
    """
    control = evidence.control
    if control is None:
        return ()
    measured = _Measured(evidence=evidence, reduction=reduction, values=values, tier=tier(evidence, reduction))
    found = []
    for arm in (arm.name for arm in evidence.arms if arm.name != control.name):
        for level in _levels(evidence):
            runs = [
                (_measure(measured, one, level, None), _measure(measured, other, level, None))
                for one, other in evidence.pairs(arm)
            ]
            pairs = [(one, other) for one, other in runs if one is not None and other is not None]
            if pairs:
                found.append(_compare(evidence, pairs, arm=arm, control=control.name, level=level))
    return tuple(found)


def _levels(evidence: Evidence) -> tuple[int | str, ...]:
    return (ALL, *(level.index for level in evidence.levels))


def _measure(measured: _Measured, run: RunRow, level: int | str, scenario: str | None) -> _RunBudget | None:
    """None where sessions were not sampled, or no transaction ended."""
    if isinstance(level, int):
        return _measure_level(measured, run, level, scenario)
    found = [_measure_level(measured, run, each.index, scenario) for each in measured.evidence.levels]
    known = [budget for budget in found if budget is not None]
    return _average(known) if known and len(known) == len(found) else None


def _measure_level(measured: _Measured, run: RunRow, level: int, scenario: str | None) -> _RunBudget | None:
    tps = measured.values.get((run.id, TPS.name, scenario, level), 0.0)
    latency = measured.values.get((run.id, LATENCY_MEAN.name, scenario, level))
    split = split_sessions(measured.reduction, run, level, tier=measured.tier, scenario=scenario)
    if split is None or latency is None or tps <= 0 or (scenario is not None and split.total == 0):
        return None
    totals = measured.reduction.totals[run.id, level, scenario]
    ended = tps * totals.attempts
    parts = {kind: sessions / ended for kind, sessions in split.by_part.items()}
    if totals.lag_sum > 0:
        parts[OUTSIDE, SCHEDULE_LAG] = totals.lag_sum / totals.count
    parts[OUTSIDE, ""] = latency - sum(parts.values())
    is_closed_loop = measured.evidence.experiment.workload.rate is None
    return _RunBudget(latency=latency, parts=parts, closure=split.total / ended / latency if is_closed_loop else None)


def _average(budgets: Sequence[_RunBudget]) -> _RunBudget:
    closures = [budget.closure for budget in budgets if budget.closure is not None]
    return _RunBudget(
        latency=sum(budget.latency for budget in budgets) / len(budgets),
        parts={kind: sum(budget.parts.get(kind, 0.0) for budget in budgets) / len(budgets) for kind in _kinds(budgets)},
        closure=sum(closures) / len(closures) if closures else None,
    )


def _kinds(budgets: Iterable[_RunBudget]) -> tuple[Kind, ...]:
    """A part that one run has and another has not is zero there: it was looked for, and not seen."""
    return tuple(dict.fromkeys(kind for budget in budgets for kind in budget.parts))


def _describe(
    evidence: Evidence, budgets: Sequence[_RunBudget], *, arm: str, level: int | str, scenario: str | None
) -> LatencyBudget:
    parts = {kind: [budget.parts.get(kind, 0.0) for budget in budgets] for kind in _kinds(budgets)}
    return LatencyBudget(
        arm=arm,
        load_level=level,
        scenario=scenario,
        latency=_estimate(evidence, [budget.latency for budget in budgets]),
        parts=_order(evidence, parts),
        closure=_average(budgets).closure,
    )


def _compare(
    evidence: Evidence, pairs: Sequence[tuple[_RunBudget, _RunBudget]], *, arm: str, control: str, level: int | str
) -> BudgetDifference:
    kinds = _kinds(budget for pair in pairs for budget in pair)
    parts = {kind: [other.parts.get(kind, 0.0) - one.parts.get(kind, 0.0) for one, other in pairs] for kind in kinds}
    return BudgetDifference(
        arm=arm,
        control=control,
        load_level=level,
        difference=_estimate(evidence, [other.latency - one.latency for one, other in pairs]),
        parts=_order(evidence, parts),
    )


def _order(evidence: Evidence, parts: Mapping[Kind, Sequence[float]]) -> tuple[BudgetPart, ...]:
    """Largest first; of a budget all but the time outside the server are positive anyway."""
    found = [
        BudgetPart(kind=kind, event=event, seconds=_estimate(evidence, values))
        for (kind, event), values in parts.items()
    ]
    return tuple(sorted(found, key=lambda part: (-abs(part.seconds.value), part.kind, part.event)))


def _estimate(evidence: Evidence, values: Sequence[float]) -> Estimate:
    estimate = estimate_mean(values, confidence=evidence.confidence)
    assert estimate is not None  # there is a run, and every run has the number
    return estimate
