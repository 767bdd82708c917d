"""Checks of loads that differ between arms: that they can, and that they do the same work."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import all_declared, own_values
from pgtrial.experiment_file.experiment import COMMAND, Experiment
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.workload_checks import check_file, scenario_names
from pgtrial.knobs.workload import COMMAND as COMMAND_KEY
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD, LoadTable
from pgtrial.nearest import hint_name


def check_arm_loads(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """What the load of an arm is made of."""
    kind = experiment.workload.kind
    names = scenario_names(experiment)
    for declared in all_declared(experiment):
        if declared.knob != WORKLOAD or kind not in ("pgbench", COMMAND):
            continue
        if (declared.key == COMMAND_KEY) != (kind == COMMAND):
            message = f'"{declared.key}" in the load of an arm has no meaning with kind = "{kind}"'
            yield declared.path, message, "Remove it."
        elif declared.key.startswith(SCRIPTS):
            name = declared.key.removeprefix(SCRIPTS)
            if name not in names:
                hint = hint_name(name, names, what="Scenarios are")
                yield declared.path, f'scenario "{name}" does not exist', hint
            yield from check_file(declared.path, declared.value, folder)


def check_units(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Arms are compared by what they do per second: a unit of another size would be a difference of its own."""
    units = _units(experiment)
    if len(set(units.values())) <= 1:
        return
    control, *others = units
    for name in others:
        if units[name] != units[control]:
            path: Path = ("arms", name, WORKLOAD, "unit")
            message = f'a unit of work is "{units[name]}" in arm "{name}", but "{units[control]}" in arm "{control}"'
            yield path, message, "Let both do the same work in one transaction, and say so in unit of [workload]."


def _units(experiment: Experiment) -> Mapping[str, str]:
    """By arm; what an arm does not say it inherits, or has from [target] or [workload]."""
    common = experiment.target.workload.unit or experiment.workload.unit
    return {name: _inherited_unit(experiment, name, ()) or common for name in own_values(experiment)}


def _inherited_unit(experiment: Experiment, name: str, heirs: tuple[str, ...]) -> str | None:
    arm = experiment.arms.get(name)
    if arm is None or name in heirs:
        return None
    own: LoadTable = arm.workload
    return own.unit or (_inherited_unit(experiment, arm.inherit, (*heirs, name)) if arm.inherit else None)
