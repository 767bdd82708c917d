"""Arm: a named combination of levels, as the schedule and the result folder store it."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    CONTROL = "control"
    CANDIDATE = "candidate"
    PLACEBO = "placebo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """``settings`` are the PostgreSQL settings that this arm declares, name to value as written in the file.

    ``knobs`` holds all other values it sets: (knob, name, value), in the order of the file's tables.
    """

    name: str
    role: Role
    settings: tuple[tuple[str, str], ...] = ()
    knobs: tuple[tuple[str, str, str], ...] = ()

    def knob(self, name: str) -> dict[str, str]:
        """The values that it sets for one knob."""
        return {key: value for knob, key, value in self.knobs if knob == name}
