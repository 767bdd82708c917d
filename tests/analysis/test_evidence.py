import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.errors import StoreError
from pgtrial.model.run import RunState
from pgtrial.store import layout
from pgtrial.store.sqlite import connect
from pgtrial.store.state import State
from support import EXPERIMENT, INTERLEAVED, write_result_folder


def test_the_first_arm_is_the_control_and_the_second_the_one_of_the_claim(evidence: Evidence) -> None:
    assert evidence.control is not None
    assert (evidence.control.name, evidence.hypothesis_arm) == ("on", "off")
    assert [arm.name for arm in evidence.candidates] == ["off"]
    assert evidence.placebo is not None
    assert evidence.complete_blocks() == (1, 2, 3, 4, 5, 6)


def test_a_pair_is_a_block_with_a_valid_run_of_both_arms(evidence: Evidence) -> None:
    lost = next(run for run in evidence.valid if run.slot.arm == "on" and run.slot.block == 3)
    changed = replace(evidence, valid=tuple(run for run in evidence.valid if run is not lost))

    assert [run.slot.block for _, run in changed.pairs("off")] == [1, 2, 4, 5, 6]
    assert changed.complete_blocks() == (1, 2, 4, 5, 6)


def test_without_a_schedule_there_are_no_pairs(evidence: Evidence) -> None:
    bare = replace(evidence, arms=(), runs=(), valid=())

    assert bare.pairs("off") == ()
    assert bare.hypothesis_arm == ""


def test_invalid_and_running_runs_do_not_count(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", runs=1)
    state = State.open(folder, write=True)
    invalid = state.begin_run(state.slots()[1], 10.0)
    state.end_runs([invalid.id], RunState.INVALID, 20.0, "pgbench: client 3 aborted")
    state.begin_run(state.slots()[1], 30.0)
    state.add_event(31.0, "warmup-capped", run=invalid.id, seconds=60)
    state.close()

    evidence = read_evidence(folder)

    assert [run.state for run in evidence.runs] == [RunState.DONE, RunState.INVALID, RunState.RUNNING]
    assert [run.id for run in evidence.valid] == [1]
    assert [(event.run, event.kind, event.data) for event in evidence.events] == [(2, "warmup-capped", {"seconds": 60})]


def test_a_folder_that_is_none_of_ours_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is not a result folder: it has no state\.sqlite"):
        read_evidence(tmp_path)


def write_old_folder(folder: Path) -> Path:
    """A folder of a pgtrial that stored no plan."""
    write_result_folder(folder, runs=0)
    with contextlib.closing(connect(folder / layout.STATE, mode="rw")) as db, db:
        db.execute("DELETE FROM meta WHERE key = 'plan'")
    return folder


def test_a_missing_experiment_file_is_named(tmp_path: Path) -> None:
    folder = write_old_folder(tmp_path / "r")
    (folder / layout.EXPERIMENT).unlink()

    with pytest.raises(StoreError, match=r"experiment\.toml"):
        read_evidence(folder)


@pytest.mark.parametrize("text", ["format = ", EXPERIMENT + "\n[later]\nkey = 1\n"])
def test_an_experiment_file_that_is_not_understood_is_named(tmp_path: Path, text: str) -> None:
    folder = write_old_folder(tmp_path / "r")
    (folder / layout.EXPERIMENT).write_text(text)

    with pytest.raises(StoreError, match=r"experiment\.toml.*not an experiment") as caught:
        read_evidence(folder)

    assert caught.value.detail


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", runs=0)
    with sqlite3.connect(folder / layout.STATE) as db:
        db.execute("DROP TABLE setting")
    db.close()

    with pytest.raises(StoreError, match=r"state\.sqlite.* is damaged: .*no such table"):
        read_evidence(folder)


def test_scenarios_are_those_of_the_file(evidence: Evidence, mix_folder: Path) -> None:
    assert evidence.scenarios == ("simple-update",)
    assert read_evidence(mix_folder).scenarios == ("read", "insert", "update")


def test_slices_of_runs_that_do_not_take_turns_are_damage(tmp_path: Path) -> None:
    """They have a planned length and a guard of no time: whoever divides by that has no answer."""
    folder = write_result_folder(tmp_path / "r", text=INTERLEAVED.replace('"10s"', '"4s"'))
    with contextlib.closing(connect(folder / layout.STATE, mode="rw")) as db, db:
        db.execute("UPDATE meta SET value = 'blocks' WHERE key = 'method'")
        db.execute("UPDATE meta SET value = '0' WHERE key IN ('method_guard', 'method_slice')")

    with pytest.raises(StoreError, match="slices of runs that do not take turns"):
        read_evidence(folder)
