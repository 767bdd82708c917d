"""What is kept of a series: its plan, and one record for each experiment that has ended. A file that can be resumed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gym.live.plan import PGBENCH, Kind, Trial, draw_plan
from pgtrial.safe_files import write_file

_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A complete run, with its throughput in 1/s."""

    arm: str
    block: int
    throughput: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What came out of an experiment. ``ratio``, ``low`` and ``high`` are treated / control in throughput.

    ``error`` is the standard error of the ratio's log, with ``degrees`` of freedom. Times are in seconds since the
    epoch. ``disturbed`` is the share of the time in which the neighbour was busy. ``reason`` says why there is no
    result, "" where there is one. ``runs`` are in the order in which they ran; records of before 1 December 2026 have
    none.
    """

    number: int
    kind: Kind
    method: str
    burdened: str
    seed: int
    started: float
    ended: float
    verdict: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    degrees: int | None = None
    blocks: tuple[float | None, ...] = ()
    disturbed: float = 0.0
    reason: str = ""
    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, trial: Trial, **found: Any) -> "Record":
        return cls(**asdict(trial), **found)

    @property
    def is_judged(self) -> bool:
        """Whether there is an effect with its interval."""
        return None not in (self.ratio, self.low, self.high, self.error, self.degrees)

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A plan, by what it is drawn from, and what is there of it."""

    seed: int
    null: int
    planted: int
    jobs: int
    machine: str
    load: str = PGBENCH
    method: str = ""  # by which alone all experiments are
    records: tuple[Record, ...] = field(default=())

    @property
    def plan(self) -> tuple[Trial, ...]:
        return draw_plan(seed=self.seed, null=self.null, planted=self.planted, load=self.load, method=self.method)

    @property
    def remaining(self) -> tuple[Trial, ...]:
        """What is still to be run, in the order of the plan, but for what measures the planted work: that comes first,
        because without it nothing can be said of the rest. What failed has been run: a failure is a result.
        """
        done = {record.number for record in self.records}
        left = (trial for trial in self.plan if trial.number not in done)
        return tuple(sorted(left, key=lambda trial: trial.kind in (Kind.NULL, Kind.PLANTED)))

    def with_record(self, record: Record) -> "Series":
        return replace(self, records=(*self.records, record))


def write_series(series: Series, path: Path) -> None:
    """Replace the file as a whole: who is killed while writing leaves the old one."""
    head = {name: value for name, value in asdict(series).items() if name != "records"}
    lines = [json.dumps(_rounded(asdict(record)), ensure_ascii=False) for record in series.records]
    body = ",\n    ".join(lines)
    text = json.dumps(head, indent=2, ensure_ascii=False)[:-2]
    write_file(path, f'{text},\n  "records": [\n    {body}\n  ]\n}}\n')


def read_series(path: Path) -> Series:
    document = json.loads(path.read_text(encoding="utf-8"))
    return Series(**{**document, "records": tuple(_record(each) for each in document["records"])})


def _record(table: dict[str, Any]) -> Record:
    runs = tuple(Run(**run) for run in table.get("runs", ()))
    return Record(**{**table, "kind": Kind(table["kind"]), "blocks": tuple(table["blocks"]), "runs": runs})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
