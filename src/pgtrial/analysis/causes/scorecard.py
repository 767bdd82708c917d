"""Arms against the criteria that the file declares before the run: who is best in what, how surely, at which price.

Ratios to the control and their intervals are those of all effects (stats/paired.py). Which arm leads, and how sure that
is, stats/pareto_front.py says.
"""

import math
from collections.abc import Sequence

import numpy as np

from pgtrial.analysis.causes.criterion_values import Array, Weighted, chosen_criteria, read_criterion
from pgtrial.analysis.causes.recommend import Rated, find_trade_offs, recommend
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.timeline import Timeline
from pgtrial.findings.causes import ArmScore, CriterionValue, Scorecard
from pgtrial.findings.record import Estimate
from pgtrial.model.metric import Better
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.pareto_front import ArmRank
from pgtrial.stats.sequential import hide_interval


def score_arms(evidence: Evidence, values: Values, timelines: Sequence[Timeline]) -> Scorecard | None:
    """Score the control and the candidates on the blocks in which all of them have a valid run.

    None without a candidate or such a block, or where no criterion was measured in all arms. A criterion that was not
    is shown without a ratio, and has no part in score and Pareto front.
    """
    if evidence.control is None or not evidence.candidates:
        return None
    arms = (evidence.control.name, *(arm.name for arm in evidence.candidates))
    blocks = _common_blocks(evidence, arms)
    chosen = chosen_criteria(evidence)
    tables = {
        weighted.criterion.metric: read_criterion(
            evidence, values, timelines, criterion=weighted.criterion, arms=arms, blocks=blocks
        )
        for weighted in chosen
    }
    measured = [weighted for weighted in chosen if _is_measured(tables[weighted.criterion.metric])]
    if not measured:
        return None
    found = [tables[weighted.criterion.metric] for weighted in measured]
    rated = Rated(
        arms=arms,
        criteria=tuple(measured),
        ratios=tuple(
            (Estimate(value=1.0), *(_compare(evidence, table[0], row) for row in table[1:])) for table in found
        ),
        # Zero has no logarithm; where a criterion can be zero it has a floor.
        log_ratios=np.stack([(np.log(table) - np.log(table[0])).T for table in found], axis=2),
        seed=evidence.experiment.design.seed,
        confidence=evidence.confidence,
    )
    ranks = rated.rank(range(len(measured)))
    return Scorecard(
        arms=tuple(_describe(rated, chosen, row, rank) for row, rank in enumerate(ranks)),
        recommendations=recommend(rated, is_declared=bool(evidence.experiment.criteria)),
        trade_off=find_trade_offs(rated),
    )


def _common_blocks(evidence: Evidence, arms: Sequence[str]) -> tuple[int, ...]:
    found = [{run.slot.block for run in evidence.runs_of(arm)} for arm in arms]
    return tuple(sorted(set.intersection(*found)))


def _is_measured(table: Array) -> bool:
    """Whether a block has a value of every arm; a block without one of some arm says nothing of any."""
    return bool(np.isfinite(table).all(axis=0).any())


def _compare(evidence: Evidence, control: Array, treated: Array) -> Estimate:
    complete = int(np.count_nonzero(~np.isnan(control) & ~np.isnan(treated)))
    due = evidence.confidence_at(complete)
    comparison = compare_blocks(
        control, treated, confidence=due or evidence.confidence, comparisons=evidence.comparisons
    )
    shown = comparison if due else hide_interval(comparison, first_look=evidence.looks[0])
    mean = float(np.nanmean(np.log(treated) - np.log(control)))
    return Estimate(value=math.exp(mean), low=shown.low, high=shown.high)


def _describe(rated: Rated, chosen: Sequence[Weighted], row: int, rank: ArmRank) -> ArmScore:
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
