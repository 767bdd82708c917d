"""Checks of disks that are not what they stand for."""

from collections.abc import Iterator, Sequence

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.causes.words import join
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.design.arms import disk_of, is_emulated
from pgtrial.language import ntr, tr
from pgtrial.model.caveat import Severity


def check_emulation(assessment: Assessment) -> Iterator[CaveatFinding]:
    """An emulated disk has the limits of its class, and the latency of the disk below it."""
    evidence = assessment.evidence
    emulated = {
        arm.name: disk_of(evidence.experiment, arm) for arm in evidence.arms if is_emulated(evidence.experiment, arm)
    }
    if emulated:
        classes = ", ".join(dict.fromkeys(name for name in emulated.values() if name))
        yield CaveatFinding(
            code="emulated-disk",
            severity=Severity.INFO,
            text=_tell(list(emulated), classes, is_all=len(emulated) == len(evidence.arms)),
            hint=tr(
                "Rates at the limit are those of the class. Latencies below the limit, bursts and flushes are those of "
                "the disk that holds the image file; measure the real disk before deciding on them."
            ),
        )


def _tell(arms: Sequence[str], classes: str, *, is_all: bool) -> str:
    if is_all:
        return tr(
            "All arms are on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
            classes=classes,
        )
    return ntr(
        "{arms} is on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
        "{arms} are on an emulated disk ({classes}): a loop device whose requests pgtrial limits.",
        len(arms),
        arms=join(arms),
        classes=classes,
    )
