"""Schedules whose runs a test replaces: of a target there is the host alone."""

import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pgtrial.design.plan import Plan, make_plan
from pgtrial.engine.events import Observer, ignore
from pgtrial.engine.folder import load_stored
from pgtrial.engine.hooks import Hooks
from pgtrial.engine.schedule import Schedule
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.local import LocalHost
from pgtrial.model.run import RunRow
from pgtrial.store.plans import read_plan, write_plan
from pgtrial.store.state import State
from support.files import write_all
from support.runs import fill_run
from support.simulation import Simulation

Does = Callable[[Sequence[RunRow], float | None], Awaitable[None]]  # the runs, and how disturbed they may be at most


async def nothing(_rows: Sequence[RunRow], _most_disturbed: float | None) -> None:
    """A run that is done at once."""


def failing(error: BaseException) -> Does:
    async def does(_rows: Sequence[RunRow], _most_disturbed: float | None) -> None:
        raise error

    return does


@dataclass(slots=True, kw_only=True)
class ReplacedRuns(Schedule):
    """``does`` is what happens in place of each run."""

    does: Does

    async def execute(self, rows: Sequence[RunRow], *, most_disturbed: float | None) -> Mapping[str, float | None]:
        await self.does(rows, most_disturbed)
        return {}


def measuring(folder: Path, simulation: Simulation) -> Does:
    """Runs that are over at once, and have measured in ``folder`` what a simulated load would have."""

    async def does(rows: Sequence[RunRow], _most_disturbed: float | None) -> None:
        plan = read_plan(folder)
        for row in rows:
            assert row.started is not None
            # Whoever resumes would have measured the same.
            rng = random.Random(f"{simulation.seed}/{row.slot.number}")
            state = State.open(folder, write=True)
            _, files = fill_run(
                *(state, folder, plan.experiment, simulation),
                arm=next(arm for arm in plan.arms if arm.name == row.slot.arm),
                run=row,
                levels=plan.levels,
                noise=math.exp(rng.gauss(0, simulation.run_sd)),
                stolen=0.0,
                started=row.started,
            )
            state.close()
            write_all(files)

    return does


def make_schedule(
    content: Mapping[str, Any], folder: Path, *, does: Does = nothing, tell: Observer = ignore
) -> ReplacedRuns:
    """Of an experiment, by the tables of its file, with a new state in ``folder`` that has its plan."""
    planned = make_plan(Experiment.model_validate(content))
    state = State.create(folder)
    write_plan(state, planned)
    return _replace_runs(planned, folder, state, does=does, tell=tell)


def resume_schedule(folder: Path, *, does: Does = nothing, tell: Observer = ignore) -> ReplacedRuns:
    """That of a folder, whose last pgtrial may have been killed."""
    state = State.open(folder, write=True)
    state.interrupt_running()
    return _replace_runs(load_stored(folder), folder, state, does=does, tell=tell)


def _replace_runs(planned: Plan, folder: Path, state: State, *, does: Does, tell: Observer) -> ReplacedRuns:
    context: Any = SimpleNamespace(measured_time=1.0)
    target: Any = SimpleNamespace(host=LocalHost())
    return ReplacedRuns(
        does=does,
        planned=planned,
        folder=folder,
        state=state,
        target=target,
        context=context,
        arms={arm.name: arm for arm in planned.arms},
        tell=tell,
        hooks=Hooks(table=planned.experiment.hooks, host=LocalHost(), state=state, folder=folder, tell=tell),
    )
