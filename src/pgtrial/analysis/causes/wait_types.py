"""Inside each wait type: its events and its statements, by the time of the sessions in it."""

from collections.abc import Mapping, Sequence

from pgtrial.analysis.causes.pareto import count_statements
from pgtrial.analysis.causes.sessions import WaitEvent, split_sessions, tier
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.naming import part_id
from pgtrial.findings.session_time import ParetoItem, WaitType

LEAST_SHARE = 0.01  # of the time of all sessions at work
MOST_ITEMS = 8


def describe_types(evidence: Evidence, reduction: Reduction) -> tuple[WaitType, ...]:
    """Per arm over all load levels, the types with most time first."""
    return tuple(each for arm in evidence.arms for each in _describe_arm(evidence, reduction, arm.name))


def _describe_arm(evidence: Evidence, reduction: Reduction, arm: str) -> Sequence[WaitType]:
    precise = tier(evidence, reduction)
    runs = [(run, level.index) for run in evidence.runs_of(arm) for level in evidence.levels]
    splits = [split_sessions(reduction, run, level, tier=precise) for run, level in runs]
    known = [split.at_work for split in splits if split is not None]
    sessions: dict[WaitEvent, float] = {}
    for split in known:
        for kind, number in split.items():
            sessions[kind] = sessions.get(kind, 0.0) + number / len(known)
    by_type: dict[str, dict[str, float]] = {}
    for kind, number in sessions.items():
        by_type.setdefault(kind[0], {})[part_id(*kind)] = number
    total = sum(sessions.values())
    inside = _statements_of_types(count_statements(reduction, runs))
    found = []
    for kind_of, events in by_type.items():
        mine = sum(events.values())
        if mine >= LEAST_SHARE * total > 0:
            found.append(
                WaitType(
                    arm=arm,
                    kind=kind_of,
                    sessions=mine,
                    share=mine / total,
                    events=_rank(events, mine) if len(events) > 1 else (),
                    statements=_rank(inside.get(kind_of, {}), mine),
                )
            )
    return sorted(found, key=lambda each: (-each.sessions, each.kind))


def _statements_of_types(statements: Mapping[str, Mapping[WaitEvent, float]]) -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for text, kinds in statements.items():
        for (kind, _), number in kinds.items():
            into = found.setdefault(kind, {})
            into[text] = into.get(text, 0.0) + number
    return found


def _rank(parts: Mapping[str, float], sessions: float) -> tuple[ParetoItem, ...]:
    """By size; the sessions of parts are those of the type, in their ratio."""
    total = sum(parts.values())
    items, reached = [], 0.0
    for name, number in sorted(parts.items(), key=lambda part: (-part[1], part[0])) if total > 0 else ():
        share = number / total
        reached += share
        items.append(ParetoItem(name=name, sessions=share * sessions, share=share, cumulative=min(1.0, reached)))
    return tuple(items[:MOST_ITEMS])
