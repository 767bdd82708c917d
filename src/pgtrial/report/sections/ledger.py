"""What limits an arm, by experiment: the ledger of elasticities and its chart."""

from collections.abc import Callable, Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Ledger
from pgtrial.language import N_
from pgtrial.report.charts.tornado import elasticity_text, interval_of, ledger_rows, tornado_chart
from pgtrial.report.sections.base import Section, always
from pgtrial.units import format_share


def _show(ledger: Ledger) -> dict[str, object]:
    steps = [
        *(f"× {entry.step:.3g}" for entry in ledger.entries),
        "",
        *(f"÷ {each.step:.3g}" for each in ledger.memory),
    ]
    return {
        "text": say(ledger.text),
        "chart": tornado_chart(ledger),
        "rows": [
            {"name": name, "step": step, "elasticity": elasticity_text(value), "interval": interval_of(value)}
            for (name, value), step in zip(ledger_rows(ledger), steps, strict=True)
        ],
        "confidence": format_share(ledger.confidence),
        "not_varied": [say(each) for each in ledger.not_varied],
    }


def _of_itself(findings: Findings) -> Sequence[Ledger]:
    return () if findings.ledger is None else (findings.ledger,)


def _of_arms(findings: Findings) -> Sequence[Ledger]:
    return findings.proofs


def _make_section(name: str, title: str, ledgers: Callable[[Findings], Sequence[Ledger]]) -> Section:
    return Section(
        name=name,
        title=title,
        build=lambda findings: {"ledgers": [_show(ledger) for ledger in ledgers(findings)]},
        is_open=always,
        is_shown=lambda findings: bool(ledgers(findings)),
    )


LEDGER = _make_section("ledger", N_("What limits it"), _of_itself)
PROOFS = _make_section("proofs", N_("What limits the arms, by experiment"), _of_arms)
