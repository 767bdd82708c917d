"""What is kept beside the code of runs that take hours: a record for each, so that the same command goes on.

A file is replaced as a whole, with each record at once: who is killed leaves what was there before.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ground_truth.cases import Case
from ground_truth.scoring import Outcome, State
from pgtrial.findings.causes import Resource
from pgtrial.findings.record import Record
from pgtrial.safe_files import share_file

FOLDER = Path(__file__).parent / "kept"
PROOFS, RULES, MEASURED = (FOLDER / name for name in ("proofs.json", "rules.json", "predictions.json"))
_DIGITS = 6


class Kept(Record):
    """What each record has: of which case or prediction it is, as that was then, where and when it was made, and why
    there is nothing else, "" where there is.
    """

    machine: str
    began: float  # s since the epoch
    seconds: float
    digest: str = ""
    reason: str = ""

    @property
    def has_failed(self) -> bool:
        return bool(self.reason)


_K = TypeVar("_K", bound=Kept)


class Share(Record):
    """A number with its interval, where there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class ProofRecord(Kept):
    """The ledger of a case. ``said`` are the ratios that pgtrial predict said of changes, before these were run."""

    server: str = ""
    method: str = ""
    blocks: int = 0
    times: tuple[Share, ...] = ()
    memory: tuple[Share, ...] = ()
    total: Share | None = None
    rest: Share | None = None
    said: tuple[Share, ...] = ()


class RulesRecord(Kept):
    """What became of a case by the rules; as Outcome."""

    state: State
    found: Resource | None = None
    detail: str = ""
    without: Resource | None = None
    relief: float | None = None
    excess: float | None = None
    closure: float | None = None
    sampled: float | None = None

    @property
    def has_failed(self) -> bool:
        """A wrong name has a reason, too, and is a result."""
        return self.state is State.FAILED

    @classmethod
    def of(cls, outcome: Outcome, **made: Any) -> "RulesRecord":
        fields = ("state", "reason", "found", "detail", "without", "relief", "excess", "closure", "sampled")
        return cls(**{name: getattr(outcome, name) for name in fields}, **made)

    def outcome(self, case: Case) -> Outcome:
        return Outcome(case=case, **self.model_dump(exclude={"machine", "began", "seconds", "digest"}))


class MeasuredRecord(Kept):
    """What a change did to throughput: ratio to that before it, with the interval of pgtrial run."""

    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def read_kept(path: Path, kind: type[_K]) -> dict[str, _K]:
    """By name; {} where nothing has been kept yet."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return {name: kind.model_validate(record) for name, record in found.items()}


def longest(path: Path) -> float | None:
    """Seconds of the longest run that is kept in a file; None where there is none."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return max((record["seconds"] for record in found.values()), default=None)


def keep(path: Path, name: str, record: Kept) -> None:
    """Add the record to the file, or put it in the place of the one that has the name."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found[name] = _rounded(record.model_dump(mode="json", exclude_defaults=True))
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(found[key], ensure_ascii=False)}" for key in sorted(found))
    path.parent.mkdir(parents=True, exist_ok=True)
    share_file(path, f"{{\n{lines}\n}}\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
