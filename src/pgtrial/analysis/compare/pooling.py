"""Effects of several experiments as one, with what it has to bear beside their noise, and what is decided of it."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pgtrial.analysis.compare.subjects import Subject
from pgtrial.analysis.effects.lost import count_transactions, lost_share
from pgtrial.analysis.observations import index_values
from pgtrial.findings.caveat import CaveatFinding, caveat_in_words
from pgtrial.findings.comparison import PooledEffect
from pgtrial.findings.findings import Effect
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Decision
from pgtrial.stats.base import Comparison, Interval
from pgtrial.stats.equivalence import decide
from pgtrial.stats.failures import Attempts, fails_more
from pgtrial.stats.interval import Known
from pgtrial.stats.meta import Pooled, combine
from pgtrial.stats.paired import FEW_BLOCKS
from pgtrial.stats.sequential import most_lean

FEW_EXPERIMENTS = 5
HETEROGENEOUS = 0.1  # p of F; it has little power with few experiments, hence not 0.05
UNEQUAL_LOSSES = "unequal-losses"  # caveat of a contrast with which nothing is decided by way of the control


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An experiment's effect that counts in a combined one; ``known`` is its logarithm."""

    subject: Subject
    effect: Effect
    known: Known

    @property
    def lean(self) -> float:
        """By how much its logarithm may be off on average, because experiments like it end when they are decided.

        Also of one that went on to its last block: that it might have ended belongs to how it was chosen.
        """
        rule = self.subject.findings.stopping
        if rule is None or rule.rule == "precision":
            return 0.0
        return most_lean(rule.looks) * self.known.error

    @property
    def lost_more(self) -> float:
        """The share of its transactions that the arm lost beyond the control's, negative where that lost more, if its
        effect is left open and is on a time; else 0.
        """
        evidence, effect = self.subject.evidence, self.effect
        if not effect.fails_more or effect.metric not in evidence.load.times or evidence.control is None:
            return 0.0
        values = index_values(tuple(self.subject.findings.observations))
        share, others = (
            lost_share(evidence, values, arm, effect.key[1:]) for arm in (effect.arm, evidence.control.name)
        )
        return share - others

    @property
    def transactions(self) -> tuple[Attempts, Attempts]:
        """Of the control and of the arm, by the rules of today."""
        evidence, effect = replace(self.subject.evidence, rules=CURRENT), self.effect
        values = index_values(tuple(self.subject.findings.observations))
        names = ("" if evidence.control is None else evidence.control.name, effect.arm)
        control, treated = (count_transactions(evidence, values, name, effect.key[1:]) for name in names)
        return control, treated


def combine_studies(studies: Sequence[Study]) -> Pooled:
    """Of two studies or more, at the highest of their confidences: what is combined of several attempts at a claim is
    as sure as the last of them alone, so that whoever combines after each errs no more often than the first alone.
    """
    return combine(
        [study.known.mean for study in studies],
        [study.known.error for study in studies],
        [study.known.degrees for study in studies],
        confidence=max(study.effect.confidence for study in studies),
    )


def describe_pooled(pooled: Pooled, studies: Sequence[Study], *, is_chosen: bool) -> PooledEffect:
    """What the experiments' own intervals bear beside noise is in those here: it may be in all of them alike. So is
    what the estimates of experiments lean by that a rule may end.

    ``is_chosen``: attempts at the claim are not among them, or what their arms did has left some out, or killed
    attempts unequally, so nothing is decided; nor is it while one is unfinished: of experiments that somebody may have
    ended when it suited no interval is known that holds for their mean. Where transactions were lost so unequally that
    nothing bounds a time, its arm may only be the longer one.
    """
    is_finished = all(study.subject.is_finished for study in studies)
    margin = common([study.effect.margin for study in studies])
    better = Better(studies[0].effect.better)
    lean = statistics.fmean(study.lean for study in studies)
    down = statistics.fmean(study.effect.hidden_below for study in studies) + lean
    up = statistics.fmean(study.effect.hidden_above for study in studies) + lean
    interval, these = extend_by(pooled.interval, down, up), extend_by(pooled.of_these, down, up)
    prediction = None if pooled.prediction is None else extend_by(pooled.prediction, down, up)
    comparison = _as_comparison(pooled, interval, hidden=(down, up))
    return PooledEffect(
        experiments=len(studies),
        ratio=math.exp(pooled.mean),
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        confidence=interval.confidence,
        degrees=pooled.degrees,
        log_error=pooled.error,
        p_value=pooled.p_value,
        f=pooled.f,
        f_p=pooled.f_p,
        i2=pooled.i2,
        tau=pooled.tau,
        tau_low=pooled.tau_interval.low,
        tau_high=pooled.tau_interval.high,
        prediction_low=math.exp(prediction.low) if prediction else None,
        prediction_high=math.exp(prediction.high) if prediction else None,
        these_low=math.exp(these.low),
        these_high=math.exp(these.high),
        hidden_below=down,
        hidden_above=up,
        margin=margin,
        decision=_decide(comparison, studies, margin=margin, better=better)
        if is_finished and not is_chosen
        else Decision.INCONCLUSIVE,
        provisional=not is_finished,
    )


