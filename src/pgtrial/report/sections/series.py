"""Throughput and latency over time, by arm, with what else happened in that time."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_
from pgtrial.report.charts.arm_events import events_chart
from pgtrial.report.charts.base import Chart
from pgtrial.report.charts.series import arms_of, series_charts
from pgtrial.report.charts.time_axis import is_long, widest_times
from pgtrial.report.sections.base import Section, always
from pgtrial.report.words import is_sliced, latency_of, throughput_of


def _build(findings: Findings) -> dict[str, object]:
    throughput = throughput_of(findings)
    latency = series_charts(findings, latency_of(findings, "p95"))
    groups = [charts for charts in (_add_events(findings, throughput), latency) if charts]
    return {
        "groups": groups,
        "has_lanes": bool(groups) and len(groups[0]) > len(arms_of(findings, throughput)),
        "times": widest_times(chart for charts in groups for chart in charts),
        "takes_turns": is_sliced(findings),
    }


def _add_events(findings: Findings, metric: str) -> list[Chart]:
    """The series of each arm, and below them the arm's events on the same axis."""
    found: list[Chart] = []
    for arm, chart in zip(arms_of(findings, metric), series_charts(findings, metric), strict=True):
        events = None if chart.times is None else events_chart(findings, arm, chart.times)
        found += [chart] if events is None else [chart, events]
    return found


SERIES = Section(name="series", title=N_("Over time"), build=_build, is_open=always, is_shown=is_long)
