"""Waits: what the sessions of the load were doing."""

from pgtrial.analysis.findings import Findings
from pgtrial.report.charts.waits import wait_charts
from pgtrial.report.sections.base import Section
from pgtrial.report.words import arm_label, level_label
from pgtrial.units import format_duration


def _build(findings: Findings) -> dict[str, object]:
    arms = [arm.name for arm in findings.experiment.arms]
    ordered = sorted(
        findings.waits, key=lambda wait: (str(wait.load_level) != "all", str(wait.load_level), arms.index(wait.arm))
    )
    return {
        "charts": wait_charts(findings),
        "rows": [
            {
                "arm": arm_label(findings, wait.arm),
                "level": level_label(findings, wait.load_level),
                "type": wait.wait_type,
                "event": wait.wait_event or "–",
                "sessions": f"{wait.sessions:.2f}",
                "seconds": "–"
                if wait.seconds_per_transaction is None
                else format_duration(wait.seconds_per_transaction),
            }
            for wait in ordered
        ],
    }


WAITS = Section(name="waits", title="Waits", build=_build)
