"""The extensions that an experiment creates: by its data, its set-up and its arms."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.arm import Arm
from pgtrial.workloads.data_files import data_files
from pgtrial.workloads.psql_script import extensions_in
from pgtrial.workloads.scenarios import setup_sql


def find_extensions(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> Mapping[str, str]:
    """Where each is created, by its name: a file's name, or a key of the experiment file.

    ``folder`` is where relative names begin. Raises SpecError if a file cannot be read.
    """
    found: dict[str, str] = {}
    for file in data_files(experiment, folder):
        found |= dict.fromkeys(sorted(file.extensions - found.keys()), file.name)
    if experiment.dataset.setup is not None:
        name, text = setup_sql(experiment, folder)[0]
        found |= dict.fromkeys(sorted(extensions_in(text) - found.keys()), name)
    for arm in arms:
        created = {name for name in arm.knobs.get("extensions", {}).get("create", "").split(", ") if name}
        in_sql = extensions_in(arm.knobs.get("sql", {}).get("apply", ""))
        found |= dict.fromkeys(sorted(created - found.keys()), arm.origin("extensions", "create"))
        found |= dict.fromkeys(sorted(in_sql - found.keys()), arm.origin("sql", "apply"))
    return found


def say_lacking(lacking: Mapping[str, str]) -> str:
    """ "has no extension "hypopg", which setup.sql creates": of those that ``find_extensions`` has found."""
    listed = ", ".join(f'"{name}", which {where} creates' for name, where in lacking.items())
    return f"has no extension {listed}"
