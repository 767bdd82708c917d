"""Checks of experiments that were spread over hosts."""

from collections.abc import Iterator

from pgtrial.analysis.effects.hosts import name_others
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.stats.hosts import FEWEST_TO_PREDICT


def check_hosts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Few of them, and those on which the effect is another. What else they differ by is in the fingerprint."""
    found = assessment.hosts
    if found is None:
        return
    if len(found.hosts) < FEWEST_TO_PREDICT:
        yield caveat("few-hosts", count=len(found.hosts), fewest=FEWEST_TO_PREDICT)
    if others := name_others(found.hosts):
        yield caveat("other-effect-on-host", hosts=others)
