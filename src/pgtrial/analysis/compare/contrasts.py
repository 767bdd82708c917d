"""Comparisons of arms that several experiments have made, side by side, combined where the rule allows it, or indirect.

An indirect comparison is of arms that no experiment has together, by way of the control that each was measured against.
The two effects are independent, so their errors add up. What made the control faster or slower from one experiment to
the other cancels, as it is in the arm too. What does not cancel is an effect that is larger on one machine or day than
on the other: that is in the difference, and no number here tells it from a difference of the arms.
"""

import math
import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pgtrial.analysis.compare.subjects import Definition, Subject, define_arm, define_workload
from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.effects.lost import count_transactions, lost_share
from pgtrial.analysis.observations import index_values
from pgtrial.findings.caveat import CaveatFinding, caveat_in_words, is_untold
from pgtrial.findings.comparison import Contrast, Indirect, PooledEffect, StudyEffect
from pgtrial.findings.findings import Effect
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Decision
from pgtrial.stats.base import Comparison, Interval
from pgtrial.stats.equivalence import decide
from pgtrial.stats.failures import Attempts, fails_more
from pgtrial.stats.interval import Known, difference, known_mean
from pgtrial.stats.meta import Pooled, combine
from pgtrial.stats.paired import FEW_BLOCKS
from pgtrial.stats.sequential import most_lean

