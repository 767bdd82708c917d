import contextlib
import os
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from pgtrial.engine import leftovers
from pgtrial.engine.leftovers import OWN_ROLE, WORKER, clear, find_leftovers, mark_of, remove_memory, sweep, worker_text
from pgtrial.engine.status import read_status
from pgtrial.errors import StoreError
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import MARK, find_marked, find_server_children, identify
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import LoadLevel, RunState, Slot
from pgtrial.store.belongings import DIRECTORY, Belongings, Made
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.state import State
from support import PATIENCE
from support.programs import needs_program

SLOT = Slot(number=1, block=1, position=1, arm="a")


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def folder(tmp_path):
    """A result folder whose first run was begun."""
    tmp_path = tmp_path / "results"
    tmp_path.mkdir()
    state = State.create(tmp_path)
    state.set_plan([Arm(name="a", role=Role.CONTROL)], [LoadLevel(index=0, clients=1)], [SLOT])
    run = state.begin_run(SLOT, time.time())
    for name in ("spool", "pgbench"):
        (tmp_path / "runs" / run.folder / name).mkdir(parents=True)
        (tmp_path / "runs" / run.folder / name / "log").write_text("x")
    state.close()
    return tmp_path


@pytest.fixture
def start_sleeper():
    started = []

    def start(*, title="sleep", place=None, **environment):
        program = shutil.which("sleep")
        process = subprocess.Popen([title, "60"], executable=program, cwd=place, env={**os.environ, **environment})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def record(folder, process, role):
    Belongings.of(folder).add_process(identify(process.pid), role)


def test_what_a_killed_pgtrial_was_about_to_write_is_removed(folder, tmp_path):
    (run,) = (folder / "runs").iterdir()
    for name in (".ingest-12345678", ".samples.parquet-0123456789abcdef"):
        (run / name).mkdir()
        (run / name / "duckdb_temp").write_text("x")
    (run / "samples.parquet").write_text("whole")
    (run / ".hidden").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (run / ".ingest-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "precious").write_text("x")

    sweep(folder)

    assert sorted(path.name for path in run.iterdir()) == [".hidden", ".ingest-link", "samples.parquet"]
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_recorded_and_marked_processes_are_ended_and_no_others(folder, start_sleeper):
    recorded, marked = start_sleeper(), start_sleeper(**{MARK: mark_of(folder)})
    other = start_sleeper(**{MARK: mark_of(folder) + "-2"})
    record(folder, recorded, "load")
    while not find_marked(mark_of(folder)):
        time.sleep(0.01)

    assert sweep(folder) == 2
    assert recorded.wait(timeout=PATIENCE) != 0
    assert marked.wait(timeout=PATIENCE) != 0
    assert other.poll() is None


def test_children_that_a_killed_server_left_are_ended(folder, start_sleeper, tmp_path):
    data = tmp_path / "pgtrial-00000001" / "data"
    data.mkdir(parents=True)
    for place in (data.parent, tmp_path / "pgtrial-00000002"):
        Belongings.of(folder).add_directory(Made(path=place, host=LOCAL))
    child = start_sleeper(title="postgres: pgtrial: postgres pgtrial [local] SELECT", place=data)
    shell = start_sleeper(place=data)
    while not find_server_children(str(data)):
        time.sleep(0.01)

    assert sweep(folder) == 1
    assert child.wait(timeout=PATIENCE) != 0
    assert shell.poll() is None


def test_children_of_a_server_to_which_somebody_else_links_are_left(folder, start_sleeper, tmp_path):
    """Where a directory was removed, a neighbour has made one of its name, with a link to the data of a live server."""
    live = tmp_path / "live"
    live.mkdir()
    place = tmp_path / "pgtrial-00000001"
    Belongings.of(folder).add_directory(Made(path=place, host=LOCAL))
    if os.geteuid() == 0:
        place.mkdir()
        (place / "data").symlink_to(live)
        os.chown(place, 65534, 65534)
    else:
        place.symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "data").symlink_to(live)
    child = start_sleeper(title="postgres: walwriter", place=live)
    while not find_server_children(str(place / "data")):
        time.sleep(0.01)

    assert sweep(folder) == 0
    for leftover in find_leftovers()[0]:
        clear(leftover)
    assert child.poll() is None


def test_unfinished_run_is_interrupted_and_its_raw_files_are_removed(folder):
    assert sweep(folder) == 0

    state = State.open(folder)
    (run,) = state.runs()
    state.close()
    assert (run.state, run.reason) == (RunState.INTERRUPTED, "pgtrial ended during this run")
    assert list((folder / "runs" / run.folder).iterdir()) == []


