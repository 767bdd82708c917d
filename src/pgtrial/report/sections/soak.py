"""Does an arm stay as it is? What a soak was asked for: charts of its windows, and a slope of each metric."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import N_
from pgtrial.report.charts.courses import soak_charts
from pgtrial.report.sections.base import Section, always
from pgtrial.report.soak_words import drift_cells, soak_texts, too_short_text
from pgtrial.units import format_share


def _build_soak(findings: Findings) -> dict[str, object]:
    soak = findings.soak
    if soak is None:
        return {"texts": (), "reason": "", "too_short": "", "confidence": "", "charts": (), "rows": ()}
    return {
        "texts": soak_texts(findings),
        "too_short": too_short_text(soak),
        "reason": say(findings.hypothesis.reason),
        "confidence": format_share(soak.confidence),
        "charts": soak_charts(findings),
        "rows": [(arm.arm, *drift_cells(drift)) for arm in soak.arms for drift in arm.drifts],
    }


SOAK = Section(
    name="soak",
    title=N_("Does it stay as it is?"),
    build=_build_soak,
    is_open=always,
    is_shown=lambda findings: findings.soak is not None,
)
