"""What there is to see of a running experiment at a moment: values only, as they go to a terminal and to a file."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from pgtrial.engine.events import EstimateUpdated
from pgtrial.model.arm import Role

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmView:
    """``tps`` (1/s) and ``p95`` (s) are the latest figures of its measured load, the newest last; None stands between
    two runs. A figure of ``tps`` is of a second, or of a whole load level where arms share their time; one of ``p95``
    is of at least a hundred sampled transactions. ``tps_now`` is the mean of the last ten seconds of load, or of the
    load level where arms share their time. ``waits`` has average numbers of active sessions, most first.
    """

    name: str
    role: Role
    is_at_work: bool
    runs_done: int
    tps_now: float | None
    p95_now: float | None
    tps: tuple[float | None, ...]
    p95: tuple[float | None, ...]
    waits: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """``t`` is in seconds since the epoch, lengths of time in seconds.

    ``state`` is preparing, running or stopping; before the first run there is no ``run``. ``last_run`` is another than
    ``run`` where runs share their time. ``tps`` is that of the last second of load, warm-up included.
    """

    t: float
    state: str
    step: str
    run: int | None
    last_run: int | None
    runs: int
    block: int
    arms_at_work: tuple[str, ...]
    attempt: int
    phase: str
    level: str
    phase_spent: float
    phase_length: float | None
    tps: float | None
    remaining: float | None
    share_done: float
    arms: tuple[ArmView, ...]
    estimate: EstimateUpdated | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Not by way of dataclasses.asdict, which copies every figure with great care, every second."""
        found = {name: getattr(self, name) for name in _NAMES}
        found["arms"] = [{name: getattr(arm, name) for name in _ARM_NAMES} for arm in self.arms]
        found["estimate"] = None if self.estimate is None else asdict(self.estimate)
        return {"format": FORMAT, **found}


_NAMES = tuple(field.name for field in fields(LiveView))
_ARM_NAMES = tuple(field.name for field in fields(ArmView))
