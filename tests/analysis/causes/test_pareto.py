from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.causes.pareto import rank_events, rank_statements
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction, SessionGroup
from pgtrial.findings.message import say
from pgtrial.findings.naming import UNKNOWN_STATEMENT
from pgtrial.findings.session_time import Pareto


def find(paretos: tuple[Pareto, ...], arm: str, level: int | str = 0) -> Pareto:
    (found,) = (pareto for pareto in paretos if (pareto.arm, pareto.load_level) == (arm, level))
    return found


def group(query: str, sessions: float, kind: tuple[str, str] = ("", ""), state: str = "active") -> SessionGroup:
    return SessionGroup(
        scenario="all", state=state, wait_type=kind[0], wait_event=kind[1], query=query, sessions=sessions
    )


@pytest.fixture
def busy(evidence: Evidence, reduction: Reduction) -> Reduction:
    groups = (
        group("UPDATE a", 2.0, ("Lock", "tuple")),
        group("UPDATE a", 1.0),
        group("UPDATE a", 0.1, ("IO", "WALSync")),
        group("SELECT b", 0.5),
        group("", 0.4, ("IO", "DataFileRead")),
        group("COMMIT", 3.0, state="idle in transaction"),
        group("", 9.0, ("Client", "ClientRead"), state="idle"),
    )
    return replace(reduction, sessions={(run.id, 0): groups for run in evidence.valid})


def test_events_are_ranked_by_the_time_of_sessions_inside_a_statement(evidence: Evidence, busy: Reduction) -> None:
    pareto = find(rank_events(evidence, busy), "on")

    assert [item.name for item in pareto.items] == ["Lock tuple", "CPU", "IO DataFileRead", "IO WALSync"]
    assert [item.sessions for item in pareto.items] == pytest.approx([2.0, 1.5, 0.4, 0.1])
    assert [item.share for item in pareto.items] == pytest.approx([0.5, 0.375, 0.1, 0.025])
    assert [item.cumulative for item in pareto.items] == pytest.approx([0.5, 0.875, 0.975, 1.0])


def test_the_head_are_the_fewest_that_reach_80_percent(evidence: Evidence, busy: Reduction) -> None:
    pareto = find(rank_events(evidence, busy), "on")

    assert pareto.head == 2
    assert pareto.items[pareto.head - 1].cumulative >= 0.8 > pareto.items[pareto.head - 2].cumulative


@pytest.mark.parametrize(("sessions", "head"), [((4.0, 1.0), 1), ((3.9, 1.1), 2), ((1.0,), 1)])
def test_exactly_80_percent_is_enough(
    evidence: Evidence, reduction: Reduction, sessions: tuple[float, ...], head: int
) -> None:
    groups = tuple(group("q", number, ("IO", f"event{place}")) for place, number in enumerate(sessions))
    changed = replace(reduction, sessions={(run.id, 0): groups for run in evidence.valid})

    assert find(rank_events(evidence, changed), "off").head == head


def test_statements_are_ranked_by_their_own_time_and_say_what_they_wait_for(
    evidence: Evidence, busy: Reduction
) -> None:
    pareto = find(rank_statements(evidence, busy), "off")

    assert [item.name for item in pareto.items] == ["UPDATE a", "SELECT b", UNKNOWN_STATEMENT]
    assert [item.sessions for item in pareto.items] == pytest.approx([3.1, 0.5, 0.4])
    # What is below 5 % of the statement's time is not named.
    assert say(pareto.items[0].detail) == "Lock tuple 65 % and CPU 32 %"
    assert say(pareto.items[1].detail) == "CPU 100 %"


def test_runs_weigh_the_same_and_what_one_did_not_have_is_zero_there(evidence: Evidence, busy: Reduction) -> None:
    first, *others = (run.id for run in evidence.runs_of("on"))
    sessions = {(first, 0): (group("DELETE c", 6.0),), **{(run, 0): (group("x", 6.0),) for run in others}}
    pareto = find(rank_statements(evidence, replace(busy, sessions=sessions)), "on")

    assert {item.name: item.sessions for item in pareto.items} == pytest.approx({"DELETE c": 1.0, "x": 5.0})


def test_there_is_none_of_an_arm_that_was_not_sampled_or_did_nothing(evidence: Evidence, reduction: Reduction) -> None:
    on = {(run.id, 0): () for run in evidence.runs_of("on")}

    assert rank_events(evidence, replace(reduction, sessions=on)) == ()
    assert rank_statements(evidence, replace(reduction, sessions=on)) == ()


def test_each_arm_has_one_for_every_level_and_one_for_all(evidence: Evidence, busy: Reduction) -> None:
    for paretos, of in ((rank_events(evidence, busy), "events"), (rank_statements(evidence, busy), "statements")):
        assert [(pareto.arm, pareto.load_level) for pareto in paretos] == [
            (arm.name, level) for arm in evidence.arms for level in ("all", 0)
        ]
        assert {pareto.of for pareto in paretos} == {of}


def test_a_scenario_with_sessions_of_its_own_has_its_events_over_all_levels(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    first, *_ = evidence.scenarios
    groups = (replace(group("q", 2.0, ("Lock", "tuple")), scenario=first), group("q", 1.0, ("IO", "WALSync")))
    sessions = {(run.id, level.index): groups for run in evidence.valid for level in evidence.levels}
    paretos = rank_events(evidence, replace(reduce_runs(evidence), sessions=sessions, wait_counts={}))

    assert {pareto.scenario for pareto in paretos} == {None, first}
    own = [pareto for pareto in paretos if pareto.scenario == first]
    assert [(pareto.arm, pareto.load_level) for pareto in own] == [(arm.name, "all") for arm in evidence.arms]
    assert [item.name for item in own[0].items] == ["Lock tuple"]
