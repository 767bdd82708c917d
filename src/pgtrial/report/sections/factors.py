"""Factors: main effects, interactions, curves with their best level."""

from pgtrial.findings.factors import Factors
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.record import Estimate
from pgtrial.language import N_
from pgtrial.report.charts.factors import curve_chart, interaction_chart
from pgtrial.report.sections.base import Section
from pgtrial.report.words import change_cells, metric_label
from pgtrial.units import format_share


def _build(findings: Findings) -> dict[str, object]:
    factors = findings.factors or Factors(metric="", levels={}, points=(), mains=(), interactions=(), curves=())
    interaction = interaction_chart(factors)
    charts = [*([] if interaction is None else [interaction]), *(curve_chart(factors, c) for c in factors.curves)]
    return {
        "metric": metric_label(factors.metric),
        "confidence": format_share(findings.hypothesis.confidence),
        "charts": charts,
        "sentences": [
            *(say(each.text) for each in factors.curves),
            *(say(each.text) for each in factors.interactions if each.ratio.side(1.0) != 0),
        ],
        "mains": [(each.factor, f"{each.base} → {each.level}", *_cells(each.ratio)) for each in factors.mains],
        "interactions": [
            (f"{each.factor} = {each.level}", f"{each.other} = {each.other_level}", *_cells(each.ratio))
            for each in factors.interactions
        ],
        "slopes": [(each.factor, *_cells(each.per_doubling)) for each in factors.curves if each.per_doubling],
    }


def _cells(ratio: Estimate) -> tuple[str, str]:
    return change_cells(ratio.value, ratio.low, ratio.high)


FACTORS = Section(
    name="factors",
    title=N_("Factors"),
    build=_build,
    is_shown=lambda findings: findings.factors is not None,
    is_open=lambda findings: findings.factors is not None,
)
