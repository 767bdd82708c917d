import asyncio
import os
import signal
import time
import tomllib
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.events import ignore
from pgtrial.engine.hooks import HOOK, Hooks
from pgtrial.errors import TargetError, WorkloadError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.code_uses import find_code_uses
from pgtrial.experiment_file.experiment import Experiment, HooksTable
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify
from pgtrial.model.run import RunRow, RunState, Slot
from pgtrial.store.state import State
from support import EXPERIMENT, wait_until
from support.schedules import make_schedule

SLOT = Slot(number=3, block=2, position=1, arm="off")


def hooks(state: State, folder: Path, **table: Any) -> Hooks:
    return Hooks(table=HooksTable(**table), host=LocalHost(), state=state, folder=folder, tell=ignore)


def test_a_hook_is_told_what_it_is_about_and_is_recorded(state, tmp_path):
    script = f'printf "%s %s %s %s" $PGTRIAL_HOOK $PGTRIAL_BLOCK $PGTRIAL_RUN $PGTRIAL_ARM > {tmp_path}/told'

    asyncio.run(hooks(state, tmp_path, before_run=["sh", "-c", script]).run("before_run", SLOT))

    assert (tmp_path / "told").read_text() == "before_run 2 3 off"
    ((_, kind, event),) = state.events()
    assert (kind, event["moment"], event["status"]) == (HOOK, "before_run", 0)


def test_a_moment_without_a_program_is_nothing(state, tmp_path):
    asyncio.run(hooks(state, tmp_path).run("after_block", SLOT))

    assert state.events() == ()


def test_a_hook_that_fails_says_why(state, tmp_path):
    failing = hooks(state, tmp_path, after_dataset=["sh", "-c", "echo no such replica >&2; exit 7"])

    with pytest.raises(TargetError, match="the hook after_dataset ended with status 7") as caught:
        asyncio.run(failing.run("after_dataset"))

    assert caught.value.detail == "no such replica"
    assert caught.value.hint == "Mend the program and run it again."
    assert state.events()[0][2]["status"] == 7


def test_a_hook_whose_time_is_over_is_ended_with_all_that_it_started(state, tmp_path):
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    table = hooks(state, tmp_path, before_block=["sh", "-c", script], timeout="300ms")
    begun = time.monotonic()

    with pytest.raises(TargetError, match="the hook before_block took longer than 300 ms"):
        asyncio.run(table.run("before_block", SLOT))

    assert time.monotonic() - begun < 60
    assert state.events()[0][2]["status"] is None
    wait_until(lambda: identify(int((tmp_path / "pid").read_text())) is None)


def test_what_a_hook_leaves_running_with_its_output_is_not_waited_for(state, tmp_path):
    started = f"sleep 600 & echo $! > {tmp_path}/pid; echo ready"
    begun = time.monotonic()

    asyncio.run(hooks(state, tmp_path, before_run=["sh", "-c", started], timeout="20s").run("before_run", SLOT))

    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # it was still there
    assert time.monotonic() - begun < 10
    assert state.events()[0][2]["status"] == 0


def test_of_a_hook_that_writes_without_end_the_end_is_kept(state, tmp_path):
    script = "head -c 30000000 /dev/zero; printf 'line %s\\n' $(seq 20000) >&2; exit 1"

    tracemalloc.start()
    try:
        with pytest.raises(TargetError) as caught:
            asyncio.run(hooks(state, tmp_path, before_run=["sh", "-c", script]).run("before_run", SLOT))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert caught.value.detail.splitlines() == [f"line {number}" for number in range(19995, 20001)]
    assert most < 10_000_000


def test_hooks_stand_around_blocks_and_runs(tmp_path):
    log = tmp_path / "log"

    async def does(rows: Sequence[RunRow], _most_disturbed: float | None) -> None:
        with log.open("a") as file:
            file.write(f"run {rows[0].slot.number}\n")

    argv = ["sh", "-c", f"echo $PGTRIAL_HOOK $PGTRIAL_BLOCK $PGTRIAL_RUN >> {log}"]
    content = tomllib.loads(EXPERIMENT)
    moments = ("before_block", "after_block", "before_run", "after_run")
    content["hooks"] = dict.fromkeys(moments, argv)
    schedule = make_schedule(content, tmp_path, does=does)
    planned, count = schedule.planned, len(schedule.planned.arms)
    asyncio.run(schedule.run(planned.slots[: 2 * count]))
    states = {run.state for run in schedule.state.runs()}
    schedule.state.close()

    expected = [
        line
        for block in (1, 2)
        for line in (
            f"before_block {block}",
            *(
                line
                for slot in planned.slots[count * (block - 1) : count * block]
                for line in (
                    f"before_run {block} {slot.number}",
                    f"run {slot.number}",
                    f"after_run {block} {slot.number}",
                )
            ),
            f"after_block {block}",
        )
    ]
    assert log.read_text().splitlines() == expected
    assert states == {RunState.DONE}


def test_after_an_attempt_whose_first_hook_failed_the_other_is_called_as_well(tmp_path):
    log = tmp_path / "log"
    content = tomllib.loads(EXPERIMENT)
    content["hooks"] = {"before_run": ["false"], "after_run": ["sh", "-c", f"echo $PGTRIAL_HOOK >> {log}"]}
    schedule = make_schedule(content, tmp_path)
    with pytest.raises(WorkloadError, match="before_run"):
        asyncio.run(schedule.run(schedule.planned.slots[:1]))
    attempts = len(schedule.state.runs())
    schedule.state.close()

    assert log.read_text().splitlines() == ["after_run"] * attempts


def test_a_hook_that_fails_after_a_block_says_how_to_go_on(tmp_path):
    content = tomllib.loads(EXPERIMENT)
    content["hooks"] = {"after_block": ["false"]}
    schedule = make_schedule(content, tmp_path)

    with pytest.raises(TargetError) as caught:
        asyncio.run(schedule.run(schedule.planned.slots))
    schedule.state.close()

    assert caught.value.hint.startswith('Mend the program and continue with "pgtrial resume ')


def test_hooks_are_code_of_the_file():
    content = tomllib.loads(EXPERIMENT)
    content["hooks"] = {"before_run": ["touch", "/tmp/x"]}
    experiment = Experiment.model_validate(content)

    (use,) = find_code_uses(experiment, resolve_arms(experiment), {})

    assert (use.where, use.what) == ("hooks.before_run", "a command with the rights of pgtrial: touch /tmp/x")
