"""What the samples say about causes, as data: the part of the findings that explains a verdict.

Times are seconds, sizes bytes, rates per second, shares between 0 and 1. A number that is not known is null.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from pgtrial.findings.disks import DiskUse
from pgtrial.findings.files import FileUse
from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.record import Estimate, Record

# --- Latency budget -------------------------------------------------------------------------------------------------

# Kinds of parts that the server has no name for.
CPU = "CPU"  # an active session that does not wait is on a CPU, or wants to be
CPU_QUEUE = "CPU queue"  # wants a CPU and waits for one
BLOCKED = "blocked in the kernel"  # active, in no wait that the server knows of, yet neither on a CPU nor in its queue
IDLE_IN_TRANSACTION = "idle in transaction"
OUTSIDE = "outside the server"
SCHEDULE_LAG = "schedule lag"  # event of OUTSIDE, open loop: due, but no client was free


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
    """The difference of the mean latency, arm minus control, split the same way; intervals over pairs of a block."""

    arm: str
    control: str
    load_level: int | str
    difference: Estimate
    parts: tuple[BudgetPart, ...]  # largest absolute value first; they add up to the difference


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


class StatementUse(Record):
    """What a statement did in an arm's runs, warm-up included; all but ``calls`` and ``share`` is per call."""

    arm: str
    statement: str
    calls: float
    share: float  # of the execution time of all statements of the arm
    seconds: float  # execution, without planning
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


# --- Limiting resource ----------------------------------------------------------------------------------------------


class Resource(StrEnum):
    """What can limit a load."""

    CPU = "cpu"
    DISK_THROUGHPUT = "disk throughput"
    DISK_IOPS = "disk IOPS"
    DISK_LATENCY = "disk latency"
    WRITE_BACK = "write-back throttling"
    MEMORY = "memory"
    SWAP = "swap"
    LOCKS = "locks"
    LWLOCKS = "LWLocks"
    WAL_FLUSH = "WAL flush"
    CHECKPOINTS = "checkpoints"
    AUTOVACUUM = "autovacuum"
    TEMPORARY_FILES = "temporary files"
    CONNECTIONS = "connections"
    LOAD_GENERATOR = "load generator"
    CLIENT = "client"
    UNDETERMINED = "undetermined"


class Evidence(Record):
    """One number that speaks for a resource: the metric it comes from, and the threshold it was held against."""

    metric: str  # "vmstat.us", "iostat.util/vda", "wait.Lock", …
    value: float
    unit: str
    threshold: float | None
    text: Message  # the same in words


class Suspect(Record):
    """How strongly a resource is suspected: 0 not at all, 1 beyond doubt; ``reach`` is the same without an end."""

    resource: Resource
    strength: float
    reach: float | None = None
    detail: str | Message  # which lock, device, …; "" where that is all there is to say
    evidence: tuple[Evidence, ...]


class Limit(Record):
    """What limits an arm at a load level: the first suspect if it is strong enough, else ``UNDETERMINED``.

    ``is_apart``: whether it is sure, over the blocks, that it is another limit than the control's; null of the control.
    """

    arm: str
    load_level: int
    resource: Resource
    detail: str | Message
    text: Message  # one sentence
    suspects: tuple[Suspect, ...]  # strongest first
    is_apart: bool | None = None


def limits_by_chance(limits: Sequence[Limit], control: str) -> frozenset[tuple[str, int]]:
    """Arm and load level of the limits that are not the control's, where the runs do not tell the two arms apart; and
    of the control's own, which are as little known.
    """
    of_control = {limit.load_level: limit for limit in limits if limit.arm == control}
    open_: set[tuple[str, int]] = set()
    for limit in limits:
        other = of_control.get(limit.load_level, limit)
        if not limit.is_apart and (limit.resource, limit.detail) != (other.resource, other.detail):
            open_ |= {(limit.arm, limit.load_level), (control, limit.load_level)}
    return frozenset(open_)


# --- Load curve -----------------------------------------------------------------------------------------------------


class CurveModel(Record):
    """Universal Scalability Law of an arm: X(N) = λN / (1 + σ(N - 1) + κN(N - 1)) (Gunther 2007).

    Null numbers where it does not fit; ``reason`` says why. ``peak`` is the number of clients of the largest
    throughput, ``knee`` the number from which more clients add latency rather than throughput.
    """

    arm: str
    throughput_of_one: Estimate | None  # λ, 1/s
    contention: Estimate | None  # σ
    coherency: Estimate | None  # κ
    peak: Estimate | None
    knee: float | None
    error: float | None  # largest relative distance of a level from the curve
    reason: MaybeMessage


