"""A disk, or what stands for one, that takes no more: one clear error, with what to do."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrial.cli.text import hint_no_room
from pgtrial.errors import StoreError
from support import write_result_folder

FULL = "hint: Free some space on that disk"
SMALL = 'hint: Files may be no larger here: raise the limit that "ulimit -f" shows'


def run(*arguments: str, output: str = "/dev/null", largest: int = 0) -> tuple[int, str]:
    def limit() -> None:
        if largest:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    with Path(output).open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pgtrial", *arguments],  # compiled modules would be cut off, and stay so
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            preexec_fn=limit,
            check=False,
        )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("no-room") / "r")


@pytest.mark.parametrize("command", [["--help"], ["schema"], ["run", "--help"]])
def test_an_output_that_is_full_is_no_bug_of_pgtrial(command: list[str]) -> None:
    status, text = run(*command, output="/dev/full")

    assert status == 1
    assert text.startswith("error: cannot write the output: No space left on device\n")
    assert FULL in text
    assert "bug" not in text


def test_a_file_that_may_not_be_as_large_says_so(tmp_path: Path) -> None:
    status, text = run("init", str(tmp_path / "e.toml"), largest=100)

    assert status == 2
    assert text.startswith(f'error: cannot write "{tmp_path / "e.toml"}": File too large\n')
    assert SMALL in text


def test_a_page_that_may_not_be_as_large_says_so(folder: Path, tmp_path: Path) -> None:
    status, text = run("report", str(folder), "--output", str(tmp_path / "r.html"), largest=200_000)

    assert status == 1
    assert SMALL in text


def test_a_database_that_cannot_be_opened_for_want_of_room_says_what_to_look_at(folder: Path) -> None:
    status, text = run("status", str(folder), largest=2048)

    assert status == 1
    assert "disk I/O error\nhint: See with " in text


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("could not extend file: No space left on device", "Free some space"),
        ("could not write: Disk quota exceeded", "Free some space"),
        ("database or disk is full", "Free some space"),
        ("File too large", "ulimit -f"),
        ("it has more than 5 bytes", ""),
    ],
)
def test_who_said_it_does_not_matter(words: str, hint: str) -> None:
    error = StoreError("cannot write")
    error.__cause__ = ValueError(words)

    assert hint in hint_no_room(error)
    assert bool(hint) == bool(hint_no_room(error))
