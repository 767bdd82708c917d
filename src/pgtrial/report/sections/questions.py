"""What else a file may ask: is an arm enough, does it stay as it is, and what limits it by experiment."""

from collections.abc import Callable, Sequence

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Ledger
from pgtrial.language import N_, tr
from pgtrial.report.charts.courses import soak_charts
from pgtrial.report.charts.tornado import elasticity_text, interval_of, ledger_rows, tornado_chart
from pgtrial.report.question_words import (
    ACCEPTANCE_HEADS,
    acceptance_rows,
    acceptance_text,
    drift_cells,
    soak_texts,
    too_short_text,
)
from pgtrial.report.sections.base import Section, always
from pgtrial.units import format_share


def _build_acceptance(findings: Findings) -> dict[str, object]:
    return {
        "text": acceptance_text(findings),
        "heads": [tr(head) for head in ACCEPTANCE_HEADS],
        "rows": acceptance_rows(findings),
        "confidence": format_share(findings.hypothesis.confidence),
    }


ACCEPTANCE = Section(
    name="acceptance",
    title=N_("Is it enough?"),
    build=_build_acceptance,
    is_shown=lambda findings: bool(findings.acceptance),
    is_open=always,
)


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


def _show_ledger(ledger: Ledger) -> dict[str, object]:
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


def _ledgers_of_itself(findings: Findings) -> Sequence[Ledger]:
    return () if findings.ledger is None else (findings.ledger,)


def _ledgers_of_arms(findings: Findings) -> Sequence[Ledger]:
    return findings.proofs


def _make_ledger_section(name: str, title: str, ledgers: Callable[[Findings], Sequence[Ledger]]) -> Section:
    return Section(
        name=name,
        title=title,
        build=lambda findings: {"ledgers": [_show_ledger(ledger) for ledger in ledgers(findings)]},
        is_open=always,
        is_shown=lambda findings: bool(ledgers(findings)),
    )


LEDGER = _make_ledger_section("ledger", N_("What limits it"), _ledgers_of_itself)
PROOFS = _make_ledger_section("proofs", N_("What limits the arms, by experiment"), _ledgers_of_arms)
