"""Arm: a named combination of levels with all its values, as the schedule, the engine and the analysis use it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Literal

Tables = Mapping[str, Mapping[str, str]]  # knob to name to value


class Role(StrEnum):
    CONTROL = "control"
    CANDIDATE = "candidate"
    PLACEBO = "placebo"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob:
    """Processes that do the same to one file, which they divide into equal parts.

    ``size`` of the file and ``block_size`` of a request are in bytes; ``fsync`` is the number of writes between two
    calls of fsync, 0 for never; ``may_repeat``: random blocks may come again before all others have; ``once``: it ends
    when it is through the file; ``depth`` is the number of requests that a process keeps in flight.
    """

    name: str
    pattern: str  # read | write | randread | randwrite
    size: int
    block_size: int
    direct: bool
    fsync: int
    engine: str
    depth: int
    share: float
    may_repeat: bool = False
    once: bool = False

    @property
    def writes(self) -> bool:
        return self.pattern in {"write", "randwrite"}

    @property
    def hides_flushes(self) -> bool:
        """Whether its write latencies end before the data are durable, because they do not include fsync."""
        return self.fsync > 0

    @property
    def hides_submission(self) -> bool:
        """Whether a request may complete before its latency begins: a buffered one, during submission."""
        return self.engine != "psync" and not self.direct


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a cluster is created: its programs, its directories, and its own file system ((key, value), () for none).

    ``postgres`` is as in the file, None for the first found; ``checksums`` is None for the version's default; ``scale``
    is that of pgbench's tables, None if pgtrial creates none.
    """

    postgres: str | None = None
    checksums: bool | None = None
    data: str | None = None
    wal: str | None = None
    filesystem: tuple[tuple[str, str], ...] = ()
    scale: int | None = None

    @property
    def key(self) -> str:
        """A text that identifies it, also for another pgtrial that continues the experiment."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An arm with all its values, as texts. ``own_settings`` and ``own_knobs`` are what it declares or inherits.

    ``settings`` are all PostgreSQL settings of its server: those of all arms, overridden by its own. ``knobs`` holds
    everything else in the same way, with its ``disk`` class resolved. ``origins`` has the path in the file of each of
    these values, by knob and name. ``jobs`` are those of a load on files, ``cache`` is the state of the caches in which
    its runs start.
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
        """Scale of the pgbench tables that pgtrial creates for it; None if it creates none."""
        return self.variant.scale

    def origin(self, knob: str, name: str) -> str:
        """Path of a knob's value in the file, or where it would be if the file has none."""
        return self.origins.get(knob, {}).get(name, f"arms.{self.name}.{knob}.{name}")
