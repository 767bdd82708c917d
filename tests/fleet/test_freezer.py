"""A worker on the measured host stands still while a run is measured, and at no other time, whoever is killed."""

import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.design.duration import guard_time
from pgtrial.design.plan import Plan, make_plan
from pgtrial.engine.events import LoadProgress, PhaseStarted, RunEnded
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.fleet import freezer as freezer_module
from pgtrial.fleet.freezer import Freezer, longest_freeze
from pgtrial.model.run import PhaseName, RunState, Slot
from support import EXPERIMENT
from support.waiting import PATIENCE, wait_until

MEASURE = PhaseStarted(name=PhaseName.MEASURE)
# One that starts a worker and says its number; it ends with its input, and the worker does not.
_STARTS = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
_FREEZES = (
    "import sys; from pgtrial.fleet.freezer import Freezer; from pgtrial.engine.events import PhaseStarted;"
    "from pgtrial.model.run import PhaseName; found = Freezer(int(sys.argv[1])).__enter__();"
    "found.tell(PhaseStarted(name=PhaseName.MEASURE)); print('frozen', flush=True); sys.stdin.read()"
)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def assert_frozen(pid: int) -> None:
    assert wait_until(lambda: state_of(pid), lambda state: state == "T")


def assert_at_work(pid: int) -> None:
    assert wait_until(lambda: state_of(pid), lambda state: state == "S")


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(freezer_module, "_LOOK", 0.05)


def test_it_stands_still_while_a_run_is_measured(worker):
    with Freezer(worker.pid) as freezer:
        freezer.tell(PhaseStarted(name=PhaseName.WARMUP))
        assert_at_work(worker.pid)
        freezer.tell(MEASURE)
        assert_frozen(worker.pid)
        freezer.tell(LoadProgress(tps=1.0, latency=None))
        assert_frozen(worker.pid)
        freezer.tell(
            RunEnded(
                slot=Slot(number=1, block=1, arm="a", position=1),
                state=RunState.DONE,
                reason="",
                seconds=1.0,
                not_load=0.0,
                tps=None,
            )
        )
        assert_at_work(worker.pid)
        freezer.tell(MEASURE)
        assert_frozen(worker.pid)
    assert_at_work(worker.pid)


def test_it_goes_on_where_the_engine_is_killed(worker):
    command = [sys.executable, "-c", _FREEZES, str(worker.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"frozen\n"
        assert_frozen(worker.pid)
        engine.kill()
    assert_at_work(worker.pid)


def test_it_goes_on_where_who_has_started_it_is_gone(often):
    command = [sys.executable, "-c", _STARTS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        assert leader.stdin is not None
        pid = int(leader.stdout.readline())
        try:
            with Freezer(pid) as freezer:
                freezer.tell(MEASURE)
                assert_frozen(pid)
                leader.stdin.close()
                leader.wait()
                assert_at_work(pid)
                assert wait_until(lambda: freezer.awake > 3 * freezer_module._LOOK, bool)
                assert freezer.take_awake() > 0.0
        finally:
            os.kill(pid, signal.SIGKILL)


def test_the_first_process_of_a_container_is_not_said_to_stand_still(often, monkeypatch):
    """The kernel ignores a SIGSTOP for it that comes from inside."""
    sent = []
    monkeypatch.setattr(Freezer, "_send", lambda _self, number: sent.append(number))
    with Freezer(1) as freezer:
        freezer.tell(MEASURE)
        assert wait_until(lambda: freezer.awake > 3 * freezer_module._LOOK, bool)
        assert not freezer.is_frozen
        assert freezer.take_awake() > 0.0
    assert sent == []


# A worker that listens, and answers what it is sent.
_ANSWERS = (
    "import socket; server = socket.create_server(('127.0.0.1', 0)); print(server.getsockname()[1], flush=True)\n"
    "while True:\n    other, _ = server.accept()\n    other.sendall(other.recv(1))\n"
)


@pytest.fixture
def listener() -> Iterator[tuple[int, int]]:
    """The number of a process that answers, and its port."""
    with subprocess.Popen([sys.executable, "-c", _ANSWERS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.kill()


def answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as asking:
        asking.sendall(b"x")
        return asking.recv(1) == b"x"


def test_it_answers_who_asks_it_and_stands_still_again(listener, often):
    pid, port = listener
    with Freezer(pid) as freezer:
        freezer.tell(MEASURE)
        assert_frozen(pid)
        assert answers(port)
        assert_frozen(pid)


def test_how_long_it_is_kept_awake_while_a_run_is_measured_is_known(listener, often):
    pid, port = listener
    with Freezer(pid) as freezer:
        freezer.tell(MEASURE)
        for _ in range(3):
            assert_frozen(pid)
            assert answers(port)
        assert_frozen(pid)
        awake = freezer.take_awake()

        assert awake >= 3 * freezer_module._LOOK
        assert freezer.take_awake() == 0.0


def test_what_was_on_its_way_as_it_was_stopped_does_not_count(listener, often):
    pid, port = listener
    with Freezer(pid) as freezer:
        freezer.tell(MEASURE)
        assert_frozen(pid)
        assert answers(port)
        assert_frozen(pid)

        assert freezer.take_awake() == 0.0


def test_it_has_time_to_answer(listener, monkeypatch):
    monkeypatch.setattr(freezer_module, "_LOOK", 2.0)
    pid, port = listener
    with Freezer(pid) as freezer:
        freezer.tell(MEASURE)
        assert_frozen(pid)  # else it may let in who asks, and wait for a word of him
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE):
            assert wait_until(lambda: not freezer.is_frozen, bool)
            freezer.tell(MEASURE)  # of the next level
            assert not freezer.is_frozen


# -- for how long --------------------------------------------------------------------------------------------


def planned(**design: object) -> Plan:
    """Of an experiment with three load levels of 100 s each."""
    tables = tomllib.loads(EXPERIMENT)
    tables["workload"] |= {"clients": [1, 2, 100], "duration": "100s"}
    tables["design"] |= design
    return make_plan(Experiment.model_validate(tables))


def test_it_stands_still_over_all_levels_of_a_run():
    plan = planned(method="blocks")

    assert sum(100 + guard_time(level) for level in plan.levels) < longest_freeze(plan) < 2 * 3 * 100


def test_it_stands_still_over_the_turns_of_all_arms_in_blocks_of_either_kind():
    plan = planned(method="interleaved")
    counted = sum(step.length - step.guard for step in plan.steps)

    assert counted >= 2 * 100
    assert longest_freeze(plan) > 3 * sum(step.length for step in plan.steps)
