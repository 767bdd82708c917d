"""The latency budget: where the mean latency of a transaction goes, and what of it differs between arms.

Little's law, L = λW (Little, "A proof for the queuing formula: L = λW", Operations Research 9 (1961) 383-387): the
average number of sessions in a state, divided by the throughput, is the mean time that a transaction spends in it. It
holds for every state alone, whatever the distributions, so the mean latency splits exactly.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgtrial.analysis.causes.sessions import WaitEvent, estimate_mean, split_sessions, tier
from pgtrial.analysis.causes.together import estimate_difference, find_hidden
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, reported_scenarios
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.slices import windows
from pgtrial.experiment_file.command_checks import replays
from pgtrial.findings.record import ALL, Estimate
from pgtrial.findings.session_time import (
    BLOCKED,
    CPU,
    CPU_QUEUE,
    OUTSIDE,
    POOL,
    SCHEDULE_LAG,
    BudgetDifference,
    BudgetPart,
    LatencyBudget,
)
from pgtrial.model.metrics import LATENCY_MEAN, POOL_WAIT, TPS
from pgtrial.model.run import RunRow
from pgtrial.stats.base import Interval
from pgtrial.stats.counts import count_interval, count_members, difference_interval

_NOT_COUNTED = (CPU, CPU_QUEUE, BLOCKED, OUTSIDE)  # kinds that the kernel accounts for, or that are what is left


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    evidence: Evidence
    reduction: Reduction
    values: Values
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polled:
    """What polling one window found. ``weight`` : seconds of the mean latency that a session found once stands for.
    ``scatter`` : the variance of what was found, where that is known.
    """

    weight: float
    found: Mapping[WaitEvent, float]
    scatter: Mapping[WaitEvent, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunBudget:
    """Of one run at one load level, or the mean over all of them; times in seconds, the parts add up to ``latency``."""

    latency: float
    parts: Mapping[WaitEvent, float]
    closure: float | None
    polled: tuple[_Polled, ...] = ()


def describe_budgets(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[LatencyBudget, ...]:
    """Per arm, load level and scenario; means over the arm's runs, with t intervals over the blocks.

    The interval of a part that was counted has that of its counts in it: where sampling found it twice, or never, the
    blocks agree and know nothing. What comes together, as sessions that wait for one flush at poll after poll, counts
    once.

    "outside the server" is the mean latency less all that the server accounts for: the way through the network, the
    load generator, pauses of the client. As a difference it has the sampling error of all other parts, so where there
    is hardly any it may be slightly negative. It is kept like that, because only so the parts add up. In an open loop
    the time for which transactions were due and had no client yet is measured, and a part of its own; so is that for
    which PgBouncer had no session free, by its own account. Sessions are busy
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


def describe_runs(evidence: Evidence, reduction: Reduction, values: Values) -> Mapping[tuple[int, int], LatencyBudget]:
    """Of single runs, by run and load level, all scenarios together; without intervals."""
    measured = _Measured(evidence=evidence, reduction=reduction, values=values, tier=tier(evidence, reduction))
    found = {}
    for run in evidence.valid:
        for level in (level.index for level in evidence.levels):
            budget = _measure_level(measured, run, level, None)
            if budget is not None:
                found[run.id, level] = _describe(evidence, [budget], arm=run.slot.arm, level=level, scenario=None)
    return found


