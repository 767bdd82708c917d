"""Comparisons of arms that several experiments have made, side by side, and combined where the rule allows it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pgtrial.analysis.compare.groups import Group, find_absent_attempts, find_left_out, find_unequal_failures
from pgtrial.analysis.compare.pooling import (
    Study,
    combine_studies,
    describe_pooled,
    find_caveats,
    find_unequal_losses,
)
from pgtrial.analysis.compare.subjects import Subject
from pgtrial.findings.caveat import is_untold
from pgtrial.findings.comparison import Contrast, StudyEffect
from pgtrial.findings.findings import Effect
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.stats.interval import Known, known_mean

ALL_LEVELS = "all load levels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matter:
    """What is measured: a metric, of a scenario (None: all), at a load level (its index or "all")."""

    metric: str
    scenario: str | None
    level: int | str
    label: str
    is_claimed: bool


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
