"""Arms that end one by one, on loads whose truth is known, with a pgtrial that is killed on the way."""

import asyncio
import multiprocessing
import os
import signal
import tomllib
from pathlib import Path

import pytest

from pgtrial.engine.experiment import is_done, pending_slots
from pgtrial.engine.status import read_status
from pgtrial.model.run import RunState
from pgtrial.store.plans import read_plan
from pgtrial.store.state import STOPPED, State
from support import Simulation
from support.schedules import Does, make_schedule, measuring, resume_schedule

TEXT = """\
format = 1

[experiment]
name = "several"

[hypothesis]
expect = "equivalent"
margin = "3%"

[workload]
mix = "simple-update"
clients = 4
duration = "2s"

[arms.a.postgresql]
commit_delay = 0

[arms.b.postgresql]
commit_delay = 10

[arms.c.postgresql]
commit_delay = 20

[arms.d.postgresql]
commit_delay = 30

[design]
blocks = 12
seed = 4
stop = "each-arm"
"""
# b is slower by 10 %, which is soon seen; d lies on the bound of the margin, where no number of blocks decides.
TRUTH = Simulation(tps={"a": 500.0, "b": 450.0, "c": 500.0, "d": 515.0}, run_sd=0.004, block_sd=0.0)


def arms_by_block(folder: Path) -> dict[int, list[str]]:
    """Those with a valid run, in the order of their runs."""
    state = State.open(folder)
    found: dict[int, list[str]] = {}
    for run in state.runs():
        if run.state is RunState.DONE:
            found.setdefault(run.slot.block, []).append(run.slot.arm)
    state.close()
    return found


def run_all(folder: Path, *, simulation: Simulation = TRUTH) -> dict[int, list[str]]:
    folder.mkdir()
    schedule = make_schedule(tomllib.loads(TEXT), folder, does=measuring(folder, simulation))
    asyncio.run(schedule.run(schedule.planned.slots))
    schedule.state.close()
    return arms_by_block(folder)


def run_until_killed(folder: Path, moment: str) -> None:
    """In a process of its own: begin or go on, until SIGKILL in the middle of block 9, or before block 6 is judged."""
    does = measuring(folder, TRUTH)

    async def dying(rows, most_disturbed):  # type: ignore[no-untyped-def]
        if moment == "in-block" and rows[0].slot.block == 9 and rows[0].slot.position == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        await does(rows, most_disturbed)

    schedule = make_schedule(tomllib.loads(TEXT), folder, does=dying)
    if moment == "before-judging":
        judge = type(schedule).judge

        async def killed(self, block):  # type: ignore[no-untyped-def]
            if block == 6:
                os.kill(os.getpid(), signal.SIGKILL)
            return await judge(self, block)

        type(schedule).judge = killed
    asyncio.run(schedule.run(schedule.planned.slots))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, list[str]]]:
    folder = tmp_path_factory.mktemp("each-arm") / "r"
    return folder, run_all(folder)


def test_an_arm_that_is_decided_is_not_run_any_more(undisturbed) -> None:
    folder, blocks = undisturbed
    settled = dict(read_plan(folder).settled)

    assert set(settled) == {"b", "c"}
    assert 6 <= settled["b"] <= settled["c"] < 12
    assert list(blocks) == list(range(1, 13))
    for block, arms in blocks.items():
        gone = {arm for arm, last in settled.items() if block > last}
        assert set(arms) == {"a", "b", "c", "d"} - gone
    planned = make_plan_orders()
    assert all([arm for arm in planned[block] if arm in arms] == arms for block, arms in blocks.items())
    assert is_done(folder, read_plan(folder))
    assert read_status(folder).state == "complete"
    assert read_status(folder).blocks == 12


def make_plan_orders() -> dict[int, list[str]]:
    """Of all blocks, as they were drawn with all arms."""
    from pgtrial.design.plan import make_plan
    from pgtrial.experiment_file.experiment import Experiment

    found: dict[int, list[str]] = {}
    for slot in make_plan(Experiment.model_validate(tomllib.loads(TEXT))).slots:
        found.setdefault(slot.block, []).append(slot.arm)
    return found


def test_it_ends_when_the_last_arm_is_decided(tmp_path) -> None:
    blocks = run_all(tmp_path / "r", simulation=Simulation(tps={"a": 500.0, "b": 400.0}, run_sd=0.002, block_sd=0.0))
    state = State.open(tmp_path / "r")
    meta = state.meta()
    state.close()

    assert STOPPED in meta
    assert len(blocks) < 12
    assert set(read_plan(tmp_path / "r").settled) == {"b", "c", "d"}
    assert is_done(tmp_path / "r", read_plan(tmp_path / "r"))


@pytest.mark.parametrize("moment", ["in-block", "before-judging"])
def test_who_resumes_after_a_kill_goes_on_with_the_same_arms(undisturbed, tmp_path, moment) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    process = multiprocessing.get_context("spawn").Process(target=run_until_killed, args=(folder, moment))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    schedule = resume_schedule(folder, does=measuring(folder, TRUTH))
    asyncio.run(schedule.run(pending_slots(schedule.planned, schedule.state)))
    schedule.state.close()

    _, blocks = undisturbed
    assert arms_by_block(folder) == blocks
    assert read_plan(folder).settled == read_plan(undisturbed[0]).settled
