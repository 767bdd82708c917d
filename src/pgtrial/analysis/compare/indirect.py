"""Arms that no experiment has together, compared by way of the control that each was measured against.

The two effects are independent, so their errors add up. What made the control faster or slower from one experiment to
the other cancels, as it is in the arm too. What does not cancel is an effect that is larger on one machine or day than
on the other: that is in the difference, and no number here tells it from a difference of the arms.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from pgtrial.analysis.compare.contrasts import Group
from pgtrial.analysis.compare.pooling import DEFAULT_CONFIDENCE, common
from pgtrial.analysis.comparison_findings import Contrast, Indirect
from pgtrial.stats.interval import Known, difference

Place = tuple[Group, Contrast]


def compare_indirectly(places: Sequence[Place]) -> tuple[Indirect, ...]:
    """Every two arms against one control, under one workload, by a claimed metric over all load levels.

    places : contrasts with their groups.
    """
    claimed = [(group, one) for group, one in places if one.is_claimed and one.is_overall]
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
    known = [_known(contrast) for _, contrast in (first, second)]
    if known[0] is None or known[1] is None:
        return None
    confidences = [
        subject.findings.hypothesis.confidence for group, _ in (first, second) for subject, _ in group.members
    ]
    found = difference(known[0], known[1], confidence=common(confidences) or DEFAULT_CONFIDENCE)
    contrast = first[1]
    names = tuple(dict.fromkeys(_names(first))), tuple(dict.fromkeys(_names(second)))
    return Indirect(
        title=f"{' / '.join(names[1])} against {' / '.join(names[0])}",
        metric=contrast.metric,
        better=contrast.better,
        scenario=contrast.scenario,
        experiments=(_counted(first[1]), _counted(second[1])),
        ratio=math.exp(found.mean),
        low=math.exp(found.interval.low),
        high=math.exp(found.interval.high),
        confidence=found.interval.confidence,
        p_value=found.p_value,
    )


def _known(contrast: Contrast) -> Known | None:
    """The combined effect, or that of the only experiment that may be used."""
    if contrast.pooled is not None:
        pooled = contrast.pooled
        return Known(mean=math.log(pooled.ratio), error=pooled.log_error, degrees=pooled.degrees)
    for study in contrast.studies:
        if study.log_error is not None and study.ratio is not None and not study.left_out:
            return Known(mean=math.log(study.ratio), error=study.log_error, degrees=study.blocks - 1)
    return None


def _names(place: Place) -> Iterator[str]:
    return (arm for _, arm in place[0].members)


def _counted(contrast: Contrast) -> tuple[str, ...]:
    return tuple(study.experiment for study in contrast.studies if not study.left_out)