def test_copy_of_a_folder_ends_nothing(folder, start_sleeper, tmp_path_factory):
    server = start_sleeper()
    record(folder, server, "server")
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("copies") / "copy")

    assert sweep(copy) == 0
    assert server.poll() is None


def test_copy_of_a_folder_in_use_is_left_alone(folder, start_sleeper, tmp_path_factory):
    pgtrial = start_sleeper()
    with contextlib.closing(State.open(folder, write=True)) as state:
        state.set_meta(**{WORKER: worker_text(identify(pgtrial.pid))})
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("copies") / "copy")

    with pytest.raises(StoreError, match="copy of one that is in use"):
        sweep(copy)

    assert pgtrial.poll() is None
    with contextlib.closing(State.open(copy)) as state:
        assert [run.state for run in state.runs()] == [RunState.RUNNING]


@pytest.mark.parametrize("worker", ["", "1", "x y z", "1 2 3 4", f"{2**70} 1 b"])
def test_a_worker_that_is_none_is_nobody(folder, worker):
    with contextlib.closing(State.open(folder, write=True)) as state:
        state.set_meta(**{WORKER: worker})

    assert sweep(folder) == 0


def test_what_the_state_of_a_folder_says_is_not_touched(folder, start_sleeper, tmp_path):
    """Old folders have such tables; in one from a stranger they name whatever he wants to be rid of."""
    victim, precious = start_sleeper(), tmp_path / "pgtrial-0badf00d"
    precious.mkdir()
    found = identify(victim.pid)
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as db, db:
        db.execute("CREATE TABLE process (pid, start_ticks, boot_id, role, started)")
        db.execute("CREATE TABLE work_directory (path, variant)")
        db.execute("INSERT INTO process VALUES (?, ?, ?, 'load', 0)", (found.pid, found.start_ticks, found.boot_id))
        db.execute("INSERT INTO work_directory VALUES (?, 'v')", (str(precious),))

    assert sweep(folder) == 0
    read_status(folder)
    assert find_leftovers() == ((), ())
    assert victim.poll() is None
    assert precious.is_dir()


def test_status_ends_nothing(folder, start_sleeper):
    server = start_sleeper()
    record(folder, server, "server")

    assert read_status(folder).state == "interrupted"
    assert server.poll() is None


def test_raw_files_of_a_run_that_is_a_link_stay(folder, tmp_path):
    (run,) = (folder / "runs").iterdir()
    shutil.rmtree(run)
    elsewhere = tmp_path / "elsewhere"
    for name in ("spool", "pgbench"):
        (elsewhere / name).mkdir(parents=True)
    run.symlink_to(elsewhere)

    with pytest.raises(StoreError, match="is a link, and pgtrial follows none"):
        sweep(folder)

    assert sorted(path.name for path in elsewhere.iterdir()) == ["pgbench", "spool"]


def test_leftovers_of_folders_that_are_gone_are_cleared(folder, start_sleeper, tmp_path):
    server, place = start_sleeper(), tmp_path / "pgtrial-00000003"
    (place / "data").mkdir(parents=True)
    record(folder, server, "server")
    Belongings.of(folder).add_directory(Made(path=place, host=LOCAL))
    shutil.rmtree(folder / "runs")
    (folder / "state.sqlite").unlink()

    ((left,), _) = find_leftovers()
    assert left.directories == (place,)
    assert [process.pid for process in left.processes] == [server.pid]
    clear(left)

    assert server.wait(timeout=PATIENCE) != 0
    assert not place.exists()
    assert find_leftovers() == ((), ())


def test_what_a_hook_left_running_on_purpose_is_no_leftover(folder, start_sleeper, tmp_path):
    """It ends with a pgtrial that is killed, and before a resume goes on, which calls its hooks again."""
    own, place = start_sleeper(), tmp_path / "pgtrial-00000005"
    record(folder, own, OWN_ROLE)
    own.kill()
    own.wait()
    daemon = start_sleeper(**{MARK: mark_of(folder)})
    while not find_marked(mark_of(folder)):
        time.sleep(0.01)
    ((killed,), _) = find_leftovers()
    assert [process.pid for process in killed.processes] == [daemon.pid]

    Belongings.of(folder).add_ended()
    assert find_leftovers() == ((), ())
    place.mkdir()
    Belongings.of(folder).add_directory(Made(path=place, host=LOCAL))
    ((left,), _) = find_leftovers()
    clear(left)
    assert not place.exists()
    assert daemon.poll() is None
    assert find_leftovers() == ((), ())

    assert sweep(folder) == 1
    assert daemon.wait(timeout=PATIENCE) != 0


