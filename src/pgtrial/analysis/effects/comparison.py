"""Runs -> the comparison of an arm with the control in one metric, with all that its interval has to bear."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.lost import Key, bear_mean
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import LOST, STEP, Values
from pgtrial.analysis.slices import told_by
from pgtrial.findings.caveat import caveat
from pgtrial.findings.findings import Effect
from pgtrial.findings.record import ALL
from pgtrial.model.metric import Better
from pgtrial.model.observable import find_observable, floor_of
from pgtrial.model.run import RunRow
from pgtrial.stats.base import Comparison
from pgtrial.stats.carry_over import CarryOver, bound_carry_over, find_among_arms, find_carry_over, runs_before
from pgtrial.stats.fade import Turns, bound_fade
from pgtrial.stats.failures import bound_failures
from pgtrial.stats.hosts import compare_hosts, hide_unfinished
from pgtrial.stats.interval import extend
from pgtrial.stats.late import NEAR, Late, bound_late
from pgtrial.stats.paired import compare_blocks, without_interval
from pgtrial.stats.sequential import hide_interval, widen
from pgtrial.stats.steps import bound_steps

AT_FLOOR = "at-floor"
_ANY = 20.0  # log ratio of as good as nothing


def compare_metric(
    evidence: Evidence,
    values: Values,
    arm: str,
    key: tuple[str, str | None, int | str],
    *,
    comparisons: int,
    pairs: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
) -> Comparison:
    """An arm against the control in what ``key`` names, as for ``read_pairs``, with all that its interval has to bear.

    ``comparisons`` as for ``compare_when_due``; ``pairs`` where they are read already.
    """
    if arm in evidence.settled:
        evidence = replace(evidence, is_provisional=False)  # the last look at it was a planned one
    control, treated = read_pairs(evidence, values, arm, key) if pairs is None else pairs
    after = places(evidence, evidence.pairs(arm))
    blocks = blocks_of(evidence.pairs(arm))
    comparison = compare_when_due(evidence, control, treated, comparisons=comparisons, after=after, blocks=blocks)
    left = _read_among_arms(evidence, values, arm, key) or read_carry_over(evidence, arm, control, treated)
    comparison = bound_carry_over(comparison, left, at_most=evidence.rules.bears_all_that_is_left)
    sides = tuple(zip(*evidence.pairs(arm), strict=True))
    reach = max((read_reach(values, runs, key, STEP) for runs in sides), default=0.0)
    comparison = bound_steps(comparison, (control, treated), reach=reach)
    comparison = bear_floor(evidence, comparison, control, treated, metric=key[0])
    comparison = bear_lost(evidence, values, comparison, arm, key)
    return bear_turns(evidence, values, comparison, arm, key[0])


def compare_when_due(
    evidence: Evidence,
    control: NDArray[np.float64],
    treated: NDArray[np.float64],
    *,
    comparisons: int,
    after: Sequence[bool] | None,
    blocks: Sequence[int] | None = None,
) -> Comparison:
    """The comparison at the confidence that is due after so many blocks, without an interval where none is.

    control, treated : (blocks,), NaN for no observation; the confidence holds for ``comparisons`` of them together.
    A block without one leaves no ratio: whether the value is missing by chance, or because of what it would have been,
    nothing tells. By rules 14 such blocks were left out.
    ``after`` as ``places`` gives it. While blocks are still to come the interval holds whenever one looks. ``blocks``:
    their numbers; of an experiment that was spread over hosts the interval is over these, and there is none where it
    is not known which blocks they are, nor while some are still to come.
    """
    lost = int(np.count_nonzero(np.isnan(control) | np.isnan(treated)))
    if lost and evidence.rules.needs_every_value:
        complete = len(control) - lost
        caveats = (caveat("missing-blocks", blocks=lost),)
        return without_interval(None, complete, evidence.confidence, comparisons, caveats)
    if evidence.is_spread:
        hosts = evidence.hosts_of(blocks) if blocks is not None else [""] * len(control)
        found = compare_hosts(
            control, treated, hosts, confidence=evidence.confidence, comparisons=comparisons, after=after
        )
        return hide_unfinished(found) if evidence.is_provisional else found
    compare = partial(
        compare_blocks, comparisons=comparisons, after=after, may_differ=evidence.rules.tells_orders_apart
    )
    if evidence.is_provisional:
        return widen(compare(control, treated, confidence=evidence.confidence))
    complete = int(np.count_nonzero(~(np.isnan(control) | np.isnan(treated))))
    due = evidence.confidence_at(complete)
    comparison = compare(control, treated, confidence=due or evidence.confidence)
    return comparison if due else hide_interval(comparison, first_look=evidence.looks[0])


def bear_floor(
    evidence: Evidence,
    comparison: Comparison,
    control: NDArray[np.float64],
    treated: NDArray[np.float64],
    *,
    metric: str,
) -> Comparison:
    """The comparison of observations as ``read_pairs`` gives them, with an interval that holds if those at the metric's
    floor are nothing at all. Where less is better, next to nothing is as good as nothing, and the floor stays.
    """
    known = find_observable(metric)
    if not evidence.rules.bears_alike or known is None or known.metric.better is not Better.HIGHER:
        return comparison
    lowest = [side <= known.metric.floor for side in (treated, control)]
    down, up = (bool((one & ~other).any()) for one, other in (lowest, lowest[::-1]))
    if not down and not up:
        return comparison
    told = caveat(AT_FLOOR, count=int((lowest[0] ^ lowest[1]).sum()), blocks=control.size)
    return extend(replace(comparison, caveats=(*comparison.caveats, told)), down=_ANY * down, up=_ANY * up)


def bear_lost(evidence: Evidence, values: Values, comparison: Comparison, arm: str, key: Key) -> Comparison:
    """The comparison with an interval that holds if what the arm lost more than the control, or less, would have been
    the slowest of all; as it is where that has no bound, of which ``loses_more`` tells.
    """
    control, treated = (read_reach(values, runs, key, LOST) for runs in zip(*evidence.pairs(arm), strict=True))
    more = treated - control
    if evidence.control is not None:
        names = (arm, evidence.control.name)
        more += bear_mean(evidence, values, *names, key) - bear_mean(evidence, values, *names[::-1], key)
    if not math.isfinite(more) or more == 0:
        return comparison
    return extend(replace(comparison, lost=abs(more)), down=max(0.0, -more), up=max(0.0, more))


def bear_turns(evidence: Evidence, values: Values, comparison: Comparison, arm: str, metric: str) -> Comparison:
    """The comparison of an arm with the control, bearing what is left behind and comes late where they took turns.

    Where slices do not tell that of a metric, nothing bounds it, and the ratio is a description of these turns. By
    rules 14 it was taken for none.
    """
    if evidence.takes_turns and evidence.rules.bears_alike and told_by(evidence, metric) is None:
        caveats = (*comparison.caveats, caveat("untold-by-slices"))
        return without_interval(
            comparison.ratio, comparison.blocks, comparison.confidence, comparison.comparisons, caveats
        )
    if (turns := _read_turns(evidence, values, arm, metric)) is not None:
        comparison = bound_fade(comparison, turns)
    if (late := read_late(evidence, values, arm, metric)) is not None:
        comparison = bound_late(comparison, late)
    return comparison


def bear_failures(evidence: Evidence, comparison: Comparison, effect: Effect, *, share: float) -> Comparison:
    """The comparison of an effect with an interval that bears failures in excess; see ``bound_failures``."""
    return bear_failures_of(evidence, comparison, effect.arm, effect.block_ratios, share=share)


def bear_failures_of(
    evidence: Evidence, comparison: Comparison, arm: str, block_ratios: Sequence[float | None], *, share: float
) -> Comparison:
    """As ``bear_failures``, of the ratios of an arm to the control in their blocks, None where there is none."""
    # Without what the place in the block does.
    pairs = evidence.pairs(arm)
    after, position = places(evidence, pairs), comparison.position or 0.0
    sides = np.where(np.array(after or [False] * len(pairs)), position, -position)
    ratios = np.array([math.nan if each is None else math.log(each) for each in block_ratios])
    return bound_failures(comparison, (ratios - sides)[np.isfinite(ratios)], share=share)


def is_partly_known(comparison: Comparison) -> bool:
    """Whether a run of some block has no value of the metric."""
    return any(one.code == "missing-blocks" for one in comparison.caveats)


def blocks_per_observation(comparison: Comparison) -> int:
    """One; of hosts as many as they had on average, rounded up."""
    return math.ceil(comparison.blocks / comparison.observations) if comparison.blocks else 1


def read_reach(values: Values, runs: Sequence[RunRow], key: Key, what: str) -> float:
    """Log ratio by which what ``key`` names may be off in these runs, for STEP or LOST; 0.0 where it is not."""
    metric, scenario, level = key
    found = [values.get((run.id, metric + what, scenario, level), 0.0) for run in runs]
    return sum(found) / len(found) if found else 0.0


def read_carry_over(
    evidence: Evidence, arm: str, control: NDArray[np.float64], treated: NDArray[np.float64]
) -> CarryOver | None:
    """What a run leaves for the next one, of the observations of ``read_pairs``; None where arms share the time of a
    block, and by older rules.

    Runs that failed leave something behind as well. Nobody's run comes before the first one of a host.
    """
    pairs = evidence.pairs(arm)
    after = places(evidence, pairs) if evidence.rules.bears_carry_over else None
    if after is None or evidence.control is None:
        return None
    before = followed(evidence, {arm: 1.0, evidence.control.name: -1.0})
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratios = np.log(treated) - np.log(control)
    return find_carry_over(log_ratios, np.array(after), np.array([before[run.slot.block] for run, _ in pairs]))


def tells_among_arms(evidence: Evidence) -> bool:
    """Whether runs of all arms tell what one of them leaves for the next: also at a look, and while it goes on."""
    return evidence.rules.bears_alike and len(evidence.arms) > 2 and not any(run.slices for run in evidence.valid)


def _read_among_arms(evidence: Evidence, values: Values, arm: str, key: Key) -> CarryOver | None:
    """As ``read_carry_over``, told from the runs of all arms, where there are more than two; None by rules 14.

    Of an arm that was decided before the others, from those until its last block: it keeps its verdict.
    """
    pairs, last = evidence.pairs(arm), evidence.settled.get(arm, math.inf)
    after = places(evidence, pairs) if tells_among_arms(evidence) else None
    of_control = [each.name for each in (evidence.control, evidence.placebo) if each is not None and each.name != arm]
    if after is None:
        return None
    sides = [owners_before(evidence, dict.fromkeys(names, 1)) for names in ([arm], of_control)]
    known = [(run, value_of(evidence, values, (run.id, *key))) for run in evidence.valid if run.slot.block <= last]
    told = [(run, value) for run, value in known if 0 < value < math.inf]
    slots = [run.slot for run, _ in told]
    return find_among_arms(
        np.log([value for _, value in told]),
        np.array([[side[run.id] for run, _ in told] for side in sides], dtype=np.float64),
        [[slot.block for slot in slots], [slot.arm for slot in slots], [slot.position for slot in slots]],
        pairs=np.array([[side[one.id] - side[other.id] for other, one in pairs] for side in sides], dtype=np.float64),
        after=np.array(after, dtype=np.bool_),
    )


def followed(evidence: Evidence, weights: Mapping[str, float]) -> dict[int, float]:
    """How far the arms of a contrast followed runs of their own side in each block: 1 where all of them did, -1 where
    all followed the other side; by block.

    ``weights``: of the logarithms of arms in the contrast, by arm. A placebo leaves what the control does, whose
    settings it has; by rules 14 it was taken for an arm between both.
    """
    total = sum(map(abs, weights.values()))
    found: dict[int, float] = {}
    signs = {arm: int(np.sign(weight)) for arm, weight in weights.items()}
    if evidence.rules.bears_alike and evidence.placebo is not None and evidence.control is not None:
        signs.setdefault(evidence.placebo.name, signs.get(evidence.control.name, 0))
    owners = owners_before(evidence, signs)
    for run in evidence.valid:
        share = weights.get(run.slot.arm, 0.0) * owners[run.id] / total
        found[run.slot.block] = found.get(run.slot.block, 0.0) + share
    return found


def owners_before(evidence: Evidence, signs: Mapping[str, int]) -> dict[int, int]:
    """Whose run came before each one on its host, as ``runs_before`` gives it; by run."""
    found: dict[int, int] = {}
    for host in dict.fromkeys(evidence.hosts.get(run.slot.block) for run in evidence.runs):
        runs = [run for run in evidence.runs if evidence.hosts.get(run.slot.block) == host]
        owners = runs_before([run.slot.arm for run in runs], signs)
        found |= zip((run.id for run in runs), owners, strict=True)
    return found


def read_late(evidence: Evidence, values: Values, arm: str, metric: str) -> Late | None:
    """What comes later of a metric than in the arms' own turns; None where they did not take turns, where slices do not
    tell of the metric, or by older rules.
    """
    rules, pairs, told = evidence.rules, evidence.pairs(arm), told_by(evidence, metric)
    if not rules.bears_late or told is None or not any(run.slices for _, run in pairs):
        return None
    series, sign = told
    shapes = slice(None if rules.bears_all_that_is_left else len(NEAR))
    sides = (series.late, series.late_of_control) if rules.bears_late_of_control else (series.late,)
    runs = [run.id for _, run in pairs]
    change, error = (
        np.array(
            [
                [values.get((run, name, None, ALL), np.nan) for side in sides for name in side[what][shapes]]
                for run in runs
            ]
        )
        for what in (0, 1)
    )
    if not np.isfinite(change).any():
        return None
    return Late(change=sign * change, error=error if rules.bears_all_that_is_left else None)


def _read_turns(evidence: Evidence, values: Values, arm: str, metric: str) -> Turns | None:
    """How the slices of the arm and the control begin; None as for ``read_late``."""
    told = told_by(evidence, metric)
    if not evidence.rules.bears_fade or evidence.is_duet or told is None:
        return None
    series, sign = told
    pairs = evidence.pairs(arm)
    slices = [each for pair in pairs for run in pair for each in run.slices]
    if not slices:
        return None
    ratios = []
    for name in series.turns:
        rates = np.array([[values.get((run.id, name, None, ALL), np.nan) for run in pair] for pair in pairs])
        rates[rates <= 0] = np.nan
        ratios.append(sign * (np.log(rates[:, 1]) - np.log(rates[:, 0])))
    washout, early, late = ratios
    return Turns(
        washout=washout,
        early=early,
        late=late,
        guard=float(np.median([each.counted - each.started for each in slices])),
        counted=float(np.median([each.seconds for each in slices])),
    )


def read_pairs(
    evidence: Evidence, values: Values, arm: str, key: tuple[str, str | None, int | str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(blocks,) each, of the control and the arm in the blocks that have a valid run of both; ``key`` is the metric,
    the scenario and the load level.
    """
    one, other = (
        np.array([value_of(evidence, values, (run.id, *key)) for run in runs])
        for runs in zip(*evidence.pairs(arm), strict=True)
    )
    return one, other


def value_of(evidence: Evidence, values: Values, key: tuple[int, str, str | None, int | str]) -> float:
    """A run's observation, at least the metric's floor; NaN where there is none.

    Over all levels there is none where some are zero. That is zero here, of which there is no ratio: to leave out just
    the blocks in which a metric came down to nothing would choose blocks by their result.
    """
    run, metric, scenario, level = key
    if level == ALL and key not in values:
        levels = [values.get((run, metric, scenario, each.index)) for each in evidence.levels]
        return np.nan if None in levels else floor_of(metric)
    return max(values.get(key, np.nan), floor_of(metric))


def places(evidence: Evidence, pairs: Sequence[tuple[RunRow, RunRow]]) -> list[bool] | None:
    """Whether the arm ran after the control in each of ``pairs``; None where that is not taken out of its effect."""
    if not evidence.rules.takes_position or any(run.slices for _, run in pairs):
        return None
    return [run.slot.position > control.slot.position for control, run in pairs]


def blocks_of(pairs: Sequence[tuple[RunRow, RunRow]]) -> list[int]:
    """The number of each pair's block."""
    return [run.slot.block for _, run in pairs]
