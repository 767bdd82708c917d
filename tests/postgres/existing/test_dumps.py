import os
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError
from pgtrial.model.change import Change, JournalEntry, Outcome
from pgtrial.postgres.existing.dumps import plan_dump, undo_dump
from pgtrial.safe_files import new_path


def entry_of(change: Change, *, inode: int | None) -> JournalEntry:
    got = None if inode is None else {"inode": str(inode)}
    return JournalEntry(id=1, t=0.0, host="local", boot_id="x", folder="/a.toml", run=None, change=change, got=got)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("missing/a.dump", "No such file or directory"),
        ("file/a.dump", "Not a directory"),
        (f"{'x' * 256}", "File name too long"),
        (f"{'x' * 256}/a.dump", "File name too long"),
    ],
)
def test_where_no_dump_can_be_is_said_before_it_is_begun(tmp_path: Path, where: str, said: str) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(PreflightError, match=f'^cannot write ".*{where}": {said}$'):
        plan_dump(tmp_path / where, "shop")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everywhere")
def test_a_directory_that_cannot_be_read_is_said_before_it_is_begun(tmp_path: Path) -> None:
    place = tmp_path / "closed"
    place.mkdir(mode=0)

    with pytest.raises(PreflightError, match="Permission denied"):
        plan_dump(place / "a.dump", "shop")


@pytest.mark.parametrize("name", ["件" * 82, "é" * 127, "x" * 255], ids=["three bytes", "two", "one"])
def test_a_long_name_has_a_directory_beside_it(tmp_path: Path, name: str) -> None:
    change = plan_dump(tmp_path / name, "shop")

    with new_path(tmp_path / name, change.new["directory"]) as part:
        part.write_text("data")

    assert (tmp_path / name).read_text() == "data"
    assert undo_dump(entry_of(change, inode=None)).outcome is Outcome.RESTORED


@pytest.mark.parametrize("inode", [None, 1])
@pytest.mark.parametrize("is_file", [False, True])
def test_of_a_directory_that_is_gone_nothing_is_left(tmp_path: Path, inode: int | None, is_file: bool) -> None:
    place = tmp_path / "place"
    place.mkdir()
    entry = entry_of(plan_dump(place / "a.dump", "shop"), inode=inode)
    place.rmdir()
    if is_file:
        place.write_text("")

    assert undo_dump(entry).outcome is Outcome.RESTORED


def test_what_was_never_written_to_ends_whatever_is_there(tmp_path: Path) -> None:
    change = plan_dump(tmp_path / "a.dump", "shop")
    (tmp_path / change.new["directory"] / "precious").mkdir(parents=True)

    undone = undo_dump(entry_of(change, inode=None))

    assert undone.outcome is Outcome.CHANGED
    assert undone.text == f'"{tmp_path / change.new["directory"]}" is left as it is: Directory not empty.'


def test_a_dump_that_is_being_written_elsewhere_is_left(tmp_path: Path) -> None:
    """Its process id means nothing in another container, and not on another machine."""
    change = plan_dump(tmp_path / "a.dump", "shop")

    with new_path(tmp_path / "a.dump", change.new["directory"]) as part:
        part.write_text("data")
        inode = part.parent.stat().st_ino
        undone = [undo_dump(entry_of(change, inode=number)) for number in (inode, None)]

    assert [each.outcome for each in undone] == [Outcome.FAILED, Outcome.FAILED]
    assert "is in use" in undone[0].text
    assert (tmp_path / "a.dump").read_text() == "data"
