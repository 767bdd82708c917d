import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import pgtrial.postgres.existing.knobs
from pgtrial.cli.main import main
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.processes import ProcessId, boot_id, identify
from pgtrial.knobs.base import HostKnob
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.store import journal_file
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.sqlite import connect

DEAD = ProcessId(pid=1, start_ticks=0, boot_id="an earlier boot")


class FileKnob(HostKnob):
    """Of plain files whose old content is to be put back, unless that cannot be done."""

    name = "files"

    async def plan(self, context, wanted):
        raise NotImplementedError

    async def apply(self, context, change):
        raise NotImplementedError

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        for path, value in entry.change.old.items():
            if not Path(path).exists():
                return Undone(outcome=Outcome.FAILED, text=f'There is no "{path}".')
            Path(path).write_text(value)
        return Undone(outcome=Outcome.RESTORED)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of its own, and one knob."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr(pgtrial.postgres.existing.knobs, "HOST_KNOBS", (FileKnob(),))
    return tmp_path / "state"


@pytest.fixture
def change(tmp_path: Path) -> Callable[..., Path]:
    """``change("a")`` writes "new" to a file that held "old", and leaves that in the journal."""

    def change(name: str, *, owner: ProcessId = DEAD, exists: bool = True) -> Path:
        path = tmp_path / name
        if exists:
            path.write_text("new")
        made = Change(
            knob="files", name=name, old={str(path): "old"}, new={str(path): "new"}, old_text="old", new_text="new"
        )
        with Journal.open(write=True) as journal:
            journal.begin(made, host="local", boot_id=boot_id(), folder="/results/x", run=2, owner=owner, t=3.0)
        return path

    return change


def test_with_nothing_to_do_nothing_is_made(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore"]) == 0
    assert capsys.readouterr().out == f"nothing to restore: {state}/journal.sqlite lists no change that is left\n"

    assert main(["restore", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"changes": [], "leftovers": []}
    assert not state.exists()


def test_directories_of_a_killed_pgtrial_are_cleared(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, left = tmp_path / "results", tmp_path / "pgtrial-00000001"
    folder.mkdir()
    (left / "data").mkdir(parents=True)
    Belongings.of(folder).add_directory(Made(path=left, host=LOCAL))

    assert main(["restore", "--dry-run"]) == 0
    assert f"{left}: to be cleared" in capsys.readouterr().out
    assert left.exists()

    assert main(["restore", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["leftovers"]
    assert (found["folder"], found["directories"], found["outcome"]) == (str(folder), [str(left)], "cleared")
    assert not left.exists()


def test_what_was_left_is_put_back_the_last_change_first(change, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [change("a"), change("b")]

    assert main(["restore"]) == 0

    assert capsys.readouterr().out == (
        "#2 local, files: b new → old, restored\n#1 local, files: a new → old, restored\n"
    )
    assert [path.read_text() for path in paths] == ["old", "old"]
    assert main(["restore"]) == 0
    assert capsys.readouterr().out.startswith("nothing to restore: ")


def test_a_dry_run_only_shows(change, capsys: pytest.CaptureFixture[str]) -> None:
    path = change("a")

    assert main(["restore", "--dry-run"]) == 0

    assert capsys.readouterr().out == "#1 local, files: a new → old, to be restored\n"
    assert path.read_text() == "new"


def test_a_failure_exits_with_6_after_all_others(change, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [change("a"), change("b", exists=False)]

    assert main(["restore"]) == 6

    captured = capsys.readouterr()
    assert captured.out == (
        f'#2 local, files: b new → old, failed\n   There is no "{paths[1]}".\n#1 local, files: a new → old, restored\n'
    )
    assert captured.err.startswith("error: b could not be put back to old\n")
    assert "pgtrial restore --forget 2" in captured.err
    assert paths[0].read_text() == "old"


def test_what_failed_can_be_taken_off_the_list(change, capsys: pytest.CaptureFixture[str]) -> None:
    change("b", exists=False)
    assert main(["restore"]) == 6
    capsys.readouterr()

    assert main(["restore", "--forget", "1"]) == 0
    assert capsys.readouterr().out == "#1 local, files: b new → old, taken off the list\n"

    assert main(["restore"]) == 0
    assert main(["restore", "--forget", "1"]) == 1
    assert "error: change 1 is not on the list\n" in capsys.readouterr().err


def test_changes_of_a_pgtrial_at_work_are_left_alone(change, capsys: pytest.CaptureFixture[str]) -> None:
    own = identify(os.getpid())
    assert own is not None
    in_use = change("a", owner=own)
    change("b")

    assert main(["restore"]) == 0

    assert capsys.readouterr().out == (
        "#1 local, files: a new → old, in use\n"
        f'   By pgtrial, process {own.pid}, for "/results/x".\n'
        "#2 local, files: b new → old, restored\n"
    )
    assert in_use.read_text() == "new"
    assert main(["restore"]) == 0
    assert "nothing to restore" in capsys.readouterr().out


def test_json_has_all_of_it_also_after_a_failure(change, capsys: pytest.CaptureFixture[str]) -> None:
    change("a")
    missing = change("b", exists=False)

    assert main(["restore", "--json"]) == 6

    captured = capsys.readouterr()
    failed, restored = json.loads(captured.out)["changes"]
    assert (failed["outcome"], failed["text"]) == ("failed", f'There is no "{missing}".')
    assert restored == {
        "id": 1,
        "t": 3.0,
        "host": "local",
        "folder": "/results/x",
        "run": 2,
        "pid": 1,
        "knob": "files",
        "name": "a",
        "from": "new",
        "to": "old",
        "outcome": "restored",
        "text": "",
    }
    assert captured.err.startswith("error: ")


def test_a_journal_that_cannot_be_used_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "state")

    assert main(["restore"]) == 1
    assert capsys.readouterr().err.startswith("error: PGTRIAL_STATE_DIRECTORY is not an absolute path")


def test_a_journal_of_the_format_before_that_can_only_be_read_is_put_back(
    change, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = change("a")
    with Journal.open(write=True) as journal, journal.db as db:
        db.execute("DROP TABLE long_value")
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")

    def connect_to_look(path: Path, *, mode: str) -> sqlite3.Connection:
        db = connect(path, mode=mode)
        db.execute("PRAGMA query_only = ON")
        return db

    monkeypatch.setattr(journal_file, "connect", connect_to_look)

    assert main(["restore"]) == 1

    captured = capsys.readouterr()
    assert path.read_text() == "old"
    assert captured.out == "#1 local, files: a new → old, restored\n"
    assert captured.err.startswith("error: cannot write to the journal of host changes")


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_lets_it_finish_the_change_at_work_unless_it_comes_again(
    change, times: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [change("a"), change("b")]
    undo, told = FileKnob.undo, list[str]()

    async def undo_slowly(knob: FileKnob, host: Host, entry: JournalEntry) -> Undone:
        for number in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            while not (said := capsys.readouterr().err) and number == 0:
                await asyncio.sleep(0)
            told.append(said)
        if times > 1:
            await asyncio.Event().wait()
        return await undo(knob, host, entry)

    monkeypatch.setattr(FileKnob, "undo", undo_slowly)
    assert main(["restore"]) == 130
    interrupted = [path.read_text() for path in paths]
    said = capsys.readouterr()
    monkeypatch.undo()

    assert interrupted == ["new", "old" if times == 1 else "new"]
    assert ("#2 local, files: b new → old, restored" in said.out) is (times == 1)
    assert "Ctrl-C again breaks it off" in told[0]
