"""What only some experiments are asked, as data: requirements, several hosts, a soak, factors, limits, huge pages.

Ratios are dimensionless: 1.05 is 5 % more. Means are in the metric's base unit.
"""

from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.record import Estimate, Record
from pgtrial.model.verdict import Decision, Verdict


class Acceptance(Record):
    """One limit, in one arm, at one load level; values are in the metric's base unit.

    ``value`` is the geometric mean of the blocks, or their median where one of them is zero; its interval holds
    together with those of all other rows. The verdict is "supported" where the whole interval is on the good side of
    the limit, "refuted" where it is beyond.
    """

    arm: str
    metric: str
    unit: str
    scenario: str | None
    load_level: int | str  # index, or "all" for a metric that has no value of each level
    limit: float
    is_most: bool  # the limit is the highest value that is enough; else the lowest
    value: Estimate | None  # None: no run of the arm has one
    blocks: int
    failed: int  # attempts of the arm that failed: with one it is not enough
    missing: int = 0  # valid runs without a value, as no transaction ended in them: likewise
    interrupted: int = 0  # attempts of the arm that were cut off; the interval bears them
    lost: float = 0.0  # of a time: share of its transactions that failed or were skipped; the interval bears them
    verdict: Verdict


# The claim's effect on each of several hosts, and over hosts like them.


class HostFinding(Record):
    """One host, judged by its own blocks with the noise that all hosts have in common."""

    host: str
    blocks: int
    effect: Estimate  # ratio: arm / control
    verdict: Verdict  # of the claim's first metric, at its confidence; not together with the other hosts
    others: float  # ratio: mean of the other hosts, without those that differ more
    p_differs: float | None  # of the same effect as on these, adjusted for all hosts; null: the noise is not known
    differs: bool  # surely, and by more than the margin


class Hosts(Record):
    """An effect over hosts; ``mean`` and ``prediction`` are ratios, ``within`` and ``between`` SDs of log ratios."""

    arm: str
    metric: str
    scenario: str | None
    confidence: float
    method: str  # means | reml
    hosts: tuple[HostFinding, ...]
    mean: Estimate
    degrees: float  # of freedom, of the error of the mean
    within: Estimate | None  # of blocks of one host; null: each host has one block
    between: Estimate | None  # of the hosts' true effects
    prediction: Estimate | None  # where the effect on a host is expected that was not tested
    no_prediction: MaybeMessage = None
    text: tuple[Message, ...]  # on how many hosts the claim holds, and on which the effect is another


# What drifts in a soak: values of its windows, and a slope with an interval for each metric of an arm.


class Drift(Record):
    """``values``: one per window of the soak. ``per_hour``: the slope; no bounds where the soak was too short for any.

    The intervals of all metrics and arms hold together.
    """

    metric: str
    unit: str
    values: tuple[float | None, ...]
    per_hour: Estimate | None  # None: too short for a slope
    share: float | None  # of the first window, by which it changes along the slope; a size: from first to last window
    grown: int = 0  # of a size: 1 where it has grown, -1 where it has shrunk


class SoakArm(Record):
    """``windows`` are the numbers of the analysed ones: the longest stretch of load without a restart."""

    arm: str
    windows: tuple[int, ...]
    done: int  # windows in all stretches
    stretches: int
    hours: tuple[float, ...]  # middle of each window, since the beginning of the first
    drifts: tuple[Drift, ...]
    text: Message


class Soak(Record):
    planned: int  # windows of each arm
    window: float  # s
    confidence: float
    arms: tuple[SoakArm, ...]


# What factors do: main effects, interactions, and how a metric follows the levels of a numeric factor.


class LevelPoint(Record):
    """Geometric mean over the blocks with a t interval; null with fewer than two blocks."""

    levels: tuple[str, ...]  # of each factor, in their order; of a curve that of its factor alone
    value: float
    low: float | None
    high: float | None


class MainEffect(Record):
    """A level of a factor against its first one, averaged over the levels of the others."""

    factor: str
    level: str
    base: str
    ratio: Estimate  # with an interval that holds together with those of all main effects and interactions
    text: Message


class Interaction(Record):
    """The effect of a factor at a level of another one, divided by its effect at the other's first level."""

    factor: str
    level: str
    other: str
    other_level: str
    ratio: Estimate  # 1: each does what it does by itself
    text: Message


