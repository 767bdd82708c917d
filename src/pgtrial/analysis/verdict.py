"""Hypothesis + primary effect + caveats -> verdict, with a sentence that a DBA can act on."""

from pgtrial.analysis.effects import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import CaveatFinding, Effect, HypothesisFinding, Needed, Stopping
from pgtrial.analysis.metrics import LOADS
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.spec.experiment import Expect
from pgtrial.stats import power
from pgtrial.stats.equivalence import judge
from pgtrial.units import format_change, format_percent, format_share, format_times

# What the interval says of the margin, for every verdict that can be reached; {margin} is "the margin of 3 %".
_REASONS = {
    (Expect.BETTER, Verdict.SUPPORTED): "which is beyond {margin}",
    (Expect.BETTER, Verdict.REFUTED): "which does not reach {margin}",
    (Expect.WORSE, Verdict.SUPPORTED): "which is beyond {margin}",
    (Expect.WORSE, Verdict.REFUTED): "which is not worse by {margin}",
    (Expect.NOT_WORSE, Verdict.SUPPORTED): "which is not worse by more than {margin}",
    (Expect.NOT_WORSE, Verdict.REFUTED): "which is worse by more than {margin}",
    (Expect.EQUIVALENT, Verdict.SUPPORTED): "which is within {margin} by two one-sided tests",
    (Expect.EQUIVALENT, Verdict.REFUTED): "which is beyond {margin}",
    (Expect.DIFFERENT, Verdict.SUPPORTED): "which is beyond {margin}",
    (Expect.DIFFERENT, Verdict.REFUTED): "which is within {margin} by two one-sided tests",
}

_LATENCIES = {
    f"{kind}.latency_{name}": words
    for kind in LOADS
    for name, words in {
        "mean": "mean latency",
        "p50": "median latency",
        "p95": "95th percentile of latency",
        "p99": "99th percentile of latency",
        "p999": "99.9th percentile of latency",
    }.items()
}
_SPEEDS = {metric.name for load in LOADS.values() for metric in (load.throughput, load.bandwidth) if metric is not None}


def judge_hypothesis(
    evidence: Evidence,
    primary: Estimated | None,
    caveats: tuple[CaveatFinding, ...],
    stopping: Stopping | None = None,
) -> tuple[HypothesisFinding, Needed]:
    """The verdict on the claim; ``primary`` is the effect it is about, None when no block has a value for it.

    With a rule for stopping the blocks still needed are those until one of its looks. A caveat of severity "invalid"
    makes the verdict invalid, whatever the numbers.
    """
    hypothesis = evidence.experiment.hypothesis
    invalid = [caveat for caveat in caveats if caveat.severity is Severity.INVALID]
    ratio = primary.comparison.ratio if primary else None
    if primary is None or ratio is None or invalid:
        verdict = Verdict.INVALID
        why = invalid[0].text if invalid else f"There is no ratio of {hypothesis.metric} between the arms."
        reason = f"The runs cannot answer the claim: {why[:1].lower()}{why[1:]}"
        needed = Needed(blocks=None, text="unknown, because the runs cannot answer the claim")
    else:
        verdict = judge(
            primary.comparison,
            expect=hypothesis.expect,
            margin=hypothesis.margin,
            better=Better(primary.effect.better),
        )
        needed = _needed(evidence, primary, verdict, stopping)
        reason = f"{_size(evidence, primary.effect, ratio)}{_against_margin(evidence, verdict, needed)}."
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
            reason=reason,
        ),
        needed,
    )


def _needed(evidence: Evidence, primary: Estimated, verdict: Verdict, stopping: Stopping | None) -> Needed:
    if verdict is not Verdict.INCONCLUSIVE:
        return Needed(blocks=None, text="none, the claim is decided")
    if stopping is not None and stopping.blocks < stopping.looks[-1]:
        if stopping.needed is None:
            return Needed(blocks=None, text="no look of the rule for stopping is likely to decide the claim")
        return _about(stopping.needed)
    needed = power.blocks_needed(
        primary.comparison,
        expect=evidence.experiment.hypothesis.expect,
        margin=evidence.margin,
        better=Better(primary.effect.better),
        comparisons=evidence.comparisons,
    )
    if needed.blocks is None:
        return Needed(blocks=None, text="no feasible number of blocks would decide the claim at this noise")
    return _about(needed.blocks)


def _about(blocks: int) -> Needed:
    plural = "block" if blocks == 1 else "blocks"
    return Needed(blocks=blocks, text=f"about {blocks} more {plural} would decide the claim")


def _size(evidence: Evidence, effect: Effect, ratio: float) -> str:
    """ "off is 2.3 times as fast as on (+131 %, between +120 % and +143 %)"."""
    control = evidence.control.name if evidence.control else ""
    if effect.metric in _SPEEDS:
        words = f"{effect.arm} is {_compared(ratio, more='faster', less='slower', same='as fast as')} {control}"
        if not 0.5 < ratio < 2:
            words = f"{effect.arm} is {format_times(ratio)} as fast as {control}"
    else:
        name = _LATENCIES.get(effect.metric, effect.metric)
        compared = _compared(ratio, more="higher", less="lower", same="the same as")
        words = f"the {name} of {effect.arm} is {compared if ratio < 10 else format_times(ratio)} that of {control}"
    if effect.scenario is not None:
        words += f" in scenario {effect.scenario}"
    if effect.low is None or effect.high is None:
        return f"{words} ({format_change(ratio)}, without an interval)"
    return f"{words} ({format_change(ratio)}, between {format_change(effect.low)} and {format_change(effect.high)})"


def _compared(ratio: float, *, more: str, less: str, same: str) -> str:
    change = format_percent(abs(ratio - 1))
    if change == format_percent(0):
        return same
    return f"{change} {more if ratio > 1 else less} than"


def _against_margin(evidence: Evidence, verdict: Verdict, needed: Needed) -> str:
    hypothesis = evidence.experiment.hypothesis
    margin = f"the margin of {format_share(hypothesis.margin)}"
    if verdict is Verdict.INCONCLUSIVE:
        return f", which does not settle the claim at {margin}: {needed.text}"
    return f", {_REASONS[hypothesis.expect, verdict].format(margin=margin)}"
