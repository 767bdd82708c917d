"""What sessions wait for: by load level with its cost per transaction, inside each type, in background processes."""

from collections.abc import Iterator, Mapping, Sequence

from pgtrial.analysis.causes.pareto import count_statements
from pgtrial.analysis.causes.sessions import WaitEvent, estimate_mean, split_sessions, tier
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction, sum_by_key
from pgtrial.findings.findings import WaitShare
from pgtrial.findings.naming import part_id
from pgtrial.findings.record import ALL
from pgtrial.findings.session_time import CPU, BackgroundWait, ParetoItem, WaitType
from pgtrial.model.run import RunRow


def describe_waits(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[WaitShare, ...]:
    """Average active sessions of every arm by wait, per load level and over all, the largest first.

    Only client sessions of the load count. The mean over an arm's runs gives each run the same weight; "all" is the
    mean over the load levels. By Little's law (Little 1961, L = λW) the sessions in a wait divided by the transactions
    that end per second are the seconds that one spends in it; the sum over all waits is the time spent in the server.
    """
    return tuple(share for arm in evidence.arms for share in _waits_of_arm(evidence, reduction, values, arm.name))


def _waits_of_arm(evidence: Evidence, reduction: Reduction, values: Values, arm: str) -> Iterator[WaitShare]:
    sessions: list[dict[WaitEvent, float]] = []
    seconds: list[dict[WaitEvent, float]] = []
    for level in evidence.levels:
        runs = [run.id for run in evidence.runs_of(arm) if (run.id, level.index) in reduction.waits]
        if not runs:
            continue
        by_run = [_sessions_by_wait(reduction, run, level.index) for run in runs]
        per_transaction = [
            {kind: number / ended for kind, number in found.items()}
            for run, found in zip(runs, by_run, strict=True)
            if (ended := _ended(evidence, reduction, values, run, level.index)) > 0
        ]
        sessions.append(_mean_over_runs(by_run))
        seconds.append(_mean_over_runs(per_transaction))
        yield from _rank_waits(arm, level.index, sessions[-1], seconds[-1])
    if len(sessions) == len(evidence.levels):
        yield from _rank_waits(arm, ALL, _mean_over_runs(sessions), _mean_over_runs(seconds))


def _ended(evidence: Evidence, reduction: Reduction, values: Values, run: int, level: int) -> float:
    """Transactions per second, failed ones included: sessions wait for those too."""
    totals = reduction.totals.get((run, level, None))
    succeeded = values.get((run, evidence.load.throughput.name, None, level), 0.0)
    return succeeded * totals.attempts if totals is not None else succeeded


def _sessions_by_wait(reduction: Reduction, run: int, level: int) -> dict[WaitEvent, float]:
    return {(w.wait_type or CPU, w.wait_event): w.sessions for w in reduction.waits[run, level]}


def _mean_over_runs(found: Sequence[Mapping[WaitEvent, float]]) -> dict[WaitEvent, float]:
    """A wait that was polled for and not seen is a true zero, so every mapping counts for every wait."""
    kinds = dict.fromkeys(kind for each in found for kind in each)
    return {kind: sum(each.get(kind, 0.0) for each in found) / len(found) for kind in kinds}


def _rank_waits(
    arm: str, level: int | str, sessions: Mapping[WaitEvent, float], seconds: Mapping[WaitEvent, float]
) -> Iterator[WaitShare]:
    for (wait_type, wait_event), number in sorted(sessions.items(), key=lambda item: (-item[1], item[0])):
        yield WaitShare(
            arm=arm,
            load_level=level,
            wait_type=wait_type,
            wait_event=wait_event,
            sessions=number,
            seconds_per_transaction=seconds.get((wait_type, wait_event)),
        )


# Inside each wait type: its events and its statements, by the time of the sessions in it.


LEAST_SHARE = 0.01  # of the time of all sessions at work
MOST_ITEMS = 8


def describe_types(evidence: Evidence, reduction: Reduction) -> tuple[WaitType, ...]:
    """Per arm over all load levels, the types with most time first."""
    return tuple(each for arm in evidence.arms for each in _types_of_arm(evidence, reduction, arm.name))


def _types_of_arm(evidence: Evidence, reduction: Reduction, arm: str) -> Sequence[WaitType]:
    precise = tier(evidence, reduction)
    runs = [(run, level.index) for run in evidence.runs_of(arm) for level in evidence.levels]
    splits = [split_sessions(reduction, run, level, tier=precise) for run, level in runs]
    known = [split.at_work for split in splits if split is not None]
    sessions = sum_by_key((kind, number / len(known)) for split in known for kind, number in split.items())
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
                    events=_rank_parts(events, mine) if len(events) > 1 else (),
                    statements=_rank_parts(inside.get(kind_of, {}), mine),
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


def _rank_parts(parts: Mapping[str, float], sessions: float) -> tuple[ParetoItem, ...]:
    """By size; the sessions of parts are those of the type, in their ratio."""
    total = sum(parts.values())
    items, reached = [], 0.0
    for name, number in sorted(parts.items(), key=lambda part: (-part[1], part[0])) if total > 0 else ():
        share = number / total
        reached += share
        items.append(ParetoItem(name=name, sessions=share * sessions, share=share, cumulative=min(1.0, reached)))
    return tuple(items[:MOST_ITEMS])


# What the server's background processes do: at work, in which wait, or waiting for work.


WAITS_FOR_WORK = "Activity"  # a wait type of the server
LEAST_BACKGROUND = 0.005  # of the time of one process, below which a wait is left out
MOST_BACKGROUND_WAITS = 5  # of a kind of process


def describe_background(evidence: Evidence, reduction: Reduction) -> tuple[BackgroundWait, ...]:
    """Per arm over all load levels, means over the blocks; processes that only wait for work are left out."""
    return tuple(wait for arm in evidence.arms for wait in _background_of_arm(evidence, reduction, arm.name))


def _background_of_arm(evidence: Evidence, reduction: Reduction, arm: str) -> list[BackgroundWait]:
    runs = [
        found for run in evidence.runs_of(arm) if (found := _background_of_run(evidence, reduction, run)) is not None
    ]
    keys = {key for run in runs for key in run}
    waits = []
    for process, kind, event in keys:
        mean = estimate_mean((run.get((process, kind, event), 0.0) for run in runs), confidence=evidence.confidence)
        if mean is not None and mean.value >= LEAST_BACKGROUND:
            waits.append(BackgroundWait(arm=arm, process=process, kind=kind, event=event, sessions=mean))
    busy = {wait.process for wait in waits if wait.kind != WAITS_FOR_WORK}
    shown: list[BackgroundWait] = []
    for process in sorted(busy):
        mine = [wait for wait in waits if wait.process == process]
        shown += sorted(mine, key=lambda wait: (-wait.sessions.value, wait.kind, wait.event))[:MOST_BACKGROUND_WAITS]
    return shown


def _background_of_run(
    evidence: Evidence, reduction: Reduction, run: RunRow
) -> dict[tuple[str, str, str], float] | None:
    """Mean over the load levels; None where sessions were not sampled."""
    levels = [groups for level in evidence.levels if (groups := reduction.background.get((run.id, level.index)))]
    if not levels:
        return None
    return sum_by_key(
        ((group.process, group.wait_type or CPU, group.wait_event), group.sessions / len(levels))
        for groups in levels
        for group in groups
    )
