"""What the server's background processes do: at work, in which wait, or waiting for work."""

from pgtrial.analysis.causes.sessions import estimate_mean
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import BackgroundGroup, Reduction
from pgtrial.findings.session_time import CPU, BackgroundWait
from pgtrial.model.run import RunRow

WAITS_FOR_WORK = "Activity"  # a wait type of the server
LEAST = 0.005  # of the time of one process, below which a wait is left out
MOST_WAITS = 5  # of a kind of process


def describe_background(evidence: Evidence, reduction: Reduction) -> tuple[BackgroundWait, ...]:
    """Per arm over all load levels, means over the blocks; processes that only wait for work are left out."""
    return tuple(wait for arm in evidence.arms for wait in _describe_arm(evidence, reduction, arm.name))


def _describe_arm(evidence: Evidence, reduction: Reduction, arm: str) -> list[BackgroundWait]:
    runs = [found for run in evidence.runs_of(arm) if (found := _of_run(evidence, reduction, run)) is not None]
    keys = {key for run in runs for key in run}
    waits = []
    for process, kind, event in keys:
        mean = estimate_mean((run.get((process, kind, event), 0.0) for run in runs), confidence=evidence.confidence)
        if mean is not None and mean.value >= LEAST:
            waits.append(BackgroundWait(arm=arm, process=process, kind=kind, event=event, sessions=mean))
    busy = {wait.process for wait in waits if wait.kind != WAITS_FOR_WORK}
    shown: list[BackgroundWait] = []
    for process in sorted(busy):
        mine = [wait for wait in waits if wait.process == process]
        shown += sorted(mine, key=lambda wait: (-wait.sessions.value, wait.kind, wait.event))[:MOST_WAITS]
    return shown


def _of_run(evidence: Evidence, reduction: Reduction, run: RunRow) -> dict[tuple[str, str, str], float] | None:
    """Mean over the load levels; None where sessions were not sampled."""
    levels = [groups for level in evidence.levels if (groups := reduction.background.get((run.id, level.index)))]
    if not levels:
        return None
    found: dict[tuple[str, str, str], float] = {}
    for group in (group for groups in levels for group in groups):
        key = _key(group)
        found[key] = found.get(key, 0.0) + group.sessions / len(levels)
    return found


def _key(group: BackgroundGroup) -> tuple[str, str, str]:
    return group.process, group.wait_type or CPU, group.wait_event
