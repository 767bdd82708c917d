import os
import shutil
import subprocess
import time

import pytest

from pgtrial.engine.status import OWN_ROLE, mark_of, sweep
from pgtrial.errors import StoreError
from pgtrial.hosts.processes import MARK, find_marked, find_server_children, identify
from pgtrial.model.arm import Arm, Role
from pgtrial.model.run import LoadLevel, RunState, Slot
from pgtrial.store.state import State
from support import PATIENCE

SLOT = Slot(number=1, block=1, position=1, arm="a")


@pytest.fixture
def folder(tmp_path):
    """A result folder whose first run was begun."""
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
    state = State.open(folder, write=True)
    found = identify(process.pid)
    state.add_process(pid=found.pid, start_ticks=found.start_ticks, boot_id=found.boot_id, role=role, t=0.0)
    state.close()


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
    data = tmp_path / "work" / "data"
    data.mkdir(parents=True)
    state = State.open(folder, write=True)
    state.add_work_directory(data.parent, variant="v")
    state.add_work_directory(tmp_path / "nowhere")
    state.close()
    child = start_sleeper(title="postgres: pgtrial: postgres pgtrial [local] SELECT", place=data)
    shell = start_sleeper(place=data)
    while not find_server_children(str(data)):
        time.sleep(0.01)

    assert sweep(folder) == 1
    assert child.wait(timeout=PATIENCE) != 0
    assert shell.poll() is None


def test_unfinished_run_is_interrupted_and_its_raw_files_are_removed(folder):
    assert sweep(folder) == 0

    state = State.open(folder)
    (run,) = state.runs()
    state.close()
    assert (run.state, run.reason) == (RunState.INTERRUPTED, "pgtrial ended during this run")
    assert list((folder / "runs" / run.folder).iterdir()) == []


def test_copy_of_a_folder_in_use_ends_nothing(folder, start_sleeper):
    pgtrial, server = start_sleeper(), start_sleeper()
    record(folder, pgtrial, OWN_ROLE)
    record(folder, server, "server")

    with pytest.raises(StoreError, match="copy of one that is in use"):
        sweep(folder)

    assert pgtrial.poll() is None
    assert server.poll() is None
    state = State.open(folder)
    assert [run.state for run in state.runs()] == [RunState.RUNNING]
    state.close()


def test_pgtrial_does_not_end_itself(folder, start_sleeper):
    class Own:
        pid = os.getpid()

    record(folder, Own, OWN_ROLE)

    assert sweep(folder) == 0
