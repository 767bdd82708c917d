"""What limits an arm, by experiment: the ledger of elasticities and its chart."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import N_
from pgtrial.report.charts.tornado import elasticity_text, interval_of, ledger_rows, tornado_chart
from pgtrial.report.sections.base import Section, always
from pgtrial.units import format_share


def _build_ledger(findings: Findings) -> dict[str, object]:
    ledger = findings.ledger
    if ledger is None:
        return {"rows": []}
    steps = [f"× {entry.step:.3g}" for entry in ledger.entries]
    return {
        "text": say(ledger.text),
        "chart": tornado_chart(findings),
        "rows": [
            {"name": name, "step": step, "elasticity": elasticity_text(value), "interval": interval_of(value)}
            for (name, value), step in zip(ledger_rows(ledger), [*steps, ""], strict=True)
        ],
        "confidence": format_share(ledger.confidence),
        "not_varied": [say(each) for each in ledger.not_varied],
    }


LEDGER = Section(
    name="ledger",
    title=N_("What limits it"),
    build=_build_ledger,
    is_open=always,
    is_shown=lambda findings: findings.ledger is not None,
)
