"""Throughput and latency over time, by arm."""

from pgtrial.analysis.findings import Findings
from pgtrial.report.charts.series import series_charts
from pgtrial.report.sections.base import Section
from pgtrial.report.words import is_sliced, latency_of, throughput_of


def _build(findings: Findings) -> dict[str, object]:
    metrics = (throughput_of(findings), latency_of(findings, "p95"))
    return {
        "groups": [charts for charts in (series_charts(findings, metric) for metric in metrics) if charts],
        "takes_turns": is_sliced(findings),
    }


SERIES = Section(name="series", title="Over time", build=_build)
