"""Load curves: the Universal Scalability Law of each arm, and where an arm and the control change places."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pgtrial.analysis.causes.sessions import THROUGHPUT, group_cells, pooled_mean, rank_objects
from pgtrial.analysis.causes.together import estimate_difference
from pgtrial.analysis.effects.comparison import blocks_of
from pgtrial.analysis.effects.contrasts import find_borne
from pgtrial.analysis.effects.estimate import Estimated, find_effect
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import Crossing, CurveModel, LoadKind
from pgtrial.findings.findings import Effect
from pgtrial.findings.message import Message, Value, message
from pgtrial.model.metrics import LATENCY_MEAN, TPS
from pgtrial.stats.scalability import crossings, fit_scalability


def model_curves(evidence: Evidence, values: Values) -> tuple[CurveModel, ...]:
    """One per arm that has a valid run, where there are several load levels; without numbers where there is no fit."""
    if len(evidence.levels) < 2:
        return ()
    is_open = any(level.rate is not None for level in evidence.levels)
    return tuple(
        _without_numbers(arm.name, message("no-curve.open-loop")) if is_open else _model(evidence, values, arm.name)
        for arm in evidence.arms
        if evidence.runs_of(arm.name)
    )


def find_crossings(evidence: Evidence, values: Values, estimated: tuple[Estimated, ...]) -> tuple[Crossing, ...]:
    """Where the throughput of a candidate and of the control cross between two load levels, arm by arm.

    It is certain where both levels have intervals that exclude 1, among those of all levels.
    """
    if evidence.control is None or any(level.rate is not None for level in evidence.levels):
        return ()
    levels = sorted(evidence.levels, key=lambda level: level.clients)
    found = []
    for arm in evidence.candidates:
        effects = [_effect_at(evidence, estimated, arm.name, level.index) for level in levels]
        ratios = [math.log(effect.ratio) if effect is not None and effect.ratio else math.nan for effect in effects]
        sides = [_find_side(evidence, values, effect, members=len(levels)) for effect in effects]
        for crossing in crossings([level.clients for level in levels], ratios):
            below, above = evidence.control.name, arm.name
            if not crossing.is_rising:
                below, above = above, below
            found.append(
                Crossing(
                    arm=arm.name,
                    control=evidence.control.name,
                    clients=crossing.clients,
                    below=below,
                    above=above,
                    is_certain=sides[crossing.lower] * sides[crossing.upper] < 0,
                )
            )
    return tuple(found)


def _model(evidence: Evidence, values: Values, arm: str) -> CurveModel:
    throughput = [
        [values.get((run.id, evidence.load.throughput.name, None, level.index), math.nan) for level in evidence.levels]
        for run in evidence.runs_of(arm)
    ]
    fit = fit_scalability([level.clients for level in evidence.levels], throughput, confidence=evidence.confidence)
    if fit.reason:
        return _without_numbers(arm, fit.reason, error=fit.error)
    return CurveModel(
        arm=arm,
        throughput_of_one=fit.one,
        contention=fit.contention,
        coherency=fit.coherency,
        peak=fit.peak,
        knee=fit.knee,
        error=fit.error,
        reason=None,
    )


def _without_numbers(arm: str, reason: Message, *, error: float | None = None) -> CurveModel:
    return CurveModel(
        arm=arm,
        throughput_of_one=None,
        contention=None,
        coherency=None,
        peak=None,
        knee=None,
        error=error,
        reason=reason,
    )


def _effect_at(evidence: Evidence, estimated: Sequence[Estimated], arm: str, level: int) -> Effect | None:
    metric = evidence.load.throughput.name
    estimate = find_effect(estimated, arm=arm, metric=metric, scenario=None, level=level)
    return estimate.effect if estimate is not None else None


def _find_side(evidence: Evidence, values: Values, effect: Effect | None, *, members: int) -> int:
    """On which side of no effect its interval lies, when it holds for ``members`` load levels together."""
    if effect is None or effect.low is None or effect.high is None:
        return 0
    blocks = blocks_of(evidence.pairs(effect.arm))
    logs = {
        block: math.log(ratio) for block, ratio in zip(blocks, effect.block_ratios, strict=True) if ratio is not None
    }
    borne = find_borne(evidence, values, (effect.metric, effect.scenario, effect.load_level))
    return estimate_difference(evidence, logs, arm=effect.arm, members=members, borne=borne).side()


# Whether a load is OLTP, OLAP or both, from several features, each with its value.
#
# No single number tells: a ratio of blocks read to blocks dirtied, which pg_expecto goes by, is infinite for a load of
# point queries, and long transactions may be waits for locks. So each known feature votes, and the features are shown.


WorkloadType = Literal["OLTP", "OLAP", "mixed", "undetermined"]

FEWEST = 2  # features that have to be known
CLEAR = 0.5  # mean vote from which one kind prevails; votes are -1 (OLTP), 0 and 1 (OLAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Values up to ``oltp`` speak for OLTP, those from ``olap`` on for OLAP, those between for neither.

    ``code`` is of the message that names the feature, its value, and what it speaks for.
    """

    code: str
    oltp: float
    olap: float

    def vote(self, value: float) -> int:
        if value <= self.oltp:
            return -1
        return 1 if value >= self.olap else 0


# A transaction of an application answers a person; one of a report may take its time. Rows and blocks say how much it
# looks at, bytes per read whether the device sees blocks of 8 kB or a scan with read-ahead. 200 is pg_expecto's limit.
TRANSACTION_SECONDS = Feature(code="feature.transaction-time", oltp=0.1, olap=1.0)
ROWS = Feature(code="feature.rows", oltp=1_000, olap=100_000)
BLOCKS = Feature(code="feature.blocks", oltp=1_000, olap=10_000)
BYTES_PER_READ = Feature(code="feature.bytes-per-read", oltp=16 * 1024, olap=64 * 1024)
READ_PER_DIRTIED = Feature(code="feature.read-per-dirtied", oltp=40, olap=200)

