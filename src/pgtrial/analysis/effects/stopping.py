"""Whether an experiment with a rule for stopping ends after the blocks that are there, and when it probably will."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from pgtrial.analysis.effects.estimate import Estimated, estimate_primary
from pgtrial.analysis.evidence import SPENDING, Evidence, read_evidence
from pgtrial.analysis.findings import Stopping
from pgtrial.analysis.observations import index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.design.plan import Plan
from pgtrial.language import mark, ntr, tr
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.stats.equivalence import judge
from pgtrial.stats.power import Needed, blocks_to_decision, blocks_to_precision, half_width
from pgtrial.units import format_percent, format_share

_WITHIN = mark("half the interval is {width}, within the wished {wished}")
_WIDER = mark("half the interval is {width}, more than the wished {wished}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDecision:
    """Whether to ``stop`` now, and why, in one sentence.

    ``blocks`` are the complete ones of the arm that the claim is about. ``look`` is the number of the look that was
    made after them, from 1; None where none was planned, and then there is no stop. ``forecast`` has the further blocks
    until the look at which it will probably end, if what was seen so far is the truth; reachable without blocks where
    it ends now, not reachable where no look is likely to end it before the last block.
    """

    stop: bool
    reason: str
    blocks: int
    look: int | None
    forecast: Needed


def decide_stop(folder: Path, plan: Plan | None = None) -> StopDecision:
    """The decision after the blocks that the result folder has; meant for the pause after each block.

    Only what the claim needs is reduced: the runs of its arm and of the control. StoreError as for ``analyze``.
    """
    evidence = read_evidence(folder, plan)
    named = {evidence.hypothesis_arm, evidence.control.name if evidence.control else ""}
    compared = replace(evidence, valid=tuple(run for run in evidence.valid if run.slot.arm in named))
    values = index_values(observe_runs(compared, reduce_runs(compared)))
    return decide(compared, estimate_primary(compared, values))


def decide(evidence: Evidence, primary: Estimated | None) -> StopDecision:
    """The decision from the effect that the claim is about; None when no block has a value for it."""
    looks = evidence.looks
    blocks = primary.comparison.blocks if primary else 0
    look = looks.index(blocks) + 1 if blocks in looks else None
    if not looks:
        reason = tr("there is no rule for stopping") if evidence.slots else tr("there is no schedule")
        return StopDecision(stop=False, reason=reason, blocks=blocks, look=None, forecast=_unknown())
    if primary is None:
        reason = tr("no block is complete")
        return StopDecision(stop=False, reason=reason, blocks=0, look=None, forecast=_unknown())
    is_done, found = _reached(evidence, primary)
    if look is not None and is_done:
        ended = Needed(blocks=None, reachable=True)
        return StopDecision(stop=True, reason=found, blocks=blocks, look=look, forecast=ended)
    if blocks == looks[-1]:
        reason = tr("{found}, and all blocks are run", found=found)
        return StopDecision(stop=False, reason=reason, blocks=blocks, look=look, forecast=_unknown())
    forecast = _forecast(evidence, primary)
    # What would be found at a look says nothing before it: somebody would stop there by hand.
    reason = f"{found if look is not None else _next(evidence, blocks)}; {_words(forecast, primary)}"
    return StopDecision(stop=False, reason=reason, blocks=blocks, look=look, forecast=forecast)


def describe_stopping(evidence: Evidence, primary: Estimated | None) -> Stopping | None:
    """The rule and what became of it; None without a rule."""
    looks = evidence.looks
    if not looks:
        return None
    design = evidence.experiment.design
    decision = decide(evidence, primary)
    due = evidence.confidence_at(decision.blocks)
    level = None if due is None else (1 - due) / evidence.comparisons
    return Stopping(
        rule=design.stop,
        precision=design.precision if design.stop == "precision" else None,
        spending=SPENDING.value if design.stop == "decision" else None,
        looks=looks,
        blocks=decision.blocks,
        ended=decision.blocks if decision.stop else None,
        level=level,
        needed=decision.forecast.blocks,
        text=ntr(
            "After {done} of {count} blocks: {reason}.",
            "After {done} of {count} blocks: {reason}.",
            looks[-1],
            done=decision.blocks,
            reason=decision.reason,
        ),
    )


def _reached(evidence: Evidence, primary: Estimated) -> tuple[bool, str]:
    """Whether the blocks are enough for the purpose of the rule, and that in words."""
    design, hypothesis = evidence.experiment.design, evidence.experiment.hypothesis
    if design.stop == "precision":
        width = half_width(primary.comparison)
        if width is None or design.precision is None:
            return False, tr("there is no interval yet")
        is_narrow = width <= math.log1p(design.precision)
        return is_narrow, tr(
            _WITHIN if is_narrow else _WIDER,
            width=format_percent(math.expm1(width)),
            wished=format_share(design.precision),
        )
    verdict = judge(
        primary.comparison,
        expect=hypothesis.expect,
        margin=hypothesis.margin,
        better=Better(primary.effect.better),
    )
    if verdict is Verdict.INCONCLUSIVE:
        return False, tr("the claim is not decided")
    return True, tr("the claim is supported") if verdict is Verdict.SUPPORTED else tr("the claim is refuted")


def _forecast(evidence: Evidence, primary: Estimated) -> Needed:
    design, hypothesis = evidence.experiment.design, evidence.experiment.hypothesis
    comparison = primary.comparison
    coming = tuple(look for look in evidence.looks if look > comparison.blocks)
    if design.stop == "precision":
        due = evidence.confidence_at(comparison.blocks)
        if due is None or design.precision is None:
            return _unknown()
        return blocks_to_precision(
            comparison.sd_log_ratio,
            blocks=comparison.blocks,
            looks=coming,
            confidence=1 - (1 - due) / evidence.comparisons,
            half_width=math.log1p(design.precision),
        )
    dues = ((look, evidence.confidence_at(look)) for look in coming)
    return blocks_to_decision(
        comparison,
        looks=[(look, due) for look, due in dues if due is not None],
        expect=hypothesis.expect,
        margin=hypothesis.margin,
        better=Better(primary.effect.better),
    )


def _next(evidence: Evidence, blocks: int) -> str:
    coming = next((look for look in evidence.looks if look > blocks), None)
    if coming is None:
        return tr("no look is planned any more")
    return tr("the next look is after block {block}", block=coming)


def _words(forecast: Needed, primary: Estimated) -> str:
    if forecast.blocks is None and primary.comparison.sd_log_ratio is None:
        return tr("it is too early for a forecast")
    if forecast.blocks is None:
        return tr("no look is likely to end it before the last block")
    return ntr(
        "about {count} more block if the effect and the noise are what they look like",
        "about {count} more blocks if the effect and the noise are what they look like",
        forecast.blocks,
    )


def _unknown() -> Needed:
    return Needed(blocks=None, reachable=False)
