"""Schedules whose runs a test replaces: of a target there is the host alone."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pgtrial.design.plan import make_plan
from pgtrial.engine.events import Observer, ignore
from pgtrial.engine.hooks import Hooks
from pgtrial.engine.schedule import Schedule
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.local import LocalHost
from pgtrial.model.run import RunRow
from pgtrial.store.plans import write_plan
from pgtrial.store.state import State

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


def make_schedule(
    content: Mapping[str, Any], folder: Path, *, does: Does = nothing, tell: Observer = ignore
) -> ReplacedRuns:
    """Of an experiment, by the tables of its file, with a new state in ``folder`` that has its plan."""
    planned = make_plan(Experiment.model_validate(content))
    state = State.create(folder)
    write_plan(state, planned)
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
