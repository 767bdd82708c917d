"""Findings: everything the analysis concluded, as data; findings.json is this, and a public contract."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from pgtrial.findings.causes import Causes
from pgtrial.findings.caveat import BESIDE_VERDICT, CaveatFinding
from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.questions import Acceptance, Factors, Hosts, HugePageFindings, Ledger, Soak
from pgtrial.findings.record import Estimate, Record
from pgtrial.model.rules import RULES
from pgtrial.model.verdict import Decision, Verdict

SCHEMA_VERSION = 2


Margin = Annotated[float, Field(ge=0, lt=1)]


class ArmFinding(Record):
    name: str
    role: str  # control | candidate | placebo
    settings: dict[str, str]  # as declared
    knobs: dict[str, dict[str, str]] = Field(default_factory=dict)  # what else: table of the file to name to value
    version: str = ""  # of its server, as that said it; "" where no run told it
    disk: str = ""  # class that it is on; "" for none
    is_emulated: bool = False  # its disk is one that pgtrial emulates: a loop device with limits
    runs_done: int
    runs_invalid: int


class LevelFinding(Record):
    index: int
    clients: int
    rate: float | None
    label: Message


class ExperimentFinding(Record):
    name: str
    description: str
    started: float | None  # seconds since the epoch
    ended: float | None
    complete: bool  # every slot of the schedule has a finished run
    method: str  # blocks | interleaved | duet
    method_reason: MaybeMessage = None  # why, where the file left it open
    restore: str = ""  # each-run | each-block | never
    seed: int
    rules: int = Field(default=1, ge=1, le=max(RULES))  # version of the rules by which the verdict was reached
    digest: str = ""  # of claim and plan, recorded before the first run; "": by a pgtrial that recorded none
    registered: float | None = None  # seconds since the epoch, when it was recorded
    attempts_before: int | None = None  # experiments on this machine with the same claim; None: not known
    revision: str = ""  # of what was tested, as whoever ran it names it
    blocks_planned: int
    blocks_complete: int  # blocks in which every arm has a finished run
    workload: dict[str, str | Message]  # plain facts for the report: "scenarios", "clients", "duration", "protocol", …
    target: dict[str, str]  # "postgres version", "programs", "data directory", …
    scenarios: tuple[str, ...]
    arms: tuple[ArmFinding, ...]
    levels: tuple[LevelFinding, ...]


class ClaimPart(Record):
    """One metric of a claim of several, over all load levels."""

    metric: str
    scenario: str | None
    expect: str
    margin: Margin
    verdict: Verdict  # what it says of the whole: supported at the full level, refuted at its share of that
    reason: Message  # one sentence


class HypothesisFinding(Record):
    claim: str
    arm: str
    control: str
    metric: str
    scenario: str | None
    expect: str
    margin: Margin
    confidence: float
    declared_confidence: float | None = None  # in the file, where the claim was tried before; None: the same
    verdict: Verdict
    provisional: bool = False  # blocks are still to come: the interval holds whenever one looks
    reason: Message  # one sentence, or one for each part
    not_tested: bool = False  # inconclusive, because no setting had anything to act on, whatever the interval
    parts: tuple[ClaimPart, ...] = ()  # none: a claim of one metric, which is named above


class Engagement(Record):
    """Whether a setting in which the claim's arm differs from the control had something to act on in either of them."""

    setting: str
    state: str  # engaged | idle | unknown
    text: Message  # what was seen of it; of one that was idle also what would make it act


