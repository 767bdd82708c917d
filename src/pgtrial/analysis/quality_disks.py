"""Checks of disks that are not what they stand for."""

from collections.abc import Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.design.arms import disk_of, is_emulated
from pgtrial.findings.caveat import CaveatFinding, caveat


def check_emulation(assessment: Assessment) -> Iterator[CaveatFinding]:
    """An emulated disk has the limits of its class, and the latency of the disk below it."""
    evidence = assessment.evidence
    emulated = {
        arm.name: disk_of(evidence.experiment, arm) for arm in evidence.arms if is_emulated(evidence.experiment, arm)
    }
    if emulated:
        classes = tuple(dict.fromkeys(name for name in emulated.values() if name))
        yield caveat(
            "emulated-disk.all-arms" if len(emulated) == len(evidence.arms) else "emulated-disk",
            count=len(emulated),
            arms=tuple(emulated),
            classes=classes,
        )
