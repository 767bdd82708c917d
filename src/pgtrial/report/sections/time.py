"""Where the time went."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_
from pgtrial.report.charts.overhead import overhead_chart
from pgtrial.report.sections.base import Section
from pgtrial.units import format_percent


def _build(findings: Findings) -> dict[str, object]:
    share = findings.overhead.share
    return {
        "chart": overhead_chart(findings),
        "share": None if share is None else format_percent(share),
    }


TIME = Section(name="time", title=N_("Where the time went"), build=_build)