def test_what_an_experiment_at_work_has_is_no_leftover(folder, start_sleeper, tmp_path):
    place = tmp_path / "pgtrial-00000004"
    place.mkdir()
    record(folder, start_sleeper(), OWN_ROLE)
    Belongings.of(folder).add_directory(Made(path=place, host=LOCAL))

    assert find_leftovers() == ((), ())


@pytest.mark.parametrize("name", ["precious", "pgtrial-0000000", "pgtrial-0000000g", "pgtrial-00000001/.."])
def test_only_directories_of_the_own_form_of_name_are_removed(folder, name, tmp_path):
    Belongings.of(folder).add_directory(Made(path=tmp_path / name, host=LOCAL))

    assert Belongings.of(folder).directories(LOCAL) == ()


@needs_program("ipcmk", "a package util-linux")
def test_shared_memory_is_given_back_only_if_it_is_the_servers_and_unused(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    made = subprocess.run(["ipcmk", "-M", "64"], capture_output=True, text=True, check=True).stdout.split()[-1]
    try:
        segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
        (key,) = (line[0] for line in segments if line[1] == made)
        lines = [b"1", b"d", b"0", b"5432", b"/tmp", b"", b"%9d %9d" % (int(key) + 1, int(made)), b"ready"]
        (data / "postmaster.pid").write_bytes(b"\n".join(lines))
        remove_memory(data)
        assert any(line.split()[1] == made for line in Path("/proc/sysvipc/shm").read_text().splitlines())

        (data / "postmaster.pid").write_bytes(b"\n".join([*lines[:6], b"%9d %9d" % (int(key), int(made)), b"ready"]))
        remove_memory(data)
        assert not any(line.split()[1] == made for line in Path("/proc/sysvipc/shm").read_text().splitlines())
    finally:
        subprocess.run(["ipcrm", "-m", made], check=False, capture_output=True)


def test_pgtrial_does_not_end_itself(folder, start_sleeper):
    class Own:
        pid = os.getpid()

    record(folder, Own, OWN_ROLE)

    assert sweep(folder) == 0


def test_a_record_that_cannot_be_read_hinders_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    data = tmp_path / "pgtrial-0123abcd"
    for name in ("folder", data.name):
        (tmp_path / name).mkdir()
    Belongings.of(tmp_path / "folder").add_directory(Made(path=data, host=LOCAL))
    (tmp_path / "state" / DIRECTORY / "broken.jsonl").mkdir()

    found, wrong = find_leftovers()
    assert [each.directories for each in found] == [(data,)]
    assert "broken.jsonl" in wrong[0].message


@pytest.mark.parametrize(
    "damaged", [b'{"directory": "/x', b'{"directory": "/precious", "host": "local", "variant": ""}', b"\xff"]
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_damaged_line_of_a_record_is_named_and_kept_and_hinders_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bytes, at: int
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    data = tmp_path / "pgtrial-0123abcd"
    for name in ("folder", data.name):
        (tmp_path / name).mkdir()
    Belongings.of(tmp_path / "folder").add_directory(Made(path=data, host=LOCAL))
    (record,) = (tmp_path / "state" / DIRECTORY).iterdir()
    lines = record.read_bytes().splitlines()
    lines.insert(at, damaged)
    record.write_bytes(b"".join(line + b"\n" for line in lines))

    (left,), (wrong,) = find_leftovers()
    clear(left)

    assert left.directories == (data,)
    assert not data.exists()
    assert wrong.message == f'line {at + 1} of "{record}" cannot be read'
    assert repr(damaged) in wrong.detail
    assert damaged in record.read_bytes().splitlines()
    (again,) = find_leftovers()[1]
    assert repr(damaged) in again.detail


def test_what_follows_a_line_that_was_cut_off_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    belongings = Belongings.of(tmp_path)
    belongings.add_directory(Made(path=tmp_path / "pgtrial-00000001", host=LOCAL))
    with belongings.path.open("ab") as file:
        file.write(b'{"pid": 1, "sta')

    belongings.add_directory(Made(path=tmp_path / "pgtrial-00000002", host=LOCAL))

    assert [path.name for path in belongings.paths(LOCAL)] == ["pgtrial-00000001", "pgtrial-00000002"]


def test_what_an_experiment_had_left_running_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ("sleep 900", "[postgres]", "\x1b[31mpsql", "cat", "dd")
    monkeypatch.setattr(leftovers, "end_strays", lambda *_: lines)

    leftovers.end_all_strays("folder", LocalHost())

    assert caplog.messages == [
        r"ended on local what the experiment had left running: sleep 900, [postgres], \x1b[31mpsql and 2 more"
    ]
