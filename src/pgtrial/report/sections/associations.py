"""Associations: which metrics go together inside the load levels, and nothing about causes."""

from pgtrial.findings.causes import Association
from pgtrial.findings.findings import Findings
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import causes_of, metric_words
from pgtrial.report.charts.associations import association_chart, correlation_text
from pgtrial.report.sections.base import Section
from pgtrial.report.words import format_p

_FAMILIES = frozenset(
    (
        N_("waits and system"),
        N_("system"),
        N_("throughput and blocks"),
        N_("blocks and system"),
        N_("dirty pages and system"),
        N_("memory and device"),
        N_("throughput and device"),
        N_("chosen"),
    )
)


def _build(findings: Findings) -> dict[str, object]:
    found = sorted(
        causes_of(findings).associations,
        key=lambda each: (not each.is_real, each.part_of, -abs(each.spearman or 0.0)),
    )
    real = [each for each in found if each.is_real]
    return {
        "chart": association_chart(found),
        "real": [_row(each) for each in real],
        "others": [_row(each) for each in found if not each.is_real],
        "tested": sum(each.p_value is not None for each in found),
    }


def _row(each: Association) -> dict[str, object]:
    interval = (
        "–"
        if each.low is None or each.high is None
        else tr("{low} to {high}", low=correlation_text(each.low), high=correlation_text(each.high))
    )
    return {
        "pair": [{"name": name, "words": metric_words(name)} for name in (each.first, each.second)],
        "family": tr(each.family) if each.family in _FAMILIES else each.family,
        "spearman": correlation_text(each.spearman),
        "interval": interval,
        "pearson": correlation_text(each.pearson),
        "p": format_p(each.p_value),
        "q": format_p(each.q_value),
        "count": each.count,
        "remark": _remark(each),
    }


def _remark(each: Association) -> str:
    if each.part_of:
        return tr("part of the whole: they must go together")
    if each.spearman is None or not each.expected or not each.is_real:
        return ""
    is_as_expected = (each.spearman > 0) == (each.expected == "+")
    if is_as_expected:
        return ""
    return tr("the other way round than usual ({sign})", sign=each.expected.replace("-", "−"))


ASSOCIATIONS = Section(
    name="associations",
    title=N_("Associations"),
    build=_build,
    is_shown=lambda findings: any(each.p_value is not None for each in causes_of(findings).associations),
)
