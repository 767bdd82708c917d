import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from pgtrial.engine.folder import lock_folder
from pgtrial.errors import StoreError
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.web.folders import ServedFolder, Shelf, find_places, find_root, open_inside
from support import write_result_folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    write_result_folder(folder)
    (folder / layout.REPORT).write_text("secret")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_result_folder(tmp_path / "results" / "first", runs=1)
    return find_root(tmp_path / "results")


def read(place: ServedFolder, name: str) -> bytes | None:
    with open_inside(place, name) as opened:
        return None if opened is None else opened[0].read()


def test_result_folders_are_found_and_nothing_else(root: Path, secret: Path) -> None:
    (root / "empty").mkdir()
    (root / "file").touch()
    (root / "linked").symlink_to(secret)
    (root / "fake").mkdir()
    (root / "fake" / layout.STATE).symlink_to(secret / layout.STATE)
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / layout.STATE)
    write_result_folder(root / ".hidden-1", runs=0)

    assert [place.name for place in find_places(root)] == ["first"]


def test_a_result_folder_is_served_by_itself(root: Path) -> None:
    (place,) = find_places(root / "first")

    assert (place.name, place.path) == ("first", root / "first")


def test_ids_are_of_a_fixed_form_whatever_the_name(root: Path) -> None:
    names = [
        "<img src=x onerror=alert(1)>",
        "evil..",
        "a b%2f",
        "=cmd|' 'C calc'!A0",
        "ünï\x1b[2J",
        os.fsdecode(b"\xff\xfe"),
    ]
    for name in names:
        (root / "first").rename(root / name)
        (place,) = find_places(root)
        assert place.name == name
        assert len(place.id) == 16
        assert set(place.id) <= set("0123456789abcdef")
        (root / name).rename(root / "first")


def test_a_file_that_is_a_link_is_not_opened(root: Path, secret: Path) -> None:
    (place,) = find_places(root)
    (root / "first" / layout.REPORT).symlink_to(secret / layout.REPORT)

    assert read(place, layout.REPORT) is None


def test_a_folder_that_has_become_a_link_is_not_opened(root: Path, secret: Path) -> None:
    (place,) = find_places(root)
    (root / "first").rename(root / "away")
    (root / "first").symlink_to(secret)

    assert read(place, layout.REPORT) is None


def test_pipes_and_directories_are_not_opened(root: Path) -> None:
    (place,) = find_places(root)
    os.mkfifo(root / "first" / "pipe")
    (root / "first" / "directory").mkdir()

    assert read(place, "pipe") is None
    assert read(place, "directory") is None
    assert read(place, "none") is None


def test_a_plain_file_is_opened_with_its_size(root: Path) -> None:
    (place,) = find_places(root)
    (root / "first" / layout.REPORT).write_text("abc")
    with open_inside(place, layout.REPORT) as opened:
        assert opened is not None
        assert (opened[0].read(), opened[1]) == (b"abc", 3)


def test_a_root_that_is_a_link_is_what_it_leads_to(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    assert find_root(tmp_path / "link") == root


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    with pytest.raises(StoreError, match="cannot open"):
        find_root(tmp_path / "circle")


@pytest.fixture
def copy(shelf: Path, tmp_path: Path) -> Path:
    """The shelf, to be changed."""
    return Path(shutil.copytree(shelf, tmp_path / "copy"))


def by_name(root: Path):
    return {one.name: one for one in Shelf(root=root).summaries()}


def test_each_experiment_is_told_in_a_line(shelf: Path) -> None:
    found = by_name(shelf)
    finished, stopped = found["finished"], found["stopped"]

    assert (finished.state, finished.done, finished.runs, finished.blocks) == ("complete", 18, 18, 6)
    assert (finished.verdict, finished.has_report) == ("supported", True)
    assert finished.claim.startswith("Without waiting for the disk")
    assert (stopped.state, stopped.done, stopped.runs, stopped.blocks) == ("interrupted", 7, 18, 2)
    assert (stopped.verdict, stopped.has_report) == ("", False)
    assert stopped.arms[0].endswith("of 6 runs")


def test_the_latest_is_first(copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(copy / "stopped" / layout.STATE)) as db, db:
        db.execute("UPDATE run SET started = started + 1000")

    assert [one.name for one in Shelf(root=copy).summaries()] == ["stopped", "finished"]


def test_one_at_work_is_running_and_has_no_verdict_yet(copy: Path) -> None:
    shelf = Shelf(root=copy)
    assert {one.state for one in shelf.summaries()} == {"complete", "interrupted"}

    with lock_folder(copy / "finished"), contextlib.closing(State.open(copy / "stopped", write=True)) as state:
        state.begin_run(state.slots()[7], 2e9)
        with lock_folder(copy / "stopped"):
            found = {one.name: one for one in shelf.summaries()}
    assert (found["finished"].state, found["finished"].verdict) == ("running", "")
    assert found["stopped"].current.startswith("run 8, block 3, arm ")

    assert {one.state for one in shelf.summaries()} == {"complete", "interrupted"}


def test_looking_does_not_end_what_a_killed_pgtrial_left_behind(copy: Path) -> None:
    """Read-only: a run that nobody works on any more stays as it is; "pgtrial status" cleans up."""
    with contextlib.closing(State.open(copy / "stopped", write=True)) as state:
        state.begin_run(state.slots()[7], 2e9)
    Shelf(root=copy).summaries()

    with contextlib.closing(State.open(copy / "stopped")) as state:
        assert [run.state for run in state.runs()][-1] == "running"


def test_nothing_changes_by_being_looked_at(copy: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in copy.rglob("*") if path.is_file()}

    before = contents()
    Shelf(root=copy).summaries()

    assert contents() == before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b"no database"), "is damaged"),
        (lambda path: path.write_bytes(b""), "is damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), ""),
    ],
)
def test_a_damaged_folder_is_said_to_be_one(copy: Path, damage, said: str) -> None:
    damage(copy / "stopped" / layout.STATE)
    found = by_name(copy)

    assert found["finished"].state == "complete"
    assert found["stopped"].state == "unreadable"
    assert said in found["stopped"].reason