class Crossing(Record):
    """Where an arm and the control change places: between two load levels, or nowhere (then there is no record)."""

    arm: str
    control: str
    clients: float  # by interpolation of the log ratio
    below: str  # arm that has the larger throughput below it
    above: str
    is_certain: bool  # both neighbouring levels have intervals that exclude 1, those of all levels together


# --- Stability ------------------------------------------------------------------------------------------------------


class Dip(Record):
    """A stretch in which throughput was far below its usual value. ``start`` is seconds since measuring began."""

    run: int
    start: float
    length: float
    depth: float  # 1 - lowest / usual
    half_recovery: float | None  # s from the lowest point until half of the depth was made good; None: never in the run
    recovery: float | None  # the same for 90 %
    stalled: float  # s without a single commit
    near: tuple[str | Message, ...]  # what the server's log says of that time: "checkpoint", "autovacuum of t", …
    more: MaybeMessage = None  # the wait that more sessions were in than outside of dips


class DipWait(Record):
    """Average sessions of the load in a wait inside dips, and in all other seconds of the same runs.

    ``chance``: probability that any wait differs as much where none has to do with dips.
    """

    kind: str
    event: str
    inside: float
    outside: float
    chance: float


class DipSign(Record):
    """A metric that is unlike itself some seconds before dips begin; ``chance`` as in DipWait, of all metrics tried."""

    metric: str  # "waits.Lock", "iostat.aqu/vda"
    unit: str
    lead: float  # s
    before: float
    usual: float
    chance: float


class Period(Record):
    """A rhythm in the throughput; ``false_alarm`` is the probability of one as strong in noise alike."""

    seconds: float
    share: float  # of the variance
    false_alarm: float
    like: str  # "checkpoint_timeout", "autovacuum_naptime", "checkpoints of the log", or ""


class Stability(Record):
    arm: str
    load_level: int
    coefficient_of_variation: Estimate | None  # of throughput per second
    lowest: Estimate | None  # 1st percentile of throughput per second, 1/s
    dip_share: Estimate | None  # share of time in dips
    stalled: Estimate | None  # share of seconds without a commit
    trend: Estimate | None  # 1/s per minute, Theil-Sen
    dips: tuple[Dip, ...]  # longest first
    periods: tuple[Period, ...]
    aligned: MaybeMessage  # whether dips and events of the log go together; none where there are none of one
    waits: tuple[DipWait, ...] = ()  # the largest difference first
    signs: tuple[DipSign, ...] = ()  # those that are hardly chance
    signs_tried: int = 0  # metrics; 0 where there were too few dips


# --- Associations ---------------------------------------------------------------------------------------------------


class Association(Record):
    """How two metrics go together inside the load levels of all arms. An association, not a cause."""

    first: str
    second: str
    family: str  # "waits and system", "system", "speed and I/O", …, "chosen"
    expected: Literal["+", "-", ""]
    spearman: float | None
    low: float | None  # block bootstrap
    high: float | None
    pearson: float | None
    p_value: float | None
    q_value: float | None  # Benjamini-Hochberg over all pairs
    is_real: bool  # q below the false-discovery rate
    part_of: bool  # one is a part of the other by definition: they must go together
    count: int  # seconds that count


# --- Checks ---------------------------------------------------------------------------------------------------------


class Level(StrEnum):
    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    ALARM = "alarm"


class Check(Record):
    """One check of one arm at one load level, on samples as they were read."""

    id: str  # "cpu-busy", …
    name: str  # in English, of checks.toml
    arm: str
    load_level: int
    object: str  # device, …; "" where there is only one
    value: float | None  # median over the time, in ``unit``
    unit: str
    threshold: float
    share: float | None  # of the time beyond the threshold
    level: Level
    advice: MaybeMessage  # none where all is well


class LoadKind(Record):
    """OLTP, OLAP or mixed, from several features, whose values are here; null where one could not be told."""

    arm: str
    load_level: int
    kind: Literal["OLTP", "OLAP", "mixed", "undetermined"]
    hit_ratio: float | None
    read_per_dirtied: float | None  # blocks read or hit per block dirtied
    bytes_per_read: float | None
    rows_per_transaction: float | None
    transaction_seconds: float | None  # of the scenario in which a session is at a random moment
    blocks_per_transaction: float | None = None  # read or hit
    text: Message


