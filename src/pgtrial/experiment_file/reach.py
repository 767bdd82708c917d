"""Which files an experiment file may name: those beneath its own directory, and where the user has said so.

A file from somebody else could name any file of whoever runs it. What it reads becomes part of the results, and these
are passed on: to the one who sent the file, or to everybody who sees the log of a pipeline.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.arms import all_declared
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.places import expand_home
from pgtrial.experiment_file.position import format_path
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD

OPTION = "--allow-files"


def find_outside(
    named: Iterable[tuple[str, str]],
    folder: Path,
    allowed: Sequence[Path] = (),
    *,
    called: str = "the directory of the experiment file",
) -> Iterator[SpecProblem]:
    """Files, each after where it is named, that lie neither beneath ``folder``, which messages call ``called``, nor
    beneath an ``allowed`` directory, wherever links lead.
    """
    for path, name in named:
        if "\0" in name:
            continue  # no file; whatever reads it says so
        place = folder / expand_home(Path(name))
        if not any(is_beneath(place, root) for root in (folder, *allowed)):
            yield SpecProblem(
                path=path,
                message=f'"{name}" is not beneath {called}',
                hint=f"If it is to be read, add {OPTION} {os.path.realpath(place.parent)}.",
            )


def is_beneath(path: Path, root: Path) -> bool:
    """Whether a path leads to what lies beneath a directory, wherever links lead."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def files_in(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Where an experiment file names a file, and its name."""
    for index, scenario in enumerate(experiment.workload.scenario):
        if scenario.file is not None:
            yield f"workload.scenario[{index}].file", scenario.file
    for index, name in enumerate(experiment.workload.files):
        yield f"workload.files[{index}]", name
    for declared in all_declared(experiment):
        if declared.knob == WORKLOAD and declared.key.startswith(SCRIPTS):
            yield format_path(declared.path), declared.value
    if experiment.dataset.setup is not None:
        yield "dataset.setup", experiment.dataset.setup
    for name in experiment.dataset.load:
        yield "dataset.load", name
