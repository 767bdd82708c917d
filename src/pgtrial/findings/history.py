"""What a gate said in the runs of a pipeline, one line of JSON each."""

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LARGEST = 1 << 20  # bytes of a file of them
_MOST = 200  # that are kept


class GateRun(BaseModel):
    """One run of the pipeline; ``ended`` is in seconds since the epoch, ``commit`` "" where it is not known, ``gate``
    where the gate has no name beside the experiment's.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    experiment: str = Field(max_length=200)
    gate: str = Field(default="", max_length=200)
    verdict: str = Field(max_length=20)
    ended: float | None = Field(default=None, ge=0, lt=1e11)
    commit: str = Field(default="", max_length=64)
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0


def parse_history(text: str) -> tuple[GateRun, ...]:
    """Entries of a file, the oldest first; a line that is none is left out: a cache may have been cut."""
    found = []
    for line in text.splitlines():
        try:
            found.append(GateRun.model_validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


def render_history(entries: Sequence[GateRun]) -> str:
    """The file of the newest entries."""
    return "".join(f"{json.dumps(entry.model_dump())}\n" for entry in entries[-_MOST:])
