"""Checks of what surrounds the load: settings, machine, and what was noted while measuring."""

from collections.abc import Iterator

from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.caveats import as_finding
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.fingerprint import find_changes
from pgtrial.analysis.settings import find_undeclared
from pgtrial.model.caveat import Severity


def check_settings(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A setting that differs without having been declared may be the cause of any effect."""
    for difference in find_undeclared(assessment.evidence):
        values = ", ".join(f"{arm}: {value}" for arm, value in difference.values.items())
        yield CaveatFinding(
            code="undeclared-difference",
            severity=Severity.INVALID,
            text=f"The setting {difference.name} differs although no arm declares it so ({values}).",
            hint="Declare the setting in the arms, or give it one value in [target.postgresql], and run again.",
        )


def check_settings_read(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    unread = tuple(run.id for run in evidence.valid if run.id not in evidence.settings)
    if unread:
        yield CaveatFinding(
            code="settings-unknown",
            severity=Severity.WARNING,
            text=f"The settings of {len(unread)} runs were not recorded, so they could not be compared.",
            runs=unread,
        )


def check_fingerprint(assessment: Assessment) -> Iterator[CaveatFinding]:
    for difference in find_changes(assessment.evidence):
        values = ", ".join(sorted(set(difference.values.values())))
        yield CaveatFinding(
            code="fingerprint-differs",
            severity=Severity.WARNING,
            text=f"{difference.name} was not the same in all runs ({values}).",
            hint="Run again on a machine that does not change meanwhile.",
        )


def check_recorded(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What was noted while measuring, of the experiment as a whole and of the valid runs."""
    valid = {run.id for run in assessment.evidence.valid}
    for run, caveat in assessment.evidence.caveats:
        if run is None or run in valid:
            yield as_finding(caveat, () if run is None else (run,))
