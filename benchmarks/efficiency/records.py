"""The raw results: a line of JSON for each thing that was played, read back as numbers for the contenders."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contenders import Array
from laboratory import Counted
from segments import BLOCKS, CONTIGUOUS, CONTROL, DUET, INTERLEAVED, SESSIONS

STREAMS = (CONTIGUOUS, BLOCKS, INTERLEAVED, DUET)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A repetition of a case: (control, arm) of each stream, tps in order; ``contiguous`` has the pieces of two runs,
    the others have one number per session.
    """

    contiguous: tuple[Array, Array]
    blocks: tuple[Array, Array]
    interleaved: tuple[Array, Array]
    duet: tuple[Array, Array]

    def stream(self, name: str) -> tuple[Array, Array]:
        found: tuple[Array, Array] = getattr(self, name)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """``header`` is the plan; ``sessions`` are by (part, repetition, session)."""

    header: dict[str, Any]
    sessions: dict[tuple[str, int, int], list[Counted]]

    def trials(self, part: str, case: str) -> list[Trial]:
        """Of all whole repetitions."""
        found = []
        for repetition in sorted({key[1] for key in self.sessions if key[0] == part}):
            played = [self.sessions.get((part, repetition, session)) for session in range(SESSIONS)]
            sessions = [rows for rows in played if rows is not None]
            if len(sessions) < SESSIONS:
                continue
            whole = [row for rows in sessions for row in rows]
            streams = {method: _by_session(sessions, method, case) for method in STREAMS if method != CONTIGUOUS}
            found.append(Trial(contiguous=_pair(whole, CONTIGUOUS, case), **streams))
        return found

    def part(self, name: str) -> list[list[Counted]]:
        """All sessions of a part, in order."""
        return [rows for key, rows in sorted(self.sessions.items()) if key[0] == name]


def tps(rows: Sequence[Counted]) -> float:
    """Of all rows together; half a transaction where none ended, so that there is a logarithm."""
    return max(0.5, sum(sum(row.counts) for row in rows)) / sum(row.seconds for row in rows)


def select(rows: Sequence[Counted], method: str, case: str, arm: str) -> list[Counted]:
    """What counts for an arm of a case, in order of time."""
    found = [row for row in rows if row.method == method and case in row.cases and row.arm == arm]
    return sorted(found, key=lambda row: row.piece)


def session_ratios(sessions: Sequence[Sequence[Counted]], method: str, case: str) -> Array:
    """Log ratio arm / control of each session that has the case."""
    control, treated = _by_session(sessions, method, case)
    ratios: Array = np.log(treated / control)
    return ratios


def _pair(rows: Sequence[Counted], method: str, case: str) -> tuple[Array, Array]:
    one, other = (np.array([tps([row]) for row in select(rows, method, case, arm)]) for arm in (CONTROL, case))
    return one, other


def _by_session(sessions: Sequence[Sequence[Counted]], method: str, case: str) -> tuple[Array, Array]:
    one, other = (np.array([tps(select(rows, method, case, arm)) for rows in sessions]) for arm in (CONTROL, case))
    return one, other


def append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")


def session_record(part: str, repetition: int, session: int, rows: Sequence[Counted]) -> dict[str, Any]:
    return {
        "kind": "session",
        "part": part,
        "repetition": repetition,
        "session": session,
        "rows": [list(asdict(row).values()) for row in rows],
    }


def read(path: Path) -> Records:
    """A last line that is not whole, because the benchmark was killed, is left out."""
    header: dict[str, Any] = {}
    sessions: dict[tuple[str, int, int], list[Counted]] = {}
    fields = Counted.__dataclass_fields__
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if record.pop("kind") == "header":
            header = record
            continue
        key = record["part"], record["repetition"], record["session"]
        rows = [dict(zip(fields, row, strict=True)) for row in record["rows"]]
        sessions[key] = [
            Counted(**{**row, "cases": tuple(row["cases"]), "counts": tuple(row["counts"])}) for row in rows
        ]
    return Records(header=header, sessions=sessions)


def slice_pairs(rows: Sequence[Counted], case: str) -> list[float]:
    """Log ratio arm / control of each pair of neighbouring slices of an interleaved session."""
    control, treated = (select(rows, INTERLEAVED, case, arm) for arm in (CONTROL, case))
    return [float(np.log(tps([other]) / tps([one]))) for one, other in zip(control, treated, strict=True)]
