"""A verdict before the last block is called provisional wherever it is read."""

import pytest

from pgtrial.export.prometheus import render_prometheus
from pgtrial.export.tables.experiment import experiment_table
from pgtrial.findings.findings import ClaimPart, Findings
from pgtrial.findings.message import verbatim
from pgtrial.model.verdict import Verdict
from pgtrial.narrate.facts import tell_facts
from pgtrial.report.gate import list_cases, render_junit
from pgtrial.report.html import render_html
from pgtrial.report.markdown import render_summary
from pgtrial.report.sections.verdict import VERDICT
from pgtrial.report.text import render_text


@pytest.fixture
def interrupted(sample: Findings) -> Findings:
    """Supported so far, which only ``provisional`` tells from what is supported."""
    part = ClaimPart(
        metric="pgbench.tps",
        scenario=None,
        expect="better",
        margin=0.05,
        verdict=Verdict.SUPPORTED,
        reason=verbatim("It is faster."),
    )
    asked = {"verdict": Verdict.SUPPORTED, "provisional": True, "parts": (part, part)}
    return sample.model_copy(update={"hypothesis": sample.hypothesis.model_copy(update=asked)})


def test_no_verdict_is_one_for_a_scraper(interrupted: Findings) -> None:
    lines = [line for line in render_prometheus(interrupted).splitlines() if line.startswith("pgtrial_verdict{")]

    assert [line for line in lines if line.endswith(" 1.0")] == [line for line in lines if '"provisional"' in line]
    assert len(lines) == len(Verdict) + 1


def test_a_verdict_that_holds_is_not_provisional_for_a_scraper(sample: Findings) -> None:
    lines = [line for line in render_prometheus(sample).splitlines() if line.startswith("pgtrial_verdict{")]

    (holds,) = (line for line in lines if line.endswith(" 1.0"))
    assert f'verdict="{sample.hypothesis.verdict}"' in holds


def test_tables_say_so_beside_the_verdict(interrupted: Findings) -> None:
    facts = {row[1]: row[2] for row in experiment_table(interrupted).rows}

    assert facts["verdict"] == "supported, provisional"


def test_each_metric_of_a_claim_is_called_provisional(interrupted: Findings) -> None:
    shown = VERDICT.build(interrupted)

    assert {part["word"] for part in shown["parts"]} == {"supported, provisional"}


def test_no_gate_passes_whatever_the_schedule_says(interrupted: Findings) -> None:
    assert interrupted.experiment.complete
    claim, *_ = list_cases(interrupted)

    assert (claim.outcome, claim.figures["verdict"]) == ("failed", "inconclusive")
    assert 'value="supported"' not in render_junit(interrupted)
    assert render_summary(interrupted).splitlines()[0].endswith(": inconclusive")


def test_page_and_text_say_so(interrupted: Findings) -> None:
    page = render_html(interrupted)

    assert "supported, provisional</title>" in page
    assert "SUPPORTED, PROVISIONAL" in render_text(interrupted)
    (told,) = (fact.value for fact in tell_facts(interrupted, with_texts=True) if fact.path == "hypothesis.verdict")
    assert told == "supported, provisional"