def compare_budgets(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[BudgetDifference, ...]:
    """Every arm less the control, per load level; t intervals over the pairs of a block.

    What a whole block has in common cancels in the difference, as in the effects. The intervals of all parts of a
    difference hold together, for all arms, so that those which exclude zero may be named.
    """
    control = evidence.control
    if control is None:
        return ()
    measured = _Measured(evidence=evidence, reduction=reduction, values=values, tier=tier(evidence, reduction))
    found = []
    for arm in (arm.name for arm in evidence.arms if arm.name != control.name):
        for level in _levels(evidence):
            pairs = {
                run.slot.block: (one, other)
                for control_run, run in evidence.pairs(arm)
                if (one := _measure(measured, control_run, level, None)) is not None
                and (other := _measure(measured, run, level, None)) is not None
            }
            if pairs:
                found.append(_compare(measured, pairs, arm=arm, control=control.name, level=level))
    return tuple(found)


def _levels(evidence: Evidence) -> tuple[int | str, ...]:
    return (ALL, *(level.index for level in evidence.levels))


def _measure(measured: _Measured, run: RunRow, level: int | str, scenario: str | None) -> _RunBudget | None:
    """None where sessions were not sampled, no transaction ended, or damaged times add up to no number."""
    if isinstance(level, int):
        return _measure_level(measured, run, level, scenario)
    found = [_measure_level(measured, run, each.index, scenario) for each in measured.evidence.levels]
    known = [budget for budget in found if budget is not None]
    return _average(known) if known and len(known) == len(found) else None


def _measure_level(measured: _Measured, run: RunRow, level: int, scenario: str | None) -> _RunBudget | None:
    tps = measured.values.get((run.id, TPS.name, scenario, level), 0.0)
    latency = measured.values.get((run.id, LATENCY_MEAN.name, scenario, level))
    split = split_sessions(measured.reduction, run, level, tier=measured.tier, scenario=scenario)
    if split is None or latency is None or min(tps, latency) <= 0 or (scenario is not None and split.total == 0):
        return None
    totals = measured.reduction.totals[run.id, level, scenario]
    ended = tps * totals.attempts
    if ended <= 0:
        return None
    parts = {kind: sessions / ended for kind, sessions in split.by_part.items()}
    if totals.lag_sum > 0:
        parts[OUTSIDE, SCHEDULE_LAG] = totals.lag_sum / totals.count
    waiting = _pool_waits(measured, run, level) if scenario is None else 0.0
    if waiting > 0:
        parts[OUTSIDE, POOL] = waiting / ended
    parts[OUTSIDE, ""] = latency - sum(parts.values())
    if not all(map(math.isfinite, parts.values())):
        return None
    experiment = measured.evidence.experiment
    is_closed_loop = experiment.workload.rate is None and not replays(experiment)
    polls = measured.reduction.polls.get((run.id, level), 0)
    found = {kind: sessions * polls for kind, sessions in split.by_part.items() if kind[0] not in _NOT_COUNTED}
    scatter = measured.reduction.scatter.get((run.id, level, scenario), {})
    return _RunBudget(
        latency=latency,
        parts=parts,
        closure=split.total / ended / latency if is_closed_loop else None,
        polled=(_Polled(weight=1 / (polls * ended), found=found, scatter=scatter),) if polls else (),
    )


def _pool_waits(measured: _Measured, run: RunRow, level: int) -> float:
    """Average number of clients that wait for PgBouncer to give them a session; 0 without one.

    Where it stands still its clock goes on, and those who wait do so: there the time is divided by that of the clock.
    """
    waited = sum(measured.reduction.increases.get((run.id, level, POOL_WAIT), {}).values())
    if not waited:
        return 0.0
    (window,) = (window for window in windows(run) if window.level == level)
    return waited / (window.ended - window.started if measured.evidence.stands_still else window.active)


def _average(budgets: Sequence[_RunBudget]) -> _RunBudget:
    closures = [budget.closure for budget in budgets if budget.closure is not None]
    return _RunBudget(
        latency=sum(budget.latency for budget in budgets) / len(budgets),
        parts={kind: sum(budget.parts.get(kind, 0.0) for budget in budgets) / len(budgets) for kind in _kinds(budgets)},
        closure=sum(closures) / len(closures) if closures else None,
        polled=tuple(
            replace(window, weight=window.weight / len(budgets)) for budget in budgets for window in budget.polled
        ),
    )


def _kinds(budgets: Iterable[_RunBudget]) -> tuple[WaitEvent, ...]:
    """A part that one run has and another has not is zero there: it was looked for, and not seen."""
    return tuple(dict.fromkeys(kind for budget in budgets for kind in budget.parts))


def _describe(
    evidence: Evidence, budgets: Sequence[_RunBudget], *, arm: str, level: int | str, scenario: str | None
) -> LatencyBudget:
    average = _average(budgets)
    parts = {kind: _describe_part(evidence, budgets, average, kind) for kind in _kinds(budgets)}
    return LatencyBudget(
        arm=arm,
        load_level=level,
        scenario=scenario,
        latency=_estimate(evidence, [budget.latency for budget in budgets]),
        parts=_order(parts),
        closure=average.closure,
    )


def _compare(
    measured: _Measured,
    by_block: Mapping[int, tuple[_RunBudget, _RunBudget]],
    *,
    arm: str,
    control: str,
    level: int | str,
) -> BudgetDifference:
    evidence, pairs = measured.evidence, tuple(by_block.values())
    kinds = _kinds(budget for pair in pairs for budget in pair)
    sides = tuple(_average(side) for side in zip(*pairs, strict=True))
    alpha = (1 - evidence.confidence) / evidence.comparisons
    clumps = {kind: _clump([window for side in sides for window in side.polled], kind) for kind in kinds}
    members = count_members([sum(_count(side, kind) for side in sides) / clumps[kind] for kind in kinds], alpha=alpha)
    # What runs hide of the whole may be in any part.
    hidden = find_hidden(evidence, measured.values, arm, LATENCY_MEAN.name)
    in_seconds = (hidden[0] * sides[0].latency, hidden[1] * sides[0].latency)

    def estimate(values: Sequence[float], *, members: int, hidden: tuple[float, float]) -> Estimate:
        differences = dict(zip(by_block, values, strict=True))
        return estimate_difference(evidence, differences, arm=arm, members=members, hidden=hidden)

    parts = {}
    for kind in kinds:
        values = [other.parts.get(kind, 0.0) - one.parts.get(kind, 0.0) for one, other in pairs]
        counted = [_count_part(side, kind, clump=clumps[kind], alpha=alpha / members) for side in sides]
        parts[kind] = estimate(values, members=members, hidden=in_seconds)
        if counted[0] is not None and counted[1] is not None:
            parts[kind] = _enclose(parts[kind], difference_interval(counted[0], counted[1]))
    return BudgetDifference(
        arm=arm,
        control=control,
        load_level=level,
        difference=estimate([other.latency - one.latency for one, other in pairs], members=1, hidden=in_seconds),
        ratio=estimate([math.log(two.latency / one.latency) for one, two in pairs], members=1, hidden=hidden).mapped(
            math.exp
        ),
        parts=_order(parts),
    )


def _order(parts: Mapping[WaitEvent, Estimate]) -> tuple[BudgetPart, ...]:
    """Largest first; of a budget all but the time outside the server are positive anyway."""
    found = [BudgetPart(kind=kind, event=event, seconds=seconds) for (kind, event), seconds in parts.items()]
    return tuple(sorted(found, key=lambda part: (-abs(part.seconds.value), part.kind, part.event)))


def _describe_part(evidence: Evidence, budgets: Sequence[_RunBudget], average: _RunBudget, kind: WaitEvent) -> Estimate:
    estimate = _estimate(evidence, [budget.parts.get(kind, 0.0) for budget in budgets])
    counted = _count_part(average, kind, clump=_clump(average.polled, kind), alpha=1 - evidence.confidence)
    return estimate if counted is None else _enclose(estimate, counted[1])


def _count(budget: _RunBudget, kind: WaitEvent) -> float:
    """How often sessions were found in a part; infinite where it is not counted."""
    if kind[0] in _NOT_COUNTED or not budget.polled:
        return math.inf
    return sum(window.found.get(kind, 0.0) for window in budget.polled)


def _clump(windows: Sequence[_Polled], kind: WaitEvent) -> float:
    """How many of what was found of a part are one, at least: its variance over its number, which a Poisson variable
    has alike.
    """
    found = sum(window.found.get(kind, 0.0) for window in windows)
    scatter = sum(window.scatter.get(kind, window.found.get(kind, 0.0)) for window in windows)
    return max(1.0, scatter / found) if found > 0 else 1.0


def _count_part(budget: _RunBudget, kind: WaitEvent, *, clump: float, alpha: float) -> tuple[float, Interval] | None:
    """The part and the interval of its counts, ``clump`` of which are one; None where it is not counted."""
    if math.isinf(_count(budget, kind)):
        return None
    counts = [window.found.get(kind, 0.0) / clump for window in budget.polled]
    weights = [window.weight * clump for window in budget.polled]
    return budget.parts.get(kind, 0.0), count_interval(counts, weights, alpha=alpha)


def _enclose(estimate: Estimate, counted: Interval) -> Estimate:
    """With an interval in which both are; without one where the blocks give none."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return Estimate(value=estimate.value, low=min(estimate.low, counted.low), high=max(estimate.high, counted.high))


def _estimate(evidence: Evidence, values: Sequence[float]) -> Estimate:
    estimate = estimate_mean(values, confidence=evidence.confidence)
    assert estimate is not None  # there is a run, and every run has the number
    return estimate
