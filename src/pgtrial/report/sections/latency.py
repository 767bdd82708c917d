"""Latency distributions."""

from pgtrial.analysis.findings import Findings
from pgtrial.report.charts.distribution import distribution_charts
from pgtrial.report.sections.base import Section


def _build(findings: Findings) -> dict[str, object]:
    return {"charts": distribution_charts(findings)}


LATENCY = Section(name="latency", title="Latency", build=_build)
