"""Caveats of a calibration, which compares a server with itself."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_
from pgtrial.model.caveat import Severity

CALIBRATION_CAVEATS = {
    "calibration-effect": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{method}: the control differs from itself, by {change:change} (between {low:change} and {high:change})."
        ),
        hint=N_("Something favours one of two servers that are the same; look at the report of its folders."),
        when="a method's interval of the control against itself excludes 1",
    ),
    "calibration-carry-over": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{method}: the ratio changes inside the slices, by the factor {factor:decimal3} (between {low:change} and "
            "{high:change}), although both arms are the same."
        ),
        hint=N_("It may be chance; if it comes again, use longer slices."),
        when="that of the change inside its slices does",
    ),
    "calibration-portions": Entry(
        severity=Severity.INFO,
        text=N_("Each method had all its blocks in one go, so a quiet quarter of an hour may have favoured one."),
        hint=N_("A larger budget divides them into two portions, in opposite order."),
        when="each method had all its blocks in one go",
    ),
}
