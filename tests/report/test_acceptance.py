"""Requirements: page, terminal, Markdown and record say the same, from a folder on."""

from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.findings.findings import Findings
from pgtrial.model.verdict import Verdict
from pgtrial.report.html import render_html
from pgtrial.report.markdown import render_summary
from pgtrial.report.text import render_text
from support import EXPERIMENT, Simulation, write_result_folder

ASKED = """
[[acceptance]]
metric = "pgbench.tps"
at_least = 1500

[[acceptance]]
metric = "pgbench.latency_p99"
at_most = "5s"
arm = "on"

[design]
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    folder: Path = tmp_path_factory.mktemp("folder") / "x"
    truth = Simulation(tps={"on": 500.0, "off": 1000.0}, run_sd=0.01, block_sd=0.02)
    write_result_folder(folder, simulation=truth, text=EXPERIMENT.replace("[design]\n", ASKED))
    return analyze(folder)


def test_each_arm_meets_a_requirement_or_not(found: Findings) -> None:
    assert [(each.arm, each.metric, str(each.verdict)) for each in found.acceptance] == [
        ("on", "pgbench.tps", "refuted"),
        ("off", "pgbench.tps", "supported"),
        ("on", "pgbench.latency_p99", "supported"),
    ]
    assert Findings.model_validate_json(found.model_dump_json()).acceptance == found.acceptance


def test_all_outputs_say_it(found: Findings) -> None:
    for text in (render_text(found), render_html(found), render_summary(found)):
        assert "Requirements: 2 of 3 met, 1 not met, 0 not decided." in text.replace("\N{NO-BREAK SPACE}", " ")
        assert "at least 1.5 k" in text.replace("\N{NO-BREAK SPACE}", " ")
        assert "not met" in text


def test_the_terminal_gets_no_line_that_is_too_long(found: Findings) -> None:
    lines = render_text(found, width=60).splitlines()

    assert any(line.startswith("  not met: on, throughput at least 1.5 k") for line in lines)
    first = next(number for number, line in enumerate(lines) if line.startswith("Requirements:"))
    assert max(map(len, lines[first : first + 7])) <= 60


def test_a_file_that_asks_nothing_has_no_section(sample: Findings) -> None:
    assert sample.acceptance == ()
    assert "Requirements:" not in render_text(sample)
    assert "Is it enough?" not in render_html(sample)


def test_why_it_is_not_decided_is_said(found: Findings) -> None:
    """Runs of an arm that ended no transaction, or were cut off, may be the ones that matter."""
    row = found.acceptance[1].model_copy(
        update={"verdict": Verdict.INCONCLUSIVE, "missing": 2, "interrupted": 1, "lost": 0.02}
    )
    text = render_text(found.model_copy(update={"acceptance": (row,)}), width=200)

    assert (
        "not decided: 2 runs have no value, 1 run was interrupted, 2.0 % of the transactions were lost"
        in text.replace("\N{NO-BREAK SPACE}", " ")
    )