ALL_LEVELS = "all load levels"
FEW_EXPERIMENTS = 5
HETEROGENEOUS = 0.1  # p of F; it has little power with few experiments, hence not 0.05
# Caveats of a contrast with which nothing is decided by way of the control.
_BY_RESULT, _UNEQUAL, _LOST = "left-out-by-result", "unequal-failures", "unequal-losses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Arms of one definition against controls of one definition, under one workload; one member per experiment."""

    workload: Definition
    control: Definition
    arm: Definition
    members: tuple[tuple[Subject, str], ...]  # with the arm's name there

    @property
    def title(self) -> str:
        subject, arm = self.members[0]
        return f"{arm} against {subject.findings.hypothesis.control}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """What is measured: a metric, of a scenario (None: all), at a load level (its index or "all")."""

    metric: str
    scenario: str | None
    level: int | str
    label: str
    is_claimed: bool


def group_arms(subjects: Sequence[Subject]) -> tuple[Group, ...]:
    """Candidates of all experiments by what defines them, in the order in which they first appear."""
    found: dict[tuple[frozenset[tuple[str, str]], ...], list[tuple[Subject, str]]] = {}
    definitions: dict[tuple[frozenset[tuple[str, str]], ...], tuple[Definition, Definition, Definition]] = {}
    for subject in subjects:
        control = subject.evidence.control
        if control is None:
            continue
        workload, control_definition = define_workload(subject), define_arm(subject, control)
        for arm in subject.evidence.candidates:
            parts = (workload, control_definition, define_arm(subject, arm))
            key = tuple(frozenset(part.items()) for part in parts)
            members = found.setdefault(key, [])
            definitions[key] = parts
            if all(member is not subject for member, _ in members):
                members.append((subject, arm.name))
    return tuple(
        Group(
            workload=definitions[key][0],
            control=definitions[key][1],
            arm=definitions[key][2],
            members=tuple(members),
        )
        for key, members in found.items()
    )


def describe_contrasts(group: Group) -> Iterator[Contrast]:
    """A group by every metric of interest of which an experiment has an effect; what a claim is about comes first."""
    absent, unequal = tuple(find_absent_attempts(group)), tuple(find_unequal_failures(group))
    for matter in _matters(group):
        effects = [
            (subject, effect)
            for subject, arm in group.members
            if (effect := _find_effect(subject, arm, matter)) is not None
        ]
        if not effects:
            continue
        known = {subject.key: _known(subject, effect) for subject, effect in effects}
        studies = [
            Study(subject=subject, effect=effect, known=one)
            for subject, effect in effects
            if (one := known[subject.key]) is not None
        ]
        pooled = combine_studies(studies) if len(studies) > 1 else None
        # What slices do not tell of they would not have told whatever the arms had done.
        settled = {study.subject.key for study in studies}
        settled |= {subject.key for subject, effect in effects if is_untold(effect.caveats)}
        chosen = (*unequal, *(find_left_out(group, matter.metric, settled) if studies else ()))
        lost = find_unequal_losses(studies)
        if pooled:
            chosen = (*absent, *chosen)
        yield Contrast(
            title=group.title,
            arm={name: value for name, value in group.arm.items() if group.control.get(name) != value},
            control={name: value for name, value in group.control.items() if group.arm.get(name) != value},
            metric=matter.metric,
            better=effects[0][1].better,
            scenario=matter.scenario,
            load_level=matter.label,
            is_overall=matter.level == ALL,
            is_claimed=matter.is_claimed,
            studies=tuple(_describe_study(subject, effect, known[subject.key]) for subject, effect in effects),
            pooled=describe_pooled(pooled, studies, is_chosen=bool(chosen)) if pooled else None,
            caveats=(*chosen, *lost, *(find_caveats(pooled, studies) if pooled else ())),
        )


def find_absent_attempts(group: Group) -> Iterator[CaveatFinding]:
    """Attempts at the claim that were made before one of the experiments and are not among them.

    Each list of attempts, as a machine has one, numbers its own: all that come before the last one have to be there.
    Where several have one number, in folders that do not name their list or of a list that went on in two places,
    first attempts alone are known to be complete: of three numbered 1, 1 and 2 one may be chosen on each of three
    machines.
    """
    lists: dict[float | None, list[int]] = {}
    named = {subject.evidence.attempts_since for subject, _ in group.members}
    for subject, _ in group.members:
        evidence = subject.evidence
        if evidence.rules.counts_attempts and evidence.attempts_before is not None:
            since = evidence.attempts_since
            if since is None and evidence.created in named:
                since = evidence.created  # a folder from before lists had names, which is the first in one of them
            lists.setdefault(since, []).append(evidence.attempts_before + 1)
    made = sum(max(numbers) for numbers in lists.values())
    absent = made - sum(len(set(numbers)) for numbers in lists.values())
    is_told = lists.keys() == {None} or None not in lists
    if absent > 0 and is_told:
        what = f"Of {made} attempts at the claim {absent} {'is' if absent == 1 else 'are'} not among these experiments"
    elif absent > 0 or any(1 < max(numbers) < len(numbers) for numbers in lists.values()):
        what = (
            "Some of these experiments are later attempts at the claim, and which attempts belong together is not told"
        )
    else:
        return
    yield make_caveat(
        "absent-attempts",
        Severity.WARNING,
        f"{what}: whoever leaves attempts out chooses what the others say, so nothing is decided.",
        "Compare all attempts, those that were interrupted as well.",
    )


def find_unequal_failures(group: Group) -> Iterator[CaveatFinding]:
    """Attempts of all experiments together that failed as those of one may not, or runs of one that were interrupted so
    often that nothing is known of it: by the rules of today.

    What failed beside that is in the interval of each effect; of single transactions ``find_unequal_losses`` tells.
    """
    counted: list[tuple[Attempts, Attempts]] = []
    unknown: list[str] = []
    for subject, arm in group.members:
        if subject.is_void:
            continue
        evidence = replace(subject.evidence, rules=CURRENT)
        excess = find_excess(evidence, arm)
        if excess is None:
            counted.append((Attempts(made=len(evidence.pairs(arm)), failed=0),) * 2)
            continue
        counted.append((excess.control, excess.treated))
        if excess.share == 1:
            unknown.append(subject.key)
    control, treated = (
        Attempts(made=sum(each.made for each in side), failed=sum(each.failed for each in side))
        for side in (zip(*counted, strict=True) if counted else ((), ()))
    )
    if fails_more(control, treated, weighs_lone=CURRENT.weighs_lone_failures):
        what = (
            f"Of all attempts of these experiments {treated.failed} of {treated.made} of the arm failed and "
            f"{control.failed} of {control.made} of the control"
        )
    elif unknown:
        what = f"So much failed or was interrupted that nothing is known of {', '.join(unknown)}"
    else:
        return
    yield make_caveat(
        _UNEQUAL,
        Severity.WARNING,
        f"{what}: what died may be worse than all that lived, so nothing is decided.",
        "Find out why the attempts fail.",
    )


def find_unequal_losses(studies: Sequence["Study"]) -> Iterator[CaveatFinding]:
    """Experiments in which the arm, or the control, lost so many more transactions that nothing bounds its time."""
    for sign, found in _find_losers(studies).items():
        side = "arm" if sign > 0 else "control"
        yield make_caveat(
            _LOST,
            Severity.WARNING,
            f"So many more transactions of the {side} than of the other failed or were skipped that nothing bounds "
            f"its time, in {', '.join(found)}: nothing is decided but that it is longer.",
            "Find out why the transactions fail.",
        )


def _find_losers(studies: Sequence["Study"]) -> dict[int, tuple[str, ...]]:
    """Of which side they are, 1 for the arm and -1 for the control, with the experiments that lost them.

    Of a mean no more may be lost than by chance, which of several experiments is that of all of them together: a little
    that each lost alike is more than chance, and of many experiments some lose more by chance.
    """
    load, metric = studies[0].subject.evidence.load if studies else None, studies[0].effect.metric if studies else ""
    if load is None or len(studies) < 2 or metric != load.latency_mean.name:
        sides = {sign: [each.subject.key for each in studies if each.lost_more * sign > 0] for sign in (1, -1)}
        return {sign: tuple(found) for sign, found in sides.items() if found}
    control, treated = (
        Attempts(made=sum(each.made for each in side), failed=sum(each.failed for each in side))
        for side in zip(*(study.transactions for study in studies), strict=True)
    )
    if not fails_more(control, treated, weighs_lone=False):
        return {}
    return {1 if treated.success < control.success else -1: tuple(study.subject.key for study in studies)}


def find_left_out(group: Group, metric: str, settled: Collection[str]) -> Iterator[CaveatFinding]:
    """Experiments that are in no combined effect for what their arms did: an effect without them is one of those that
    went well. Of those ``settled`` it is known that they are in it, or why they are not.
    """
    left_out = [
        subject.key
        for subject, _ in group.members
        if subject.key not in settled and not subject.is_void and subject.has_observed(metric)
    ]
    if left_out:
        yield make_caveat(
            _BY_RESULT,
            Severity.WARNING,
            f"{', '.join(left_out)}: not in it for what the arms did, as runs that have no value. What is left is "
            "chosen by its result, so nothing is decided.",
            "Find out what happened there, and run it again.",
        )


def _matters(group: Group) -> list[Matter]:
    """The claims' metrics over all load levels and at each; others of interest over all of them."""
    claimed = dict.fromkeys(
        (subject.findings.hypothesis.metric, subject.scenario)
        for subject, arm in group.members
        if subject.findings.hypothesis.arm == arm
    )
    levels = group.members[0][0].findings.experiment.levels
    label = say(levels[0].label) if len(levels) == 1 else ALL_LEVELS
    found = []
    for metric, scenario in claimed:
        found.append(Matter(metric=metric, scenario=scenario, level=ALL, label=label, is_claimed=True))
        if len(levels) > 1:
            found += [
                Matter(metric=metric, scenario=scenario, level=one.index, label=say(one.label), is_claimed=True)
                for one in levels
            ]
    load = group.members[0][0].evidence.load
    beside = [metric.name for metric in (*load.shown, load.quantiles[2][0])]
    found += [
        Matter(metric=metric, scenario=None, level=ALL, label=label, is_claimed=False)
        for metric in beside
        if (metric, None) not in claimed
    ]
    return found


