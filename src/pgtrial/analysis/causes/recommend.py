"""The numbers that arms are scored by, which arm is best for which goal, how surely, and where goals disagree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.causes.together import estimate_difference
from pgtrial.analysis.effects.contrasts import Borne, weigh
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.experiment_file.criteria import (
    CRITERIA,
    FILE_LATENCY_P99,
    FILE_REQUESTS,
    LATENCY_P99,
    LOWEST,
    THROUGHPUT,
    VARIATION,
    Criterion,
)
from pgtrial.findings.causes import FAST, STABLE, WEIGHTED, Recommendation
from pgtrial.findings.message import Message, message
from pgtrial.findings.record import ALL, Estimate
from pgtrial.model.metric import Better
from pgtrial.stats.pareto_front import ArmRank, rank_arms

Array = NDArray[np.float64]

_DEFAULT = (THROUGHPUT, LATENCY_P99, LOWEST, VARIATION)
_DEFAULT_OF_FILES = (FILE_REQUESTS, FILE_LATENCY_P99, LOWEST, VARIATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """A criterion with the weight and direction that the file gives it."""

    criterion: Criterion
    better: Better
    weight: float


def chosen_criteria(evidence: Evidence) -> tuple[Weighted, ...]:
    """Those that the file declares; else throughput, latency p99 and how even throughput is, with equal weights."""
    declared = evidence.experiment.criteria
    if declared:
        return tuple(
            Weighted(
                criterion=CRITERIA[each.metric],
                better=Better(each.better) if each.better else CRITERIA[each.metric].better,
                weight=each.weight,
            )
            for each in declared
            if each.metric in CRITERIA
        )
    names = _DEFAULT_OF_FILES if evidence.is_on_files else _DEFAULT
    return tuple(Weighted(criterion=CRITERIA[name], better=CRITERIA[name].better, weight=1.0) for name in names)


def read_criterion(
    evidence: Evidence,
    values: Values,
    *,
    criterion: Criterion,
    arms: Sequence[str],
    blocks: Sequence[int],
) -> Array:
    """(arms, blocks) over all load levels, at least the criterion's floor; NaN where it was not measured.

    Of zero, which a run may count where the criterion has no floor (CPU time in ticks of a clock), there is no ratio:
    it is NaN, too.
    """
    runs = {(run.slot.arm, run.slot.block): run.id for run in evidence.valid}
    found = np.full((len(arms), len(blocks)), np.nan)
    for row, arm in enumerate(arms):
        for column, block in enumerate(blocks):
            run = runs.get((arm, block))
            value = None if run is None else values.get((run, criterion.metric, None, ALL))
            if value is not None and max(value, criterion.floor) > 0:
                found[row, column] = max(value, criterion.floor)
    return found


# Which arm for which goal, why, and how surely; and where goals contradict each other.


_SPEED = (
    *(THROUGHPUT, "pgbench.latency_mean", "pgbench.latency_p50"),
    *(FILE_REQUESTS, "fio.bandwidth", "fio.latency_mean", "fio.latency_p50"),
)
_TIED = 1e-9  # difference of log ratios that is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Arms, the control first, by the criteria that were measured in all of them.

    ``ratios`` (criteria)(arms), to the control. ``log_ratios`` (blocks, arms, criteria), of the same, NaN where a block
    has no value. ``borne`` (criteria): what the effects of arms on it bear.
    """

    evidence: Evidence
    arms: tuple[str, ...]
    criteria: tuple[Weighted, ...]
    ratios: tuple[tuple[Estimate, ...], ...]
    log_ratios: Array
    blocks: tuple[int, ...]
    borne: tuple[Mapping[str, Borne], ...]

    def count_blocks(self, places: Sequence[int]) -> int:
        """In which all arms have a value of each of these criteria."""
        return int(np.isfinite(self.log_ratios[:, :, list(places)]).all(axis=(1, 2)).sum())

    def lacks_blocks(self, places: Sequence[int]) -> bool:
        """Whether a run, maybe the worst one, has no value of one of these criteria; by rules 14 it was left out."""
        return self.evidence.rules.needs_every_value and self.count_blocks(places) < len(self.blocks)

    def is_enough(self, places: Sequence[int]) -> bool:
        """Whether there are as many blocks as a claim needs to be decided: fewer make nothing sure."""
        return self.count_blocks(places) >= self.evidence.rules.fewest_blocks and not self.lacks_blocks(places)

    def leads(self, places: Sequence[int], best: int, *, goals: int) -> bool:
        """Whether it is sure that an arm is ahead of each other one by these criteria with their weights, for so many
        ``goals`` together.

        For the best of k arms to be another than the one that is found, one of k - 1 intervals has to be wrong: those
        of the lead over the truly best one. So the intervals of all candidates are as wide as they have to be.
        Source: Hsu, Ann. Statist. 12 (1984) 1136-1144.
        """
        signs = [(1 if self.criteria[place].better is Better.HIGHER else -1) for place in places]
        weights = {place: self.criteria[place].weight * sign for place, sign in zip(places, signs, strict=True)}
        others = (other for other in range(len(self.arms)) if other != best)
        return all(self._find_side(weights, best, other, members=goals) > 0 for other in others)

    def find_side(self, place: int, arm: int) -> int:
        """On which side of the control an arm surely is in a criterion, for all of them; 0 where that is open."""
        return self._find_side({place: 1.0}, arm, 0, members=len(self.criteria))

    def _find_side(self, weights: Mapping[int, float], arm: int, other: int, *, members: int) -> int:
        """On which side of another arm one surely is, in a sum of logarithms of criteria, each with its weight."""
        if not self.is_enough([*weights]) or self.evidence.is_provisional:
            return 0
        scores = self.log_ratios[:, :, [*weights]] @ np.array([*weights.values()])
        leads = dict(zip(self.blocks, (scores[:, arm] - scores[:, other]).tolist(), strict=True))
        borne = {
            name: weigh((weight, self.borne[place][name]) for place, weight in weights.items())
            for name in self.arms[1:]
        }
        return estimate_difference(
            *(self.evidence, {block: lead for block, lead in leads.items() if not math.isnan(lead)}),
            arm=self.arms[arm],
            over=self.arms[other],
            members=members,
            borne=borne,
        ).side()

    def rank(self, places: Sequence[int]) -> tuple[ArmRank, ...]:
        """The arms by some of the criteria, with their weights; the criteria keep their places.

        Too few blocks give no probabilities.
        """
        ranks = rank_arms(
            self.log_ratios,
            [weighted.better is Better.HIGHER for weighted in self.criteria],
            [weighted.weight if place in places else 0.0 for place, weighted in enumerate(self.criteria)],
            rng=np.random.default_rng(self.evidence.seed),
        )
        if self.is_enough(places):
            return ranks
        nothing = (None,) * len(self.criteria)
        return tuple(replace(rank, best_in=nothing, best_share=None) for rank in ranks)


