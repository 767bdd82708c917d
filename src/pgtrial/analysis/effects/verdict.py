"""Hypothesis + primary effect + caveats -> verdict, with a sentence that a DBA can act on."""

from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.effects.failures import Bounded
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.metrics import LOADS
from pgtrial.experiment_file.experiment import Expect
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.findings import Effect, HypothesisFinding, Needed, Stopping
from pgtrial.findings.message import Message, message
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.stats import power
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import judge

_CODES = {
    (Expect.BETTER, Verdict.SUPPORTED): "verdict.better.supported",
    (Expect.BETTER, Verdict.REFUTED): "verdict.better.refuted",
    (Expect.WORSE, Verdict.SUPPORTED): "verdict.worse.supported",
    (Expect.WORSE, Verdict.REFUTED): "verdict.worse.refuted",
    (Expect.NOT_WORSE, Verdict.SUPPORTED): "verdict.not-worse.supported",
    (Expect.NOT_WORSE, Verdict.REFUTED): "verdict.not-worse.refuted",
    (Expect.EQUIVALENT, Verdict.SUPPORTED): "verdict.equivalent.supported",
    (Expect.EQUIVALENT, Verdict.REFUTED): "verdict.equivalent.refuted",
    (Expect.DIFFERENT, Verdict.SUPPORTED): "verdict.different.supported",
    (Expect.DIFFERENT, Verdict.REFUTED): "verdict.different.refuted",
}
_LATENCIES = {
    f"{kind}.latency_{name}": code
    for kind in LOADS
    for name, code in {
        "mean": "metric.latency-mean",
        "p50": "metric.latency-p50",
        "p95": "metric.latency-p95",
        "p99": "metric.latency-p99",
        "p999": "metric.latency-p999",
    }.items()
}
_SPEEDS = {metric.name for load in LOADS.values() for metric in (load.throughput, load.bandwidth) if metric is not None}


def judge_hypothesis(
    evidence: Evidence,
    primary: Estimated | None,
    caveats: tuple[CaveatFinding, ...],
    stopping: Stopping | None = None,
    bounded: Bounded | None = None,
) -> tuple[HypothesisFinding, Needed]:
    """The verdict on the claim; ``primary`` is the effect it is about, None when no block has a value for it.

    With a rule for stopping at a decision the blocks still needed are those until one of its looks. ``bounded`` has
    what failures can have done to the effect: a verdict holds with it, or not at all. A caveat of severity "invalid"
    makes the verdict invalid, whatever the numbers.
    """
    hypothesis = evidence.experiment.hypothesis
    invalid = [caveat for caveat in caveats if caveat.severity is Severity.INVALID]
    ratio = primary.comparison.ratio if primary else None
    if primary is None or ratio is None or invalid:
        verdict = Verdict.INVALID
        why = invalid[0].message if invalid else message("verdict.no-ratio", metric=hypothesis.metric)
        reason = message("verdict.invalid", why=why)
        needed = Needed(blocks=None, text=message("needed.unknown"))
    else:
        size = _size(evidence, primary.effect, ratio)
        verdict, code = judge_claim(
            evidence,
            primary.comparison,
            better=Better(primary.effect.better),
            bounded=None if bounded is None else bounded.comparison,
        )
        needed = _needed(evidence, primary, verdict, stopping)
        if code is None:
            reason = _against_margin(evidence, verdict, needed, size=size)
        else:
            reason = message(code, size=size, blocks=primary.comparison.blocks, fewest=evidence.rules.fewest_blocks)
        if evidence.is_provisional:
            planned = len({slot.block for slot in evidence.slots})
            reason = message("verdict.provisional", reason=reason, blocks=primary.comparison.blocks, count=planned)
    return (
        HypothesisFinding(
            claim=hypothesis.claim,
            arm=evidence.hypothesis_arm,
            control=evidence.control.name if evidence.control else "",
            metric=hypothesis.metric,
            scenario=hypothesis.scenario,
            expect=hypothesis.expect,
            margin=hypothesis.margin,
            confidence=hypothesis.confidence,
            verdict=verdict,
            provisional=evidence.is_provisional and verdict is not Verdict.INVALID,
            reason=reason,
        ),
        needed,
    )


