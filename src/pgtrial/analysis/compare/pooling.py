"""Effects of one kind from several experiments, combined; and what limits the result."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgtrial.analysis.caveats import as_finding
from pgtrial.analysis.compare.subjects import Subject
from pgtrial.analysis.comparison_findings import PooledEffect
from pgtrial.analysis.findings import CaveatFinding, Effect
from pgtrial.model.caveat import Caveat, Severity
from pgtrial.model.metric import Better
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import decide
from pgtrial.stats.interval import Known
from pgtrial.stats.meta import Pooled, combine
from pgtrial.stats.paired import FEW_BLOCKS

FEW_EXPERIMENTS = 5
HETEROGENEOUS = 0.1  # p of Cochran's Q; it has little power with few experiments, hence not 0.05
DEFAULT_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An experiment's effect that counts in a combined one; ``known`` is its logarithm."""

    subject: Subject
    effect: Effect
    known: Known


def combine_studies(studies: Sequence[Study]) -> Pooled:
    """Of two studies or more."""
    confidence = common([study.effect.confidence for study in studies])
    return combine(
        [study.known.mean for study in studies],
        [study.known.error for study in studies],
        confidence=confidence or DEFAULT_CONFIDENCE,
    )


def describe_pooled(pooled: Pooled, studies: Sequence[Study]) -> PooledEffect:
    margin = common([study.effect.margin for study in studies])
    better = Better(studies[0].effect.better)
    prediction = pooled.prediction
    return PooledEffect(
        experiments=len(studies),
        ratio=math.exp(pooled.mean),
        low=math.exp(pooled.interval.low),
        high=math.exp(pooled.interval.high),
        confidence=pooled.interval.confidence,
        degrees=pooled.degrees,
        log_error=pooled.error,
        p_value=pooled.p_value,
        q=pooled.q,
        q_p=pooled.q_p,
        i2=pooled.i2,
        tau=pooled.tau,
        tau_low=pooled.tau_interval.low,
        tau_high=pooled.tau_interval.high,
        prediction_low=math.exp(prediction.low) if prediction else None,
        prediction_high=math.exp(prediction.high) if prediction else None,
        common_ratio=math.exp(pooled.common_mean),
        common_low=math.exp(pooled.common.low),
        common_high=math.exp(pooled.common.high),
        margin=margin,
        decision=None if margin is None else decide(_as_comparison(pooled), margin=margin, better=better),
    )


def _as_comparison(pooled: Pooled) -> Comparison:
    """The mean of k experiments as the decision rule takes it: with k - 1 degrees of freedom, like one of k blocks."""
    count = pooled.degrees + 1
    return Comparison(
        ratio=math.exp(pooled.mean),
        low=math.exp(pooled.interval.low),
        high=math.exp(pooled.interval.high),
        confidence=pooled.interval.confidence,
        p_value=pooled.p_value,
        p_sign_flip=None,
        hodges_lehmann=None,
        hl_low=None,
        hl_high=None,
        blocks=count,
        sd_log_ratio=pooled.error * math.sqrt(count),
    )


def find_caveats(pooled: Pooled, studies: Sequence[Study]) -> Iterator[CaveatFinding]:
    count = len(studies)
    if count < FEW_EXPERIMENTS:
        plural = "degree" if pooled.degrees == 1 else "degrees"
        yield make_caveat(
            "few-experiments",
            Severity.WARNING if count == 2 else Severity.INFO,
            f"{count} experiments say little about how much experiments differ, and the interval has only "
            f"{pooled.degrees} {plural} of freedom.",
            "Repeat the experiment on another day, or another host.",
        )
    if pooled.q_p < HETEROGENEOUS:
        yield make_caveat(
            "heterogeneous",
            Severity.WARNING,
            f"The experiments differ by more than their own noise explains (Cochran's Q = {pooled.q:.3g}, p = "
            f"{pooled.q_p:.2g}): the combined effect is an average of different effects.",
            "Look for a reason among the differences between the experiments. For the next experiment the prediction "
            "interval counts, not that of the mean.",
        )
    few = [study.subject.key for study in studies if study.effect.blocks < FEW_BLOCKS]
    if few:
        yield make_caveat(
            "few-blocks-to-combine",
            Severity.INFO,
            f"With fewer than {FEW_BLOCKS} blocks it is not well known how sure an experiment is, and so how much it "
            f"should weigh: {', '.join(few)}.",
            f"Run at least {FEW_BLOCKS} blocks.",
        )
    stopped = [study.subject.key for study in studies if _has_stopped(study.subject)]
    if stopped:
        yield make_caveat(
            "stopped-early",
            Severity.INFO,
            "An experiment that ended as soon as it was decided has an estimate that leans away from no effect: "
            f"{', '.join(stopped)}.",
        )


def _has_stopped(subject: Subject) -> bool:
    rule = subject.findings.stopping
    return rule is not None and rule.ended is not None and rule.rule == "decision"


def make_caveat(code: str, severity: Severity, text: str, hint: str = "") -> CaveatFinding:
    return as_finding(Caveat(code=code, severity=severity, text=text, hint=hint))


def common(values: Sequence[float]) -> float | None:
    """The value that all have; None where they differ."""
    return values[0] if len(set(values)) == 1 else None
