"""Throughput and latency over time, by arm."""

from pgtrial.analysis.findings import Findings
from pgtrial.report.charts.series import series_charts
from pgtrial.report.sections.base import Section
from pgtrial.report.words import is_sliced

METRICS = ("pgbench.tps", "pgbench.latency_p95")


def _build(findings: Findings) -> dict[str, object]:
    return {
        "groups": [charts for charts in (series_charts(findings, metric) for metric in METRICS) if charts],
        "takes_turns": is_sliced(findings),
    }


SERIES = Section(name="series", title="Over time", build=_build)
