"""How long a load's scripts sleep, which goes by the clock: also while the arms that take turns stand still."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlglot import exp

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.workloads.scenarios import read_arm_scripts, scripts_of_scenarios
from pgtrial.workloads.sql_tree import parse_statement
from pgtrial.workloads.statements import read_statements
from pgtrial.workloads.stretch import PAUSE

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_FUNCTIONS = re.compile(r"\bpg_sleep(?:_for|_until)?\b", re.IGNORECASE)
_SECONDS = "pg_sleep"  # its argument is a number of them; those of the others are an interval and a time
# In a body, or in another statement that the parser takes as it is: with a number, or with anything else.
_CALL = re.compile(rf'{_FUNCTIONS.pattern}"?\s*\(\s*(?:(?P<number>\d*\.?\d+)\s*\))?', re.IGNORECASE)


def find_pauses(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> tuple[tuple[str, float], ...]:
    """The files of scripts that sleep, and for how many seconds at most; infinity where the script alone does not say.

    What a function of the database's does in its body is seen only while it runs (analysis/validity/slices.py). Raises
    SpecError for a script that cannot be read.
    """
    own = read_arm_scripts(arms, folder)
    texts = dict(scripts_of_scenarios(experiment, folder))
    for arm in arms:
        texts |= {arm.knobs[WORKLOAD][f"{SCRIPTS}{name}"]: text for name, text in own.get(arm.name, {}).items()}
    found = ((name, max(_pauses(text), default=0.0)) for name, text in texts.items())
    return tuple((name, seconds) for name, seconds in found if seconds > 0)


def _pauses(script: str) -> Iterator[float]:
    for _, number, unit in PAUSE.findall(script):
        yield float(number) * _UNITS[unit.lower()] if number.isdecimal() else math.inf
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