class Curve(Record):
    """A metric by the levels of a numeric factor, ascending, averaged over the levels of the others."""

    factor: str
    points: tuple[LevelPoint, ...]
    best: str  # level with the best mean
    among: tuple[str, ...]  # levels among which the best one is, with the confidence of the experiment
    per_doubling: Estimate | None  # ratio per doubling of the level, of a straight line; null where a level is zero
    text: Message


class Factors(Record):
    metric: str
    levels: dict[str, tuple[str, ...]]  # of each factor, the control's first
    points: tuple[LevelPoint, ...]  # of each arm
    mains: tuple[MainEffect, ...]
    interactions: tuple[Interaction, ...]
    curves: tuple[Curve, ...]
    reason: MaybeMessage = None  # why some, or all, has no interval, and nothing is asserted of it


# What limits an arm by experiment: an elasticity for each of its resources, and what is missing from one.


class LedgerEntry(Record):
    """``elasticity``: per cent of throughput for 1 % of the time that the resource takes, or that its limit makes wait.

    ``step``: how many times as long its time was made.
    """

    resource: str  # knob and key: "slowdown.cpu", "cgroup.write_iops"
    name: Message
    step: float
    elasticity: Estimate  # intervals of all resources hold together


class Ledger(Record):
    """Elasticities to all times of a closed system add up to 1; ``rest`` is what is missing, and has not been found."""

    of: str  # the arm that the file of the user has
    metric: str
    blocks: int
    confidence: float
    entries: tuple[LedgerEntry, ...]  # largest first
    memory: tuple[LedgerEntry, ...] = ()  # for 1 % more of it; no time, and so no part of the sum
    total: Estimate
    rest: Estimate
    leads: bool  # the first is surely larger than the second, also without what the sum exceeds 1 by
    fits: bool  # throughput is a product of powers of the times, as far as the runs tell
    not_varied: tuple[Message, ...]
    text: Message


# What the experiment says about the size of memory's pages.


class PageGain(Record):
    """Throughput of an arm against the arm that differs from it in nothing but the page size."""

    arm: str
    baseline: str
    page: str  # as declared: "2MB", "1GB"; "none" for ordinary pages; "" where the file says nothing of it
    baseline_page: str
    scale: int | None  # of pgbench's tables
    load_level: int | str  # index, or "all"
    ratio: float | None
    low: float | None  # simultaneous over all cells; bears failures, None where they leave it open
    high: float | None
    confidence: float
    decision: Decision
    blocks: int


class DataFit(Record):
    """Whether the data of some arms fit in the server's shared buffers."""

    arms: tuple[str, ...]
    scale: int | None
    data: float | None  # B, estimated from the scale
    shared_buffers: float | None  # B, as the server said it
    fits: bool | None
    hit_share: Estimate | None  # of the blocks that were asked for, found in shared buffers; all load levels


class PageCheck(Record):
    """What the kernel showed of the pages in the runs of an arm; sizes in bytes."""

    arm: str
    page: str  # as declared
    runs: int  # valid ones
    seen: int  # of them, with a page size that was read under load
    confirmed: int  # of them, with the size that was asked for
    found: tuple[float, ...]  # sizes that were found (KernelPageSize of the shared memory)
    transparent: float | None  # most of the shared memory that the kernel mapped by huge pages of its own
    pool: float | None  # most of all pools under load
    used: float | None  # most of it that was in use, or reserved for who has not touched it yet
    given_back: int  # runs after which all pools were as large as before
    not_given_back: int


class TranslationCost(Record):
    """Misses of the processor's translation caches (TLB) of the server's processes; means over blocks."""

    arm: str
    load_level: int
    misses: Estimate | None  # of data, loads and stores, per transaction
    miss_share: Estimate | None  # of the loads
    code_misses: Estimate | None  # of instructions, per transaction
    instructions: Estimate | None  # per transaction


class HugePageFindings(Record):
    """``reason`` says why misses are not known, None where they are."""

    gains: tuple[PageGain, ...]
    fits: tuple[DataFit, ...]
    checks: tuple[PageCheck, ...]
    translations: tuple[TranslationCost, ...]
    reason: MaybeMessage
    text: MaybeMessage  # in two or three sentences
