"""Failures as an outcome: attempts of the claim's arms that failed, and the verdict's interval with them."""

from dataclasses import dataclass

from pgtrial.analysis.effects.attempts import find_excess
from pgtrial.analysis.effects.comparison import bear_failures
from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.findings import ArmFailures, Failures
from pgtrial.stats.base import Comparison
from pgtrial.stats.failures import failure_p


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """What is found of the failures, and the comparison that bears them; as it was where none are in excess."""

    finding: Failures
    comparison: Comparison
    decides: bool  # so much more of an arm failed, or so much was interrupted, that no verdict is possible
    code: str = "verdict.failures"  # why there is no verdict, where there is none with this


def bound_primary(evidence: Evidence, primary: Estimated | None) -> Bounded | None:
    """None where ``find_excess`` finds none."""
    excess = None if primary is None else find_excess(evidence, evidence.hypothesis_arm)
    if primary is None or excess is None or evidence.control is None:
        return None
    comparison = bear_failures(evidence, primary.comparison, primary.effect, share=excess.share)
    return Bounded(
        finding=Failures(
            arms=tuple(
                ArmFailures(arm=name, attempts=each.made, failed=each.failed)
                for name, each in (
                    (evidence.control.name, excess.control),
                    (evidence.hypothesis_arm, excess.treated),
                )
            ),
            p_value=failure_p(excess.control, excess.treated),
            interrupted=excess.interrupted,
            excess=excess.share,
            low=comparison.low,
            high=comparison.high,
        ),
        comparison=comparison,
        decides=excess.decides,
        code="verdict.interrupted" if excess.control.success == excess.treated.success else "verdict.failures",
    )
