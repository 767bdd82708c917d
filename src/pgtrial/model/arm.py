"""A named combination of levels with all that it comes to, as the schedule, the engine and the analysis know it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Literal

from pgtrial.model.file_job import FileJob

Tables = Mapping[str, Mapping[str, str]]  # knob to name to value


class Role(StrEnum):
    CONTROL = "control"
    CANDIDATE = "candidate"
    PLACEBO = "placebo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What a cluster is made with: its programs, its places, and a file system of its own ((key, value), () for none).

    ``postgres`` is as in the file, None for what is found first; ``checksums`` None for the version's default;
    ``scale`` that of pgbench's tables, None where pgtrial makes none.
    """

    postgres: str | None = None
    checksums: bool | None = None
    data: str | None = None
    wal: str | None = None
    filesystem: tuple[tuple[str, str], ...] = ()
    scale: int | None = None

    @property
    def key(self) -> str:
        """A text that tells it from the others, also for another pgtrial that goes on with the experiment."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An arm with all its values, as texts. ``own_settings`` and ``own_knobs`` are what it declares or inherits.

    ``settings`` are the PostgreSQL settings that its server is given: those of all arms, overridden by its own.
    ``knobs`` is everything else that it has, likewise, with what its ``disk`` class stands for in place of the name.
    ``origins`` has the place in the file of each of these values, knob to name to path. ``jobs`` are those of a load on
    files, ``cache`` the state of the caches in which its runs begin.
    """

    name: str
    role: Role
    own_settings: Mapping[str, str] = field(default_factory=dict)
    own_knobs: Tables = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    knobs: Tables = field(default_factory=dict)
    origins: Tables = field(default_factory=dict)
    disk: str | None = None
    is_emulated: bool = False
    variant: Variant = field(default_factory=Variant)
    jobs: tuple[FileJob, ...] = ()
    cache: Literal["as-is", "cold", "warm"] = "as-is"

    @property
    def scale(self) -> int | None:
        """Scale of the pgbench tables that pgtrial makes for it; None where it makes none."""
        return self.variant.scale

    def origin(self, knob: str, name: str) -> str:
        """Where the value of a knob stands in the file; where it would stand if the file has none."""
        return self.origins.get(knob, {}).get(name, f"arms.{self.name}.{knob}.{name}")
