"""What is kept beside the code of runs that take hours: a record for each, so that the same command goes on.

A file is replaced as a whole, with each record at once: who is killed leaves what was there before. Nothing that was
kept is taken away: of several attempts at one thing all stay, and the first that has a result counts.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ground_truth.cases import Case
from ground_truth.scoring import Outcome, State
from pgtrial.findings.causes import Resource
from pgtrial.findings.record import Record
from pgtrial.safe_files import share_file

FOLDER = Path(__file__).parent / "kept"
PROOFS, CONTROLS, RULES, MEASURED = (
    FOLDER / name for name in ("proofs.json", "controls.json", "rules.json", "predictions.json")
)
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


def read_kept(path: Path, kind: type[_K]) -> dict[str, tuple[_K, ...]]:
    """All attempts by name, the first one first; {} where nothing has been kept yet."""
    return {name: tuple(map(kind.model_validate, attempts)) for name, attempts in _read(path).items()}


def find_counting(attempts: Sequence[_K], digest: str | None = None) -> _K | None:
    """The attempt that counts, of what has this digest: the first that has a result, whatever came out of later ones.

    Where all have failed, the first of these; None where there is none. Without a digest, of whatever form it had.
    """
    found = [record for record in attempts if digest in (None, record.digest)]
    return next((record for record in found if not record.has_failed), found[0] if found else None)


def read_counting(path: Path, kind: type[_K], digests: Mapping[str, str]) -> dict[str, _K]:
    """By name the attempts that count, of what has these digests now."""
    attempts = read_kept(path, kind)
    found = {name: find_counting(attempts.get(name, ()), digest) for name, digest in digests.items()}
    return {name: record for name, record in found.items() if record is not None}


def longest(path: Path) -> float | None:
    """Seconds of the longest run that is kept in a file; None where there is none."""
    return max((record["seconds"] for attempts in _read(path).values() for record in attempts), default=None)


def keep(path: Path, name: str, record: Kept) -> None:
    """Add the record to the file, behind those that have the name."""
    found = _read(path)
    found.setdefault(name, []).append(_rounded(record.model_dump(mode="json", exclude_defaults=True)))
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(found[key], ensure_ascii=False)}" for key in sorted(found))
    path.parent.mkdir(parents=True, exist_ok=True)
    share_file(path, f"{{\n{lines}\n}}\n")


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """By name all attempts; a file of an older form has the only one itself instead of a list of them."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: kept if isinstance(kept, list) else [kept] for name, kept in found.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
