"""A claim of several metrics, "reads fall and throughput is not worse": what decides it, and at which level.

It is supported where each of its metrics is, each at the full level: an intersection-union test. A claim that is wrong
in one of them is supported no more often than by the test of that one (Berger, Technometrics 24 (1982) 295-300). It is
refuted where any of them is, which many metrics make more likely by chance: so what refutes has the level divided by
their number (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.analysis.effects.claim import Claim, claims_of
from pgtrial.analysis.effects.comparison import compare_metric
from pgtrial.analysis.effects.estimate import Estimated, estimate_claimed
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values
from pgtrial.findings.record import ALL
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimMetric:
    """One metric of a claim of several; ``estimated`` is None where no block has a ratio.

    ``refuting`` is the comparison at the level by which the part refutes the whole.
    """

    claim: Claim
    estimated: Estimated | None
    refuting: Comparison | None


def estimate_parts(evidence: Evidence, values: Values) -> tuple[ClaimMetric, ...]:
    """One for each metric of the claim; () of a claim of one metric."""
    claims = claims_of(evidence)
    if len(claims) < 2:
        return ()
    return tuple(_estimate_part(evidence, values, claim, number=len(claims)) for claim in claims)


def _estimate_part(evidence: Evidence, values: Values, claim: Claim, *, number: int) -> ClaimMetric:
    estimated = estimate_claimed(evidence, values, claim)
    if estimated is None:
        return ClaimMetric(claim=claim, estimated=None, refuting=None)
    key = (claim.metric.name, claim.scenario, ALL)
    comparisons = evidence.comparisons * number
    refuting = compare_metric(evidence, values, evidence.hypothesis_arm, key, comparisons=comparisons)
    return ClaimMetric(claim=claim, estimated=estimated, refuting=refuting)


def judge_together(verdicts: Sequence[Verdict]) -> Verdict:
    """Of the whole claim, from what its metrics say of it."""
    for decisive in (Verdict.INVALID, Verdict.REFUTED, Verdict.INCONCLUSIVE):
        if decisive in verdicts:
            return decisive
    return Verdict.SUPPORTED
