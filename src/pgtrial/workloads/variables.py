"""Variables that arms give to pgbench's scripts and that change nothing: arms with no other difference are the same."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.code_patterns import COMMENT
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.workload import VARIABLES, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.workloads.meta_commands import find_commands
from pgtrial.workloads.scenarios import of_arm, read_arm_scripts, scenarios_of
from pgtrial.workloads.statements import OWN_VARIABLES, SETTING_COMMANDS


def explain_idle_variables(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> Iterator[SpecProblem]:
    r"""Those of which no arm that has them uses the value: its scripts have no such variable, or \set it first.

    Raises SpecError for a script that cannot be read.
    """
    given = [arm for arm in arms if any(key.startswith(VARIABLES) for key in arm.knobs.get(WORKLOAD, {}))]
    scenarios = scenarios_of(experiment, folder) if given else ()
    texts = read_arm_scripts(given, folder)
    taken: dict[tuple[str, str], bool] = {}
    setting: dict[tuple[str, str], str] = {}  # the scenario whose script sets it
    for arm in given:
        scripts = [(one.name, one.script) for one in of_arm(scenarios, arm, texts.get(arm.name, {}))]
        for key in arm.knobs[WORKLOAD]:
            name = key.removeprefix(VARIABLES)
            if name == key:
                continue
            place = (arm.origin(WORKLOAD, key), name)
            # pgbench's own scripts are without a text, and use what pgbench sets unless it is given.
            taken[place] = taken.get(place, False) or name in OWN_VARIABLES
            for scenario, script in scripts:
                if script is None or not re.search(rf":{name}\b", script):  # also in a text: pgbench puts it there
                    continue
                if _is_set_first(script, name):
                    setting.setdefault(place, scenario)
                else:
                    taken[place] = True
    for (origin, name), is_taken in taken.items():
        if is_taken:
            continue
        if (where := setting.get((origin, name))) is None:
            message = f'no script of this load uses the variable "{name}"'
            yield SpecProblem(path=origin, message=message, hint=f'Write ":{name}" where it is to stand, or remove it.')
        else:
            message = f'scenario "{where}" sets its variable "{name}" itself, and this value does not count'
            hint = f"Take \\set {name} out of the script, and give the variable to all arms ([target.workload])."
            yield SpecProblem(path=origin, message=message, hint=hint)


def _is_set_first(script: str, name: str) -> bool:
    r"""Whether a script always sets the variable before it uses it, and not to something that is made of it."""
    inside = 0  # of \if, whose commands need not be executed
    for command in find_commands(script):
        word, *words = (*command.words, "")
        match word.lower():
            case "if":
                inside += 1
            case "endif":
                inside -= 1
            case set_ if set_ in SETTING_COMMANDS and words[0] == name and not inside:
                return not re.search(rf":{name}\b", COMMENT.sub(" ", script[: command.end]))
    return False
