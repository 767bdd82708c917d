"""Hypothesis + primary effect + caveats -> verdict, with a sentence that a DBA can act on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgtrial.analysis.effects.claim import Claim, claims_of
from pgtrial.analysis.effects.comparison import AT_FLOOR, blocks_per_observation, is_partly_known
from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.effects.failures import Bounded, bound_primary
from pgtrial.analysis.effects.parts import ClaimMetric, judge_together
from pgtrial.analysis.evidence import Evidence
from pgtrial.experiment_file.hypothesis_table import DIRECTIONS, Expect
from pgtrial.findings.caveat import CaveatFinding, is_untold
from pgtrial.findings.findings import ClaimPart, Effect, HypothesisFinding, Needed, Stopping
from pgtrial.findings.message import Message, message
from pgtrial.findings.naming import name_metric
from pgtrial.model.caveat import Severity
from pgtrial.model.metric import Better
from pgtrial.model.metrics import LOADS
from pgtrial.model.verdict import Verdict
from pgtrial.stats import power
from pgtrial.stats.base import Comparison
from pgtrial.stats.equivalence import judge
from pgtrial.stats.interval import without_hidden

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
    **{
        (expect, verdict): f"verdict.better.{verdict}"
        for expect in DIRECTIONS
        for verdict in (Verdict.SUPPORTED, Verdict.REFUTED)
    },
}
_TOGETHER = {
    Verdict.SUPPORTED: "verdict.all.supported",
    Verdict.REFUTED: "verdict.all.refuted",
    Verdict.INCONCLUSIVE: "verdict.all.inconclusive",
}
_SPEEDS = {metric.name for load in LOADS.values() for metric in (load.throughput, load.bandwidth) if metric is not None}


def judge_hypothesis(
    evidence: Evidence,
    primary: Estimated | None,
    caveats: tuple[CaveatFinding, ...],
    stopping: Stopping | None = None,
    bounded: Bounded | None = None,
    *,
    parts: Sequence[ClaimMetric] = (),
) -> tuple[HypothesisFinding, Needed]:
    """The verdict on the claim; ``primary`` is the effect it is about, None when no block has a value for it.

    With a rule for stopping at a decision the blocks still needed are those until one of its looks. ``bounded`` has
    what failures can have done to the effect: a verdict holds with it, or not at all. A caveat of severity "invalid"
    makes the verdict invalid, whatever the numbers. ``parts`` are those of a claim of several metrics.
    """
    hypothesis = evidence.experiment.hypothesis
    invalid = [caveat for caveat in caveats if caveat.severity is Severity.INVALID]
    judged: list[_Judged] = []
    if invalid:
        found = _invalid(invalid[0].message)
    elif parts:
        judged = [
            _explain(evidence, part.claim, part.estimated, judge_part(evidence, part), stopping=stopping)
            for part in parts
        ]
        found = _put_together(judged, claimed=[part.claim for part in parts])
    elif evidence.is_soak:
        needed = Needed(blocks=None, text=message("needed.unknown"))
        found = _Judged(verdict=Verdict.INCONCLUSIVE, reason=message("verdict.soak"), needed=needed)
    else:
        claim = next(iter(claims_of(evidence)), None)
        verdict: tuple[Verdict, str | None] = (Verdict.INVALID, None)
        if primary is not None:
            better = Better(primary.effect.better)
            verdict = judge_claim(evidence, primary.comparison, better=better, bounded=bounded, claim=claim)
        found = _explain(evidence, claim, primary, verdict, stopping=stopping)
    reason = found.reason
    if evidence.is_provisional and found.verdict is not Verdict.INVALID and primary is not None:
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
            confidence=evidence.confidence,
            declared_confidence=None if hypothesis.confidence == evidence.confidence else hypothesis.confidence,
            verdict=found.verdict,
            provisional=evidence.is_provisional and found.verdict is not Verdict.INVALID,
            reason=reason,
            parts=tuple(
                ClaimPart(
                    metric=part.claim.metric.name,
                    scenario=part.claim.scenario,
                    expect=part.claim.expect,
                    margin=part.claim.margin,
                    verdict=each.verdict,
                    reason=each.reason,
                )
                for part, each in zip(parts, judged, strict=False)
            ),
        ),
        found.needed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    verdict: Verdict
    reason: Message
    needed: Needed


def _invalid(why: Message) -> _Judged:
    return _Judged(
        verdict=Verdict.INVALID,
        reason=message("verdict.invalid", why=why),
        needed=Needed(blocks=None, text=message("needed.unknown")),
    )


def _explain(
    evidence: Evidence,
    claim: Claim | None,
    estimated: Estimated | None,
    judged: tuple[Verdict, str | None],
    *,
    stopping: Stopping | None,
) -> _Judged:
    """Of one metric that was judged so."""
    ratio = estimated.comparison.ratio if estimated else None
    if claim is None or estimated is None or ratio is None:
        metric = claim.metric.name if claim else evidence.experiment.hypothesis.metric
        if estimated is not None and is_partly_known(estimated.comparison):
            count = len(estimated.effect.block_ratios)
            blocks = count - estimated.comparison.blocks
            return _invalid(message("verdict.partly-known", metric=metric, blocks=blocks, count=count))
        return _invalid(message("verdict.no-ratio", metric=metric))
    size = _size(evidence, estimated.effect, ratio)
    found, code = judged
    needed = _needed(evidence, claim, estimated, found, stopping=stopping, code=code)
    if code is None:
        reason = _against_margin(claim, found, needed, size=size)
    else:
        blocks, fewest = estimated.comparison.blocks, evidence.rules.fewest_blocks
        reason = message(code, size=size, blocks=blocks, fewest=fewest)
    return _Judged(verdict=found, reason=reason, needed=needed)


def judge_part(evidence: Evidence, part: ClaimMetric) -> tuple[Verdict, str | None]:
    """What a metric says of the whole, as ``judge_claim``: supported at the full level, refuted at its share of it.

    Either has to hold with failures, too; by rules 13 what refutes had to at the full level alone.
    """
    if part.estimated is None or part.refuting is None:
        return Verdict.INVALID, None
    better = Better(part.estimated.effect.better)
    bounded = bound_primary(evidence, part.estimated)
    found, code = judge_claim(evidence, part.estimated.comparison, better=better, bounded=bounded, claim=part.claim)
    if found is Verdict.REFUTED:
        refuting = replace(part.estimated, comparison=part.refuting)
        bounded = bound_primary(evidence, refuting) if evidence.rules.refutes_with_failures else None
        found, code = judge_claim(evidence, part.refuting, better=better, bounded=bounded, claim=part.claim)
    return found, code


def _put_together(judged: Sequence[_Judged], *, claimed: Sequence[Claim]) -> _Judged:
    """What decides the whole is said of the parts that do: all of a supported claim, those that refute it, or fail."""
    verdict = judge_together([each.verdict for each in judged])
    telling = [each for each in judged if each.verdict is verdict]
    needed = max(
        (each.needed for each in telling),
        key=lambda needed: math.inf if needed.blocks is None else needed.blocks,
    )
    if verdict is Verdict.INVALID:
        return telling[0]
    pairs = zip(claimed, judged, strict=True)
    named = dict.fromkeys(claim.metric.name for claim, each in pairs if each.verdict is verdict)
    metrics = tuple(map(name_metric, named))
    reasons = message("sentences", parts=tuple(each.reason for each in telling))
    return _Judged(
        verdict=verdict,
        reason=message(_TOGETHER[verdict], metrics=metrics, count=len(judged), reasons=reasons),
        needed=needed,
    )


def judge_claim(
    evidence: Evidence,
    comparison: Comparison,
    *,
    better: Better,
    bounded: Bounded | None = None,
    claim: Claim | None = None,
) -> tuple[Verdict, str | None]:
    """The verdict, and a code that says why there is none where the interval alone would have given one.

    The claim is the first one of the hypothesis unless another is given.
    """
    expect, direction = (evidence.experiment.hypothesis.expect, better) if claim is None else claim.judged
    bounds = evidence.bounds if claim is None else evidence.rules.log_bounds(claim.margin)
    found = [
        judge(each, expect=expect, bounds=bounds, better=direction)
        for each in (comparison, *(() if bounded is None else (bounded.comparison,)))
    ]
    if found[0] is not Verdict.INCONCLUSIVE and comparison.blocks < evidence.rules.fewest_blocks:
        return Verdict.INCONCLUSIVE, "verdict.few-blocks"
    if found[-1] is not found[0] or (bounded is not None and bounded.decides and found[0] is not Verdict.INCONCLUSIVE):
        return Verdict.INCONCLUSIVE, None if bounded is None else bounded.code
    return found[0], None


def _needed(
    evidence: Evidence,
    claim: Claim,
    estimated: Estimated,
    verdict: Verdict,
    *,
    stopping: Stopping | None,
    code: str | None,
) -> Needed:
    if verdict is not Verdict.INCONCLUSIVE:
        return Needed(blocks=None, text=message("needed.none"))
    if is_untold(estimated.comparison.caveats):
        return Needed(blocks=None, text=message("needed.untold"))
    # A rule for a precision ends at another goal: what it needs for that does not decide the claim.
    if stopping is not None and stopping.rule != "precision" and stopping.blocks < stopping.looks[-1]:
        if stopping.needed is None:
            return Needed(blocks=None, text=message("needed.no-look"))
        return _about(stopping.needed)
    if code == "verdict.interrupted":
        return Needed(blocks=None, text=message("needed.interrupted"))
    expect, better = claim.judged
    seen = without_hidden(estimated.comparison)
    if seen is not estimated.comparison and judge_claim(evidence, seen, better=better, claim=claim)[0] is not verdict:
        if any(one.code == AT_FLOOR for one in estimated.comparison.caveats):
            return Needed(blocks=None, text=message("needed.floor"))
        if estimated.comparison.lost:
            return Needed(blocks=None, text=message("needed.failures"))
        if estimated.comparison.step:
            return Needed(blocks=None, text=message("needed.steps"))
        is_between_runs = estimated.comparison.carry_over is not None
        return Needed(blocks=None, text=message("needed.next-run" if is_between_runs else "needed.left-behind"))
    needed = power.blocks_needed(
        estimated.comparison,
        expect=expect,
        bounds=evidence.rules.log_bounds(claim.margin),
        better=better,
        comparisons=evidence.comparisons,
        confidence=evidence.confidence_of_more(estimated.comparison.confidence),
        in_range=True,
    )
    missing = evidence.rules.fewest_blocks - estimated.comparison.blocks
    if needed.reachable and (needed.blocks or 0) < missing:
        return _about(missing)
    if needed.blocks is None:
        code = "needed.failures" if needed.reachable else "needed.infeasible"
        return Needed(blocks=None, text=message(code))
    if estimated.comparison.hosts is not None:
        more = needed.blocks * blocks_per_observation(estimated.comparison)
        return Needed(blocks=more, text=message("needed.hosts", count=needed.blocks))
    return _about(needed.blocks, None if needed.low is None else max(needed.low, missing), needed.high)


def _about(blocks: int, low: int | None = None, high: int | None = None) -> Needed:
    if low is None or low == high:
        text = message("needed.blocks", count=blocks)
    elif high is None:
        text = message("needed.at-least", count=blocks, low=low)
    else:
        text = message("needed.range", count=blocks, low=low, high=high)
    return Needed(blocks=blocks, low=low, high=high, text=text)


def _size(evidence: Evidence, effect: Effect, ratio: float) -> Message:
    """ "off is 2.3 times as fast as on (+131 %, between +120 % and +143 %)"; of an interval with "no change" in it, off
    "came out" so: that is what was measured, and no more.
    """
    control = evidence.control.name if evidence.control else ""
    is_sure = effect.low is not None and effect.high is not None and not effect.low <= 1 <= effect.high
    came = "" if is_sure else "came-"
    if effect.metric in _SPEEDS:
        size = _compare_speeds(effect.arm, control, ratio, came=came)
    else:
        size = _compare_values(effect.metric, effect.arm, control, ratio, came=came)
    if effect.scenario is not None:
        size = message("size.in-scenario", size=size, scenario=effect.scenario)
    if effect.low is None or effect.high is None:
        return message("size.without-interval", size=size, change=ratio)
    return message("size.with-interval", size=size, change=ratio, low=effect.low, high=effect.high)


def _compare_speeds(arm: str, control: str, ratio: float, *, came: str) -> Message:
    if not 0.5 < ratio < 2:
        return message(f"speed.{came}times", arm=arm, times=ratio, control=control)
    if _looks_same(ratio):
        return message(f"speed.{came}same", arm=arm, control=control)
    code = f"speed.{came}faster" if ratio > 1 else f"speed.{came}slower"
    return message(code, arm=arm, change=abs(ratio - 1), control=control)


def _compare_values(metric: str, arm: str, control: str, ratio: float, *, came: str) -> Message:
    name = name_metric(metric)
    if ratio >= 10:
        return message(f"value.{came}times", metric=name, arm=arm, control=control, times=ratio)
    if _looks_same(ratio):
        return message(f"value.{came}same", metric=name, arm=arm, control=control)
    code = f"value.{came}higher" if ratio > 1 else f"value.{came}lower"
    return message(code, metric=name, arm=arm, control=control, change=abs(ratio - 1))


def _looks_same(ratio: float) -> bool:
    """Whether the change is 0.0 % as it is written."""
    return round(abs(ratio - 1) * 100, 1) == 0


def _against_margin(claim: Claim, verdict: Verdict, needed: Needed, *, size: Message) -> Message:
    if verdict is Verdict.INCONCLUSIVE:
        return message("verdict.inconclusive", size=size, margin=claim.margin, needed=needed.text)
    return message(_CODES[claim.expect, verdict], size=size, margin=claim.margin)
