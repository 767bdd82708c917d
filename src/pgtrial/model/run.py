"""One execution of the workload for one arm in one block: the experimental unit."""

from dataclasses import dataclass
from enum import StrEnum

HOST_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"  # of the machine of a block, where an experiment is spread over several
IS_FLEET = "fleet"  # key of a record whose blocks go to hosts of a list; at most how many there were

# A stretch of an interleaved or paired run: what lets runs of one block share its time.


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A stretch of a run during which its arm was running; times in seconds since the epoch.

    ``number`` is the position in the block's sequence of slices, from 0, over all arms. ``level`` is the load level's
    index. Transactions that end in [``counted``, ``ended``) count; the time before ``counted`` is guard time. Between
    the end of one slice and the start of the arm's next, its server and load are frozen, unless the next one starts
    where this one ends or the arms have one server.
    """

    level: int
    number: int
    started: float
    counted: float
    ended: float

    @property
    def seconds(self) -> float:
        """Counted time, in seconds."""
        return self.ended - self.counted


class RunState(StrEnum):
    """``planned`` has not started; ``interrupted`` was cut off; neither it nor ``invalid`` counts."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    INVALID = "invalid"
    INTERRUPTED = "interrupted"


class PhaseName(StrEnum):
    RESTORE = "restore"
    START = "start"
    CACHE = "cache"
    WARMUP = "warm-up"
    CHECKPOINT = "checkpoint"
    MEASURE = "measure"
    CHECK = "check"
    STOP = "stop"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A planned run. ``number`` counts from 1 over the experiment, ``position`` from 1 inside its block."""

    number: int
    block: int
    position: int
    arm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of a run; times in seconds since the epoch. ``level`` is the load level's index, for measure only."""

    name: PhaseName
    start: float
    end: float
    level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLevel:
    """``index`` counts from 0; ``rate`` is the arrival rate in transactions per second, None for a closed loop.

    ``by_arm`` are the fewest and the most clients that arms have, where some have their own.
    """

    index: int
    clients: int
    rate: float | None = None
    by_arm: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The label in English, for messages and for recognising a level."""
        if self.by_arm is not None:
            return f"{self.by_arm[0]} to {self.by_arm[1]} clients, by arm"
        clients = f"{self.clients} client{'' if self.clients == 1 else 's'}"
        return clients if self.rate is None else f"{self.rate:g} tps, {clients}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as recorded in the result folder: one attempt at a slot.

    ``id`` is unique in the folder, ``attempt`` counts from 1 per slot, ``reason`` says why it is invalid. Where it
    ``is_switched`` the arms of its block have one server, which is the run's, as the machine is, while its slices last.
    """

    id: int
    slot: Slot
    attempt: int
    state: RunState
    started: float | None
    ended: float | None
    reason: str
    phases: tuple[Phase, ...] = ()
    slices: tuple[Slice, ...] = ()  # in order of time; () where the run had its time to itself
    is_switched: bool = False

    @property
    def folder(self) -> str:
        """Name below ``runs/``."""
        repeat = "" if self.attempt == 1 else f"-repeat{self.attempt - 1}"
        return f"{self.slot.number:04d}-{self.slot.arm}-b{self.slot.block}{repeat}"


# What is written down of a run's pages of memory: kinds of events, and the moments of the first kind.


PAGES = "pages"  # pools of huge pages, and under load those of the server's shared memory
TRANSLATIONS = "translations"  # misses of the processor's translation caches, by load level
PLANS = "plans"  # of the load's statements, read after it

BEFORE = "before"  # the server's start
UNDER_LOAD = "under load"  # just after the last load level, the server still up
AFTER = "after"  # its end, when the host's changes have been undone
