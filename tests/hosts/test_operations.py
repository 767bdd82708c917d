import base64
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pgtrial.hosts.operations import MARK, Operations, program_environment

ops = Operations()


def test_file_is_put_whole_with_its_owner_and_mode(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("before")

    ops.put(str(path), "after", owner=(os.getuid(), os.getgid()), mode=0o600)

    assert path.read_text() == "after"
    assert (path.stat().st_mode & 0o777) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_writing_makes_no_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        ops.write(str(tmp_path / "file"), "text")

    assert list(tmp_path.iterdir()) == []


def test_bytes_are_read_piece_by_piece(tmp_path: Path):
    (tmp_path / "from").write_bytes(bytes(range(10)))

    pieces = [base64.b64decode(ops.read_chunk(str(tmp_path / "from"), offset, 4)) for offset in (0, 4, 8, 12)]

    assert b"".join(pieces) == bytes(range(10))


def test_what_is_not_there_is_removed_already(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()

    ops.remove(str(tmp_path / "nothing"))
    ops.remove(str(tmp_path / "link"))

    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_directory_is_removed_although_something_in_it_goes_away_meanwhile(tmp_path, monkeypatch):
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "file").touch()
    calls = []

    def rmtree(path: str, ignore_errors: bool) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError
        real(path, ignore_errors)

    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", rmtree)

    ops.remove(str(directory))

    assert not directory.exists()


def test_directory_whose_owner_cannot_be_set_is_not_left(tmp_path, monkeypatch):
    def refuse(*_arguments: object, **_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)

    with pytest.raises(PermissionError):
        ops.make_directory(str(tmp_path / "new"), owner=(1, 1))

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_replaced_keeps_its_second_name(tmp_path):
    path, kept = str(tmp_path / "file"), str(tmp_path / "kept")
    ops.put(path, "old", mode=0o640)
    ops.hard_link(path, kept)
    ops.put(path, "new")
    assert (ops.read(path), ops.read(kept)) == ("new", "old")

    ops.rename(kept, path)

    assert ops.read(path) == "old"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert not ops.exists(kept)
    ops.put(kept, "there")
    with pytest.raises(FileExistsError):
        ops.hard_link(path, kept)


def test_output_of_a_program_that_fails_or_takes_too_long_is_an_error():
    assert ops.output(["echo", "a b"]) == "a b\n"
    with pytest.raises(FileNotFoundError):
        ops.output(["/nowhere/program"])
    with pytest.raises(OSError, match="non-zero exit status"):
        ops.output(["false"])
    with pytest.raises(OSError, match="timed out"):
        ops.output(["sleep", "60"], patience=0.1)


def test_programs_get_no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGHOST", "nonsense")
    monkeypatch.setenv("LANGUAGE", "de")
    monkeypatch.setenv("OTHER", "kept")

    environment = program_environment("/results/x")

    assert "PGHOST" not in environment
    assert (environment["LANGUAGE"], environment["OTHER"], environment[MARK]) == ("", "kept", "/results/x")


def test_process_is_found_by_how_its_title_begins_and_where_it_is_at_work(tmp_path: Path):
    place, other = tmp_path / "data", tmp_path / "data2"
    for directory in (place, other):
        directory.mkdir()
    (tmp_path / "link").symlink_to(place)
    program = shutil.which("sleep")
    assert program is not None
    meant, elsewhere, shell = (
        subprocess.Popen([title, "60"], executable=program, cwd=directory)
        for title, directory in (("postgres: one", place), ("postgres: two", other), ("sleep", place))
    )
    try:
        deadline = time.monotonic() + 10
        found = [[]]  # for a moment after its start a process has no title
        while not all(found) and time.monotonic() < deadline:
            found = [ops.find_titled("postgres: ", str(directory)) for directory in (tmp_path / "link", other)]
            time.sleep(0.01)
        assert found == [[(process.pid, ops.start_ticks(process.pid))] for process in (meant, elsewhere)]
    finally:
        for process in (meant, elsewhere, shell):
            process.kill()
            process.wait()
    assert ops.find_titled("postgres: ", str(place)) == []
