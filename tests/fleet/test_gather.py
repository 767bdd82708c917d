"""Runs of simulated hosts come into one folder: all of them, once, whatever is repeated or cut off."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from pgtrial.errors import StoreError
from pgtrial.fleet import gather
from pgtrial.fleet.gather import begun_blocks, digest_runs, done_blocks, gather_block, is_whole
from pgtrial.model.run import RunState
from pgtrial.store import layout
from pgtrial.store.state import State
from support import write_result_folder

ARMS = 3  # of the simulated experiment


@pytest.fixture
def main(tmp_path) -> Path:
    return write_result_folder(tmp_path / "main", runs=0)


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """What a host has measured; it is not to be changed."""
    return write_result_folder(tmp_path_factory.mktemp("host") / "a", runs=2 * ARMS)


@pytest.fixture
def host(measured, tmp_path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "a"))


@pytest.fixture
def other(measured, tmp_path) -> Path:
    """Another host, with the same blocks done."""
    return Path(shutil.copytree(measured, tmp_path / "b"))


def attempts(folder: Path) -> list[tuple[int, int, str]]:
    with contextlib.closing(State.open(folder)) as state:
        return [(run.slot.number, run.attempt, run.state.value) for run in state.runs()]


def dump(folder: Path, block: int) -> list[tuple[object, ...]]:
    """Everything that is recorded of the runs of a block, but for their numbers and where they came from."""
    with contextlib.closing(State.open(folder)) as state:
        found = []
        for run in state.runs():
            if run.slot.block == block:
                events = [event for event in state.events(run=run.id) if event[1] != "from-host"]
                facts = state.fingerprints().get(run.id, {})
                settings = state.settings().get(run.id, {})
                found.append((run.slot, run.state, run.started, run.ended, run.phases, events, facts, settings))
        return found


def block_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("runs/*/*")}


def test_a_block_comes_with_all_that_is_known_of_it(main, host):
    before, rows = block_files(host), dump(host, 1)
    assert gather_block(host, main, block=1, host="a", digests=digest_runs(host, 1)) == ARMS

    assert dump(main, 1) == rows
    assert block_files(main).items() <= before.items()
    assert done_blocks(main) == {1}
    with contextlib.closing(State.open(main)) as state:
        assert state.fingerprints()[None]["PostgreSQL/version"] == "15.7"


def test_a_block_that_comes_again_counts_once(main, host):
    digests = digest_runs(host, 1)
    gather_block(host, main, block=1, host="a", digests=digests)

    assert gather_block(host, main, block=1, host="a", digests=digests) == 0
    assert attempts(main) == [(number, 1, "done") for number in range(1, ARMS + 1)]


def test_a_block_of_two_hosts_counts_once(main, host, other):
    gather_block(host, main, block=1, host="a")

    with pytest.raises(StoreError, match="it would count twice"):
        gather_block(other, main, block=1, host="b")
    assert attempts(main) == [(number, 1, "done") for number in range(1, ARMS + 1)]


def test_what_was_cut_off_between_files_and_rows_is_taken_anew(main, host, monkeypatch):
    def die(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gather, "take_rows", die)
        with pytest.raises(KeyboardInterrupt):
            gather_block(host, main, block=1, host="a")
    assert attempts(main) == []
    assert block_files(main)  # which nobody knows
    first = next((main / layout.RUNS).iterdir())
    (first / "half.parquet").write_text("half")

    assert gather_block(host, main, block=1, host="a") == ARMS
    assert not (first / "half.parquet").exists()
    assert done_blocks(main) == {1}


def test_a_file_that_was_changed_on_the_way_is_refused(main, host):
    digests = digest_runs(host, 1)
    victim = next(path for path in host.glob("runs/*/transactions.parquet") if "-b1" in path.parent.name)
    victim.write_bytes(victim.read_bytes()[:-1] + b"x")

    with pytest.raises(StoreError, match="its checksum differs"):
        gather_block(host, main, block=1, host="a", digests=digests)
    assert attempts(main) == []


def test_a_file_that_is_missing_is_refused(main, host):
    digests = digest_runs(host, 1)
    next(path for path in host.glob("runs/*/samples.parquet") if "-b1" in path.parent.name).unlink()

    with pytest.raises(StoreError, match="are not those that the host has made"):
        gather_block(host, main, block=1, host="a", digests=digests)


def test_a_block_that_was_given_up_is_an_attempt_that_does_not_count(main, host, other):
    with contextlib.closing(State.open(host, write=True)) as state:
        state.give_up_block(1, "the host was lost")
    assert not is_whole(host, 1)
    assert begun_blocks(host) == {1, 2}
    gather_block(host, main, block=1, host="a")
    assert gather_block(other, main, block=1, host="b") == ARMS

    numbers = range(1, ARMS + 1)
    assert attempts(main) == [
        *((number, 1, RunState.INTERRUPTED) for number in numbers),
        *((number, 2, RunState.DONE) for number in numbers),
    ]
    assert done_blocks(main) == {1}


def test_runs_of_several_hosts_are_analysed_as_those_of_one(main, host, other, measured):
    from pgtrial.analysis.analyze import analyze

    gather_block(other, main, block=2, host="b")
    gather_block(host, main, block=1, host="a")

    assert analyze(main).effects == analyze(measured).effects


def test_a_run_that_only_has_the_mark_of_another_is_no_other(main, host, other):
    """As where folders were made at one moment: the second one's block was taken for one that is there."""
    with contextlib.closing(State.open(host, write=True)) as state:
        state.give_up_block(1, "the host was lost")
    assert gather_block(host, main, block=1, host="a") == ARMS
    with contextlib.closing(sqlite3.connect(other / layout.STATE)) as database, database:
        database.execute("UPDATE run SET started = started + 1")

    assert gather_block(other, main, block=1, host="a") == ARMS
    assert gather_block(other, main, block=1, host="a") == 0
    assert done_blocks(main) == {1}