def judge_claim(
    evidence: Evidence, comparison: Comparison, *, better: Better, bounded: Comparison | None = None
) -> tuple[Verdict, str | None]:
    """The verdict, and a code that says why there is none where the interval alone would have given one."""
    found = [
        judge(each, expect=evidence.experiment.hypothesis.expect, bounds=evidence.bounds, better=better)
        for each in (comparison, *(() if bounded is None else (bounded,)))
    ]
    if found[0] is not Verdict.INCONCLUSIVE and comparison.blocks < evidence.rules.fewest_blocks:
        return Verdict.INCONCLUSIVE, "verdict.few-blocks"
    if found[-1] is not found[0]:
        return Verdict.INCONCLUSIVE, "verdict.failures"
    return found[0], None


def _needed(evidence: Evidence, primary: Estimated, verdict: Verdict, stopping: Stopping | None) -> Needed:
    if verdict is not Verdict.INCONCLUSIVE:
        return Needed(blocks=None, text=message("needed.none"))
    # A rule for a precision ends at another goal: what it needs for that does not decide the claim.
    if stopping is not None and stopping.rule == "decision" and stopping.blocks < stopping.looks[-1]:
        if stopping.needed is None:
            return Needed(blocks=None, text=message("needed.no-look"))
        return _about(stopping.needed)
    needed = power.blocks_needed(
        primary.comparison,
        expect=evidence.experiment.hypothesis.expect,
        bounds=evidence.bounds,
        better=Better(primary.effect.better),
        comparisons=evidence.comparisons,
        in_range=True,
    )
    missing = evidence.rules.fewest_blocks - primary.comparison.blocks
    if needed.reachable and (needed.blocks or 0) < missing:
        return _about(missing)
    if needed.blocks is None:
        code = "needed.failures" if needed.reachable else "needed.infeasible"
        return Needed(blocks=None, text=message(code))
    return _about(needed.blocks, needed.low, needed.high)


def _about(blocks: int, low: int | None = None, high: int | None = None) -> Needed:
    if low is None or low == high:
        text = message("needed.blocks", count=blocks)
    elif high is None:
        text = message("needed.at-least", count=blocks, low=low)
    else:
        text = message("needed.range", count=blocks, low=low, high=high)
    return Needed(blocks=blocks, low=low, high=high, text=text)


def _size(evidence: Evidence, effect: Effect, ratio: float) -> Message:
    """ "off is 2.3 times as fast as on (+131 %, between +120 % and +143 %)"."""
    control = evidence.control.name if evidence.control else ""
    if effect.metric in _SPEEDS:
        size = _compare_speeds(effect.arm, control, ratio)
    else:
        size = _compare_values(effect.metric, effect.arm, control, ratio)
    if effect.scenario is not None:
        size = message("size.in-scenario", size=size, scenario=effect.scenario)
    if effect.low is None or effect.high is None:
        return message("size.without-interval", size=size, change=ratio)
    return message("size.with-interval", size=size, change=ratio, low=effect.low, high=effect.high)


def _compare_speeds(arm: str, control: str, ratio: float) -> Message:
    if not 0.5 < ratio < 2:
        return message("speed.times", arm=arm, times=ratio, control=control)
    if _looks_same(ratio):
        return message("speed.same", arm=arm, control=control)
    code = "speed.faster" if ratio > 1 else "speed.slower"
    return message(code, arm=arm, change=abs(ratio - 1), control=control)


def _compare_values(metric: str, arm: str, control: str, ratio: float) -> Message:
    name = message(_LATENCIES[metric]) if metric in _LATENCIES else metric
    if ratio >= 10:
        return message("value.times", metric=name, arm=arm, control=control, times=ratio)
    if _looks_same(ratio):
        return message("value.same", metric=name, arm=arm, control=control)
    code = "value.higher" if ratio > 1 else "value.lower"
    return message(code, metric=name, arm=arm, control=control, change=abs(ratio - 1))


def _looks_same(ratio: float) -> bool:
    """Whether the change is 0.0 % as it is written."""
    return round(abs(ratio - 1) * 100, 1) == 0


def _against_margin(evidence: Evidence, verdict: Verdict, needed: Needed, *, size: Message) -> Message:
    hypothesis = evidence.experiment.hypothesis
    if verdict is Verdict.INCONCLUSIVE:
        return message("verdict.inconclusive", size=size, margin=hypothesis.margin, needed=needed.text)
    return message(_CODES[hypothesis.expect, verdict], size=size, margin=hypothesis.margin)
