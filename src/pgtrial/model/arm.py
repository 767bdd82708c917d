"""A named combination of levels, as the schedule and the result folder know it."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    CONTROL = "control"
    CANDIDATE = "candidate"
    PLACEBO = "placebo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """``settings`` are the PostgreSQL settings that this arm declares, name to value as written in the file."""

    name: str
    role: Role
    settings: tuple[tuple[str, str], ...] = ()
