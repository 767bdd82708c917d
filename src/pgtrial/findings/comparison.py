"""What a comparison of several experiments concluded, as data; ``--json`` prints it.

Ratios are dimensionless, times seconds, throughput 1/s. A number that is not known is null.
"""

from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import ArmFinding
from pgtrial.findings.record import Record
from pgtrial.model.caveat import Severity
from pgtrial.model.verdict import Decision, Verdict

SCHEMA_VERSION = 2


class Value(Record):
    """An estimate of a metric with its interval, in the metric's base unit."""

    metric: str
    value: float | None
    low: float | None
    high: float | None


class WorldDifference(Record):
    """Something that is not the same in all that is compared; what is not known of one is not in ``values``."""

    group: str  # "design", "setting", "PostgreSQL", "machine", …
    name: str
    values: dict[str, str]  # key of what is compared to value
    severity: Severity
    why: str


class ComparedExperiment(Record):
    """One result folder. ``key`` is its letter in tables; ``excluded`` says why it is in no combined effect, or ""."""

    key: str
    folder: str
    name: str
    started: float | None
    ended: float | None
    is_finished: bool
    method: str
    blocks: int
    control: str
    arms: tuple[ArmFinding, ...]
    metric: str
    margin: float
    confidence: float
    verdict: Verdict
    provisional: bool = False  # of the verdict: blocks are still to come
    reason: str
    sd_log_ratio: float | None  # SD between blocks of the log ratio of the claim's arm
    control_values: tuple[Value, ...]  # of the control, over the blocks
    excluded: str = ""


class StudyEffect(Record):
    """An arm against the control in one experiment, as its own report has it. ``log_error`` is of log(ratio)."""

    experiment: str
    arm: str
    ratio: float | None
    low: float | None
    high: float | None
    log_error: float | None
    blocks: int
    decision: Decision
    degrees: float | None  # of freedom, of log_error
    hidden_below: float = 0.0  # by how much log(ratio) may be lower for what is not among the good runs of the blocks
    hidden_above: float = 0.0
    lean: float = 0.0  # by how much log(ratio) may be off on average, because a rule ends such experiments when decided
    left_out: str = ""  # why it is not, or ""


class PooledEffect(Record):
    """The mean over experiments, each counted once, and how they differ.

    ``f`` is the variance of their log ratios in units of what their own errors explain, ``f_p`` its p value; ``tau`` is
    the SD of the true log ratios between experiments.
    """

    experiments: int
    ratio: float
    low: float
    high: float
    confidence: float
    degrees: int
    log_error: float
    p_value: float
    f: float
    f_p: float
    i2: float
    tau: float
    tau_low: float
    tau_high: float
    prediction_low: float | None  # ratio that another experiment like these may measure
    prediction_high: float | None
    these_low: float | None = None  # of the mean of these experiments' own effects, whatever others would show
    these_high: float | None = None
    hidden_below: float = 0.0  # the mean of those of the experiments, and of what they lean by: in all the intervals
    hidden_above: float = 0.0
    margin: float | None  # null where the experiments have different ones
    decision: Decision | None
    provisional: bool = False  # blocks are still to come in one of the experiments


class Contrast(Record):
    """One comparison of two arms, as all experiments that define both in the same way measured it."""

    title: str  # "off against on"
    arm: dict[str, str]  # what defines the arm and is not the same in the control
    control: dict[str, str]
    metric: str
    better: str
    scenario: str | None
    load_level: str  # label; "all load levels" for all together
    is_overall: bool
    is_claimed: bool  # some experiment's hypothesis is about it
    studies: tuple[StudyEffect, ...]
    pooled: PooledEffect | None  # null with fewer than two experiments
    caveats: tuple[CaveatFinding, ...] = ()


class NotCombined(Record):
    """Two experiments whose claims are not about the same, and in what their definitions differ."""

    first: str
    second: str
    reasons: tuple[str, ...]


class ClaimUnderLoads(Record):
    """One claim that experiments with different loads have tried; ``verdicts`` by the keys of these."""

    title: str  # "off against on"
    claim: str  # in the words of the first
    loads: int
    verdicts: dict[str, Verdict]
    provisional: bool = False  # blocks are still to come in one of them


class Indirect(Record):
    """Two arms that no experiment has together, by way of the control that both were measured against."""

    title: str
    metric: str
    better: str
    scenario: str | None
    experiments: tuple[tuple[str, ...], tuple[str, ...]]  # of the first and of the second arm
    ratio: float  # second arm / first arm
    low: float
    high: float
    confidence: float
    p_value: float


class ExperimentComparison(Record):
    schema_version: int = SCHEMA_VERSION
    kind: str = "experiments"
    pgtrial_version: str
    rule: tuple[str, ...]
    experiments: tuple[ComparedExperiment, ...]
    differences: tuple[WorldDifference, ...]
    contrasts: tuple[Contrast, ...]
    not_combined: tuple[NotCombined, ...]
    under_loads: tuple[ClaimUnderLoads, ...] = ()
    indirect: tuple[Indirect, ...]
    caveats: tuple[CaveatFinding, ...]
