"""What the samples say about causes, as data: the part of the findings that explains a verdict.

Times are seconds, sizes bytes, rates per second, shares between 0 and 1. A number that is not known is null.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.over_time import Course, LogSummary, Mark, Panel, Stability
from pgtrial.findings.record import Estimate, Record
from pgtrial.findings.session_time import (
    BackgroundWait,
    BudgetDifference,
    LatencyBudget,
    Pareto,
    PlanChange,
    StatementUse,
    WaitType,
)
from pgtrial.findings.storage import DiskUse, FileUse

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


class LimitEvidence(Record):
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
    evidence: tuple[LimitEvidence, ...]


class Limit(Record):
    """What limits an arm at a load level: the first suspect if it is strong enough, else ``UNDETERMINED``.

    ``is_apart``: whether it is sure, over the blocks, that it is another limit than the control's; null of the control.
    ``proved``: the time that an experiment has proved to be the largest, with the ``elasticity`` of the arm's
    throughput to it. It has another name than ``resource`` where that is why it takes so long: reads because there is
    too little memory, flushes while a lock is held. ``by_rules``: what the rules named, where the experiment says
    something else, which counts.
    """

    arm: str
    load_level: int
    resource: Resource
    detail: str | Message
    text: Message  # one sentence
    suspects: tuple[Suspect, ...]  # strongest first
    is_apart: bool | None = None
    proved: Resource | None = None
    elasticity: Estimate | None = None
    by_rules: Resource | None = None


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
