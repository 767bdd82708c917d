"""Arms that take turns, with programs in place of servers: who is at work when, and that all are at the end."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pgtrial.design.slices import Step
from pgtrial.engine.slicer import task as task_module
from pgtrial.engine.slicer.freeze import find_unpinnable, freeze, pin, thaw
from pgtrial.engine.slicer.task import Task, Twin, take_turns
from pgtrial.errors import WorkloadError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import family
from support import wait_until

# Writes the time down again and again, and so does a child of it, as a server's do.
PROGRAM = """
import os, sys, time
path = sys.argv[1]
if os.fork() == 0:
    path += ".child"
with open(path, "w", buffering=1) as file:
    while True:
        file.write(f"{time.time()}\\n")
        time.sleep(0.002)
"""
LATE = 0.1  # s, by which a process of a busy machine may write after it was told to stop


@pytest.fixture
def programs(tmp_path):
    """Two of them, each with what it writes."""
    started = {}
    for name in ("a", "b"):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / name)])
        started[name] = process
        while not ((tmp_path / name).exists() and (tmp_path / f"{name}.child").exists()):
            time.sleep(0.01)
    yield started
    for process in started.values():
        for pid in reversed(family(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def states(process: subprocess.Popen) -> set[str]:
    return {"T" if state(pid) == "T" else "going" for pid in family(process.pid)}


def task_of(programs, *steps: Step, **more) -> Task:
    twins = {name: Twin(server=process.pid, others=()) for name, process in programs.items()}
    return Task(twins=twins, steps=steps, **more)


def turns(*names: str, length: float = 0.3) -> list[Step]:
    return [Step(arms=(name,), length=length, guard=0.1) for name in names]


def test_a_family_stands_still_and_goes_on(programs):
    server = programs["a"].pid
    assert len(family(server)) == 2

    stopped = freeze(server, [])
    wait_until(lambda: states(programs["a"]) == {"T"})
    assert states(programs["b"]) == {"going"}

    assert stopped == family(server)

    thaw(stopped)
    assert states(programs["a"]) == {"going"}


def test_a_program_stands_still_with_all_that_it_has_started(programs):
    program = programs["a"].pid

    stopped = freeze(None, [], [program])

    wait_until(lambda: states(programs["a"]) == {"T"})
    assert stopped == family(program)
    assert len(stopped) == 2
    thaw(stopped)
    assert states(programs["a"]) == {"going"}


def test_what_has_ended_is_nobody():
    process = subprocess.Popen(["true"])
    process.wait()
    assert family(process.pid) == []
    thaw(freeze(process.pid, [process.pid]))
    pin([process.pid], [0])


def test_each_is_at_work_in_its_own_slices_only(programs, tmp_path):
    steps = turns("a", "b", "b", "a")

    slices = asyncio.run(take_turns(LocalHost(), task_of(programs, *steps), level=3))

    assert {name: [one.number for one in found] for name, found in slices.items()} == {"a": [0, 3], "b": [1, 2]}
    every = sorted((one for found in slices.values() for one in found), key=lambda one: one.number)
    assert all(one.level == 3 for one in every)
    assert all(one.ended - one.started >= 0.3 for one in every)
    assert all(one.counted - one.started == pytest.approx(0.1) for one in every)
    assert all(later.started >= earlier.ended for earlier, later in itertools.pairwise(every))
    for name, other in (("a", "b"), ("b", "a")):
        for path in (tmp_path / name, tmp_path / f"{name}.child"):
            written = [float(line) for line in path.read_text().splitlines()]
            for one in slices[other]:
                assert not [t for t in written if one.started + LATE < t < one.ended]
            for one in slices[name]:
                assert [t for t in written if one.started <= t <= one.ended]
    for process in programs.values():
        assert states(process) == {"going"}


def test_values_of_the_kernel_go_with_the_arm(programs, tmp_path):
    value = tmp_path / "value"
    values = {"a": [(str(value), "of a")], "b": [(str(value), "of b")]}

    asyncio.run(take_turns(LocalHost(), task_of(programs, *turns("b", "a"), values=values), level=0))
    assert value.read_text() == "of a\n"


def test_two_at_once_change_places_and_get_all_cpus_back(programs):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("this machine has one CPU")
    step = Step(arms=("a", "b"), length=0.4, guard=0.1)
    swapped = Step(arms=("b", "a"), length=0.4, guard=0.1)
    seen = []

    async def watch() -> None:
        task = task_of(programs, step, swapped, cpu_sets=((cpus[0],), (cpus[1],)))
        working = asyncio.ensure_future(take_turns(LocalHost(), task, level=0))
        while not working.done():
            seen.append(tuple(frozenset(os.sched_getaffinity(programs[name].pid)) for name in "ab"))
            await asyncio.sleep(0.02)
        await working

    asyncio.run(watch())
    one, other, everywhere = frozenset(cpus[:1]), frozenset(cpus[1:2]), frozenset(cpus)
    assert {(one, other), (other, one)} <= set(seen)
    for process in programs.values():
        for pid in family(process.pid):
            assert os.sched_getaffinity(pid) == everywhere


def test_what_serves_an_arm_in_a_server_of_all_gets_its_cpus_and_never_stands_still(programs):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("this machine has one CPU")
    twins = {name: Twin(server=None, others=(), backends=(process.pid,)) for name, process in programs.items()}
    seen = set()

    async def watch(task: Task) -> None:
        working = asyncio.ensure_future(take_turns(LocalHost(), task, level=0))
        while not working.done():
            pids = [programs[name].pid for name in "ab"]
            seen.add((*(frozenset(os.sched_getaffinity(pid)) for pid in pids), *(state(pid) == "T" for pid in pids)))
            await asyncio.sleep(0.02)
        await working

    duet = (Step(arms=("a", "b"), length=0.4, guard=0.1), Step(arms=("b", "a"), length=0.4, guard=0.1))
    asyncio.run(watch(Task(twins=twins, steps=duet, cpu_sets=((cpus[0],), (cpus[1],)))))
    asyncio.run(watch(Task(twins=twins, steps=turns("a", "b"))))

    one, other, everywhere = frozenset(cpus[:1]), frozenset(cpus[1:2]), frozenset(cpus)
    assert {(one, other, False, False), (other, one, False, False)} <= seen
    assert not any(stands_still for *_, a, b in seen for stands_still in (a, b))
    assert [os.sched_getaffinity(process.pid) for process in programs.values()] == [everywhere, everywhere]


def test_a_process_that_is_gone_or_has_other_cpus_cannot_be_pinned(programs):
    cpus, (process, other) = sorted(os.sched_getaffinity(0)), programs.values()
    assert find_unpinnable(process.pid) == ""
    if len(cpus) > 1:
        os.sched_setaffinity(other.pid, {cpus[0]})
        assert find_unpinnable(other.pid) == "it may not use the same CPUs as pgtrial"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert find_unpinnable(ended.pid) == "no such process"


def test_whoever_is_cancelled_leaves_all_at_work(programs):
    async def cancel() -> None:
        working = asyncio.ensure_future(take_turns(LocalHost(), task_of(programs, *turns("a", length=30)), level=0))
        while states(programs["b"]) != {"T"}:
            await asyncio.sleep(0.01)
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working

    asyncio.run(cancel())
    assert [states(process) for process in programs.values()] == [{"going"}, {"going"}]


def test_slicer_that_is_killed_is_one_clear_error_and_leaves_all_at_work(programs):
    pids = []
    host = LocalHost(on_start=lambda process, _role: pids.append(process.pid))

    async def kill() -> None:
        working = asyncio.ensure_future(take_turns(host, task_of(programs, *turns("a", length=30)), level=0))
        while states(programs["b"]) != {"T"}:
            await asyncio.sleep(0.01)
        os.kill(pids[0], signal.SIGKILL)
        await working

    with pytest.raises(WorkloadError, match="the arms no longer take turns: the slicer was killed"):
        asyncio.run(kill())
    assert [states(process) for process in programs.values()] == [{"going"}, {"going"}]


def test_children_of_a_server_that_was_killed_go_on(programs):
    server, child = family(programs["b"].pid)

    async def kill() -> None:
        working = asyncio.ensure_future(take_turns(LocalHost(), task_of(programs, *turns("a", "b")), level=0))
        while states(programs["b"]) != {"T"}:
            await asyncio.sleep(0.01)
        os.kill(server, signal.SIGKILL)
        programs["b"].wait()
        await working

    with pytest.raises(WorkloadError, match="No such process"):
        asyncio.run(kill())
    try:
        assert state(child) != "T"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_value_that_the_kernel_refuses_is_said(programs, tmp_path):
    values = {"a": [(str(tmp_path / "no" / "such"), "1")]}
    with pytest.raises(WorkloadError, match="No such file or directory"):
        asyncio.run(take_turns(LocalHost(), task_of(programs, *turns("a"), values=values), level=0))
    assert [states(process) for process in programs.values()] == [{"going"}, {"going"}]


def test_pgtrial_that_is_killed_leaves_all_at_work(programs):
    task = {**task_module._as_json(task_of(programs, *turns("a", length=30))), "parent": 0}
    # A parent that starts the slicer, and is killed while one of the programs stands still.
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                "import json, os, subprocess, sys\n"
                "task = json.loads(sys.argv[1]) | {'parent': os.getpid()}\n"
                "slicer = subprocess.Popen([sys.executable, '-m', 'pgtrial.engine.slicer'], stdin=subprocess.PIPE)\n"
                "slicer.stdin.write(json.dumps(task).encode() + b'\\n')\n"
                "slicer.stdin.flush()\n"
                "slicer.wait()\n"
            ),
            json.dumps(task),
        ]
    )
    wait_until(lambda: states(programs["b"]) == {"T"})

    parent.kill()
    parent.wait()
    wait_until(lambda: states(programs["b"]) == {"going"})