def _find_effect(subject: Subject, arm: str, matter: Matter) -> Effect | None:
    wanted = (arm, matter.metric, matter.scenario, matter.level)
    return next((effect for effect in subject.findings.effects if effect.key == wanted), None)


def _known(subject: Subject, effect: Effect) -> Known | None:
    """The log ratio with its standard error between blocks; None where it may not be combined."""
    if subject.excluded or effect.ratio is None or is_untold(effect.caveats):
        return None
    if effect.degrees is None:  # findings of rules without the position
        return known_mean([math.log(ratio) for ratio in effect.block_ratios if ratio is not None])
    if effect.log_error is None or effect.log_error <= 0:
        return None
    return Known(mean=math.log(effect.ratio), error=effect.log_error, degrees=effect.degrees)


def _describe_study(subject: Subject, effect: Effect, one: Known | None) -> StudyEffect:
    return StudyEffect(
        experiment=subject.key,
        arm=effect.arm,
        ratio=effect.ratio,
        low=effect.low,
        high=effect.high,
        log_error=one.error if one else None,
        blocks=effect.blocks,
        decision=effect.decision,
        degrees=one.degrees if one else None,
        hidden_below=effect.hidden_below,
        hidden_above=effect.hidden_above,
        lean=0.0 if one is None else Study(subject=subject, effect=effect, known=one).lean,
        left_out="" if one is not None else subject.excluded or "its blocks do not tell how sure it is",
    )


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
    interval, these = _extend(pooled.interval, down, up), _extend(pooled.of_these, down, up)
    prediction = None if pooled.prediction is None else _extend(pooled.prediction, down, up)
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


def _extend(interval: Interval, down: float, up: float) -> Interval:
    return replace(interval, low=interval.low - down, high=interval.high + up)


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