def _decide(
    comparison: Comparison, studies: Sequence[Study], *, margin: float | None, better: Better
) -> Decision | None:
    """None where the margins differ.

    The place in a block is not taken out of experiments of few blocks. Then so many experiments are needed, each of
    which has drawn its own order, as blocks are otherwise.
    """
    if margin is None:
        return None
    fewest = CURRENT.fewest_blocks
    if len(studies) < fewest and min(study.effect.blocks for study in studies) < fewest:
        return Decision.INCONCLUSIVE
    decision = decide(comparison, bounds=CURRENT.log_bounds(margin), better=better)
    longer = {Decision.WORSE if sign > 0 else Decision.BETTER for sign in _find_losers(studies)}
    return decision if longer <= {decision} else Decision.INCONCLUSIVE


def _as_comparison(pooled: Pooled, interval: Interval, *, hidden: tuple[float, float]) -> Comparison:
    """The mean of k experiments as the decision rule takes it: with k - 1 degrees of freedom, like one of k blocks."""
    count = pooled.degrees + 1
    return Comparison(
        ratio=math.exp(pooled.mean),
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        confidence=interval.confidence,
        hidden=hidden,
        p_value=pooled.p_value,
        p_sign_flip=None,
        hodges_lehmann=None,
        hl_low=None,
        hl_high=None,
        blocks=count,
        sd_log_ratio=pooled.error * math.sqrt(count),
        information=count,
        degrees=pooled.degrees,
    )


def _find_losers(studies: Sequence["Study"]) -> dict[int, tuple[str, ...]]:
    """Of which side they are, 1 for the arm and -1 for the control, with the experiments that lost them.

    Of a mean no more may be lost than by chance. A little that each lost alike is more than chance, so all of them are
    looked at together. What one side lost in one experiment and the other side in another makes up for nothing, so each
    is looked at alone as well, and the more of them there are, the more one has to have lost.
    """
    load, metric = studies[0].subject.evidence.load if studies else None, studies[0].effect.metric if studies else ""
    keys = [study.subject.key for study in studies]
    if load is None or len(studies) < 2 or metric != load.latency_mean.name:
        signs = [study.lost_more for study in studies]
    else:
        pairs = [study.transactions for study in studies]
        control, arm = (
            Attempts(made=sum(each.made for each in side), failed=sum(each.failed for each in side))
            for side in zip(*pairs, strict=True)
        )
        together = _longer_side(control, arm)
        signs = [_longer_side(*pair, among=len(pairs)) or together for pair in pairs]
    sides = {sign: tuple(key for key, lost in zip(keys, signs, strict=True) if lost * sign > 0) for sign in (1, -1)}
    return {sign: found for sign, found in sides.items() if found}


def _longer_side(control: Attempts, arm: Attempts, *, among: int = 1) -> int:
    """1 where the arm lost more than by chance, -1 where the control did, else 0."""
    if not fails_more(control, arm, weighs_lone=False, among=among):
        return 0
    return 1 if arm.success < control.success else -1


def find_unequal_losses(studies: Sequence["Study"]) -> Iterator[CaveatFinding]:
    """Experiments in which the arm, or the control, lost so many more transactions that nothing bounds its time."""
    for sign, found in _find_losers(studies).items():
        side = "arm" if sign > 0 else "control"
        yield caveat_in_words(
            UNEQUAL_LOSSES,
            Severity.WARNING,
            f"So many more transactions of the {side} than of the other failed or were skipped that nothing bounds "
            f"its time, in {', '.join(found)}: nothing is decided but that it is longer.",
            "Find out why the transactions fail.",
        )


def find_caveats(pooled: Pooled, studies: Sequence[Study]) -> Iterator[CaveatFinding]:
    count = len(studies)
    if count < FEW_EXPERIMENTS:
        plural = "degree" if pooled.degrees == 1 else "degrees"
        yield caveat_in_words(
            "few-experiments",
            Severity.WARNING if count == 2 else Severity.INFO,
            f"{count} experiments say little about how much experiments differ, and the interval has only "
            f"{pooled.degrees} {plural} of freedom.",
            "Repeat the experiment on another day, or another host.",
        )
    if pooled.f_p < HETEROGENEOUS:
        yield caveat_in_words(
            "heterogeneous",
            Severity.WARNING,
            f"The experiments differ by more than their own noise explains (F = {pooled.f:.3g}, p = "
            f"{pooled.f_p:.2g}): the combined effect is an average of different effects.",
            "Look for a reason among the differences between the experiments. For the next experiment the prediction "
            "interval counts, not that of the mean.",
        )
    few = [study.subject.key for study in studies if study.effect.blocks < FEW_BLOCKS]
    if few:
        yield caveat_in_words(
            "few-blocks-to-combine",
            Severity.INFO,
            f"With fewer than {FEW_BLOCKS} blocks it is not well known how sure an experiment is, and so how much of "
            f"what the experiments differ by is noise: {', '.join(few)}.",
            f"Run at least {FEW_BLOCKS} blocks.",
        )
    stopped = [study.subject.key for study in studies if _has_stopped(study.subject)]
    if stopped:
        yield caveat_in_words(
            "stopped-early",
            Severity.INFO,
            "An experiment that ended as soon as it was decided has an estimate that leans away from the bound of its "
            f"claim, which the combined intervals bear: {', '.join(stopped)}.",
        )


def _has_stopped(subject: Subject) -> bool:
    rule = subject.findings.stopping
    return rule is not None and rule.ended is not None and rule.rule != "precision"


def common(values: Sequence[float]) -> float | None:
    """The value that all have; None where they differ."""
    return values[0] if len(set(values)) == 1 else None


def extend_by(interval: Interval, down: float, up: float) -> Interval:
    return replace(interval, low=interval.low - down, high=interval.high + up)