class Effect(Record):
    """Arm against control. ``ratio``, ``low``, ``high`` are dimensionless: arm / control."""

    arm: str
    metric: str
    better: str  # higher | lower | neither
    scenario: str | None  # None: all scenarios together
    load_level: int | str  # index, or "all"
    ratio: float | None
    low: float | None  # simultaneous over the arms of the experiment
    high: float | None
    confidence: float
    p_value: float | None  # paired t on the blocks
    p_adjusted: float | None  # Holm over the arms
    p_sign_flip: float | None  # exact where the number of blocks allows
    hodges_lehmann: float | None  # ratio
    log_error: float | None = None  # standard error of log(ratio)
    degrees: int | float | None = None  # of freedom, of that
    position: float | None = None  # ratio by which the second run of a block differs, where it is taken out
    carry_over: float | None = None  # ratio by which a run after one of the arm differs from one after the control
    # By how much log(ratio) may be lower, and higher, for what is not among the good runs of the blocks: failures in
    # excess, and what an arm leaves for others or does late.
    hidden_below: float = 0.0
    hidden_above: float = 0.0
    # It, or the control, failed so much more often, or (of a time) lost so many more transactions, or so many of their
    # runs were interrupted, that nothing is decided.
    fails_more: bool = False
    margin: Margin
    decision: Decision
    sure: bool = False  # the decision holds together with those about everything else that is compared (Holm)
    blocks: int
    needed: int | None  # further blocks to reach a decision; None: decided, or not in reach
    block_ratios: tuple[float | None, ...]  # one per complete block, in order
    caveats: tuple[CaveatFinding, ...]

    @property
    def key(self) -> tuple[str, str, str | None, int | str]:
        """What it is of: arm, metric, scenario and load level."""
        return self.arm, self.metric, self.scenario, self.load_level


class CalibratedNoise(Record):
    """What a calibration on this machine had said of the method that was used."""

    method: str  # and its slices: "interleaved 1s"
    created: float  # s since the epoch
    folder: str  # name of the calibration's folder
    sd_log_ratio: float  # of a block with the duration of this experiment
    detectable: float | None  # with the blocks of this experiment
    recommended: str  # method that it recommends


class Noise(Record):
    """Of the primary metric over all levels."""

    sd_log_ratio: float | None  # SD between blocks of the log ratio of the hypothesis' arm
    sd_log_ratio_placebo: float | None
    detectable: float | None  # smallest effect (relative change) found with 80 % probability with these blocks
    calibration: CalibratedNoise | None = None  # None: there was none when the experiment began


class Needed(Record):
    blocks: int | None  # further blocks until the hypothesis can be decided; None: none needed, or not in reach
    low: int | None = None  # four of five truths that go with the data need between low …
    high: int | None = None  # … and high; None: out of reach, or not asked
    text: Message


class Stopping(Record):
    """The rule by which the experiment may end before its last block."""

    rule: str  # decision | each-arm | precision
    precision: float | None  # wished half-width of the interval (relative change), for the rule precision
    spending: str | None  # how the error probability is spent over the looks, unless it ends at a precision
    looks: tuple[int, ...]  # complete blocks at which it was planned to look; the last is the cap
    blocks: int  # complete blocks of the claim's arm
    ended: int | None  # blocks at the look that ended the experiment; None: none did so
    level: float | None  # error probability of one interval after these blocks; None: no interval is due yet
    needed: int | None  # further blocks until the look that will probably end it; None: ended, or not in sight
    text: Message  # the same in one or two sentences


class ArmFailures(Record):
    arm: str
    attempts: int  # that ended by themselves, whether valid or not
    failed: int


class Failures(Record):
    """Attempts of the control and of the claim's arm that failed or were interrupted."""

    arms: tuple[ArmFailures, ...]
    p_value: float  # of "both fail equally often"
    interrupted: int = 0  # runs of the two arms, or blocks that they shared, that pgtrial was ended in
    excess: float  # share of the runs that may be missing from one end
    low: float | None  # interval of the claim's effect, whichever runs these would have been
    high: float | None


class SingleRuns(Record):
    """What one run per arm would have said: each block's ratio alone, of the primary metric over all levels."""

    arm: str
    blocks: int
    above: int  # blocks whose ratio lies above the margin
    below: int  # blocks whose ratio lies below it
    lowest: float
    highest: float


class Adjustment(Record):
    """The claim's effect at equal values of a covariate that the file declared; no verdict depends on it.

    Covariates are shares of time, of each run's measured windows. All numbers are null where there is no adjustment,
    the interval also where a rule for stopping has none yet; ``text`` says why.
    """

    covariate: str  # steal | pressure
    ratio: float | None  # arm / control
    low: float | None  # simultaneous over the arms of the experiment
    high: float | None
    slope: float | None  # change of the log ratio per unit (100 %) by which the arm's run has more of the covariate
    slope_low: float | None
    slope_high: float | None
    difference: float | None  # the covariate in the arm's run less that in the control's, mean over the blocks
    difference_low: float | None
    difference_high: float | None
    sd_before: float | None  # SD between blocks of the log ratio, without the covariate
    sd_after: float | None  # and with it
    blocks: int  # with a ratio and the covariate of both arms
    text: Message  # the same in a few sentences


