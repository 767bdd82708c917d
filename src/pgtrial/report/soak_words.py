"""What drifts in a soak, in the words that the page and the terminal share."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Drift, Soak
from pgtrial.language import ntr, ptr, tr
from pgtrial.model.run import RunState
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


def soak_texts(findings: Findings) -> list[str]:
    """Of each arm what drifts; where no window is finished, only that, with why the last attempt failed."""
    soak = findings.soak
    if soak is None:
        return []
    if soak.arms:
        return [say(arm.text) for arm in soak.arms]
    texts = [tr("No window is finished with valid data, so nothing is known of a drift.")]
    reasons = [run.reason for run in findings.runs if run.state == RunState.INVALID and run.reason]
    if reasons:
        texts.append(tr("The last attempt: {reason}", reason=reasons[-1]))
    return texts


def too_short_text(soak: Soak) -> str:
    """What it would take, where a drift has no interval; else ""."""
    if not any(is_too_short(drift) for arm in soak.arms for drift in arm.drifts):
        return ""
    return tr(
        "Too short to tell: there are too few values for an interval. A percentile has one in each window, a size one "
        "every 10 s at most. It takes 24 windows, of several arms more, or a longer soak where there are as many."
    )


def is_too_short(drift: Drift) -> bool:
    has_interval = drift.per_hour is not None and (drift.per_hour.low is not None or drift.per_hour.high is not None)
    return not drift.grown and not has_interval


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
    if drift.per_hour is None or is_too_short(drift):
        return ptr("drift", "too short to tell")
    words = {1: ptr("drift", "rises"), -1: ptr("drift", "falls"), 0: ptr("drift", "no drift shown")}
    return words[drift.per_hour.side()]
