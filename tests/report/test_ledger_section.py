"""What limits an arm by experiment, on the page and in a terminal."""

import pytest

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import message
from pgtrial.findings.questions import Ledger, LedgerEntry
from pgtrial.findings.record import Estimate
from pgtrial.report.charts.tornado import tornado_chart
from pgtrial.report.html import render_html
from pgtrial.report.sections.base import Section
from pgtrial.report.sections.questions import LEDGER, PROOFS
from pgtrial.report.text import render_text


def entry(resource: str, value: float, half: float | None, step: float = 1.5) -> LedgerEntry:
    bounds = {} if half is None else {"low": value - half, "high": value + half}
    elasticity = Estimate(value=value, **bounds)
    return LedgerEntry(resource=resource, name=message(f"slowed.{resource}"), step=step, elasticity=elasticity)


def make_ledger(half: float | None = 0.1) -> Ledger:
    bounds = {} if half is None else {"low": 0.75, "high": 0.95}
    rest = {} if half is None else {"low": 0.05, "high": 0.25}
    return Ledger(
        of="on",
        metric="pgbench.tps",
        blocks=6,
        confidence=0.95,
        entries=(
            entry("slowdown.flush", 0.7, half),
            entry("cgroup.write_iops", 0.2, half, step=1.25),
            entry("slowdown.cpu", -0.05, half),
        ),
        total=Estimate(value=0.85, **bounds),
        rest=Estimate(value=0.15, **rest),
        leads=True,
        fits=True,
        not_varied=(message("not-slowed.network"), message("not-slowed.memory")),
        text=message("sentences", parts=(message("ledger.nothing", arm="on"), message("ledger.kink"))),
    )


def with_ledger(findings: Findings, half: float | None = 0.1) -> Findings:
    return findings.model_copy(update={"ledger": make_ledger(half)})


def test_terminal_begins_with_a_line_for_each_time_and_for_the_rest(sample: Findings) -> None:
    lines = render_text(with_ledger(sample)).splitlines()
    assert lines[:7] == [
        "Limits: None of the times that were made longer is shown to limit “on”. The",
        "  elasticities change within the step: one time hides behind another, and a",
        "  smaller step would say something else.",
        "  the flush of the WAL and of files          0.70   0.60 to 0.80",
        "  waits for the limit of writes per second   0.20   0.10 to 0.30",
        "  the CPU time of the server                −0.05  −0.15 to 0.05",
        "  not found                                  0.15   0.05 to 0.25",
    ]


def test_chart_has_a_bar_for_each_time_and_for_the_rest() -> None:
    chart = tornado_chart(make_ledger())
    rows = chart.spec["data"]["values"]
    assert [row["end"] for row in rows] == [0.7, 0.2, -0.05, 0.15]
    assert rows[0]["label"] == "the flush of the WAL and of files: 0.70 (0.60 to 0.80)"
    assert rows[-1]["label"] == "not found: 0.15 (0.05 to 0.25)"
    assert rows[-1]["colour"] != rows[0]["colour"]
    assert "not found: 0.15" in chart.text


def test_page_has_section_table_and_what_was_not_varied(sample: Findings) -> None:
    page = render_html(with_ledger(sample))
    assert page.index('id="ledger"') < page.index('id="verdict"')
    assert "× 1.25" in page
    assert "the network: the load reaches the server by a socket; memory, which is no time." in page


def test_no_interval_is_a_dash(sample: Findings) -> None:
    assert "the flush of the WAL and of files" in render_html(with_ledger(sample, half=None))
    assert "0.70  –" in render_text(with_ledger(sample, half=None)).replace("   ", "  ")


@pytest.mark.parametrize("section", [LEDGER, PROOFS])
def test_experiment_that_does_not_ask_has_neither(sample: Findings, section: Section) -> None:
    assert not section.is_shown(sample)
    assert "Limits: " not in render_text(sample)