def test_a_folder_of_a_newer_version_says_so(copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(copy / "stopped" / layout.STATE)) as db, db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")

    assert "format 99" in by_name(copy)["stopped"].reason


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"hypothesis": 1}', '{"hypothesis": {"claim": 1, "verdict": "<b>", "reason": ""}}', "[" * 100_000],
)
def test_findings_that_are_none_give_no_verdict(copy: Path, text: str) -> None:
    (copy / "finished" / layout.FINDINGS).write_text(text)
    found = by_name(copy)["finished"]

    assert (found.state, found.verdict) == ("complete", "")


def test_a_verdict_before_the_last_block_is_called_provisional_and_its_reason_is_a_sentence(copy: Path) -> None:
    assert not by_name(copy)["finished"].provisional
    path = copy / "finished" / layout.FINDINGS
    findings = json.loads(path.read_text())
    findings["hypothesis"]["provisional"] = True
    path.write_text(json.dumps(findings))
    shown = by_name(copy)["finished"].as_dict()

    assert (shown["verdict"], shown["provisional"]) == ("supported", True)
    assert shown["reason"] == findings["hypothesis"]["reason"]["text"]


def test_what_has_to_be_said_with_a_verdict_is_in_the_list(copy: Path) -> None:
    assert by_name(copy)["finished"].beside == ()
    path = copy / "finished" / layout.FINDINGS
    findings = json.loads(path.read_text())
    findings["caveats"] += [
        {"code": "another-attempt", "text": "Attempt 3 at this claim."},
        {"code": "unequal-failures", "text": "off failed in 4 of 10 attempts\x1b[2J"},
        {"code": "steal", "text": "The machine is shared."},
    ]
    path.write_text(json.dumps(findings))
    attempt, failures = by_name(copy)["finished"].as_dict()["beside"]

    assert attempt == "Attempt 3 at this claim."
    assert failures.startswith("off failed in 4 of 10 attempts")
    assert "\x1b" not in failures


def test_hostile_texts_come_out_visible(copy: Path) -> None:
    path = copy / "finished" / layout.FINDINGS
    findings = json.loads(path.read_text())
    findings["hypothesis"]["claim"] = "<script>alert(1)</script>\x1b[2J\u202e"
    path.write_text(json.dumps(findings))
    (copy / "finished").rename(copy / "=cmd|\x1b[2J<img src=x>")
    (found,) = (one.as_dict() for one in Shelf(root=copy).summaries() if one.verdict)

    assert found["name"] == "=cmd|\\x1b[2J<img src=x>"
    assert found["claim"] == "<script>alert(1)</script>\\x1b[2J\\u202e"


def test_a_summary_follows_what_happens(tmp_path: Path) -> None:
    shelf = Shelf(root=tmp_path)
    assert shelf.summaries() == []

    write_result_folder(tmp_path / "first", runs=3)
    assert [one.done for one in shelf.summaries()] == [3]

    shutil.rmtree(tmp_path / "first")
    assert shelf.summaries() == []
