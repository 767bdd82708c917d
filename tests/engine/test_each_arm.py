"""Arms that end one by one, on loads whose truth is known, with a pgtrial that is killed on the way."""

import asyncio
import multiprocessing
import os
import signal
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects.stopping import StopDecision, decide_stop
from pgtrial.design.plan import Plan, make_plan
from pgtrial.engine.experiment import is_done, pending_slots
from pgtrial.engine.status import read_status
from pgtrial.errors import StoreError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.message import say
from pgtrial.findings.record import ALL
from pgtrial.model.run import RunRow, RunState
from pgtrial.model.verdict import Verdict
from pgtrial.store.plans import read_plan
from pgtrial.store.state import SETTLED, STOPPED, State
from support import Simulation
from support.killing import Killed
from support.schedules import make_schedule, measuring, resume_schedule

BLOCKS = 8
TEXT = f"""\
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

[design]
blocks = {BLOCKS}
seed = 4
stop = "each-arm"
"""
# b is slower by 20 %, which is seen at the first look; c lies on the bound of the margin, where nothing is decided.
TRUTH = Simulation(tps={"a": 500.0, "b": 400.0, "c": 515.0}, run_sd=0.002, block_sd=0.0)

Blocks = dict[int, list[str]]  # the arms of each, in the order of their runs


def blocks_of(folder: Path) -> Blocks:
    """Of the valid runs."""
    state = State.open(folder)
    found: Blocks = {}
    for run in state.runs():
        if run.state is RunState.DONE:
            found.setdefault(run.slot.block, []).append(run.slot.arm)
    state.close()
    return found


def run_all(folder: Path, simulation: Simulation) -> Blocks:
    folder.mkdir()
    schedule = make_schedule(tomllib.loads(TEXT), folder, does=measuring(folder, simulation))
    asyncio.run(schedule.run(schedule.planned.slots))
    schedule.state.close()
    return blocks_of(folder)


def resume(folder: Path) -> Blocks:
    schedule = resume_schedule(folder, does=measuring(folder, TRUTH))
    asyncio.run(schedule.run(pending_slots(schedule.planned, schedule.state)))
    schedule.state.close()
    return blocks_of(folder)


def run_until_killed(folder: Path) -> None:
    """In a process of its own, until SIGKILL comes in the middle of a block from which b is gone."""
    does = measuring(folder, TRUTH)

    async def dying(rows: Sequence[RunRow], most_disturbed: float | None) -> None:
        if rows[0].slot.block == BLOCKS - 1 and len(blocks_of(folder)) == BLOCKS - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        await does(rows, most_disturbed)

    schedule = make_schedule(tomllib.loads(TEXT), folder, does=dying)
    asyncio.run(schedule.run(schedule.planned.slots))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Blocks]:
    folder = tmp_path_factory.mktemp("each-arm") / "r"
    return folder, run_all(folder, TRUTH)


def test_an_arm_that_is_decided_is_not_run_any_more(undisturbed: tuple[Path, Blocks]) -> None:
    folder, blocks = undisturbed
    drawn: Blocks = {}
    for slot in make_plan(Experiment.model_validate(tomllib.loads(TEXT))).slots:
        drawn.setdefault(slot.block, []).append(slot.arm)

    assert read_plan(folder).settled == {"b": 6}
    assert read_plan(folder).blocks == BLOCKS  # and so are the levels of the looks what they were
    assert blocks == {block: [arm for arm in arms if block <= 6 or arm != "b"] for block, arms in drawn.items()}
    assert is_done(folder, read_plan(folder))
    assert (read_status(folder).state, read_status(folder).blocks) == ("complete", BLOCKS)


def test_the_report_says_when_each_arm_was_settled(undisturbed: tuple[Path, Blocks]) -> None:
    findings = analyze(undisturbed[0])
    blocks = {one.arm: one.blocks for one in findings.effects if one.metric == "pgbench.tps" and one.load_level == ALL}

    assert findings.stopping is not None
    assert findings.stopping.ended is None
    assert say(findings.stopping.text) == (
        "After 8 of 8 blocks: b was settled after 6 blocks; c ran to the last block."
    )
    assert blocks == {"b": 6, "c": BLOCKS}
    assert findings.hypothesis.verdict is Verdict.REFUTED
    assert not findings.hypothesis.provisional
    assert not {"incomplete", "missing-blocks"} & {caveat.code for caveat in findings.caveats}


def test_it_ends_when_the_last_arm_is_decided(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    blocks = run_all(folder, Simulation(tps={"a": 500.0, "b": 400.0}, run_sd=0.002, block_sd=0.0))
    state = State.open(folder)
    meta = state.meta()
    state.close()

    settled = read_plan(folder).settled
    assert meta[STOPPED] == f"b was settled after {settled['b']} blocks; c was settled after {settled['c']} blocks"
    assert len(blocks) == max(settled.values()) < BLOCKS
    assert is_done(folder, read_plan(folder))


def test_who_resumes_after_a_kill_goes_on_without_the_same_arms(
    undisturbed: tuple[Path, Blocks], tmp_path: Path
) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    process = multiprocessing.get_context("spawn").Process(target=run_until_killed, args=(folder,))
    process.start()
    process.join()

    assert process.exitcode == -signal.SIGKILL
    assert blocks_of(folder)[BLOCKS - 1] == undisturbed[1][BLOCKS - 1][:1]
    assert resume(folder) == undisturbed[1]
    assert read_plan(folder).settled == {"b": 6}


def test_what_a_killed_pgtrial_had_not_decided_yet_is_decided_by_who_resumes(
    undisturbed: tuple[Path, Blocks], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die_after_six(folder: Path, plan: Plan) -> StopDecision:
        if len(blocks_of(folder)) == 6:
            raise Killed
        return decide_stop(folder, plan)

    with monkeypatch.context() as patch:
        patch.setattr("pgtrial.engine.schedule.decide_stop", die_after_six)
        with pytest.raises(Killed):
            run_all(tmp_path / "r", TRUTH)

    assert read_plan(tmp_path / "r").settled == {}
    assert resume(tmp_path / "r") == undisturbed[1]
    assert read_plan(tmp_path / "r").settled == {"b": 6}


@pytest.mark.parametrize("text", ["0 6", "6 0 0", "0 9 0", "0 six 0"])
def test_a_record_of_settled_arms_that_cannot_be_is_told_to_be_damaged(tmp_path: Path, text: str) -> None:
    schedule = make_schedule(tomllib.loads(TEXT), tmp_path)
    schedule.state.set_meta(**{SETTLED: text})
    schedule.state.close()

    with pytest.raises(StoreError, match="settled is"):
        read_plan(tmp_path)