class ArmSlices(Record):
    """An arm against the control inside the blocks, of throughput, or of mean latency where the claim is about times
    (from rules 15 on); ratios are dimensionless, SDs of log ratios.
    """

    arm: str
    growth: float | None  # ratio to the control in the second half of the slices / that in the first
    growth_low: float | None
    growth_high: float | None
    left_behind: float | None = None  # ratio to the control in what counts / in the washout before it
    left_behind_low: float | None = None
    left_behind_high: float | None = None
    longer: float | None  # ratio to the control in blocks with slices of double length / that in the others
    longer_low: float | None
    longer_high: float | None
    autocorrelation: float | None  # of neighbouring pairs of slices
    sd_blocks: float | None
    sd_expected: float | None  # what the slices of a block make one expect of it
    is_spread_explained: bool | None  # None: not known


class Slices(Record):
    """How the arms of a block shared its time; medians over all slices, in seconds."""

    length: float  # guard included
    guard: float
    number: float  # of an arm at a load level in a block
    counted: float  # measured time of an arm at a load level in a block
    arms: tuple[ArmSlices, ...]


class RunFinding(Record):
    id: int
    slot: int
    block: int
    position: int
    arm: str
    attempt: int
    state: str
    reason: str
    started: float | None
    ended: float | None
    phases: tuple[dict[str, Any], ...]  # {name, level, start, end, seconds}; of measured load the seconds that count
    tps: float | None  # all levels together, for the schedule table
    overhead: float | None  # seconds that are neither measured load nor the turn of another arm


class Observation(Record):
    """One number per run, metric, scenario and load level, in base units (s, 1/s)."""

    run: int
    arm: str
    block: int
    metric: str
    scenario: str | None
    load_level: int | str
    value: float


class ArmMetric(Record):
    """A metric in one arm, over its measured time at all load levels, in its base unit.

    ``mean`` is of the runs; ``median``, ``lowest`` and ``highest`` are of the seconds of all runs, null where the
    metric has none; ``change`` is how much its mean in the second half of the measured time of each load level differs
    from that in the first, mean over the runs. ``ratio`` is arm / control with its interval, which holds for the arms
    of the experiment, but not for all metrics together; null of the control.
    """

    arm: str
    mean: float
    median: float | None
    lowest: float | None
    highest: float | None
    change: Estimate | None
    ratio: Estimate | None
    values: tuple[float | None, ...]  # of each block of the plan, in order


class MetricFinding(Record):
    """A metric of which runs have a number, in all arms; the control comes first. ``scenario`` is null in total."""

    metric: str
    scenario: str | None = None
    unit: str
    better: str  # higher | lower | neither
    arms: tuple[ArmMetric, ...]


class CurvePoint(Record):
    """Throughput or latency of an arm at a load level: mean over blocks (geometric) with a t interval."""

    arm: str
    load_level: int
    metric: str
    value: float | None
    low: float | None
    high: float | None
    blocks: int


class Series(Record):
    """A time series of one run; ``t`` in seconds since the run's first measured second. Same length lists."""

    run: int
    arm: str
    block: int
    metric: str  # pgbench.tps, pgbench.latency_mean, pgbench.latency_p95, …
    unit: str
    t: tuple[float, ...]
    value: tuple[float | None, ...]  # null: a gap


class Distribution(Record):
    """Latencies of an arm at a load level, all blocks together: cumulative share by upper bucket end."""

    arm: str
    scenario: str | None
    load_level: int | str
    latency: tuple[float, ...]  # s
    share: tuple[float, ...]  # share of transactions at or below