class LegacyMetrics(Record):
    """pg_expecto's two numbers, for its users: per minute and not smoothed."""

    arm: str
    load_level: int
    speed: float | None  # calls + rows per minute
    waitings: float | None  # samples of waiting at 100 per second, per minute: average waiting sessions × 6000


# --- Scorecard ------------------------------------------------------------------------------------------------------


class CriterionValue(Record):
    criterion: str  # metric
    better: Literal["higher", "lower"]
    weight: float
    ratio: Estimate | None  # arm / control
    rank_share: float | None  # probability that the arm is the best in it


class ArmScore(Record):
    arm: str
    values: tuple[CriterionValue, ...]
    is_pareto: bool  # no other arm is at least as good in all criteria and better in one
    score: float | None  # weighted mean of the log ratios, better is positive
    best_share: float | None  # probability that it has the best score


SAMPLED, WAIT_SAMPLING = "sampled sessions", "pg_wait_sampling"  # tiers: where the split among waits comes from
FAST, STABLE, WEIGHTED = "fast", "stable", "declared weights"  # goals of recommendations; shown translated


class Recommendation(Record):
    goal: str  # FAST, STABLE or WEIGHTED
    arm: str
    text: Message  # with its reason and how sure it is
    is_sure: bool = False  # the intervals of its lead over each other arm exclude none, all together


class Scorecard(Record):
    arms: tuple[ArmScore, ...]
    recommendations: tuple[Recommendation, ...]
    trade_off: MaybeMessage  # none where one arm is best in everything


# --- What charts show -----------------------------------------------------------------------------------------------


class PanelLine(Record):
    name: str  # "IO", "reads", …
    value: tuple[float | None, ...]


class Panel(Record):
    """Quantities of one run over its time: ``t`` in seconds since measuring began, of the same length as each line."""

    run: int
    arm: str
    block: int
    topic: str  # "waits" | "cpu" | "disk" | "memory" | "write-back"
    title: Message  # "average sessions by wait type", "disk vda: requests", …
    unit: str  # "", "1/s", "B/s", "B", "s", "share"
    stacked: bool
    t: tuple[float, ...]
    lines: tuple[PanelLine, ...]


class CourseLine(Record):
    arm: str
    value: tuple[float | None, ...]


class Course(Record):
    """A metric over measured time, ``t`` in seconds: in each arm the mean of its runs at the same time."""

    metric: str  # "pgbench.tps", "waits.Lock", "iostat.util/vda"
    unit: str
    t: tuple[float, ...]
    lines: tuple[CourseLine, ...]


class Mark(Record):
    """Something that the server's log tells, on the time axis of a run. ``end`` equals ``start`` for a moment."""

    run: int
    start: float  # s since measuring began
    end: float
    kind: str  # "checkpoint", "autovacuum", "temporary file", "lock wait", "error", "slow statement", …
    text: MaybeMessage


class LogSummary(Record):
    """What an arm's server wrote to its log in the measured time."""

    arm: str
    kind: str  # as in Mark, errors with their SQLSTATE: "error 40001"
    count: int
    numbers: dict[str, float]  # sums, in base units: "buffers", "write seconds", "sync seconds", "distance bytes", …
    text: MaybeMessage


class Causes(Record):
    """All of it. ``tier`` says where waits come from: SAMPLED or WAIT_SAMPLING."""

    tier: str
    budgets: tuple[LatencyBudget, ...] = ()
    differences: tuple[BudgetDifference, ...] = ()
    plans: tuple[PlanChange, ...] = ()  # that differ from the control's
    statements: tuple[StatementUse, ...] = ()  # as pg_stat_statements counts them; none without it
    paretos: tuple[Pareto, ...] = ()
    wait_types: tuple[WaitType, ...] = ()
    background: tuple[BackgroundWait, ...] = ()
    limits: tuple[Limit, ...] = ()
    curve_models: tuple[CurveModel, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    stability: tuple[Stability, ...] = ()
    associations: tuple[Association, ...] = ()
    checks: tuple[Check, ...] = ()
    kinds: tuple[LoadKind, ...] = ()
    legacy: tuple[LegacyMetrics, ...] = ()
    scorecard: Scorecard | None = None
    disks: tuple[DiskUse, ...] = ()
    files: tuple[FileUse, ...] = ()  # of a load on files
    panels: tuple[Panel, ...] = ()
    courses: tuple[Course, ...] = ()
    marks: tuple[Mark, ...] = ()
    log: tuple[LogSummary, ...] = ()
    text: MaybeMessage = None  # why, in two or three sentences
