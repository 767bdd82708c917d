"""Whether arms are enough, in the words that the page, the terminal and a pull request share."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.questions import Acceptance
from pgtrial.language import N_, ntr, ptr, tr
from pgtrial.model.verdict import Verdict
from pgtrial.report.words import arm_label, format_metric, level_label, metric_label

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
            _metric(each),
            _limit(each),
            _value(each),
            _word(each),
        )
        for each in findings.acceptance
    ]


def _metric(each: Acceptance) -> str:
    label = metric_label(each.metric)
    return label if each.scenario is None else tr("{metric} of {scenario}", metric=label, scenario=each.scenario)


def _limit(each: Acceptance) -> str:
    limit = format_metric(each.metric, each.limit)
    return tr("at most {limit}", limit=limit) if each.is_most else tr("at least {limit}", limit=limit)


def _value(each: Acceptance) -> str:
    if each.value is None:
        return "–"
    value = format_metric(each.metric, each.value.value)
    if each.value.low is None or each.value.high is None:
        return value
    low, high = (format_metric(each.metric, end) for end in (each.value.low, each.value.high))
    return tr("{value} ({low} to {high})", value=value, low=low, high=high)


def _word(each: Acceptance) -> str:
    words = {
        Verdict.SUPPORTED: ptr("requirement", "met"),
        Verdict.REFUTED: ptr("requirement", "not met"),
        Verdict.INCONCLUSIVE: ptr("requirement", "not decided"),
        Verdict.INVALID: ptr("requirement", "invalid"),
    }
    if each.failed and each.verdict is Verdict.INCONCLUSIVE:
        failed = ntr("{count} run failed", "{count} runs failed", each.failed)
        return tr("{word}: {why}", word=words[each.verdict], why=failed)
    return words[each.verdict]
