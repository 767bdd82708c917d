"""The cases: what each experiment makes happen, and what the analysis has to call it."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgtrial.design.limits import MOST_RESOURCES
from pgtrial.experiment_file.disk_tables import LIMITS
from pgtrial.experiment_file.experiment import DEFAULT_BLOCKS, MEMORY, TIMES
from pgtrial.findings.causes import Resource

FOLDER = Path(__file__).parent
CASES = FOLDER / "cases.toml"
UNSEEN = FOLDER / "unseen.toml"
EXPERIMENTS = FOLDER / "experiments"
NEEDS = ("root", "control groups", "loop devices", "kernel settings", "swap")
_DIGEST = 16  # characters
_TIMES = {name.partition(".")[2] for name in TIMES}
_MEMORY = {name.partition(".")[2] for name in MEMORY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What an experiment has to prove about the limited arm, and how it is asked; names are those of pgtrial limits.

    ``times`` are the right names of the time of which throughput loses most, the best first; none where nothing makes
    it longer, of which ``reason`` tells. ``memory`` is what throughput has to depend on as well, "" for nothing.
    ``vary`` is what is varied, () for all times; ``method``, ``duration`` and ``warmup`` are "" where pgtrial
    chooses.
    """

    times: tuple[str, ...]
    reason: str
    memory: str = ""
    vary: tuple[str, ...] = ()
    blocks: int = DEFAULT_BLOCKS
    method: str = ""
    duration: str = ""
    warmup: str = ""

    @property
    def is_varied(self) -> bool:
        """Whether anything makes the time longer that limits the arm."""
        return bool(self.times)

    @property
    def options(self) -> tuple[str, ...]:
        """Of pgtrial limits."""
        return (
            *(word for name in self.vary for word in ("--resource", name)),
            *("--blocks", str(self.blocks)),
            *self._of_runs,
        )

    @property
    def control_options(self) -> tuple[str, ...]:
        """Of pgtrial limits, for the same load without what limits it: all of its times are varied, so that they are
        the whole.
        """
        return self._of_runs

    @property
    def _of_runs(self) -> tuple[str, ...]:
        named = {"--method": self.method, "--duration": self.duration, "--warmup": self.warmup}
        return tuple(word for option, value in named.items() if value for word in (option, value))


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
    proof: Proof
    table: str  # what its file says of it
    which: str = ""
    rhythm: str = ""
    beside: str = ""
    outside: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return EXPERIMENTS / f"{self.name}.toml"

    @property
    def files(self) -> tuple[Path, ...]:
        """The experiment, and the scripts that it and its arms name."""
        text = tomllib.loads(self.file.read_text(encoding="utf-8"))
        scenarios = text["workload"].get("scenario", ())
        own = (arm.get("workload", {}).get("scripts", {}) for arm in text.get("arms", {}).values())
        names = (
            text.get("dataset", {}).get("setup"),
            *(scenario.get("file") for scenario in scenarios),
            *(script for scripts in own for script in scripts.values()),
        )
        return (self.file, *(EXPERIMENTS / name for name in names if name))

    @property
    def digest(self) -> str:
        """Of its truth and its files: a case that was changed has another."""
        whole = hashlib.sha256(self.table.encode())
        for path in self.files:
            whole.update(path.read_bytes())
        return whole.hexdigest()[:_DIGEST]

    @property
    def changes_host(self) -> bool:
        return bool(self.needs)


def read_cases(path: Path = CASES) -> tuple[Case, ...]:
    """The cases of a file, in its order. Raises ValueError where one of them makes no sense."""
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
        proof=_proof(table["name"], table["limits"]),
        table=json.dumps(table, sort_keys=True, ensure_ascii=False),
        which=table.get("which", ""),
        rhythm=table.get("rhythm", ""),
        beside=table.get("beside", ""),
        outside=table.get("outside", {}),
    )
    unknown = {*set(case.needs).difference(NEEDS), *case.outside.keys() - set(LIMITS)}
    if unknown or not case.expected or case.relief <= 1 or Resource.UNDETERMINED in case.expected:
        raise ValueError(f'case "{case.name}": unknown needs or limits, no expected name, or a relief that is none')
    return case


def _proof(case: str, table: dict[str, Any]) -> Proof:
    reason = " ".join((table.get("not_varied") or table.get("reason", "")).split())
    proof = Proof(
        times=tuple(table.get("time", ())),
        reason=reason,
        memory=table.get("memory", ""),
        vary=tuple(table.get("vary", ())),
        blocks=table.get("blocks", DEFAULT_BLOCKS),
        method=table.get("method", ""),
        duration=table.get("duration", ""),
        warmup=table.get("warmup", ""),
    )
    named = {*proof.times, *filter(None, [proof.memory])}
    is_known = set(proof.times) <= _TIMES and {*proof.vary, *named} <= _TIMES | _MEMORY
    is_asked = not proof.vary or (named <= set(proof.vary) and len(proof.vary) <= MOST_RESOURCES)
    if not reason or not is_known or not is_asked or proof.is_varied == ("not_varied" in table):
        raise ValueError(
            f'case "{case}": its [case.limits] has neither a time with a reason nor a reason why it is not varied, or '
            "names what does not exist or is not varied"
        )
    return proof


def choose(cases: tuple[Case, ...], names: list[str]) -> tuple[Case, ...]:
    """The cases of these names; all without any. Raises ValueError for a name that no case has."""
    unknown = set(names).difference(case.name for case in cases)
    if unknown:
        raise ValueError(
            f"no case has the name {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in cases)}"
        )
    return tuple(case for case in cases if not names or case.name in names)
