"""Latency: its distributions, and how it went over time."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_
from pgtrial.report.charts.distribution import distribution_charts
from pgtrial.report.charts.heat_map import heat_maps
from pgtrial.report.charts.time_axis import widest_times
from pgtrial.report.sections.base import Section


def _build(findings: Findings) -> dict[str, object]:
    maps = heat_maps(findings)
    return {"charts": distribution_charts(findings), "maps": maps, "times": widest_times(maps)}


LATENCY = Section(name="latency", title=N_("Latency"), build=_build)
