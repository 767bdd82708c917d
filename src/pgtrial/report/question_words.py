"""Answers to what else a file may ask (is an arm enough, does it stay as it is, is it so on every host), in the words
that the page, the terminal and a pull request share.
"""

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Acceptance, Drift, HostFinding, Hosts, Soak
from pgtrial.findings.record import Estimate, parts_of
from pgtrial.language import N_, ntr, ptr, tr
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Verdict
from pgtrial.report.cause_words import difference_text
from pgtrial.report.terms import verdict_word
from pgtrial.report.values import format_value
from pgtrial.report.words import (
    arm_label,
    change_cells,
    change_text,
    format_metric,
    format_p,
    level_label,
    metric_label,
)
from pgtrial.units import format_duration, format_percent

ACCEPTANCE_HEADS = (N_("arm"), N_("load"), N_("metric"), N_("required"), N_("mean of the blocks"), N_("met?"))


def acceptance_text(findings: Findings) -> str:
    """How many requirements are met; empty where the file declares none."""
    found = [each.verdict for each in findings.acceptance]
    if not found:
        return ""
    met, missed = found.count(Verdict.SUPPORTED), found.count(Verdict.REFUTED)
    return tr(
        "Requirements: {met} of {count} met, {missed} not met, {open} not decided.",
        met=met,
        count=len(found),
        missed=missed,
        open=len(found) - met - missed,
    )


def acceptance_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Cells under ACCEPTANCE_HEADS."""
    return [
        (
            arm_label(findings, each.arm),
            level_label(findings, each.load_level),
            metric_label(each.metric, each.scenario),
            _required_limit(each),
            _reached_value(each),
            _requirement_word(each),
        )
        for each in findings.acceptance
    ]


def _required_limit(each: Acceptance) -> str:
    limit = format_metric(each.metric, each.limit)
    return tr("at most {limit}", limit=limit) if each.is_most else tr("at least {limit}", limit=limit)


def _reached_value(each: Acceptance) -> str:
    if each.value is None:
        return "–"
    value = format_metric(each.metric, each.value.value)
    if each.value.low is None or each.value.high is None:
        return value
    low, high = (format_metric(each.metric, end) for end in (each.value.low, each.value.high))
    return tr("{value} ({low} to {high})", value=value, low=low, high=high)


def _requirement_word(each: Acceptance) -> str:
    words = {
        Verdict.SUPPORTED: ptr("requirement", "met"),
        Verdict.REFUTED: ptr("requirement", "not met"),
        Verdict.INCONCLUSIVE: ptr("requirement", "not decided"),
        Verdict.INVALID: ptr("requirement", "invalid"),
    }
    reasons = (
        (each.failed, ntr("{count} run failed", "{count} runs failed", each.failed)),
        (each.missing, ntr("{count} run has no value", "{count} runs have no value", each.missing)),
        (each.interrupted, ntr("{count} run was interrupted", "{count} runs were interrupted", each.interrupted)),
        (each.lost, tr("{share} of the transactions were lost", share=format_percent(each.lost))),
    )
    why = ", ".join(text for count, text in reasons if count) if each.verdict is Verdict.INCONCLUSIVE else ""
    return tr("{word}: {why}", word=words[each.verdict], why=why) if why else words[each.verdict]


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
        _drift_word(drift),
    )


def _drift_word(drift: Drift) -> str:
    if drift.grown:
        return ptr("drift", "has grown") if drift.grown > 0 else ptr("drift", "has shrunk")
    if drift.per_hour is None or is_too_short(drift):
        return ptr("drift", "too short to tell")
    words = {1: ptr("drift", "rises"), -1: ptr("drift", "falls"), 0: ptr("drift", "no drift shown")}
    return words[drift.per_hour.side()]


HOST_HEADS = (
    N_("host"),
    N_("blocks"),
    N_("change"),
    N_("interval"),
    N_("claim"),
    N_("other hosts"),
    N_("p of the same"),
)


def hosts_text(findings: Findings) -> str:
    """On how many hosts the claim holds, and on which the effect is another; empty where there is one host."""
    return " ".join(map(say, findings.hosts.text)) if findings.hosts else ""


def host_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Cells under HOST_HEADS, one row for each host."""
    found = findings.hosts
    return [] if found is None else [_host_row(findings, each) for each in found.hosts]


def _host_row(findings: Findings, each: HostFinding) -> tuple[str, ...]:
    p = format_p(each.p_differs)
    return (
        each.host,
        str(each.blocks),
        *change_cells(*parts_of(each.effect)),
        verdict_word(each.verdict, provisional=findings.hypothesis.provisional),
        change_text(each.others, None, None),
        tr("{p} (another effect)", p=p) if each.differs else p,
    )


def over_hosts_rows(hosts: Hosts) -> list[tuple[str, str, str]]:
    """What is said over hosts: name, value and interval."""
    rows = [(tr("mean of hosts like these"), *change_cells(*parts_of(hosts.mean)))]
    if hosts.prediction is not None:
        rows.append((tr("a host that was not tested"), "", change_cells(*parts_of(hosts.prediction))[1]))
    for label, spread in ((tr("SD inside a host"), hosts.within), (tr("SD between hosts"), hosts.between)):
        if spread is not None:
            rows.append((label, format_percent(spread.value), _spread(spread)))
    return rows


def prediction_text(hosts: Hosts) -> str:
    """Where the effect on a host that was not tested is expected, or why that is not known."""
    if hosts.prediction is None:
        return say(hosts.no_prediction)
    return tr("On a host that was not tested: {interval}.", interval=change_cells(*parts_of(hosts.prediction))[1])


def _spread(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return "–"
    return tr("{low} to {high}", low=format_percent(found.low), high=format_percent(found.high))
