"""Why the claims of two experiments are not about the same: in what their definitions differ."""

from collections.abc import Sequence

from pgtrial.analysis.compare.contrasts import Group
from pgtrial.analysis.compare.definitions import differing
from pgtrial.analysis.compare.subjects import Subject
from pgtrial.findings.comparison import NotCombined

_MOST_REASONS = 6


def explain_apart(subjects: Sequence[Subject], groups: Sequence[Group]) -> tuple[NotCombined, ...]:
    """The first experiment against the first of each other kind: in what their claims are not about the same."""
    claims: dict[int, tuple[Subject, Group]] = {}
    for subject in subjects:
        asked = subject.findings.hypothesis
        for number, group in enumerate(groups):
            if any(member is subject and arm == asked.arm for member, arm in group.members):
                claims.setdefault(number, (subject, group))
    found = list(claims.values())
    return tuple(
        NotCombined(first=found[0][0].key, second=subject.key, reasons=_reasons(found[0][1], group))
        for subject, group in found[1:]
    )


def _reasons(one: Group, other: Group) -> tuple[str, ...]:
    control, arm = differing(one.control, other.control), differing(one.arm, other.arm)
    reasons = [
        *differing(one.workload, other.workload),
        *(f"both arms: {text}" for text in control if text in arm),
        *(f"control: {text}" for text in control if text not in arm),
        *(f"arm: {text}" for text in arm if text not in control),
    ]
    rest = len(reasons) - _MOST_REASONS
    return (*reasons[:_MOST_REASONS], f"and {rest} more") if rest > 1 else tuple(reasons)
