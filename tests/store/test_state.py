import sqlite3
import time

import pytest

from pgtrial.errors import StoreError
from pgtrial.model.arm import Arm, Role
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import LoadLevel, RunState, Slot
from pgtrial.store.sqlite import connect_to_read
from pgtrial.store.state import State

ARMS = (
    Arm(name="a", role=Role.CONTROL),
    Arm(name="b", role=Role.CANDIDATE, own_settings={"work_mem": "8MB"}, own_knobs={"cgroup": {"cpus": "1"}}),
)
SLOTS = (Slot(number=1, block=1, position=1, arm="b"), Slot(number=2, block=1, position=2, arm="a"))


@pytest.fixture
def state(tmp_path):
    state = State.create(tmp_path)
    state.set_plan(ARMS, [LoadLevel(index=0, clients=2)], SLOTS)
    yield state
    state.close()


def test_plan_is_read_as_it_was_written(state):
    assert state.declared_arms() == (
        ("a", Role.CONTROL, {"postgresql": {}}),
        ("b", Role.CANDIDATE, {"postgresql": {"work_mem": "8MB"}, "cgroup": {"cpus": "1"}}),
    )
    assert state.slots() == SLOTS
    assert state.levels() == (LoadLevel(index=0, clients=2),)


def test_attempts_at_a_slot_are_counted(state):
    for outcome in (RunState.INVALID, RunState.DONE):
        run = state.begin_run(SLOTS[0], 1.0)
        state.end_run(run.id, outcome, 2.0, "because")

    assert [(run.attempt, run.state, run.folder) for run in state.runs()] == [
        (1, RunState.INVALID, "0001-b-b1"),
        (2, RunState.DONE, "0001-b-b1-repeat1"),
    ]


def test_reader_sees_what_the_writer_has_written(state, tmp_path):
    reader = State.open(tmp_path)
    run = state.begin_run(SLOTS[0], 1.0)

    assert [row.id for row in reader.runs()] == [run.id]
    reader.close()


def test_finished_folder_is_one_file_that_can_be_read_where_nothing_can_be_written(state, tmp_path, monkeypatch):
    state.begin_run(SLOTS[0], 1.0)
    state.close()
    assert [path.name for path in tmp_path.iterdir()] == ["state.sqlite"]
    monkeypatch.setattr("os.access", lambda *_: False)

    reader = State.open(tmp_path)

    assert len(reader.runs()) == 1
    reader.close()
    assert [path.name for path in tmp_path.iterdir()] == ["state.sqlite"]


def test_reading_does_not_write(state, tmp_path):
    db = connect_to_read(tmp_path / "state.sqlite")

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        db.execute("DELETE FROM run")
    db.close()


def test_facts_are_kept_by_moment(state):
    run = state.begin_run(SLOTS[0], 1.0)
    state.add_fingerprint({"kernel/release": "6.1"})
    state.add_fingerprint({"machine/CPU governor": "performance"}, run=run.id)
    state.add_fingerprint({"machine/CPU governor": "powersave"}, run=run.id, moment=Moment.AFTER)

    whole = {None: {"kernel/release": "6.1"}}
    assert state.fingerprints() == {**whole, run.id: {"machine/CPU governor": "performance"}}
    assert state.fingerprints(Moment.AFTER) == {**whole, run.id: {"machine/CPU governor": "powersave"}}


def test_processes_are_written_without_waiting_for_the_disk_and_the_rest_with(state):
    state.add_process(pid=1, start_ticks=2, boot_id="x", role="load", t=time.time())

    assert state.processes() == ((1, 2, "x", "load"),)
    assert state._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_folder_of_a_newer_format_is_refused(state, tmp_path):
    state.set_meta(format="99")

    with pytest.raises(StoreError, match="has format 99"):
        State.open(tmp_path)


def test_folder_that_cannot_be_looked_at_is_said(tmp_path):
    with pytest.raises(StoreError, match=r'cannot read ".*": File name too long'):
        State.open(tmp_path / ("x" * 300))
