"""One claim under several loads: whether it holds in each of them, as a claim about a server has to.

That it holds in all is concluded where it is supported in each, at the confidence of each: "false in one at least" is
rejected when each of its cases is (Berger, Technometrics 24 (1982) 295–300), so nothing has to be corrected.
"""

from collections.abc import Sequence
from typing import Any

from pgtrial.analysis.compare.contrasts import Group
from pgtrial.analysis.compare.subjects import Subject
from pgtrial.findings.comparison import ClaimUnderLoads


def compare_loads(groups: Sequence[Group]) -> tuple[ClaimUnderLoads, ...]:
    """Claims of the same arms, metric, direction and margin that experiments with different loads have tried."""
    asked: dict[tuple[Any, ...], list[tuple[Group, Subject]]] = {}
    for group in groups:
        for subject, arm in group.members:
            if subject.findings.hypothesis.arm == arm:
                asked.setdefault(_question(group, subject), []).append((group, subject))
    return tuple(_describe(members) for members in asked.values() if len({id(group) for group, _ in members}) > 1)


def _question(group: Group, subject: Subject) -> tuple[Any, ...]:
    claim = subject.findings.hypothesis
    parts = claim.parts or (claim,)
    return (
        frozenset(group.control.items()),
        frozenset(group.arm.items()),
        *((part.metric, part.scenario, part.expect, part.margin) for part in parts),
    )


def _describe(members: Sequence[tuple[Group, Subject]]) -> ClaimUnderLoads:
    group, first = members[0]
    found = [(subject.key, subject.findings.hypothesis) for _, subject in members]
    return ClaimUnderLoads(
        title=group.title,
        claim=first.findings.hypothesis.claim,
        loads=len({id(group) for group, _ in members}),
        verdicts={key: claim.verdict for key, claim in found},
        provisional=any(claim.provisional for _, claim in found),
    )
