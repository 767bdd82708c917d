"""Events that the engine reports while it works. Progress is a view of them; the engine itself never prints."""

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from pgtrial.model.change import JournalEntry, Undone
from pgtrial.model.run import LoadLevel, PhaseName, RunState, Slot

# Types of the values in live.json, which anybody may have written: reading it checks them.
Text = Annotated[str, Field(max_length=1000)]
Quantity = Annotated[float, Field(ge=0, lt=2**53, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """Work before the first run; ``step`` is a phrase such as "loading pgbench tables, scale 10"."""

    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run, or all runs of a block that share its time: ``slot`` is the first one's, ``arms`` are all of theirs."""

    slot: Slot
    arms: tuple[str, ...]
    slots: int
    attempt: int
    remaining: float  # s, estimated, with this run


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted:
    name: PhaseName
    level: LoadLevel | None = None
    length: float | None = None  # s, where it is known beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """One second of load, all scenarios together; ``latency`` is the mean in seconds, None without transactions."""

    tps: float
    latency: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsProgress:
    """Throughput (1/s, of its own time) of an arm that shares the time of its block, since its load level began."""

    arm: str
    tps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySampled:
    """95th percentile of latency (s) in a sample of the latest transactions of an arm, all scenarios together."""

    arm: str
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsSampled:
    """What the sessions of an arm's load waited for in the latest seconds: ("LWLock:WALWrite", average number of
    active sessions), most first; those that waited for nothing are "CPU".
    """

    arm: str
    waits: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateUpdated:
    """The effect that the claim is about, over the ``blocks`` so far; ratios of arm to control.

    ``low`` and ``high`` are None where no interval is due yet.
    """

    arm: Text
    control: Text
    metric: Text
    ratio: Quantity | None
    low: Quantity | None
    high: Quantity | None
    confidence: Quantity
    margin: Quantity
    blocks: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    slot: Slot
    state: RunState
    reason: str
    seconds: float
    not_load: float  # s of it that are not measured load
    tps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockJudged:
    """The rule for stopping was evaluated after a block; ``text`` is its outcome, in a sentence."""

    block: int
    text: str
    stop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChanged:
    """A host was changed for an arm, or for the whole experiment."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRestored:
    """A change was undone, or not: ``undone`` says how that ended."""

    entry: JournalEntry
    undone: Undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A change waits for somebody else; ``text`` says what and for whom, in full sentences."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """An orderly stop has begun, on request."""


Event = (
    Preparing
    | RunStarted
    | PhaseStarted
    | LoadProgress
    | TurnsProgress
    | LatencySampled
    | WaitsSampled
    | EstimateUpdated
    | RunEnded
    | BlockJudged
    | HostChanged
    | HostRestored
    | Waiting
    | StopRequested
)


class Observer(Protocol):
    """Receives every event of an experiment."""

    def __call__(self, event: Event, /) -> None: ...


def ignore(_event: Event) -> None:
    """Observer that drops every event."""
