"""Which arm for which goal, why, and how surely; and where goals contradict each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pgtrial.analysis.cause_findings import Estimate, Recommendation
from pgtrial.analysis.causes.criterion_values import Array, Weighted
from pgtrial.experiment_file.criteria import FILE_REQUESTS, THROUGHPUT
from pgtrial.language import mark, ntr, tr
from pgtrial.model.metric import Better
from pgtrial.stats.pareto_front import ArmRank, rank_arms
from pgtrial.units import format_change, format_percent, format_share

FAST, STABLE, WEIGHTED = mark("fast"), mark("stable"), mark("declared weights")  # in findings; shown translated
SURE = 0.95  # probability from which on a recommendation is called sure
_SPEED = (
    *(THROUGHPUT, "pgbench.latency_mean", "pgbench.latency_p50"),
    *(FILE_REQUESTS, "fio.bandwidth", "fio.latency_mean", "fio.latency_p50"),
)
_TIED = 1e-9  # difference of log ratios that is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Arms, the control first, by the criteria that were measured in all of them.

    ``ratios`` (criteria)(arms), to the control. ``log_ratios`` (blocks, arms, criteria), of the same, NaN where a block
    has no value. ``seed`` is that of the draws.
    """

    arms: tuple[str, ...]
    criteria: tuple[Weighted, ...]
    ratios: tuple[tuple[Estimate, ...], ...]
    log_ratios: Array
    seed: int
    confidence: float

    def rank(self, places: Sequence[int]) -> tuple[ArmRank, ...]:
        """The arms by some of the criteria, with their weights; the criteria keep their places."""
        return rank_arms(
            self.log_ratios,
            [each.better is Better.HIGHER for each in self.criteria],
            [each.weight if place in places else 0.0 for place, each in enumerate(self.criteria)],
            rng=np.random.default_rng(self.seed),
        )


def recommend(rated: Rated, *, is_declared: bool) -> tuple[Recommendation, ...]:
    """An arm for "fast", for "stable" and, where the file declares criteria, for its weights.

    "fast" goes by the first criterion of speed, "stable" by all that say how evenly the load runs, with their weights;
    a goal without a criterion has no recommendation.
    """
    names = [each.criterion.metric for each in rated.criteria]
    fast = [names.index(name) for name in _SPEED if name in names][:1]
    stable = [place for place, each in enumerate(rated.criteria) if each.criterion.stable]
    weighted = list(range(len(names))) if is_declared else []
    return tuple(
        _recommend(rated, goal, places)
        for goal, places in ((FAST, fast), (STABLE, stable), (WEIGHTED, weighted))
        if places
    )


def find_trade_offs(rated: Rated) -> str:
    """What arms win and lose at the same time, as far as their intervals exclude no difference; "" for none."""
    return " ".join(_trade_offs(rated))


def _recommend(rated: Rated, goal: str, places: Sequence[int]) -> Recommendation:
    ranks = rated.rank(places)
    scores = [rank.score if rank.score is not None else -np.inf for rank in ranks]
    best = 0  # the control, where no other is better
    for arm, score in enumerate(scores):
        if score > scores[best] + _TIED:
            best = arm
    name = rated.arms[best]
    if best:
        gains = ", ".join(_tell(rated, place, best) for place in places)
        reason = tr("{arm}: {gains}, against {control}.", arm=name, gains=gains, control=rated.arms[0])
    else:
        reason = tr("{arm}: no other arm is better than the control.", arm=name)
    return Recommendation(goal=goal, arm=name, text=f"{reason} {_tell_sureness(rated, ranks[best].best_share)}")


def _tell_sureness(rated: Rated, share: float | None) -> str:
    if share is None:
        return tr("How sure that is, a single block cannot tell.")
    if share >= SURE:
        return ntr(
            "This is sure: with {count} blocks it is the best with a probability of {chance}.",
            "This is sure: with {count} blocks it is the best with a probability of {chance}.",
            len(rated.log_ratios),
            chance=format_percent(share),
        )
    return ntr(
        "This is not sure: with {count} blocks it is the best with a probability of {chance}, so the data do not tell "
        "the arms apart.",
        "This is not sure: with {count} blocks it is the best with a probability of {chance}, so the data do not tell "
        "the arms apart.",
        len(rated.log_ratios),
        chance=format_percent(share),
    )


def _tell(rated: Rated, place: int, arm: int) -> str:
    """ "throughput +6.8 % (95 % interval +5.0 % to +8.6 %)"."""
    estimate = rated.ratios[place][arm]
    text = f"{tr(rated.criteria[place].criterion.label)} {format_change(estimate.value)}"
    if estimate.low is None or estimate.high is None:
        return text
    return tr(
        "{gain} ({confidence} interval {low} to {high})",
        gain=text,
        confidence=format_share(rated.confidence),
        low=format_change(estimate.low),
        high=format_change(estimate.high),
    )


def _trade_offs(rated: Rated) -> Iterator[str]:
    for arm, name in enumerate(rated.arms[1:], start=1):
        gains, losses = _find_certain(rated, arm, is_gain=True), _find_certain(rated, arm, is_gain=False)
        if gains and losses:
            yield tr(
                "{arm} against {control} is better in {gains}, and worse in {losses}.",
                arm=name,
                control=rated.arms[0],
                gains=_list(rated, gains, arm),
                losses=_list(rated, losses, arm),
            )


def _find_certain(rated: Rated, arm: int, *, is_gain: bool) -> list[int]:
    """Criteria in which an arm is surely better than the control, or surely worse."""
    found = []
    for place, weighted in enumerate(rated.criteria):
        estimate = rated.ratios[place][arm]
        if estimate.low is None or estimate.high is None:
            continue
        is_rise = is_gain == (weighted.better is Better.HIGHER)
        if estimate.low > 1 if is_rise else estimate.high < 1:
            found.append(place)
    return found


def _list(rated: Rated, places: Sequence[int], arm: int) -> str:
    return ", ".join(
        f"{tr(rated.criteria[place].criterion.label)} ({format_change(rated.ratios[place][arm].value)})"
        for place in places
    )
