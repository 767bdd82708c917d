"""The load curve."""

from pgtrial.analysis.findings import Findings
from pgtrial.report.charts.curve import curve_charts
from pgtrial.report.sections.base import Section
from pgtrial.units import format_share


def _build(findings: Findings) -> dict[str, object]:
    levels = findings.experiment.levels
    return {
        "charts": curve_charts(findings),
        "only_level": levels[0].label if len(levels) == 1 else "",
        "confidence": format_share(findings.hypothesis.confidence),
    }


CURVE = Section(name="curve", title="Load curve", build=_build)
