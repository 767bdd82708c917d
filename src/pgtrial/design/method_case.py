"""An experiment with its arms, its load and its machine, as a check of a method looks at it."""

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, get_args

from pgtrial.design.data_size import estimate_data_size
from pgtrial.design.effect_timing import ISOLATED_BY, Difference
from pgtrial.design.variants import has_scripts
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.declaration import Shared
from pgtrial.knobs.memory_pressure import taken_memory
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel
from pgtrial.units import parse_bytes

Method = Literal["interleaved", "duet", "switchback", "blocks"]
METHODS: tuple[Method, ...] = get_args(Method)  # the cheapest first: by testing time for the same certainty
_CLIENT_BYTES = 8 * 1024**2  # of a session's process, with its caches and a few sorts
_DEFAULT_SHARED_BUFFERS = 128 * 1024**2
_PAGE = 8192  # bytes, the unit of shared_buffers without one


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The machine of the server. ``cores`` has the CPUs of each physical core that this process may use, () where they
    are not known, ``memory_available`` and ``swap``, all of that space, are in bytes, None where they are not known;
    ``local`` that pgtrial is on it as well. ``session_settings`` are the settings, in lower case, that a session can
    have of its own; None where not known. ``pauses`` are the load's scripts in which clients sleep, and for how many
    seconds at most.
    """

    local: bool
    cores: tuple[tuple[int, ...], ...]
    memory_available: int | None
    swap: int | None = None
    session_settings: frozenset[str] | None = None
    pauses: tuple[tuple[str, float], ...] = ()


class Weight(IntEnum):
    """A doubt is for the user to weigh: "auto" takes no method with one."""

    NOTE = 0
    DOUBT = 1
    REFUSAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What speaks against ``methods``, in a clause."""

    methods: tuple[Method, ...]
    weight: Weight
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a check looks at."""

    experiment: Experiment
    arms: Sequence[Arm]
    levels: Sequence[LoadLevel]
    facts: HostFacts | None
    differences: tuple[Difference, ...]

    @property
    def writes(self) -> bool:
        """Whether the load may change data; a script of one's own is not read, so it may."""
        workload = self.experiment.workload
        if any(has_scripts(arm) for arm in self.arms):
            return True
        if workload.scenario:
            return any(scenario.builtin != "select-only" for scenario in workload.scenario)
        return workload.mix != "select-only"

    @property
    def memory(self) -> float | None:
        """Bytes that servers and page cache can have, less what the arms' memory pressure takes; None: not known."""
        if self.facts is None or self.facts.memory_available is None:
            return None
        left = float(self.facts.memory_available)
        return left - max((taken_memory(arm.knobs.get("memory_pressure", {}), left) for arm in self.arms), default=0.0)

    @property
    def server_memory(self) -> float:
        """Bytes of all servers together, with their sessions."""
        return sum(self._server(arm) for arm in self.arms)

    @property
    def data(self) -> float:
        """Bytes of the data of one arm."""
        return estimate_data_size(self.experiment, self.arms)

    @property
    def limits(self) -> tuple[float, ...]:
        """Bytes that the control group of each arm's server may have, page cache included; inf where none limits it."""
        return tuple(memory_limit(arm) for arm in self.arms)

    @property
    def needed(self) -> float:
        """Bytes of all servers together with the page cache of their data, if they had all that they may have."""
        return sum(min(limit, self._server(arm) + self.data) for arm, limit in zip(self.arms, self.limits, strict=True))

    @property
    def isolated(self) -> frozenset[Shared]:
        """What each arm has for itself, though all are on one machine; see ``ISOLATED_BY``.

        A control group whose memory is limited reclaims of its own pages when it is full, and while there is memory for
        all groups nothing else takes any.
        """
        if any(math.isinf(limit) for limit in self.limits):
            return frozenset()
        enough = self.memory is None or sum(self.limits) <= self.memory
        return frozenset(ISOLATED_BY) if enough else frozenset()

    @property
    def has_small_groups(self) -> bool:
        """Whether some arm may not cache all of its data, and has to read them from the disk again and again."""
        return any(limit < self._server(arm) + self.data for arm, limit in zip(self.arms, self.limits, strict=True))

    def _server(self, arm: Arm) -> float:
        clients = max((level.clients for level in self.levels), default=1)
        return shared_buffers(arm) + clients * _CLIENT_BYTES


def shared_buffers(arm: Arm) -> float:
    """Bytes of an arm's shared buffers; the server's default where the value cannot be read."""
    text = arm.settings.get("shared_buffers", "").strip().strip("'")
    with contextlib.suppress(ValueError):
        return float(text) * _PAGE if re.fullmatch(r"[0-9]+", text) else parse_bytes(text)
    return _DEFAULT_SHARED_BUFFERS


def memory_limit(arm: Arm) -> float:
    """Bytes that the control group of an arm's server may have; inf where it has none, or none that limits memory."""
    text = arm.knobs.get(Cgroup.name, {}).get("memory")
    return math.inf if text is None else parse_bytes(text)
