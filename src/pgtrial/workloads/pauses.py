"""How long a load's scripts sleep, which goes by the clock: also while the arms that take turns stand still."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sqlglot import exp

from pgtrial.errors import SpecProblem
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.workload import PAUSES, SCRIPTS, VARIABLES, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.workloads.meta_commands import find_client_pauses
from pgtrial.workloads.scenarios import read_arm_scripts, scenarios_of
from pgtrial.workloads.sql_tree import parse_statement
from pgtrial.workloads.statements import read_statements, set_variables

_FUNCTIONS = re.compile(r"\bpg_sleep(?:_for|_until)?\b", re.IGNORECASE)
_SECONDS = "pg_sleep"  # its argument is a number of them; those of the others are an interval and a time
# In a body, or in another statement that the parser takes as it is: with a number, or with anything else.
_CALL = re.compile(rf'{_FUNCTIONS.pattern}"?\s*\(\s*(?:(?P<number>\d*\.?\d+)\s*\))?', re.IGNORECASE)


def find_pauses(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> tuple[tuple[str, float], ...]:
    """The files of scripts that sleep, and for how many seconds at most; infinity where the script alone does not say.

    What a function of the database's does in its body is seen only while it runs (analysis/validity/slices.py). Raises
    SpecError for a script that cannot be read.
    """
    scripts = _scripts_of_arms(experiment, arms, folder)
    texts: dict[str, str] = {}
    factors: dict[str, float] = {}  # the largest of the arms whose clients run it
    for arm in arms:
        for file, text in scripts[arm.name].items():
            texts[file] = text
            factors[file] = max(factors.get(file, 0.0), _factor(arm))
    found = ((file, max(_pauses(text, factors[file]), default=0.0)) for file, text in texts.items())
    return tuple((file, seconds) for file, seconds in found if seconds > 0)


def longest_sleeps(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> dict[str, float]:
    r"""By arm, of those whose clients sleep by a \sleep, for how many seconds at once at most; infinity where it is
    known only while they run. Raises SpecError for a script that cannot be read.
    """
    scripts = _scripts_of_arms(experiment, arms, folder)
    found = ((arm, tuple(_sleeps_of(arm, scripts[arm.name].values()))) for arm in arms)
    return {arm.name: _factor(arm) * max(seconds) for arm, seconds in found if seconds}


def explain_no_pauses(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> Iterator[SpecProblem]:
    r"""A factor for pauses of which no arm that has it pauses. Raises SpecError for a script that cannot be read."""
    given = [arm for arm in arms if PAUSES in arm.knobs.get(WORKLOAD, {})]
    scripts = _scripts_of_arms(experiment, given, folder) if given else {}
    is_used: dict[str, bool] = {}
    for arm in given:
        origin = arm.origin(WORKLOAD, PAUSES)
        pauses = any(any(True for _ in find_client_pauses(text)) for text in scripts[arm.name].values())
        is_used[origin] = is_used.get(origin, False) or pauses
    for origin, pauses in is_used.items():
        if not pauses:
            yield SpecProblem(
                path=origin,
                message="no \\sleep is in the scripts of this load, so that there is no pause to make longer",
                hint="Remove it, or give the scenario a script that pauses.",
            )


def _scripts_of_arms(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> Mapping[str, Mapping[str, str]]:
    """By arm, the texts of the scripts that its clients run, by their files."""
    own = read_arm_scripts(arms, folder)
    tables = experiment.workload.scenario
    scenarios = scenarios_of(experiment, folder) if tables else ()
    shared = {
        scenario.name: (table.file, scenario.script)
        for table, scenario in zip(tables, scenarios, strict=True)
        if table.file is not None and scenario.script is not None
    }
    found: dict[str, Mapping[str, str]] = {}
    for arm in arms:
        replaced = {
            name: (arm.knobs[WORKLOAD][f"{SCRIPTS}{name}"], text) for name, text in own.get(arm.name, {}).items()
        }
        found[arm.name] = dict((shared | replaced).values())
    return found


def _factor(arm: Arm) -> float:
    return float(arm.knobs.get(WORKLOAD, {}).get(PAUSES, "1"))


def _sleeps_of(arm: Arm, scripts: Iterable[str]) -> Iterator[float]:
    """Seconds, as the scripts and the arm's variables say."""
    table = arm.knobs.get(WORKLOAD, {})
    given = {key.removeprefix(VARIABLES): value for key, value in table.items() if key.startswith(VARIABLES)}
    for script in scripts:
        own = set_variables(script)
        # What the script itself sets may be anything by then.
        known = {} if own is None else {name: value for name, value in given.items() if name not in own}
        for pause in find_client_pauses(script):
            seconds = pause.seconds(known)
            yield math.inf if seconds is None else seconds


def _pauses(script: str, factor: float) -> Iterator[float]:
    for pause in find_client_pauses(script):
        seconds = pause.seconds({})
        yield math.inf if seconds is None else seconds * factor
    for statement in read_statements(script):
        if not _FUNCTIONS.search(statement.prepared):
            continue
        if statement.is_planned:
            yield from _sleeps(statement.prepared)
        else:
            yield from (float(call["number"] or math.inf) for call in _CALL.finditer(statement.prepared))


def _sleeps(statement: str) -> Iterator[float]:
    tree = parse_statement(statement)
    if tree is None:
        yield math.inf
        return
    for call in tree.find_all(exp.Anonymous):
        if _FUNCTIONS.fullmatch(call.name):
            yield _longest(call.expressions) if call.name.lower() == _SECONDS else math.inf


def _longest(arguments: Sequence[exp.Expr]) -> float:
    """The largest number in an argument, where that is a number or a choice among some: a value of no other kind."""
    if len(arguments) != 1:
        return math.inf
    argument = arguments[0]
    branches = [argument]
    if isinstance(argument, exp.Case):
        branches = [choice.args["true"] for choice in argument.args["ifs"]]
        branches += [argument.args["default"]] if argument.args.get("default") is not None else []
    return max((_number(each) for each in branches), default=math.inf)


def _number(value: exp.Expr) -> float:
    return float(value.this) if isinstance(value, exp.Literal) and value.is_number else math.inf
