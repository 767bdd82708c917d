from dataclasses import replace

import pytest

from pgtrial.analysis.causes.waits import describe_background, describe_types
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.reduction import BackgroundGroup, Reduction, SessionGroup


def group(query: str, sessions: float, kind: tuple[str, str]) -> SessionGroup:
    return SessionGroup(
        scenario="all", state="active", wait_type=kind[0], wait_event=kind[1], query=query, sessions=sessions
    )


@pytest.fixture
def busy(evidence: Evidence, reduction: Reduction) -> Reduction:
    groups = (
        group("UPDATE a", 1.8, ("Lock", "transactionid")),
        group("UPDATE b", 0.2, ("Lock", "transactionid")),
        group("UPDATE a", 0.5, ("Lock", "tuple")),
        group("SELECT c", 1.0, ("LWLock", "LockManager")),
        group("SELECT c", 0.01, ("BufferPin", "BufferPin")),
    )
    return replace(reduction, sessions={(run.id, 0): groups for run in evidence.valid})


def test_a_type_is_made_of_its_events_and_of_its_statements(evidence: Evidence, busy: Reduction) -> None:
    lock, lwlock = (each for each in describe_types(evidence, busy) if each.arm == "on")

    assert (lock.kind, lwlock.kind) == ("Lock", "LWLock")
    assert lock.sessions == pytest.approx(2.5)
    assert lock.share == pytest.approx(2.5 / 3.51)
    assert [(item.name, item.share) for item in lock.events] == [
        ("Lock transactionid", pytest.approx(0.8)),
        ("Lock tuple", pytest.approx(0.2)),
    ]
    assert [(item.name, item.sessions) for item in lock.statements] == [
        ("UPDATE a", pytest.approx(2.3)),
        ("UPDATE b", pytest.approx(0.2)),
    ]
    assert lock.events[-1].cumulative == pytest.approx(1.0)
    assert lwlock.events == ()  # one event is the type itself


def test_without_sampled_sessions_there_are_no_types(evidence: Evidence, reduction: Reduction) -> None:
    assert describe_types(evidence, replace(reduction, sessions={})) == ()


def of_process(process: str, kind: str, event: str, sessions: float) -> BackgroundGroup:
    return BackgroundGroup(process=process, wait_type=kind, wait_event=event, sessions=sessions)


def test_background_processes_say_what_they_do_unless_they_only_wait_for_work(
    evidence: Evidence, reduction: Reduction
) -> None:
    groups = (
        of_process("checkpointer", "Activity", "CheckpointerMain", 0.6),
        of_process("checkpointer", "IO", "DataFileWrite", 0.3),
        of_process("checkpointer", "", "", 0.1),
        of_process("walwriter", "Activity", "WalWriterMain", 1.0),
        of_process("walwriter", "", "", 0.001),
    )
    known = replace(reduction, background={(run.id, 0): groups for run in evidence.valid})

    found = [each for each in describe_background(evidence, known) if each.arm == "on"]

    assert [(each.process, each.kind, each.event, each.sessions.value) for each in found] == [
        ("checkpointer", "Activity", "CheckpointerMain", pytest.approx(0.6)),
        ("checkpointer", "IO", "DataFileWrite", pytest.approx(0.3)),
        ("checkpointer", "CPU", "", pytest.approx(0.1)),
    ]
    assert describe_background(evidence, replace(reduction, background={})) == ()
