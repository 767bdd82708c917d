"""Where others may put something else in the place of a folder, pgtrial writes nothing, and reads through no link."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.hosts.operations import Operations
from pgtrial.store.journal import Journal
from support import write_result_folder

NOBODY = 65534
TEXT = """
format = 1
experiment = { name = "calm" }
hypothesis = { claim = "b is better", arm = "b", expect = "better" }
dataset = { scale = 1 }
workload = { mix = "select-only", clients = 1, duration = "3s" }
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""


@pytest.fixture(params=["writable", "owned"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory of which a neighbour may rename what is in it."""
    place = tmp_path / "shared"
    place.mkdir()
    if request.param == "writable":
        place.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    else:
        pytest.skip("only root can give a directory away")
    yield place
    place.chmod(0o700)


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["run", "calibrate", "demo"])
@pytest.mark.parametrize("below", ["", "new/results"])
def test_no_result_folder_is_made_where_others_may_replace_it(
    shared: Path, command: str, below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.toml").write_text(TEXT)
    file = [] if command == "demo" else [str(tmp_path / "e.toml")]

    assert main([command, *file, "-q", "--results", str(shared / below)]) == 1

    said = capsys.readouterr().err
    assert f'others may change "{shared}"' in said
    assert "hint: Choose a directory of your own" in said
    assert list(shared.iterdir()) == []


def test_a_directory_with_the_sticky_bit_is_no_danger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o1777)

    assert main(["report", str(write_result_folder(tmp_path / "results" / "mine"))]) == 0
    assert "report:" in capsys.readouterr().out


def test_a_folder_that_others_may_replace_is_read_and_not_written(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_result_folder(shared / "theirs")
    before = contents(shared)

    assert main(["report", str(folder)]) == 1
    assert "--output" in capsys.readouterr().err
    assert main(["resume", str(folder)]) == 1
    assert "Copy the folder" in capsys.readouterr().err
    for command in (
        ("report", str(folder), "--output", str(tmp_path / "page.html")),
        ("status", str(folder)),
        ("export", str(folder), "--format", "markdown"),
        ("export", str(folder), "--bundle", "-o", str(tmp_path / "b.zip")),
        ("narrate", str(folder)),
        ("apply", str(folder)),
        ("compare", str(folder), str(write_result_folder(tmp_path / "mine"))),
    ):
        assert main([*command]) in (0, 1), command
        assert "others may change" not in capsys.readouterr().err, command

    assert contents(shared) == before
    assert (tmp_path / "page.html").exists()


def test_a_copy_of_such_a_folder_is_reported(shared: Path, tmp_path: Path) -> None:
    folder = write_result_folder(shared / "theirs")

    assert main(["report", str(shutil.copytree(folder, tmp_path / "mine", symlinks=True))]) == 0


@pytest.mark.parametrize("name", ["runs", "files", "runs/a", "files/a.sql"])
def test_no_link_in_a_folder_is_followed_to_read(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, elsewhere = write_result_folder(tmp_path / "folder"), tmp_path / "elsewhere"
    place = folder / name
    if place.exists():
        place.rename(elsewhere)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)

    for command in (
        ("report", str(folder)),
        ("status", str(folder)),
        ("resume", str(folder)),
        ("export", str(folder), "--format", "jsonl"),
        ("export", str(folder), "--bundle", "-o", str(tmp_path / "b.zip")),
        ("narrate", str(folder)),
        ("apply", str(folder)),
        ("compare", str(folder), str(write_result_folder(tmp_path / "mine"))),
    ):
        assert main([*command]) == 1, command
        assert f'"{place}" is a link' in capsys.readouterr().err


def test_no_journal_is_kept_where_others_may_replace_it(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PGTRIAL_STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("PGTRIAL_STATE_DIRECTORY", str(shared / "state"))

    with pytest.raises(Exception, match=f'others may change "{shared}"'):
        Journal.open(write=True)
    assert list(shared.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "PGTRIAL_STATE_DIRECTORY", "HOME"])
def test_an_ordinary_user_keeps_no_journal_there_either(tmp_path: Path, variable: str) -> None:
    """By the system's own word on who he is, in a process of its own."""
    home = tmp_path / "neighbours"
    home.mkdir()
    os.chown(home, 1, 1)
    home.chmod(0o777)
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_mode & 0o011 != 0o011:
            place.chmod(place.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        status = 9
        try:
            for name in ("XDG_STATE_HOME", "PGTRIAL_STATE_DIRECTORY"):
                os.environ.pop(name, None)
            os.environ[variable] = str(home / "state")
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                Journal.open(write=True)
            except Exception as err:
                status = 0 if f'others may change "{home}"' in str(err) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(home.iterdir()) == []


def test_a_link_that_somebody_else_made_is_changeable(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a link away")
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    shared.mkdir()
    shared.chmod(0o1777)
    mine.mkdir()
    (shared / "theirs").symlink_to(mine)
    os.chown(shared / "theirs", NOBODY, NOBODY, follow_symlinks=False)
    find = Operations().find_changeable

    assert find(str(shared / "theirs")) == str(shared / "theirs")
    assert find(f"{shared}/theirs/../mine") == str(shared / "theirs")  # not what the text alone leads to


@pytest.mark.parametrize(("group", "is_safe"), [("own", True), ("shared", False)])
def test_a_group_in_which_a_user_is_alone_is_nobody_else(
    group: str, *, is_safe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the umask is 002 and each user has a group of his own."""
    import grp
    import pwd

    place = tmp_path / "work"
    place.mkdir()
    place.chmod(0o775)
    number = 4_000_000 if os.geteuid() == 0 else os.getegid()
    if os.geteuid() == 0:
        for each in (tmp_path, place):
            os.chown(each, 4_000_000, number)
    user = pwd.struct_passwd(("he", "x", 4_000_000, number, "", "/", "/bin/sh"))
    members = [] if group == "own" else ["she"]
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid)
    monkeypatch.setattr(os, "getegid", lambda: number)
    monkeypatch.setattr(pwd, "getpwall", lambda: [user])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("he", "x", gid, members)))

    assert (Operations().find_changeable(str(place)) == "") == is_safe
