"""The user's consent to the code that an experiment executes."""

from collections.abc import Sequence
from pathlib import Path

from pgtrial.errors import ConsentError
from pgtrial.experiment_file.code_uses import CodeUse, find_code_uses
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.arm import Arm
from pgtrial.postgres.programs import is_known_directory
from pgtrial.workloads.data_files import data_files
from pgtrial.workloads.scenarios import scripts_of


def uses_of(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> tuple[CodeUse, ...]:
    """What an experiment executes, whose scripts are in ``folder``. Raises SpecError if one cannot be read."""
    is_here = experiment.target.host is None
    loaded = tuple(use for file in data_files(experiment, folder) for use in file.uses)
    found = find_code_uses(
        experiment,
        arms,
        scripts_of(experiment, folder),
        # Of another machine nothing is known before it is asked.
        is_known=lambda directory: is_here and is_known_directory(directory),
    )
    return tuple(dict.fromkeys((*found, *loaded)))


def refuse_code(uses: Sequence[CodeUse]) -> ConsentError:
    """The error that names the code."""
    return ConsentError(
        "the experiment executes code of its own, which you have not allowed",
        detail="\n".join(f"{use.where}: {use.what}" for use in uses),
        hint="Read it, then add --allow-code. It gets the rights of the server's account.",
    )
