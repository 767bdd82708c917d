"""Checks of disks that are not what they stand for."""

from collections.abc import Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.causes.words import join
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.design.arms import disk_of, is_emulated
from pgtrial.model.caveat import Severity


def check_emulation(assessment: Assessment) -> Iterator[CaveatFinding]:
    """An emulated disk has the limits of its class, and the latency of the disk below it."""
    evidence = assessment.evidence
    emulated = {
        arm.name: disk_of(evidence.experiment, arm) for arm in evidence.arms if is_emulated(evidence.experiment, arm)
    }
    if emulated:
        whose = (
            "All arms are" if len(emulated) == len(evidence.arms) else f"{join(list(emulated))} {_be(len(emulated))}"
        )
        classes = ", ".join(dict.fromkeys(name for name in emulated.values() if name))
        yield CaveatFinding(
            code="emulated-disk",
            severity=Severity.INFO,
            text=f"{whose} on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
            hint="Rates at the limit are those of the class. Latencies below the limit, bursts and flushes are those "
            "of the disk that holds the image file; measure the real disk before deciding on them.",
        )


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
