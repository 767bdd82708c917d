"""Questions during an experiment: the effect so far, and whether a stopping rule ends it now.

This is the only module of the analysis that the engine imports; pyproject.toml has the contract.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.effects.comparison import tells_among_arms
from pgtrial.analysis.effects.estimate import Estimated, estimate_primary
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.parts import ClaimMetric, estimate_parts, judge_together
from pgtrial.analysis.effects.verdict import judge_claim, judge_part
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import (
    Values,
    index_values,
    observe_lost,
    observe_runs,
    observe_steps,
    observe_turns,
)
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.sampled import observe_samples, observe_scenarios
from pgtrial.analysis.timelines.read import read_timelines
from pgtrial.design.plan import Plan
from pgtrial.findings.findings import Effect, Observation, Stopping
from pgtrial.findings.message import Message, message
from pgtrial.model.observable import is_sampled
from pgtrial.model.verdict import Verdict
from pgtrial.stats.power import MoreBlocks, blocks_to_decision, blocks_to_precision, half_width

FEWEST_BLOCKS = 3  # before that an interval says next to nothing; "pgtrial status" waits as long


@dataclass(slots=True, kw_only=True)
class Estimator:
    """The effect that the claim is about, over the complete blocks of one result folder. Reads each run once."""

    folder: Path
    plan: Plan
    _known: dict[int, tuple[Observation, ...]] = field(default_factory=dict, init=False)  # by the run's id

    def estimate(self) -> tuple[str, Effect] | None:
        """The control's name and the effect; None before three complete blocks. StoreError where nothing can be read.

        Meant for the pause after a block: it takes a tenth of a second or so, and reads the runs of that block only.
        """
        evidence = read_evidence(self.folder, self.plan)
        control, arm = evidence.control, evidence.hypothesis_arm
        if control is None or len(evidence.pairs(arm)) < FEWEST_BLOCKS:
            return None
        compared = _take_arm(evidence, arm).valid
        new = replace(evidence, valid=tuple(run for run in compared if run.id not in self._known))
        for run in new.valid:
            self._known[run.id] = ()
        for observation in _observe(new):
            self._known[observation.run] += (observation,)
        values = index_values(tuple(one for run in compared for one in self._known[run.id]))
        primary = estimate_primary(replace(evidence, valid=compared), values)
        return None if primary is None else (control.name, primary.effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDecision:
    """Whether to ``stop`` now, and why, in one sentence.

    ``blocks`` are the complete ones of the arm that the claim is about. ``look`` is the number of the look that was
    made after them, from 1; None where none was planned, and then there is no stop. ``forecast`` has the further blocks
    until the look at which it will probably end, if what was seen so far is the truth; reachable without blocks where
    it ends now, not reachable where no look is likely to end it before the last block. ``settled``: of a rule for each
    arm the last block of those that are decided.
    """

    stop: bool
    reason: Message
    blocks: int
    look: int | None
    forecast: MoreBlocks
    settled: Mapping[str, int] = field(default_factory=dict)


def decide_stop(folder: Path, plan: Plan | None = None) -> StopDecision:
    """The decision after the blocks that the result folder has; meant for the pause after each block.

    Only what the claim needs is reduced: the runs of its arm and of the control, and of the others where runs of these
    tell what it leaves. StoreError as for ``analyze``.
    """
    # The rule has planned this look, so its own interval is due.
    evidence = replace(read_evidence(folder, plan), is_provisional=False)
    if evidence.experiment.design.stop == "each-arm" and evidence.candidates:
        return decide_each(evidence, index_values(_observe(_take_arm(evidence, *_undecided(evidence)))))
    compared = _take_arm(evidence, evidence.hypothesis_arm)
    values = index_values(_observe(compared))
    return decide(compared, estimate_primary(compared, values), estimate_parts(compared, values))


def _undecided(evidence: Evidence) -> tuple[str, ...]:
    return tuple(arm.name for arm in evidence.candidates if arm.name not in evidence.settled)


def _take_arm(evidence: Evidence, *arms: str) -> Evidence:
    """With the runs of the control and of these arms alone; with all of them where they tell what runs leave."""
    if tells_among_arms(evidence):
        return evidence
    named = {*arms, evidence.control.name if evidence.control else ""}
    return replace(evidence, valid=tuple(run for run in evidence.valid if run.slot.arm in named))


def decide_each(evidence: Evidence, values: Values) -> StopDecision:
    """Whether the claim is decided for each arm that is still run, as if it were about that one; ``values`` of these.

    All intervals hold together, at all looks: it does not matter which of them an arm ends at, or what others did.
    """
    settled, open_ = dict(evidence.settled), list[StopDecision]()
    look: int | None = None
    for name in _undecided(evidence):
        hypothesis = evidence.experiment.hypothesis.model_copy(update={"arm": name})
        experiment = evidence.experiment.model_copy(update={"hypothesis": hypothesis})
        about = replace(_take_arm(evidence, name), experiment=experiment)
        decision = decide(about, estimate_primary(about, values), estimate_parts(about, values))
        if decision.stop:
            settled[name], look = about.pairs(name)[-1][1].slot.block, decision.look
        else:
            open_.append(decision)
    reason = _describe_arms(evidence, settled)
    if not open_:
        blocks = max(settled.values())
        ended = MoreBlocks(blocks=None, reachable=True)
        return StopDecision(stop=True, reason=reason, blocks=blocks, look=look, forecast=ended, settled=settled)
    last = max(open_, key=lambda one: math.inf if one.forecast.blocks is None else one.forecast.blocks)
    if not settled:
        return replace(last, settled=settled)
    if last.forecast.blocks is not None:
        outlook = message("stopping.blocks", count=last.forecast.blocks)
        reason = message("stopping.outlook", found=reason, forecast=outlook)
    return replace(last, reason=reason, settled=settled)


def _describe_arms(evidence: Evidence, settled: Mapping[str, int]) -> Message:
    """After which block each arm was decided, and which were not."""
    parts = [message("stopping.settled", arm=name, count=block) for name, block in settled.items()]
    if left := tuple(arm.name for arm in evidence.candidates if arm.name not in settled):
        is_open = evidence.complete_blocks()[-1:] < evidence.looks[-1:]
        parts.append(message("stopping.open" if is_open else "stopping.to-the-end", arms=left, count=len(left)))
    return message("stopping.arms", parts=tuple(parts))


def _observe(evidence: Evidence) -> tuple[Observation, ...]:
    """What the claim needs: samples are read only where it is about them."""
    reduction = reduce_runs(evidence)
    observed = observe_runs(evidence, reduction)
    observations = (
        *observed,
        *observe_steps(evidence, reduction, observed),
        *observe_lost(evidence, reduction, observed),
        *observe_turns(evidence, reduction),
    )
    if not any(is_sampled(claim.metric.name) for claim in claims_of(evidence)):
        return observations
    sampled = observe_samples(evidence, read_timelines(evidence, reduction))
    return (*observations, *sampled, *observe_scenarios(evidence, reduction))


def decide(evidence: Evidence, primary: Estimated | None, parts: Sequence[ClaimMetric] = ()) -> StopDecision:
    """The decision from the effect that the claim is about; None when no block has a value for it.

    ``parts`` are those of a claim of several metrics.
    """
    looks = evidence.looks
    blocks = primary.comparison.blocks if primary else 0
    look = looks.index(blocks) + 1 if blocks in looks else None
    if not looks:
        reason = message("stopping.no-rule" if evidence.slots else "stopping.no-schedule")
        return StopDecision(stop=False, reason=reason, blocks=blocks, look=None, forecast=_unknown())
    if primary is None:
        reason = message("stopping.no-block")
        return StopDecision(stop=False, reason=reason, blocks=0, look=None, forecast=_unknown())
    is_done, found = _reached(evidence, primary, parts)
    if look is not None and is_done:
        ended = MoreBlocks(blocks=None, reachable=True)
        return StopDecision(stop=True, reason=found, blocks=blocks, look=look, forecast=ended)
    if blocks == looks[-1]:
        reason = message("stopping.all-run", found=found)
        return StopDecision(stop=False, reason=reason, blocks=blocks, look=look, forecast=_unknown())
    forecast = _forecast(evidence, primary, parts)
    # What would be found at a look says nothing before it: somebody would stop there by hand.
    state = found if look is not None else _next(evidence, blocks)
    reason = message("stopping.outlook", found=state, forecast=_describe_forecast(forecast, primary))
    return StopDecision(stop=False, reason=reason, blocks=blocks, look=look, forecast=forecast)


def describe_stopping(
    evidence: Evidence, primary: Estimated | None, parts: Sequence[ClaimMetric] = ()
) -> Stopping | None:
    """The rule and what became of it; None without a rule. ``parts`` as for ``decide``."""
    looks = evidence.looks
    if not looks:
        return None
    design = evidence.experiment.design
    decision = decide(evidence, primary, parts)
    due = evidence.confidence_at(decision.blocks)
    level = None if due is None else (1 - due) / evidence.comparisons
    ended, done, reason = decision.blocks if decision.stop else None, decision.blocks, decision.reason
    if design.stop == "each-arm" and evidence.candidates:
        done, reason = len(evidence.complete_blocks()), _describe_arms(evidence, evidence.settled)
        ended = done if len(evidence.settled) == len(evidence.candidates) else None
    return Stopping(
        rule=design.stop,
        precision=design.precision if design.stop == "precision" else None,
        spending=None if design.stop == "precision" else "obrien-fleming",
        looks=looks,
        blocks=decision.blocks,
        ended=ended,
        level=level,
        needed=decision.forecast.blocks,
        text=message("stopping.after", count=looks[-1], done=done, reason=reason),
    )


def _reached(evidence: Evidence, primary: Estimated, parts: Sequence[ClaimMetric]) -> tuple[bool, Message]:
    """Whether the blocks are enough for the purpose of the rule, and that as a message."""
    design = evidence.experiment.design
    if design.stop == "precision":
        width = half_width(primary.comparison)
        if width is None or design.precision is None:
            return False, message("stopping.no-interval")
        is_narrow = width <= math.log1p(design.precision)
        code = "stopping.narrow" if is_narrow else "stopping.wide"
        return is_narrow, message(code, width=math.expm1(width), wished=design.precision)
    if parts:
        verdict = judge_together([judge_part(evidence, part)[0] for part in parts])
    else:
        claim = claims_of(evidence)[0]
        _, better = claim.judged
        bounded = bound_primary(evidence, primary)
        verdict, _ = judge_claim(evidence, primary.comparison, better=better, bounded=bounded, claim=claim)
    if verdict in (Verdict.INCONCLUSIVE, Verdict.INVALID):
        return False, message("stopping.undecided")
    return True, message("stopping.supported" if verdict is Verdict.SUPPORTED else "stopping.refuted")


def _forecast(evidence: Evidence, primary: Estimated, parts: Sequence[ClaimMetric]) -> MoreBlocks:
    """Until the last one is decided of a claim of several metrics."""
    design, comparison = evidence.experiment.design, primary.comparison
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
    dues = tuple((look, due) for look in coming if (due := evidence.confidence_at(look)) is not None)
    claimed = [(part.claim, part.estimated) for part in parts] or [(claims_of(evidence)[0], primary)]
    found = [
        _unknown()
        if estimated is None
        else blocks_to_decision(
            estimated.comparison,
            looks=dues,
            expect=claim.judged[0],
            bounds=evidence.rules.log_bounds(claim.margin),
            better=claim.judged[1],
        )
        for claim, estimated in claimed
    ]
    if not all(each.reachable for each in found):
        return _unknown()
    return max(found, key=lambda each: each.blocks or 0)


def _next(evidence: Evidence, blocks: int) -> Message:
    coming = next((look for look in evidence.looks if look > blocks), None)
    if coming is None:
        return message("stopping.no-more-looks")
    return message("stopping.next-look", block=coming)


def _describe_forecast(forecast: MoreBlocks, primary: Estimated) -> Message:
    if forecast.blocks is None and primary.comparison.sd_log_ratio is None:
        return message("stopping.too-early")
    if forecast.blocks is None:
        return message("stopping.unlikely")
    return message("stopping.blocks", count=forecast.blocks)


def _unknown() -> MoreBlocks:
    return MoreBlocks(blocks=None, reachable=False)
