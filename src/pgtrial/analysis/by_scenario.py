"""Sampled sessions -> observations of each scenario that has sessions of its own: how many are in each wait."""

from collections.abc import Iterator, Mapping

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import ALL
from pgtrial.analysis.reduction import Reduction, SessionGroup
from pgtrial.analysis.sampled import named
from pgtrial.findings.findings import Observation
from pgtrial.findings.session_time import CPU, IDLE_IN_TRANSACTION
from pgtrial.model.run import RunRow
from pgtrial.model.series import WAIT, WAITS

_ACTIVE = "active"


def observe_scenarios(evidence: Evidence, reduction: Reduction) -> tuple[Observation, ...]:
    """Average sessions of a scenario by type and by event of wait, by load level and over all of them, their mean.

    A wait that another run of the scenario had is zero where it was not seen. () where one process of the load
    generator runs all scenarios: nobody knows then whose a session is.
    """
    if not evidence.experiment.workload.has_own_sessions:
        return ()
    found = {
        (run.id, level, scenario): _sessions(groups, scenario)
        for (run_id, level), groups in reduction.sessions.items()
        for run in evidence.valid
        if run.id == run_id
        for scenario in evidence.scenarios
    }
    return tuple(
        observation
        for scenario in evidence.scenarios
        for observation in _of_scenario(evidence, scenario, {key: v for key, v in found.items() if key[2] == scenario})
    )


def _of_scenario(
    evidence: Evidence, scenario: str, found: Mapping[tuple[int, int, str], Mapping[str, float]]
) -> Iterator[Observation]:
    names = sorted({name for values in found.values() for name in values})
    for run in evidence.valid:
        levels = [level.index for level in evidence.levels if (run.id, level.index, scenario) in found]
        for name in names:
            values = [found[run.id, level, scenario].get(name, 0.0) for level in levels]
            for level, value in zip(levels, values, strict=True):
                yield _observation(run, name, scenario, level, value)
            if values and len(values) == len(evidence.levels):
                yield _observation(run, name, scenario, ALL, sum(values) / len(values))


def _observation(run: RunRow, name: str, scenario: str, level: int | str, value: float) -> Observation:
    return Observation(
        run=run.id,
        arm=run.slot.arm,
        block=run.slot.block,
        metric=name,
        scenario=scenario,
        load_level=level,
        value=value,
    )


def _sessions(groups: tuple[SessionGroup, ...], scenario: str) -> dict[str, float]:
    """By the names of samples of all scenarios together (model/series.py)."""
    sessions: dict[str, float] = {"sessions.active": 0.0, "sessions.idle_in_transaction": 0.0}
    for group in groups:
        if group.scenario != scenario:
            continue
        if group.state == _ACTIVE:
            kind = group.wait_type or CPU
            for name in ("sessions.active", WAITS + kind, named((WAIT + kind, group.wait_event))):
                sessions[name] = sessions.get(name, 0.0) + group.sessions
        elif group.state.startswith(IDLE_IN_TRANSACTION):
            sessions["sessions.idle_in_transaction"] += group.sessions
    return sessions
