"""The few wait events, or statements, that most of the time goes to: Pareto charts on real time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pgtrial.analysis.causes.sessions import Kind, split_sessions, tier
from pgtrial.analysis.causes.words import CPU, join, part_id, part_name, percent, show_part
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import ALL, reported_scenarios
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.causes import Pareto, ParetoItem
from pgtrial.language import N_, tr
from pgtrial.model.run import RunRow

HEAD = 0.8  # share of the time that the head reaches
MOST_ITEMS = 50  # are listed; shares are of the whole
UNKNOWN_TEXT = N_("(text not known)")

_DETAIL_SHARE = 0.05  # of a statement's time, below which an event is not named
_MOST_DETAILS = 3
_IDLE = "idle"
_ROUNDING = 1e-9

# What the sessions of one run at one load level were in, and how many on average; None where they were not sampled.
_Counter = Callable[[RunRow, int], Mapping[str, float] | None]


def rank_events(evidence: Evidence, reduction: Reduction) -> tuple[Pareto, ...]:
    """Wait events of sessions inside a statement, per arm and load level, with CPU and CPU queue among them.

    Then of each scenario that has sessions of its own, per arm over all levels.
    """
    precise = tier(evidence, reduction)

    def counter(scenario: str | None) -> _Counter:
        def count(run: RunRow, level: int) -> Mapping[str, float] | None:
            split = split_sessions(reduction, run, level, tier=precise, scenario=scenario)
            return None if split is None else {part_id(*kind): number for kind, number in split.at_work.items()}

        return count

    cells = [
        (arm, level, runs, scenario)
        for scenario in reported_scenarios(evidence)
        for arm, level, runs in _cells(evidence)
        if scenario is None or level == ALL
    ]
    return tuple(
        _rank(arm, level, "events", found, {}, scenario=scenario)
        for arm, level, runs, scenario in cells
        if (found := _mean(runs, counter(scenario)))
    )


def rank_statements(evidence: Evidence, reduction: Reduction) -> tuple[Pareto, ...]:
    """Statements by the time of the sessions that execute them, waits included, each with its largest events.

    Of the sampled sessions: pg_wait_sampling has no text of statements.
    """

    def count(run: RunRow, level: int) -> Mapping[str, float] | None:
        by_statement = _count_statements(reduction, run, level)
        return None if by_statement is None else {text: sum(kinds.values()) for text, kinds in by_statement.items()}

    found = []
    for arm, level, runs in _cells(evidence):
        sessions = _mean(runs, count)
        if sessions:
            found.append(_rank(arm, level, "statements", sessions, _details(reduction, runs)))
    return tuple(found)


_Runs = Sequence[tuple[RunRow, int]]  # runs of an arm, each at one of the levels in question


def _cells(evidence: Evidence) -> Iterator[tuple[str, int | str, _Runs]]:
    for arm in evidence.arms:
        runs = evidence.runs_of(arm.name)
        yield arm.name, ALL, [(run, level.index) for run in runs for level in evidence.levels]
        for level in evidence.levels:
            yield arm.name, level.index, [(run, level.index) for run in runs]


def _mean(runs: _Runs, count: _Counter) -> dict[str, float]:
    """Mean over the runs, and over the levels; what was not seen in one of them is zero there."""
    known = [found for run, level in runs if (found := count(run, level)) is not None]
    names = dict.fromkeys(name for found in known for name in found)
    return {name: sum(found.get(name, 0.0) for found in known) / len(known) for name in names}


def _count_statements(reduction: Reduction, run: RunRow, level: int) -> dict[str, dict[Kind, float]] | None:
    groups = reduction.sessions.get((run.id, level))
    if groups is None:
        return None
    found: dict[str, dict[Kind, float]] = {}
    for group in groups:
        # What an idle session shows is the statement before.
        if group.state and not group.state.startswith(_IDLE):
            kinds = found.setdefault(group.query or UNKNOWN_TEXT, {})
            kind = (group.wait_type or CPU, group.wait_event)
            kinds[kind] = kinds.get(kind, 0.0) + group.sessions
    return found


def _details(reduction: Reduction, runs: _Runs) -> dict[str, str]:
    """The largest events of each statement, in words."""
    together: dict[str, dict[Kind, float]] = {}
    for run, level in runs:
        for text, kinds in (_count_statements(reduction, run, level) or {}).items():
            into = together.setdefault(text, {})
            for kind, sessions in kinds.items():
                into[kind] = into.get(kind, 0.0) + sessions
    return {text: _describe(kinds) for text, kinds in together.items()}


def _describe(kinds: Mapping[Kind, float]) -> str:
    total = sum(kinds.values())
    largest = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:_MOST_DETAILS]
    return join([f"{part_name(*kind)} {percent(n / total)}" for kind, n in largest if n >= _DETAIL_SHARE * total])


def _rank(
    arm: str,
    level: int | str,
    of: Literal["events", "statements"],
    sessions: Mapping[str, float],
    details: Mapping[str, str],
    *,
    scenario: str | None = None,
) -> Pareto:
    ordered = sorted(sessions.items(), key=lambda item: (-item[1], item[0]))
    total = sum(sessions.values())
    items, reached, head = [], 0.0, 0
    for name, number in ordered:
        if reached < (HEAD - _ROUNDING) * total:
            head += 1
        reached += number
        items.append(
            ParetoItem(
                name=tr(UNKNOWN_TEXT) if name == UNKNOWN_TEXT else show_part(name) if of == "events" else name,
                sessions=number,
                share=number / total,
                cumulative=reached / total,
                detail=details.get(name, ""),
            )
        )
    return Pareto(
        arm=arm,
        load_level=level,
        scenario=scenario,
        of=of,
        head=head,
        items=tuple(items[:MOST_ITEMS]),
    )
