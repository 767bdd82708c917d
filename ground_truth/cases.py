"""The cases: what each experiment makes happen, and what the analysis has to call it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgtrial.analysis.cause_findings import Resource
from pgtrial.experiment_file.disk_tables import LIMITS

FOLDER = Path(__file__).parent
CASES = FOLDER / "cases.toml"
EXPERIMENTS = FOLDER / "experiments"
NEEDS = ("root", "control groups", "loop devices", "kernel settings", "swap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One experiment with a known cause.

    ``arm`` is limited by it, ``relieved`` is the arm that lacks it. ``expected`` are the right names, the best first.
    ``relief`` is the least ratio of throughput, relieved / limited, that shows that the cause was really there.

    ``which`` is the detail that has to be named with the resource, ``rhythm`` a timer of the server by which throughput
    has to be found to go up and down, with its dips beside entries of that kind in the log (``beside``); "" for none.
    ``outside`` are limits of the volume of the limited arm that the experiment's file does not know of (volumes.py).
    """

    name: str
    title: str
    arm: str
    relieved: str
    expected: tuple[Resource, ...]
    relief: float
    needs: tuple[str, ...]
    truth: str  # why it is the truth, in one or two sentences
    which: str = ""
    rhythm: str = ""
    beside: str = ""
    outside: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return EXPERIMENTS / f"{self.name}.toml"

    @property
    def changes_host(self) -> bool:
        return bool(self.needs)


def read_cases(path: Path = CASES) -> tuple[Case, ...]:
    """All cases, in the order of the file. Raises ValueError where one of them makes no sense."""
    return tuple(_case(table) for table in tomllib.loads(path.read_text(encoding="utf-8"))["case"])


def _case(table: dict[str, Any]) -> Case:
    case = Case(
        name=table["name"],
        title=table["title"],
        arm=table["arm"],
        relieved=table["relieved"],
        expected=tuple(Resource(name) for name in table["expected"]),
        relief=float(table["relief"]),
        needs=tuple(table.get("needs", ())),
        truth=" ".join(table["truth"].split()),
        which=table.get("which", ""),
        rhythm=table.get("rhythm", ""),
        beside=table.get("beside", ""),
        outside=table.get("outside", {}),
    )
    unknown = {*set(case.needs).difference(NEEDS), *case.outside.keys() - set(LIMITS)}
    if unknown or not case.expected or case.relief <= 1 or Resource.UNDETERMINED in case.expected:
        raise ValueError(f'case "{case.name}": unknown needs or limits, no expected name, or a relief that is none')
    return case


def choose(cases: tuple[Case, ...], names: list[str]) -> tuple[Case, ...]:
    """The cases of these names; all without any. Raises ValueError for a name that no case has."""
    unknown = set(names).difference(case.name for case in cases)
    if unknown:
        raise ValueError(
            f"no case has the name {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in cases)}"
        )
    return tuple(case for case in cases if not names or case.name in names)
