"""What happened over the time of the runs: dips, rhythms, charts, entries of the log."""

from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.record import Estimate, Record


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
