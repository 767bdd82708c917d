"""Comparisons of arms that several experiments may have made, side by side, and combined where the rule allows it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.analysis.compare.definitions import Definition, define_arm, define_workload
from pgtrial.analysis.compare.pooling import Study, combine_studies, describe_pooled, find_caveats
from pgtrial.analysis.compare.subjects import Subject
from pgtrial.analysis.comparison_findings import Contrast, StudyEffect
from pgtrial.analysis.findings import Effect
from pgtrial.analysis.observations import ALL
from pgtrial.stats.interval import Known, known_mean

ALL_LEVELS = "all load levels"


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
        weights = {} if pooled is None else dict(zip((one.subject.key for one in studies), pooled.weights, strict=True))
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
            studies=tuple(_study(subject, effect, known, weights) for subject, effect in effects),
            pooled=describe_pooled(pooled, studies) if pooled else None,
            caveats=tuple(find_caveats(pooled, studies)) if pooled else (),
        )


def _matters(group: Group) -> list[Matter]:
    """The claims' metrics over all load levels and at each; others of interest over all of them."""
    claimed = dict.fromkeys(
        (subject.findings.hypothesis.metric, subject.scenario)
        for subject, arm in group.members
        if subject.findings.hypothesis.arm == arm
    )
    levels = group.members[0][0].findings.experiment.levels
    label = levels[0].label if len(levels) == 1 else ALL_LEVELS
    found = []
    for metric, scenario in claimed:
        found.append(Matter(metric=metric, scenario=scenario, level=ALL, label=label, is_claimed=True))
        if len(levels) > 1:
            found += [
                Matter(metric=metric, scenario=scenario, level=one.index, label=one.label, is_claimed=True)
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
    return next(
        (
            effect
            for effect in subject.findings.effects
            if (effect.arm, effect.metric, effect.scenario, effect.load_level) == wanted
        ),
        None,
    )


def _known(subject: Subject, effect: Effect) -> Known | None:
    """The log ratio with its standard error between blocks; None where it may not be combined."""
    if subject.excluded:
        return None
    return known_mean([math.log(ratio) for ratio in effect.block_ratios if ratio is not None])


def _study(
    subject: Subject, effect: Effect, known: Mapping[str, Known | None], weights: Mapping[str, float]
) -> StudyEffect:
    one = known[subject.key]
    left_out = ""
    if one is None:
        left_out = subject.excluded or "its blocks do not tell how sure it is"
    return StudyEffect(
        experiment=subject.key,
        arm=effect.arm,
        ratio=effect.ratio,
        low=effect.low,
        high=effect.high,
        log_error=one.error if one else None,
        blocks=effect.blocks,
        decision=effect.decision,
        weight=weights.get(subject.key),
        left_out=left_out,
    )
