"""Checks of experiments that were spread over hosts."""

import re
from collections.abc import Iterator

from pgtrial.analysis.effects.hosts import name_others
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.model.run import IS_FLEET
from pgtrial.stats.hosts import FEWEST_TO_PREDICT

_SEVERAL = re.compile("[2-9]|[1-9][0-9]{1,3}")


def check_hosts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Few of them, and those on which the effect is another. What else they differ by is in the fingerprint."""
    found, evidence = assessment.hosts, assessment.evidence
    if found is None:
        listed = evidence.meta.get(IS_FLEET, "")
        names = set(evidence.hosts.values())
        if len(names) == 1 and not evidence.is_provisional and _SEVERAL.fullmatch(listed):
            yield caveat("other-hosts", host=names.pop(), count=int(listed))
        return
    if len(found.hosts) < FEWEST_TO_PREDICT:
        yield caveat("few-hosts", count=len(found.hosts), fewest=FEWEST_TO_PREDICT)
    if others := name_others(found.hosts):
        yield caveat("other-effect-on-host", hosts=others)
