"""Indirect comparisons: of arms that no experiment has together, by way of the control that each was measured against.

The two effects are independent, so their errors add up. What made the control faster or slower from one experiment to
the other cancels, as it is in the arm too. What does not cancel is an effect that is larger on one machine or day than
on the other: that is in the difference, and no number here tells it from a difference of the arms.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from pgtrial.analysis.compare.groups import BY_RESULT, UNEQUAL_FAILURES, Group
from pgtrial.analysis.compare.pooling import UNEQUAL_LOSSES, extend_by
from pgtrial.findings.comparison import Contrast, Indirect
from pgtrial.stats.interval import Known, difference

_OPEN = {BY_RESULT, UNEQUAL_FAILURES, UNEQUAL_LOSSES}  # caveats with which nothing is decided


Place = tuple[Group, Contrast]


def compare_indirectly(places: Sequence[Place]) -> tuple[Indirect, ...]:
    """Every two arms against one control, under one workload, by a claimed metric over all load levels.

    places : contrasts with their groups.
    """
    claimed = [
        (group, one)
        for group, one in places
        if one.is_claimed and one.is_overall and not _OPEN & {each.code for each in one.caveats}
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
    interval = extend_by(found.interval, other_down + up, other_up + down)
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
