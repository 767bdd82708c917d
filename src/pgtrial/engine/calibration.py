"""Calibrate: run an experiment's control against itself by several methods, each as an ordinary experiment."""

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgtrial.design.calibration import CalibrationPlan, Part, refit
from pgtrial.design.method_case import HostFacts
from pgtrial.design.plan import make_plan
from pgtrial.engine.events import Event, Observer, RunStarted
from pgtrial.engine.experiment import Permission, run_experiment
from pgtrial.engine.folder import create_folder, make_results
from pgtrial.errors import StoreError
from pgtrial.experiment_file.generate import control_twice
from pgtrial.experiment_file.load import LoadedExperiment, parse_experiment
from pgtrial.model.run import RunState
from pgtrial.safe_files import write_file
from pgtrial.store import layout
from pgtrial.store.state import State


def create_calibration_folder(loaded: LoadedExperiment, results: Path) -> Path:
    """Make the folder that the parts' result folders go to, with the experiment file in it. Raises StoreError."""
    name = f"{loaded.experiment.experiment.name}-calibration-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    folder, number = results / name, 1
    make_results(results)
    try:
        while os.path.lexists(folder):
            number += 1
            folder = results / f"{name}-{number}"
        folder.mkdir(mode=0o700)
        write_file(folder / layout.EXPERIMENT, loaded.text)
    except OSError as err:
        raise StoreError(
            f'cannot create a result folder in "{results}": {err.strerror}',
            hint="Choose another location with --results.",
        ) from err
    return folder


def discard_if_empty(folder: Path) -> None:
    """Remove the folder of a calibration of which no part has begun."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [layout.EXPERIMENT]:
            (folder / layout.EXPERIMENT).unlink()
            folder.rmdir()


def run_calibration(
    loaded: LoadedExperiment,
    plan: CalibrationPlan,
    folder: Path,
    *,
    permission: Permission,
    tell: Observer,
    begin: Callable[[int, Part], None],
) -> None:
    """Do every part of the plan, each in a result folder of its own below ``folder``; ends as ``run_experiment`` does.

    ``begin`` is called with the position of each part and the part as it is about to be done: from the second portion
    of a method on it has as many blocks as the time really allows.
    """
    started = time.monotonic()
    costs: dict[str, tuple[float, float]] = {}  # seconds of the preparation and of a block, as they were, by label
    for number, planned in enumerate(plan.parts):
        part, label = planned, planned.candidate.label
        if label in costs:
            prepare, block = costs[label]
            rest = math.fsum(one.seconds for one in plan.parts[number:])
            share = (plan.budget - (time.monotonic() - started)) * planned.seconds / rest
            blocks = refit(share, prepare=prepare, block=block, fewest=plan.fewest)
            part = replace(part, blocks=blocks, seconds=prepare + blocks * block)
        begin(number, part)
        place = _create_part(loaded, part, folder, facts=plan.facts)
        later = sum(one.seconds for one in plan.parts[number + 1 :])
        part_started = time.monotonic()
        run_experiment(place, permission=permission, tell=_Whole(tell=tell, later=later), is_new=True)
        spent = time.monotonic() - part_started
        measured = _seconds_of_runs(place)
        costs[label] = (max(0.0, spent - measured), measured / part.blocks)


class _Whole:
    """An observer of a part that tells the time that is left of the whole calibration."""

    def __init__(self, *, tell: Observer, later: float) -> None:
        self.tell, self.later = tell, later

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            event = replace(event, remaining=event.remaining + self.later)
        self.tell(event)


def _create_part(loaded: LoadedExperiment, part: Part, folder: Path, *, facts: HostFacts | None) -> Path:
    candidate = part.candidate
    text = control_twice(
        loaded.experiment,
        name=f"calibration-{candidate.label}",
        method=candidate.method,
        slice=candidate.slice,
        blocks=part.blocks,
        duration=candidate.duration,
        warmup=candidate.warmup,
        portion=part.portion - 1,
    )
    twice = parse_experiment(text, f"calibration {part.name}", loaded.folder)
    made = create_folder(twice, make_plan(twice.experiment, facts), folder)
    return made.rename(folder / part.name)


def _seconds_of_runs(folder: Path) -> float:
    """From the start of the first run to the end of the last."""
    with contextlib.closing(State.open(folder)) as state:
        runs = [run for run in state.runs() if run.state is RunState.DONE]
    started = [run.started for run in runs if run.started is not None]
    ended = [run.ended for run in runs if run.ended is not None]
    return max(ended) - min(started)
