"""Schedules whose runs a test replaces: of a target there is the host alone."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pgtrial.design.plan import make_plan
from pgtrial.engine.events import Observer, ignore
from pgtrial.engine.hooks import Hooks
from pgtrial.engine.schedule import Schedule
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.local import LocalHost
from pgtrial.store.plans import write_plan
from pgtrial.store.state import State


def make_schedule(content: Mapping[str, Any], folder: Path, *, tell: Observer = ignore) -> Schedule:
    """Of an experiment, by the tables of its file, with a new state in ``folder`` that has its plan."""
    planned = make_plan(Experiment.model_validate(content))
    state = State.create(folder)
    write_plan(state, planned)
    context: Any = SimpleNamespace(measured_time=1.0)
    target: Any = SimpleNamespace(host=LocalHost())
    return Schedule(
        planned=planned,
        folder=folder,
        state=state,
        target=target,
        context=context,
        arms={arm.name: arm for arm in planned.arms},
        tell=tell,
        hooks=Hooks(table=planned.experiment.hooks, host=LocalHost(), state=state, folder=folder, tell=tell),
    )
