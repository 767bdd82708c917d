"""Hypothesis + primary effect + caveats -> verdict, with a sentence that a DBA can act on."""

from pgtrial.analysis.effects import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import CaveatFinding, Effect, HypothesisFinding, Needed, Stopping
from pgtrial.analysis.metrics import LOADS
from pgtrial.experiment_file.experiment import Expect
from pgtrial.language import mark, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.stats import power
from pgtrial.stats.equivalence import judge
from pgtrial.units import format_change, format_percent, format_share, format_times

# What the interval says of the margin, for every verdict that can be reached; {size} is "off is 5 % faster than on".
_BEYOND = mark("{size}, which is beyond the margin of {margin}.")
_WITHIN = mark("{size}, which is within the margin of {margin} by two one-sided tests.")
_REASONS = {
    (Expect.BETTER, Verdict.SUPPORTED): _BEYOND,
    (Expect.BETTER, Verdict.REFUTED): mark("{size}, which does not reach the margin of {margin}."),
    (Expect.WORSE, Verdict.SUPPORTED): _BEYOND,
    (Expect.WORSE, Verdict.REFUTED): mark("{size}, which is not worse by the margin of {margin}."),
    (Expect.NOT_WORSE, Verdict.SUPPORTED): mark("{size}, which is not worse by more than the margin of {margin}."),
    (Expect.NOT_WORSE, Verdict.REFUTED): mark("{size}, which is worse by more than the margin of {margin}."),
    (Expect.EQUIVALENT, Verdict.SUPPORTED): _WITHIN,
    (Expect.EQUIVALENT, Verdict.REFUTED): _BEYOND,
    (Expect.DIFFERENT, Verdict.SUPPORTED): _BEYOND,
    (Expect.DIFFERENT, Verdict.REFUTED): _WITHIN,
}

_LATENCIES = {
    f"{kind}.latency_{name}": words
    for kind in LOADS
    for name, words in {
        "mean": mark("mean latency"),
        "p50": mark("median latency"),
        "p95": mark("95th percentile of latency"),
        "p99": mark("99th percentile of latency"),
        "p999": mark("99.9th percentile of latency"),
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

    With a rule for stopping at a decision the blocks still needed are those until one of its looks. A caveat of
    severity "invalid" makes the verdict invalid, whatever the numbers.
    """
    hypothesis = evidence.experiment.hypothesis
    invalid = [caveat for caveat in caveats if caveat.severity is Severity.INVALID]
    ratio = primary.comparison.ratio if primary else None
    if primary is None or ratio is None or invalid:
        verdict = Verdict.INVALID
        if invalid:
            why = invalid[0].text
        else:
            why = tr("There is no ratio of {metric} between the arms.", metric=hypothesis.metric)
        reason = tr("The runs cannot answer the claim: {why}", why=f"{why[:1].lower()}{why[1:]}")
        needed = Needed(blocks=None, text=tr("unknown, because the runs cannot answer the claim"))
    else:
        verdict = judge(
            primary.comparison,
            expect=hypothesis.expect,
            margin=hypothesis.margin,
            better=Better(primary.effect.better),
        )
        needed = _needed(evidence, primary, verdict, stopping)
        reason = _against_margin(evidence, verdict, needed, size=_size(evidence, primary.effect, ratio))
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
        return Needed(blocks=None, text=tr("none, the claim is decided"))
    # A rule for a precision ends at another goal: what it needs for that does not decide the claim.
    if stopping is not None and stopping.rule == "decision" and stopping.blocks < stopping.looks[-1]:
        if stopping.needed is None:
            return Needed(blocks=None, text=tr("no look of the rule for stopping is likely to decide the claim"))
        return _about(stopping.needed)
    needed = power.blocks_needed(
        primary.comparison,
        expect=evidence.experiment.hypothesis.expect,
        margin=evidence.margin,
        better=Better(primary.effect.better),
        comparisons=evidence.comparisons,
    )
    if needed.blocks is None:
        return Needed(blocks=None, text=tr("no feasible number of blocks would decide the claim at this noise"))
    return _about(needed.blocks)


def _about(blocks: int) -> Needed:
    text = ntr(
        "about {count} more block would decide the claim", "about {count} more blocks would decide the claim", blocks
    )
    return Needed(blocks=blocks, text=text)


def _size(evidence: Evidence, effect: Effect, ratio: float) -> str:
    """ "off is 2.3 times as fast as on (+131 %, between +120 % and +143 %)"."""
    control = evidence.control.name if evidence.control else ""
    if effect.metric in _SPEEDS:
        words = _compare_speeds(effect.arm, control, ratio)
    else:
        words = _compare_values(_LATENCIES.get(effect.metric, effect.metric), effect.arm, control, ratio)
    if effect.scenario is not None:
        words = tr("{size} in scenario {scenario}", size=words, scenario=effect.scenario)
    if effect.low is None or effect.high is None:
        return tr("{size} ({change}, without an interval)", size=words, change=format_change(ratio))
    return tr(
        "{size} ({change}, between {low} and {high})",
        size=words,
        change=format_change(ratio),
        low=format_change(effect.low),
        high=format_change(effect.high),
    )


def _compare_speeds(arm: str, control: str, ratio: float) -> str:
    change = format_percent(abs(ratio - 1))
    if not 0.5 < ratio < 2:
        return tr("{arm} is {times} as fast as {control}", arm=arm, times=format_times(ratio), control=control)
    if change == format_percent(0):
        return tr("{arm} is as fast as {control}", arm=arm, control=control)
    if ratio > 1:
        return tr("{arm} is {change} faster than {control}", arm=arm, change=change, control=control)
    return tr("{arm} is {change} slower than {control}", arm=arm, change=change, control=control)


def _compare_values(metric: str, arm: str, control: str, ratio: float) -> str:
    change, named = format_percent(abs(ratio - 1)), {"metric": tr(metric), "arm": arm, "control": control}
    if ratio >= 10:
        return tr("the {metric} of {arm} is {times} that of {control}", **named, times=format_times(ratio))
    if change == format_percent(0):
        return tr("the {metric} of {arm} is the same as that of {control}", **named)
    if ratio > 1:
        return tr("the {metric} of {arm} is {change} higher than that of {control}", **named, change=change)
    return tr("the {metric} of {arm} is {change} lower than that of {control}", **named, change=change)


def _against_margin(evidence: Evidence, verdict: Verdict, needed: Needed, *, size: str) -> str:
    hypothesis = evidence.experiment.hypothesis
    margin = format_share(hypothesis.margin)
    if verdict is not Verdict.INCONCLUSIVE:
        return tr(_REASONS[hypothesis.expect, verdict], size=size, margin=margin)
    return tr(
        "{size}, which does not settle the claim at the margin of {margin}: {needed}.",
        size=size,
        margin=margin,
        needed=needed.text,
    )