def recommend(rated: Rated, *, is_declared: bool) -> tuple[Recommendation, ...]:
    """An arm for "fast", for "stable" and, where the file declares criteria, for its weights.

    "fast" goes by the first criterion of speed, "stable" by all that say how evenly the load runs, with their weights;
    a goal without a criterion has no recommendation.
    """
    names = [weighted.criterion.metric for weighted in rated.criteria]
    fast = [names.index(name) for name in _SPEED if name in names][:1]
    stable = [place for place, weighted in enumerate(rated.criteria) if weighted.criterion.stable]
    declared = list(range(len(names))) if is_declared else []
    goals = {goal: places for goal, places in ((FAST, fast), (STABLE, stable), (WEIGHTED, declared)) if places}
    different = len(set(map(tuple, goals.values())))
    return tuple(_recommend(rated, goal, places, goals=different) for goal, places in goals.items())


def find_trade_offs(rated: Rated) -> Message | None:
    """What arms win and lose at the same time, as far as intervals that hold together exclude no difference."""
    sentences = []
    for arm, name in enumerate(rated.arms[1:], start=1):
        gains, losses = _find_certain(rated, arm)
        if gains and losses:
            told = {"gains": _list(rated, gains, arm), "losses": _list(rated, losses, arm)}
            sentences.append(message("trade-off", arm=name, control=rated.arms[0], **told))
    return message("sentences", parts=tuple(sentences)) if sentences else None


def _recommend(rated: Rated, goal: str, places: Sequence[int], *, goals: int) -> Recommendation:
    ranks = rated.rank(places)
    scores = [rank.score if rank.score is not None else -np.inf for rank in ranks]
    best = 0  # the control, where no other is better
    for arm, score in enumerate(scores):
        if score > scores[best] + _TIED:
            best = arm
    name, is_sure = rated.arms[best], rated.leads(places, best, goals=goals)
    if best:
        gains = tuple(_tell(rated, place, best) for place in places)
        code = "recommended.gains" if is_sure else "recommended.ahead"
        reason = message(code, arm=name, gains=gains, control=rated.arms[0])
    else:
        reason = message("recommended.control" if is_sure else "recommended.control-ahead", arm=name)
    sureness = _tell_sureness(rated, places, ranks[best].best_share, is_sure=is_sure)
    text = message("sentences", parts=(reason, sureness))
    return Recommendation(goal=goal, arm=name, text=text, is_sure=is_sure)


def _tell_sureness(rated: Rated, places: Sequence[int], chance: float | None, *, is_sure: bool) -> Message:
    count = rated.count_blocks(places)
    if rated.lacks_blocks(places):
        return message("recommended.partly-known", blocks=len(rated.blocks) - count, count=len(rated.blocks))
    if chance is None:
        return message("recommended.few-blocks", count=count, fewest=rated.evidence.rules.fewest_blocks)
    code = "recommended.sure" if is_sure else "recommended.unsure"
    return message(code, count=count, chance=chance)


def _tell(rated: Rated, place: int, arm: int) -> Message:
    """ "throughput +6.8 % (95 % interval +5.0 % to +8.6 %)"."""
    estimate = rated.ratios[place][arm]
    gain = message("criterion.change", criterion=rated.criteria[place].criterion.label, change=estimate.value)
    if estimate.low is None or estimate.high is None:
        return gain
    confidence = rated.evidence.confidence
    return message("criterion.change-interval", gain=gain, confidence=confidence, low=estimate.low, high=estimate.high)


def _find_certain(rated: Rated, arm: int) -> tuple[list[int], list[int]]:
    """Criteria in which an arm is surely better than the control, and surely worse."""
    sides = [
        rated.find_side(place, arm) * (1 if weighted.better is Better.HIGHER else -1)
        for place, weighted in enumerate(rated.criteria)
    ]
    gains, losses = ([place for place, side in enumerate(sides) if side == wanted] for wanted in (1, -1))
    return gains, losses


def _list(rated: Rated, places: Sequence[int], arm: int) -> tuple[Message, ...]:
    return tuple(
        message(
            "criterion.change-in-brackets",
            criterion=rated.criteria[place].criterion.label,
            change=rated.ratios[place][arm].value,
        )
        for place in places
    )