_SOME_READS = 10.0  # per second, below which the size of a read means nothing


def describe_load_kinds(evidence: Evidence, timelines: Sequence[Timeline], values: Values) -> tuple[LoadKind, ...]:
    """Per arm and load level."""
    return tuple(
        _describe(arm, level, cell, _transactions(evidence, values, cell))
        for (arm, level), cell in group_cells(timelines).items()
    )


def judge_kind(features: Sequence[tuple[Feature, float]]) -> WorkloadType:
    """The kind that most features speak for; "mixed" where they do not agree."""
    if len(features) < FEWEST:
        return "undetermined"
    mean = sum(feature.vote(value) for feature, value in features) / len(features)
    if mean >= CLEAR:
        return "OLAP"
    return "OLTP" if mean <= -CLEAR else "mixed"


def _describe(arm: str, level: int, cell: tuple[Timeline, ...], usual: "_Transactions | None") -> LoadKind:
    seconds, share_of_work = (None, None) if usual is None else (usual.seconds, usual.share_of_work)
    hit, read, dirtied = (_rate(cell, name) for name in ("db.hit", "db.read", "statements.dirtied"))
    if share_of_work is None:
        throughput = pooled_mean(cell, THROUGHPUT) or 0.0
        share_of_work = 1 / throughput if throughput > 0 else None
    blocks = None if hit is None or read is None else hit + read
    rows = _rate(cell, "db.tuples_returned")
    reads = sum(rate for _, rate in rank_objects(cell, "iostat.r"))
    read_bytes = sum(rate for _, rate in rank_objects(cell, "iostat.r_bytes"))
    values: dict[Feature, float | None] = {
        TRANSACTION_SECONDS: seconds,
        ROWS: rows * share_of_work if rows is not None and share_of_work else None,
        BLOCKS: blocks * share_of_work if blocks is not None and share_of_work else None,
        BYTES_PER_READ: read_bytes / reads if reads >= _SOME_READS else None,
        READ_PER_DIRTIED: blocks / dirtied if blocks is not None and dirtied else None,
    }
    hit_ratio = hit / blocks if hit is not None and blocks else None
    features = tuple((feature, value) for feature, value in values.items() if value is not None)
    kind = judge_kind(features)
    return LoadKind(
        arm=arm,
        load_level=level,
        kind=kind,
        hit_ratio=hit_ratio,
        read_per_dirtied=values[READ_PER_DIRTIED],
        bytes_per_read=values[BYTES_PER_READ],
        rows_per_transaction=values[ROWS],
        transaction_seconds=seconds,
        blocks_per_transaction=values[BLOCKS],
        text=_tell(kind, features, of_all=len(values), hit_ratio=hit_ratio),
    )


def _rate(cell: tuple[Timeline, ...], metric: str) -> float | None:
    """Mean over all objects of a metric together."""
    objects = {about for timeline in cell for about in timeline.objects(metric)}
    means = [mean for about in sorted(objects) if (mean := pooled_mean(cell, metric, about)) is not None]
    return sum(means) if means else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transactions:
    """The transaction in which a session is at a random moment: how long it takes, and which part it has of what all of
    them read in a second.
    """

    seconds: float
    share_of_work: float


def _transactions(evidence: Evidence, values: Values, cell: tuple[Timeline, ...]) -> _Transactions | None:
    """None where neither throughput nor latency is known.

    A plain mean over transactions would hide one long report among a thousand short inserts, which is where most of
    the sessions are: so each scenario counts by the time of its transactions, throughput × latency. What they read is
    counted by the server for all together; it is taken to go with their time.
    """
    several = len(evidence.scenarios) > 1
    of_scenarios: dict[str | None, list[tuple[float, float]]] = {}
    for timeline in cell:
        for scenario in evidence.scenarios if several else (None,):
            latency = values.get((timeline.run, LATENCY_MEAN.name, scenario, timeline.level))
            throughput = values.get((timeline.run, TPS.name, scenario, timeline.level))
            if latency is not None and throughput:
                of_scenarios.setdefault(scenario, []).append((throughput, latency))
    sessions = {name: sum(x * w for x, w in found) for name, found in of_scenarios.items()}
    total = sum(sessions.values())
    if total <= 0:
        return None
    weighted = sum(x * w * w for found in of_scenarios.values() for x, w in found)
    share_of_work = sum(
        (sessions[name] / total) ** 2 * len(found) / sum(x for x, _ in found) for name, found in of_scenarios.items()
    )
    return _Transactions(seconds=weighted / total, share_of_work=share_of_work)


def _tell(
    kind: WorkloadType, features: Sequence[tuple[Feature, float]], *, of_all: int, hit_ratio: float | None
) -> Message:
    if kind == "undetermined":
        return message("load-kind.unknown", known=len(features), all=of_all)
    votes: dict[int, Value] = {-1: "OLTP", 0: message("vote.neither"), 1: "OLAP"}
    told = tuple(message(feature.code, value=value, vote=votes[feature.vote(value)]) for feature, value in features)
    text = (
        message("load-kind.mixed", features=told)
        if kind == "mixed"
        else message("load-kind.clear", kind=kind, features=told)
    )
    if hit_ratio is None:
        return text
    return message("sentences", parts=(text, message("load-kind.hits", share=hit_ratio)))