class LatencyMap(Record):
    """Transactions of an arm by when they ended and how long they took, all runs that count together.

    Columns are stretches of the measured time, in order; rows are ranges of latency, two for each doubling. ``latency``
    has the ends of the rows, one more than there are rows.
    """

    arm: str
    runs: int
    latency: tuple[float, ...]  # s
    start: tuple[float, ...]  # of each column, s since the first measured second
    end: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]  # of each column, by row; exact


class WaitShare(Record):
    """Average number of sessions in a state, and what it means per transaction by Little's law."""

    arm: str
    load_level: int | str
    wait_type: str  # "CPU" for an active session that does not wait
    wait_event: str
    sessions: float  # average active client sessions
    seconds_per_transaction: float | None


class SettingFinding(Record):
    name: str
    values: dict[str, str]  # arm to value as read back
    source: str
    declared: bool  # named by the experiment file
    differs: bool  # not the same in all arms


class Fact(Record):
    group: str  # "PostgreSQL", "machine", "kernel", "storage", "pgtrial"
    name: str
    value: str


class PlacedValue(Record):
    """What something was in an arm, or in some runs."""

    where: str | Message  # "off", "runs 1–3"
    value: str | Message  # "60"; "60, then 1" of what changed while the load was on


class Difference(Record):
    """Something that was not the same in all runs although nobody asked for it."""

    name: str
    values: tuple[PlacedValue, ...]
    declared: bool

    @field_validator("values", mode="before")
    @classmethod
    def _read_values(cls, given: Any) -> Any:
        """In findings of version 1 it is an object, from where to what."""
        if isinstance(given, dict):
            return tuple({"where": where, "value": value} for where, value in given.items())
        return given


class Fingerprint(Record):
    facts: tuple[Fact, ...]
    differences: tuple[Difference, ...]


GUARD = "guard"  # inside the measured windows: what does not count around the counted parts of slices
OTHER = "other"  # between the phases


class Overhead(Record):
    """Where the time went, seconds summed over all runs that ended."""

    by_phase: dict[str, float]
    share: float | None  # share of the runs' time that is not measured load


class Findings(Record):
    schema_version: int = SCHEMA_VERSION
    pgtrial_version: str
    experiment: ExperimentFinding
    hypothesis: HypothesisFinding
    effects: tuple[Effect, ...]
    placebo: tuple[Effect, ...]
    noise: Noise
    adjusted: Adjustment | None = None  # None: the file declares no covariate
    failures: Failures | None = None  # None: no attempt failed, or arms that share the time of a block
    hosts: Hosts | None = None  # None: all blocks ran on one
    single_runs: tuple[SingleRuns, ...] = ()
    acceptance: tuple[Acceptance, ...] = ()  # none: the file does not say what is enough
    slices: Slices | None = None  # None: each run had its time to itself
    needed: Needed
    stopping: Stopping | None = None  # None: no rule, all blocks are run
    runs: tuple[RunFinding, ...]
    observations: tuple[Observation, ...]
    engagements: tuple[Engagement, ...] = ()  # none: made by a pgtrial that did not look, or arms without a difference
    factors: Factors | None = None  # None: the file has no factors, or no block has all arms
    metrics: tuple[MetricFinding, ...] = ()  # none: made by a pgtrial that did not compare them
    curve: tuple[CurvePoint, ...]
    series: tuple[Series, ...]
    distributions: tuple[Distribution, ...]
    latency_maps: tuple[LatencyMap, ...] = ()  # none: made by a pgtrial that had no heat maps
    waits: tuple[WaitShare, ...]
    causes: Causes | None = None  # None: made by a pgtrial that did not look for them
    ledger: Ledger | None = None  # None: the file is not one of pgtrial limits
    proofs: tuple[Ledger, ...] = ()  # of its arms, where the file asks for a proof; none: no block of it is complete
    soak: Soak | None = None  # None: runs are of blocks
    pages: HugePageFindings | None = None  # None: no two arms differ in the size of pages alone
    settings: tuple[SettingFinding, ...]
    fingerprint: Fingerprint
    overhead: Overhead
    caveats: tuple[CaveatFinding, ...]

    @property
    def beside_verdict(self) -> tuple[str, ...]:
        """What has to be said wherever the verdict is, in the language in use."""
        return tuple(each.text for each in self.caveats if each.code in BESIDE_VERDICT)
