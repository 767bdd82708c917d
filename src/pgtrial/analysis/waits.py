"""Waits of the load's sessions, and the cost of each per transaction by Little's law."""

from collections.abc import Iterator, Mapping, Sequence

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import ALL, Values
from pgtrial.analysis.reduction import Reduction
from pgtrial.findings.findings import WaitShare
from pgtrial.findings.session_time import CPU

_WaitEvent = tuple[str, str]  # (wait type, wait event)


def describe_waits(evidence: Evidence, reduction: Reduction, values: Values) -> tuple[WaitShare, ...]:
    """Average active sessions of every arm by wait, per load level and over all, the largest first.

    Only client sessions of the load count. The mean over an arm's runs gives each run the same weight; "all" is the
    mean over the load levels. By Little's law (Little 1961, L = λW) the sessions in a wait divided by the transactions
    that end per second are the seconds that one spends in it; the sum over all waits is the time spent in the server.
    """
    return tuple(share for arm in evidence.arms for share in _describe_arm(evidence, reduction, values, arm.name))


def _describe_arm(evidence: Evidence, reduction: Reduction, values: Values, arm: str) -> Iterator[WaitShare]:
    sessions: list[dict[_WaitEvent, float]] = []
    seconds: list[dict[_WaitEvent, float]] = []
    for level in evidence.levels:
        runs = [run.id for run in evidence.runs_of(arm) if (run.id, level.index) in reduction.waits]
        if not runs:
            continue
        by_run = [_sessions(reduction, run, level.index) for run in runs]
        per_transaction = [
            {kind: number / ended for kind, number in found.items()}
            for run, found in zip(runs, by_run, strict=True)
            if (ended := _ended(evidence, reduction, values, run, level.index)) > 0
        ]
        sessions.append(_mean(by_run))
        seconds.append(_mean(per_transaction))
        yield from _shares(arm, level.index, sessions[-1], seconds[-1])
    if len(sessions) == len(evidence.levels):
        yield from _shares(arm, ALL, _mean(sessions), _mean(seconds))


def _ended(evidence: Evidence, reduction: Reduction, values: Values, run: int, level: int) -> float:
    """Transactions per second, failed ones included: sessions wait for those too."""
    totals = reduction.totals.get((run, level, None))
    succeeded = values.get((run, evidence.load.throughput.name, None, level), 0.0)
    return succeeded * totals.attempts if totals is not None else succeeded


def _sessions(reduction: Reduction, run: int, level: int) -> dict[_WaitEvent, float]:
    return {(w.wait_type or CPU, w.wait_event): w.sessions for w in reduction.waits[run, level]}


def _mean(found: Sequence[Mapping[_WaitEvent, float]]) -> dict[_WaitEvent, float]:
    """A wait that was polled for and not seen is a true zero, so every mapping counts for every wait."""
    kinds = dict.fromkeys(kind for each in found for kind in each)
    return {kind: sum(each.get(kind, 0.0) for each in found) / len(found) for kind in kinds}


def _shares(
    arm: str, level: int | str, sessions: Mapping[_WaitEvent, float], seconds: Mapping[_WaitEvent, float]
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