def find_caveats(pooled: Pooled, studies: Sequence[Study]) -> Iterator[CaveatFinding]:
    count = len(studies)
    if count < FEW_EXPERIMENTS:
        plural = "degree" if pooled.degrees == 1 else "degrees"
        yield make_caveat(
            "few-experiments",
            Severity.WARNING if count == 2 else Severity.INFO,
            f"{count} experiments say little about how much experiments differ, and the interval has only "
            f"{pooled.degrees} {plural} of freedom.",
            "Repeat the experiment on another day, or another host.",
        )
    if pooled.f_p < HETEROGENEOUS:
        yield make_caveat(
            "heterogeneous",
            Severity.WARNING,
            f"The experiments differ by more than their own noise explains (F = {pooled.f:.3g}, p = "
            f"{pooled.f_p:.2g}): the combined effect is an average of different effects.",
            "Look for a reason among the differences between the experiments. For the next experiment the prediction "
            "interval counts, not that of the mean.",
        )
    few = [study.subject.key for study in studies if study.effect.blocks < FEW_BLOCKS]
    if few:
        yield make_caveat(
            "few-blocks-to-combine",
            Severity.INFO,
            f"With fewer than {FEW_BLOCKS} blocks it is not well known how sure an experiment is, and so how much of "
            f"what the experiments differ by is noise: {', '.join(few)}.",
            f"Run at least {FEW_BLOCKS} blocks.",
        )
    stopped = [study.subject.key for study in studies if _has_stopped(study.subject)]
    if stopped:
        yield make_caveat(
            "stopped-early",
            Severity.INFO,
            "An experiment that ended as soon as it was decided has an estimate that leans away from the bound of its "
            f"claim, which the combined intervals bear: {', '.join(stopped)}.",
        )


def _has_stopped(subject: Subject) -> bool:
    rule = subject.findings.stopping
    return rule is not None and rule.ended is not None and rule.rule != "precision"


def make_caveat(code: str, severity: Severity, text: str, hint: str = "") -> CaveatFinding:
    return caveat_in_words(code, severity, text, hint)


def common(values: Sequence[float]) -> float | None:
    """The value that all have; None where they differ."""
    return values[0] if len(set(values)) == 1 else None


Place = tuple[Group, Contrast]


def compare_indirectly(places: Sequence[Place]) -> tuple[Indirect, ...]:
    """Every two arms against one control, under one workload, by a claimed metric over all load levels.

    places : contrasts with their groups.
    """
    claimed = [
        (group, one)
        for group, one in places
        if one.is_claimed and one.is_overall and not {_BY_RESULT, _UNEQUAL, _LOST} & {each.code for each in one.caveats}
    ]
    return tuple(
        found
        for first, second in combinations(claimed, 2)
        if _is_comparable(first, second) and (found := _compare(first, second)) is not None
    )


def _is_comparable(first: Place, second: Place) -> bool:
    (one, one_contrast), (other, other_contrast) = first, second
    same_question = (
        one.workload == other.workload
        and one.control == other.control
        and one_contrast.metric == other_contrast.metric
        and one_contrast.scenario == other_contrast.scenario
    )
    together = {subject.key for subject, _ in one.members} & {subject.key for subject, _ in other.members}
    return same_question and one.arm != other.arm and not together


def _compare(first: Place, second: Place) -> Indirect | None:
    known = [_known_effect(contrast) for _, contrast in (first, second)]
    if known[0] is None or known[1] is None:
        return None
    confidence = max(
        subject.findings.hypothesis.confidence for group, _ in (first, second) for subject, _ in group.members
    )
    found = difference(known[0], known[1], confidence=confidence)
    (down, up), (other_down, other_up) = (_hidden(contrast) for _, contrast in (first, second))
    interval = _extend(found.interval, other_down + up, other_up + down)
    contrast = first[1]
    titles = [" / ".join(dict.fromkeys(_names(place))) for place in (second, first)]
    if titles[0] == titles[1]:  # "after" of one pipeline's run and of another's: their letters tell them apart
        titles = [
            f"{title} of {', '.join(_counted(one))}" for title, (_, one) in zip(titles, (second, first), strict=True)
        ]
    return Indirect(
        title=" against ".join(titles),
        metric=contrast.metric,
        better=contrast.better,
        scenario=contrast.scenario,
        experiments=(_counted(first[1]), _counted(second[1])),
        ratio=math.exp(found.mean),
        low=math.exp(interval.low),
        high=math.exp(interval.high),
        confidence=interval.confidence,
        p_value=found.p_value,
    )


def _known_effect(contrast: Contrast) -> Known | None:
    """The combined effect, or that of the only experiment that may be used."""
    if contrast.pooled is not None:
        pooled = contrast.pooled
        return Known(mean=math.log(pooled.ratio), error=pooled.log_error, degrees=pooled.degrees)
    for study in contrast.studies:
        if study.log_error is not None and study.degrees is not None and study.ratio is not None:
            return Known(mean=math.log(study.ratio), error=study.log_error, degrees=study.degrees)
    return None


def _hidden(contrast: Contrast) -> tuple[float, float]:
    """What the combined effect, or that of the only experiment that may be used, has to bear beside noise."""
    if contrast.pooled is not None:
        return contrast.pooled.hidden_below, contrast.pooled.hidden_above
    used = next(study for study in contrast.studies if not study.left_out)
    return used.hidden_below + used.lean, used.hidden_above + used.lean


def _names(place: Place) -> Iterator[str]:
    return (arm for _, arm in place[0].members)


def _counted(contrast: Contrast) -> tuple[str, ...]:
    return tuple(study.experiment for study in contrast.studies if not study.left_out)
