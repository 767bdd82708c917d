from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduction import Reduction, SessionGroup
from pgtrial.analysis.sampled import observe_scenarios


def group(scenario: str, sessions: float, kind: str = "", event: str = "", state: str = "active") -> SessionGroup:
    return SessionGroup(scenario=scenario, state=state, wait_type=kind, wait_event=event, query="q", sessions=sessions)


@pytest.fixture
def mixed(mix_folder: Path) -> Evidence:
    return read_evidence(mix_folder)


def observed(evidence: Evidence, reduction: Reduction) -> dict[tuple[int, str, str | None, int | str], float]:
    return {
        (one.run, one.metric, one.scenario, one.load_level): one.value for one in observe_scenarios(evidence, reduction)
    }


def test_a_scenario_has_its_own_sessions_by_type_and_event_of_wait(mixed: Evidence) -> None:
    first, second = mixed.scenarios[:2]
    groups = (
        group(first, 2.0, "IO", "DataFileRead"),
        group(first, 0.5, "IO", "WalSync"),
        group(first, 0.25),
        group(first, 0.125, state="idle in transaction"),
        group(first, 9.0, "Client", "ClientRead", state="idle"),
        group(second, 1.0, "Lock", "tuple"),
    )
    run = mixed.valid[0].id
    found = observed(mixed, Reduction(sessions={(run, level.index): groups for level in mixed.levels}))

    assert found[run, "waits.IO", first, 0] == found[run, "waits.IO", first, "all"] == 2.5
    assert found[run, "wait.IO/WalSync", first, "all"] == 0.5
    assert found[run, "waits.CPU", first, "all"] == 0.25
    assert found[run, "sessions.active", first, "all"] == 2.75
    assert found[run, "sessions.idle_in_transaction", first, "all"] == 0.125
    assert found[run, "waits.Lock", second, "all"] == 1.0
    assert (run, "waits.IO", second, "all") not in found


def test_what_one_run_has_is_zero_in_another_and_all_levels_are_their_mean(mixed: Evidence) -> None:
    scenario = mixed.scenarios[0]
    one, other = (run.id for run in mixed.valid[:2])
    low, high = (level.index for level in mixed.levels)
    sessions = {
        (one, low): (group(scenario, 1.0, "IO", "WalSync"),),
        (one, high): (group(scenario, 3.0, "IO", "WalSync"),),
        (other, low): (group(scenario, 1.0),),
    }

    found = observed(mixed, Reduction(sessions=sessions))

    assert found[one, "waits.IO", scenario, "all"] == 2.0
    assert found[other, "waits.IO", scenario, low] == 0.0
    assert (other, "waits.IO", scenario, "all") not in found  # one of its levels was not sampled


def test_scenarios_that_share_their_sessions_have_none_of_their_own(mixed: Evidence) -> None:
    workload = mixed.experiment.workload.model_copy(update={"share": "transactions"})
    shared = replace(mixed, experiment=mixed.experiment.model_copy(update={"workload": workload}))
    run = mixed.valid[0].id

    assert observe_scenarios(shared, Reduction(sessions={(run, 0): (group(mixed.scenarios[0], 1.0),)})) == ()
