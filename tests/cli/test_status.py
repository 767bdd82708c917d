import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.engine.leftovers import mark_of
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.operations import MARK
from pgtrial.hosts.processes import ProcessId, find_marked, identify
from pgtrial.model.change import SERVER_COPY, Change
from pgtrial.model.run import RunState
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.state import State
from support import EXPERIMENT, wait_until, write_result_folder

pytestmark = pytest.mark.usefixtures("analysed_once")

TEXT = EXPERIMENT.replace("blocks = 6", "blocks = 4").replace("placebo = true", "placebo = false")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]):
    """What status says of a folder, as one line."""

    def run(folder: Path) -> str:
        assert main(["status", str(folder)]) == 0
        return re.sub(r"\s+", " ", capsys.readouterr().out)

    return run


def test_an_unfinished_experiment_has_an_estimate_so_far(tmp_path: Path, say) -> None:
    text = say(write_result_folder(tmp_path / "stopped", text=TEXT, runs=7))

    assert "7 of 8 runs done, interrupted" in text
    assert "So far, after 3 blocks: off came out 98.0 % faster than on" in text
    assert 'Go on with "pgtrial resume' in text


def test_a_finished_experiment_is_not_spoken_of_as_going_on(tmp_path: Path, say) -> None:
    text = say(write_result_folder(tmp_path / "finished", text=TEXT))

    assert "8 of 8 runs done, complete" in text
    assert " After 4 blocks: off is 96.5 % faster than on" in text
    assert "So far" not in text


def test_two_blocks_are_too_few_for_an_estimate(tmp_path: Path, say) -> None:
    assert "blocks:" not in say(write_result_folder(tmp_path / "stopped", text=TEXT, runs=5))


def test_attempts_that_do_not_count_are_counted(tmp_path: Path, say) -> None:
    folder = write_result_folder(tmp_path / "stopped", text=TEXT, runs=2)
    state = State.open(folder, write=True)
    state.begin_run(state.slots()[2], 2e9)
    state.interrupt_running()
    assert "1 invalid or interrupted attempt, which does not count" in say(folder)

    state.begin_run(state.slots()[2], 2.1e9)
    state.interrupt_running()
    state.close()
    assert "2 invalid or interrupted attempts, which do not count" in say(folder)
    assert "the last invalid one" not in say(folder)


def test_the_last_attempt_that_was_invalid_says_why(tmp_path: Path, say) -> None:
    folder = write_result_folder(tmp_path / "stopped", text=TEXT, runs=2)
    state = State.open(folder, write=True)
    state.end_runs([state.begin_run(state.slots()[2], 2e9).id], RunState.INVALID, 2.1e9, "division by zero")
    state.close()

    assert "the last invalid one: division by zero" in say(folder)


def test_what_a_killed_pgtrial_has_left_running_is_told(tmp_path: Path, say) -> None:
    folder = write_result_folder(tmp_path / "stopped", text=TEXT, runs=2)
    assert "of it still" not in say(folder)

    hook = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark_of(folder)})
    try:
        wait_until(lambda: find_marked(mark_of(folder)))
        assert '1 process of it still runs: "pgtrial restore" ends what is left.' in say(folder)
    finally:
        hook.kill()
        hook.wait()


def test_json_is_indented_and_has_the_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "stopped", text=TEXT, runs=7)

    assert main(["status", "--json", str(folder)]) == 0

    text = capsys.readouterr().out
    assert text.startswith('{\n  "name": "stopped",\n')
    assert json.loads(text)["estimate"].startswith("off came out 98.0 % faster than on")


def begin_copy(name: str, owner: ProcessId, file: str) -> None:
    """Into the journal, as "pgtrial copy" does."""
    new_text = 'a copy of "shop"'
    change = Change(
        knob=SERVER_COPY, name=f'database "{name}"', old={}, new={"name": name}, old_text="none", new_text=new_text
    )
    with Journal.open(write=True) as journal:
        journal.begin(change, host="local", boot_id="x", folder=file, run=None, owner=owner, t=1.0)


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that are being made, and one whose pgtrial was killed."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    own = identify(os.getpid())
    assert own is not None
    begin_copy("half", ProcessId(pid=1, start_ticks=0, boot_id="an earlier boot"), "/half.toml")
    for name in ("too", "busy"):
        begin_copy(name, own, "/busy.toml")


@pytest.mark.usefixtures("copies")
def test_without_a_folder_it_tells_what_belongs_to_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0

    text = capsys.readouterr().out
    assert (
        text
        == f"""\
Process {os.getpid()} is at work, for "/busy.toml":
  database "busy" from none to a copy of "shop"
  database "too" from none to a copy of "shop"
Left by a pgtrial that has ended, for "/half.toml":
  database "half" from none to a copy of "shop"
Put it back with "pgtrial restore".
"""
    )


@pytest.mark.usefixtures("copies")
def test_what_belongs_to_no_folder_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 0

    busy = {"folder": "/busy.toml", "pid": os.getpid()}
    assert json.loads(capsys.readouterr().out) == {
        "at_work": [
            {"change": 'database "busy" from none to a copy of "shop"', **busy},
            {"change": 'database "too" from none to a copy of "shop"', **busy},
        ],
        "left": [{"change": 'database "half" from none to a copy of "shop"', "folder": "/half.toml", "pid": 1}],
        "leftovers": [],
    }


def test_where_nothing_is_changed_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))

    assert main(["status"]) == 0

    path = tmp_path / "state" / "journal.sqlite"
    assert capsys.readouterr().out == f"nothing is changed: {path} lists no change that is at work or left\n"
    assert not path.exists()


@pytest.fixture
def leftover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A result folder whose pgtrial was killed, and a directory with data that it has left."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    folder, left = tmp_path / "results", tmp_path / "pgtrial-00000001"
    folder.mkdir()
    (left / "data").mkdir(parents=True)
    Belongings.of(folder).add_directory(Made(path=left, host=LOCAL))
    return folder, left


def test_what_restore_would_clear_is_no_nothing(leftover, capsys: pytest.CaptureFixture[str]) -> None:
    folder, left = leftover
    hook = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark_of(folder)})
    try:
        wait_until(lambda: find_marked(mark_of(folder)))
        assert main(["status"]) == 0
        said = capsys.readouterr().out
        assert main(["status", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
    finally:
        hook.kill()
        hook.wait()

    assert said == (
        f'Left by a pgtrial that has ended, for "{folder}":\n  1 process\n  {left}\nClear it with "pgtrial restore".\n'
    )
    one = {"folder": str(folder), "processes": 1, "directories": [str(left)], "hosts": []}
    assert found == {"at_work": [], "left": [], "leftovers": [one]}
    assert left.exists()


def test_a_record_that_cannot_be_read_is_no_nothing(leftover, tmp_path: Path, capsys) -> None:
    (record,) = (tmp_path / "state").glob("*/*.jsonl")
    record.write_bytes(record.read_bytes() + b"{\n")

    assert main(["status"]) == 1

    captured = capsys.readouterr()
    assert captured.out.endswith('Clear it with "pgtrial restore".\n')
    assert str(record) in captured.err
