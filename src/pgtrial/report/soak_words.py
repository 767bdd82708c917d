"""What drifts in a soak, in the words that the page and the terminal share."""

from pgtrial.findings.soak import Drift, Soak
from pgtrial.language import ntr, ptr, tr
from pgtrial.report.cause_words import difference_text
from pgtrial.report.values import format_value
from pgtrial.report.words import metric_label
from pgtrial.units import format_duration, format_percent


def soak_head(soak: Soak) -> str:
    """ "Soak of 24 windows of 1 h each" """
    return ntr(
        "Soak of {count} window of {window}",
        "Soak of {count} windows of {window} each",
        soak.planned,
        window=format_duration(soak.window),
    )


def drift_cells(drift: Drift) -> tuple[str, str, str, str, str]:
    """Metric, first and last window, slope with its interval, and what is said of it."""
    known = [value for value in drift.values if value is not None]
    return (
        metric_label(drift.metric),
        tr(
            "{first} → {last}",
            first=format_value(known[0] if known else None, drift.unit),
            last=format_value(known[-1] if known else None, drift.unit),
        ),
        "–" if drift.share is None else format_percent(drift.share, signed=True),
        difference_text(drift.per_hour, drift.unit),
        _word(drift),
    )


def _word(drift: Drift) -> str:
    if drift.grown:
        return ptr("drift", "has grown") if drift.grown > 0 else ptr("drift", "has shrunk")
    if drift.per_hour is None or (drift.per_hour.low is None and drift.per_hour.high is None):
        return ptr("drift", "too short to tell")
    words = {1: ptr("drift", "rises"), -1: ptr("drift", "falls"), 0: ptr("drift", "no drift shown")}
    return words[drift.per_hour.side()]
