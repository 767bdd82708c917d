"""The few wait events, or statements, that most of the time goes to: Pareto charts on real time."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pgtrial.analysis.causes.recommend import (
    Array,
    Rated,
    Weighted,
    chosen_criteria,
    find_trade_offs,
    read_criterion,
    recommend,
)
from pgtrial.analysis.causes.sessions import WaitEvent, split_sessions, tier
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.effects.contrasts import find_borne
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values, reported_scenarios
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.causes import ArmScore, CriterionValue, Scorecard
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import UNKNOWN_STATEMENT, name_part, part_id
from pgtrial.findings.record import ALL, Estimate
from pgtrial.findings.session_time import CPU, Pareto, ParetoItem
from pgtrial.model.metric import Better
from pgtrial.model.run import RunRow
from pgtrial.stats.pareto_front import ArmRank

HEAD = 0.8  # share of the time that the head reaches
MOST_ITEMS = 50  # are listed; shares are of the whole

_DETAIL_SHARE = 0.05  # of a statement's time, below which an event is not named
_MOST_DETAILS = 3
_IDLE = "idle"
_ROUNDING = 1e-9

# What the sessions of one run at one load level were in, and how many on average; None where they were not sampled.
_Counter = Callable[[RunRow, int], Mapping[str, float] | None]


def rank_events(evidence: Evidence, reduction: Reduction) -> tuple[Pareto, ...]:
    """Wait events of sessions inside a statement, per arm and load level, with CPU and CPU queue among them.

    Then of each scenario that has sessions of its own, per arm over all levels.
    """
    precise = tier(evidence, reduction)

    def counter(scenario: str | None) -> _Counter:
        def count(run: RunRow, level: int) -> Mapping[str, float] | None:
            split = split_sessions(reduction, run, level, tier=precise, scenario=scenario)
            return None if split is None else {part_id(*kind): number for kind, number in split.at_work.items()}

        return count

    cells = [
        (arm, level, runs, scenario)
        for scenario in reported_scenarios(evidence)
        for arm, level, runs in _cells(evidence)
        if scenario is None or level == ALL
    ]
    return tuple(
        _rank(arm, level, "events", sessions, {}, scenario=scenario)
        for arm, level, runs, scenario in cells
        if (sessions := _mean(runs, counter(scenario)))
    )


def rank_statements(evidence: Evidence, reduction: Reduction) -> tuple[Pareto, ...]:
    """Statements by the time of the sessions that execute them, waits included, each with its largest events.

    Of the sampled sessions: pg_wait_sampling has no text of statements.
    """

    def count(run: RunRow, level: int) -> Mapping[str, float] | None:
        by_statement = _count_statements(reduction, run, level)
        return None if by_statement is None else {text: sum(kinds.values()) for text, kinds in by_statement.items()}

    ranked = []
    for arm, level, runs in _cells(evidence):
        sessions = _mean(runs, count)
        if sessions:
            ranked.append(_rank(arm, level, "statements", sessions, _details(reduction, runs)))
    return tuple(ranked)


_Runs = Sequence[tuple[RunRow, int]]  # runs of an arm, each at one of the levels in question


def _cells(evidence: Evidence) -> Iterator[tuple[str, int | str, _Runs]]:
    for arm in evidence.arms:
        runs = evidence.runs_of(arm.name)
        yield arm.name, ALL, [(run, level.index) for run in runs for level in evidence.levels]
        for level in evidence.levels:
            yield arm.name, level.index, [(run, level.index) for run in runs]


def _mean(runs: _Runs, count: _Counter) -> dict[str, float]:
    """Mean over the runs, and over the levels; what was not seen in one of them is zero there."""
    known = [sessions for run, level in runs if (sessions := count(run, level)) is not None]
    names = dict.fromkeys(name for sessions in known for name in sessions)
    return {name: sum(sessions.get(name, 0.0) for sessions in known) / len(known) for name in names}


def _count_statements(reduction: Reduction, run: RunRow, level: int) -> dict[str, dict[WaitEvent, float]] | None:
    groups = reduction.sessions.get((run.id, level))
    if groups is None:
        return None
    by_statement: dict[str, dict[WaitEvent, float]] = {}
    for group in groups:
        # What an idle session shows is the statement before.
        if group.state and not group.state.startswith(_IDLE):
            kinds = by_statement.setdefault(group.query or UNKNOWN_STATEMENT, {})
            kind = (group.wait_type or CPU, group.wait_event)
            kinds[kind] = kinds.get(kind, 0.0) + group.sessions
    return by_statement


def _details(reduction: Reduction, runs: _Runs) -> dict[str, Message]:
    """The largest events of each statement."""
    return {text: _describe(kinds) for text, kinds in count_statements(reduction, runs).items()}


def count_statements(reduction: Reduction, runs: _Runs) -> Mapping[str, Mapping[WaitEvent, float]]:
    """Sessions inside each statement by kind of wait, summed over runs at their levels."""
    together: dict[str, dict[WaitEvent, float]] = {}
    for run, level in runs:
        for text, kinds in (_count_statements(reduction, run, level) or {}).items():
            into = together.setdefault(text, {})
            for kind, sessions in kinds.items():
                into[kind] = into.get(kind, 0.0) + sessions
    return together


def _describe(kinds: Mapping[WaitEvent, float]) -> Message:
    total = sum(kinds.values())
    largest = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:_MOST_DETAILS]
    events = tuple(
        message("statement.event", event=name_part(*kind), share=sessions / total)
        for kind, sessions in largest
        if sessions >= _DETAIL_SHARE * total
    )
    return message("statement.events", events=events)


def _rank(
    arm: str,
    level: int | str,
    of: Literal["events", "statements"],
    sessions: Mapping[str, float],
    details: Mapping[str, Message],
    *,
    scenario: str | None = None,
) -> Pareto:
    ordered = sorted(sessions.items(), key=lambda item: (-item[1], item[0]))
    total = sum(sessions.values())
    items, reached, head = [], 0.0, 0
    for name, number in ordered:
        if reached < (HEAD - _ROUNDING) * total:
            head += 1
        reached += number
        items.append(
            ParetoItem(
                name=name,
                sessions=number,
                share=number / total,
                cumulative=reached / total,
                detail=details.get(name),
            )
        )
    return Pareto(
        arm=arm,
        load_level=level,
        scenario=scenario,
        of=of,
        head=head,
        items=tuple(items[:MOST_ITEMS]),
    )


# Arms against the criteria that the file declares before the run: who is best in what, how surely, at which price.
#
# Ratios to the control and their intervals are those of all effects (effects/comparison.py). Which arm leads, and how
# often it would, stats/pareto_front.py says; whether that is sure, the intervals of its leads.


def score_arms(evidence: Evidence, values: Values) -> Scorecard | None:
    """Score the control and the candidates on the blocks in which all of them have a valid run.

    None without a candidate or such a block, or where no criterion was measured in all arms. A criterion that was not
    is shown without a ratio, and has no part in score and Pareto front.
    """
    if evidence.control is None or not evidence.candidates or evidence.is_soak:
        return None
    arms = (evidence.control.name, *(arm.name for arm in evidence.candidates))
    blocks = _common_blocks(evidence, arms)
    chosen = chosen_criteria(evidence)
    tables = {
        weighted.criterion.metric: read_criterion(
            evidence, values, criterion=weighted.criterion, arms=arms, blocks=blocks
        )
        for weighted in chosen
    }
    measured = [weighted for weighted in chosen if _is_measured(tables[weighted.criterion.metric])]
    if not measured:
        return None
    evidence = replace(evidence, valid=tuple(run for run in evidence.valid if run.slot.block in blocks))
    compared = [tables[weighted.criterion.metric] for weighted in measured]
    ratios = tuple(
        (
            Estimate(value=1.0),
            *(
                _compare(evidence, values, weighted.criterion.metric, arm, sides=(table[0], row))
                for arm, row in zip(arms[1:], table[1:], strict=True)
            ),
        )
        for weighted, table in zip(measured, compared, strict=True)
    )
    rated = Rated(
        evidence=evidence,
        arms=arms,
        criteria=tuple(measured),
        ratios=ratios,
        log_ratios=np.stack([(np.log(table) - np.log(table[0])).T for table in compared], axis=2),
        blocks=blocks,
        borne=tuple(
            find_borne(evidence, values, (each.criterion.metric, None, ALL), floor=each.criterion.floor)
            for each in measured
        ),
    )
    ranks = rated.rank(range(len(measured)))
    return Scorecard(
        arms=tuple(_describe_card(rated, chosen, row, rank) for row, rank in enumerate(ranks)),
        recommendations=recommend(rated, is_declared=bool(evidence.experiment.criteria)),
        trade_off=find_trade_offs(rated),
    )


def _common_blocks(evidence: Evidence, arms: Sequence[str]) -> tuple[int, ...]:
    blocks = [{run.slot.block for run in evidence.runs_of(arm)} for arm in arms]
    return tuple(sorted(set.intersection(*blocks)))


def _is_measured(table: Array) -> bool:
    """Whether a block has a value of every arm; a block without one of some arm says nothing of any."""
    return bool(np.isfinite(table).all(axis=0).any())


def _compare(evidence: Evidence, values: Values, metric: str, arm: str, *, sides: tuple[Array, Array]) -> Estimate:
    """Of an arm to the control, ``sides`` being the control's values and the arm's; the interval holds for all
    candidates.
    """
    comparison = compare_metric(
        *(evidence, values, arm, (metric, None, ALL)), comparisons=evidence.comparisons, pairs=sides
    )
    mean = float(np.nanmean(np.log(sides[1]) - np.log(sides[0])))
    return Estimate(value=math.exp(mean), low=comparison.low, high=comparison.high)


def _describe_card(rated: Rated, chosen: Sequence[Weighted], row: int, rank: ArmRank) -> ArmScore:
    places = {weighted.criterion.metric: place for place, weighted in enumerate(rated.criteria)}
    return ArmScore(
        arm=rated.arms[row],
        values=tuple(
            CriterionValue(
                criterion=weighted.criterion.metric,
                better="higher" if weighted.better is Better.HIGHER else "lower",
                weight=weighted.weight,
                ratio=None if place is None else rated.ratios[place][row],
                rank_share=None if place is None else rank.best_in[place],
            )
            for weighted in chosen
            for place in (places.get(weighted.criterion.metric),)
        ),
        is_pareto=rank.is_pareto,
        score=rank.score,
        best_share=rank.best_share,
    )
