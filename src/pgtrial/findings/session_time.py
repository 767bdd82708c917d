"""Where the time of sessions goes: latency budgets, waits, statements, background processes."""

from typing import Literal

from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.record import Estimate, Record

# Kinds of parts that the server has no name for.
CPU = "CPU"  # an active session that does not wait is on a CPU, or wants to be

CPU_QUEUE = "CPU queue"  # wants a CPU and waits for one

BLOCKED = "blocked in the kernel"  # active, in no wait that the server knows of, yet neither on a CPU nor in its queue

IDLE_IN_TRANSACTION = "idle in transaction"

OUTSIDE = "outside the server"

SCHEDULE_LAG = "schedule lag"  # event of OUTSIDE, open loop: due, but no client was free

POOL = "wait for a pooled session"  # event of OUTSIDE: PgBouncer had no session of the server free


class BudgetPart(Record):
    """Part of the mean latency of a transaction.

    ``kind`` is "CPU" (on a CPU, or active without a known wait where the two cannot be told apart), "CPU queue" (wants
    a CPU and waits for one), a wait type of the server ("Lock", "LWLock", "IO", …), "idle in transaction" (the server
    waits for the client's next statement), or "outside the server" (network, load generator, pauses of the client).
    """

    kind: str
    event: str  # "" where there are no events
    seconds: Estimate


class LatencyBudget(Record):
    """Where the mean latency of a transaction goes: L = λW, part by part (Little 1961). The parts add up to it."""

    arm: str
    load_level: int | str  # index, or "all": mean over the levels
    scenario: str | None  # None: all scenarios together
    latency: Estimate
    parts: tuple[BudgetPart, ...]  # largest first
    closure: float | None  # all sampled sessions / throughput / mean latency; 1: sampling accounts for all the time


class BudgetDifference(Record):
    """The difference of the mean latency, arm minus control, split the same way; intervals over pairs of a block.

    Whether there is one is decided by the ratio, as of every effect: seconds of blocks that are not alike scatter more.
    """

    arm: str
    control: str
    load_level: int | str
    difference: Estimate
    ratio: Estimate | None = None  # of the mean latency, arm / control; null in findings of earlier versions
    parts: tuple[BudgetPart, ...]  # largest absolute value first; they add up to the difference

    def side(self) -> int:
        """1 where a transaction of the arm takes longer, -1 where it takes less, 0 where neither is sure."""
        return self.difference.side() if self.ratio is None else self.ratio.side(1.0)


class PlanChange(Record):
    """A statement that an arm executes by another plan than the control; plans are lines indented by their depth.

    Seconds are those that a transaction of the whole load spends in it, null where sessions were not sampled.
    """

    arm: str
    control: str
    scenario: str
    statement: str
    control_plan: str
    plan: str
    control_seconds: float | None
    seconds: float | None
    text: Message  # one sentence

    @property
    def size(self) -> float:
        """By how many seconds the two differ, those that are not known taken as 0."""
        return abs((self.seconds or 0.0) - (self.control_seconds or 0.0))


class StatementUse(Record):
    """What a statement did in an arm's runs, warm-up included; all but ``calls`` and ``share`` is per call.

    Where servers stand still for others' turns, time is that in which sampled sessions were in it (Little's law).
    """

    arm: str
    statement: str
    calls: float
    share: float | None  # of the execution time of all statements of the arm; None where it is not known
    seconds: float | None  # execution, without planning
    rows: float
    blocks_hit: float  # found in shared buffers
    blocks_read: float
    blocks_dirtied: float
    wal_bytes: float


class ParetoItem(Record):
    name: str  # "IO DataFileRead", or the statement's text
    sessions: float  # average sessions = seconds of waiting or working per second
    share: float
    cumulative: float
    detail: MaybeMessage = None  # of a statement: its largest events


class Pareto(Record):
    """Wait events, or statements, by the time of all sessions; ``head`` items reach 80 % of it.

    ``scenario`` is null where it is of all together; a single one has its events over all load levels.
    """

    arm: str
    load_level: int | str
    scenario: str | None = None
    of: Literal["events", "statements"]
    head: int
    items: tuple[ParetoItem, ...]


class WaitType(Record):
    """A wait type, or CPU, of an arm over all load levels: which events it is made of, and which statements are in it.

    Shares of items are of the type's sessions. Statements are of the sampled sessions.
    """

    arm: str
    kind: str
    sessions: float
    share: float  # of the time of all sessions at work
    events: tuple[ParetoItem, ...]  # () where there is only one
    statements: tuple[ParetoItem, ...]


class BackgroundWait(Record):
    """What a background process does: average number of processes of its kind in a wait, over the blocks."""

    arm: str
    process: str  # "checkpointer", "walwriter", "autovacuum worker", …
    kind: str  # wait type; CPU: at work without a known wait; "Activity": it waits for work
    event: str
    sessions: Estimate
