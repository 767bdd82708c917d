"""Latency: its distributions, and how it went over time."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_
from pgtrial.report.charts.distribution import distribution_charts
from pgtrial.report.charts.heat_map import heat_maps
from pgtrial.report.charts.time_axis import is_long, widest_times
from pgtrial.report.sections.base import Section, always
from pgtrial.report.words import level_label


def _build(findings: Findings) -> dict[str, object]:
    maps = heat_maps(findings) if is_long(findings) else []
    levels = findings.experiment.levels
    only_level = level_label(findings, levels[0].index) if len(levels) == 1 else ""
    return {
        "only_level": only_level,
        "charts": distribution_charts(findings),
        "maps": maps,
        "times": widest_times(maps),
    }


LATENCY = Section(
    name="latency",
    title=N_("Latency"),
    build=_build,
    is_open=always,
    is_shown=lambda findings: bool(distribution_charts(findings)),
)
