"""Failures as an outcome: attempts of the claim's arms that failed, and the verdict's interval with them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.analysis.effects.estimate import Estimated, places
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.findings import ArmFailures, Failures
from pgtrial.model.run import RunState
from pgtrial.stats.base import Comparison
from pgtrial.stats.failures import ALLOWANCE, Attempts, bound_failures, excess_share, fails_more, failure_p


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """What is found of the failures, and the comparison that bears them; as it was where none are in excess."""

    finding: Failures
    comparison: Comparison
    decides: bool  # an arm failed so much more often that its good runs allow no verdict


def bound_primary(evidence: Evidence, primary: Estimated | None) -> Bounded | None:
    """None where no attempt of the control or the claim's arm failed, or the rules do not count failures.

    Runs that share the time of a block fail together: which arm failed is not known, and it is taken that it was
    always the same.
    """
    if primary is None or evidence.control is None or not evidence.rules.counts_failures:
        return None
    control, treated = (_attempts(evidence, arm) for arm in (evidence.control.name, evidence.hypothesis_arm))
    if any(run.slices for run in evidence.valid):
        if not evidence.rules.weighs_failures:
            return None
        control = Attempts(made=control.made - control.failed, failed=0)
    if control.failed + treated.failed == 0:
        return None
    share = excess_share(control, treated)
    comparison = bound_failures(primary.comparison, _log_ratios(evidence, primary), share=share)
    return Bounded(
        finding=Failures(
            arms=tuple(
                ArmFailures(arm=name, attempts=each.made, failed=each.failed)
                for name, each in ((evidence.control.name, control), (evidence.hypothesis_arm, treated))
            ),
            p_value=failure_p(control, treated),
            excess=share,
            low=comparison.low,
            high=comparison.high,
        ),
        comparison=comparison,
        decides=evidence.rules.weighs_failures and fails_more(control, treated),
    )


def _attempts(evidence: Evidence, arm: str) -> Attempts:
    """Of an arm. Who stops an experiment often, or has it killed, chooses attempts as a failure does."""
    ended = [run.state for run in evidence.runs if run.slot.arm == arm]
    failed = ended.count(RunState.INVALID)
    if evidence.rules.weighs_failures and ended.count(RunState.INTERRUPTED) > ALLOWANCE:
        failed += ended.count(RunState.INTERRUPTED)
    return Attempts(made=ended.count(RunState.DONE) + failed, failed=failed)


def _log_ratios(evidence: Evidence, primary: Estimated) -> NDArray[np.float64]:
    """Of the blocks, without what the place in the block does."""
    pairs = evidence.pairs(primary.effect.arm)
    after, position = places(evidence, pairs), primary.comparison.position or 0.0
    sides = np.where(np.array(after or [False] * len(pairs)), position, -position)
    ratios = np.array([math.nan if each is None else math.log(each) for each in primary.effect.block_ratios])
    return np.asarray((ratios - sides)[np.isfinite(ratios)], dtype=np.float64)
