"""What the page shows of several metrics and of all metrics, and that a plain first screen stays as it is."""

from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.findings.findings import Findings
from pgtrial.report.html import render_html
from pgtrial.report.narrative.parts import text_of
from pgtrial.report.narrative.story import tell_story
from pgtrial.report.sections import SECTIONS
from pgtrial.report.text import render_text
from support import EXPERIMENT, write_result_folder

CLAIM = EXPERIMENT.partition("[hypothesis]")
TWO = f"""{CLAIM[0]}[hypothesis]
arm = "off"
metric = "cost.wal_bytes"
expect = "better"
margin = "5%"

[[hypothesis.and]]
metric = "pgbench.tps"
expect = "better"
margin = "5%"

{CLAIM[2].partition("[")[1]}{CLAIM[2].partition("[")[2]}"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return analyze(write_result_folder(tmp_path_factory.mktemp("plain") / "r"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return analyze(write_result_folder(tmp_path_factory.mktemp("two") / "r", text=TWO))


def shown(findings: Findings) -> set[str]:
    return {section.name for section in SECTIONS if section.is_shown(findings)}


def test_the_first_screen_of_a_plain_experiment_has_nothing_new(plain: Findings) -> None:
    page = render_html(plain)
    first, folded = page.partition('<section id="metrics"')[0], page.partition('<section id="metrics"')[2]

    assert "factors" not in shown(plain)
    assert plain.hypothesis.parts == ()
    assert not plain.hypothesis.not_tested
    assert "All metrics" in folded
    assert len(folded.partition("</section>")[0]) < 60_000
    assert "cost.wal_bytes" not in first.partition('<main id="content"')[2]


def test_each_metric_of_a_claim_is_told(two: Findings) -> None:
    page, text = render_html(two), render_text(two)

    assert [part.metric for part in two.hypothesis.parts] == ["cost.wal_bytes", "pgbench.tps"]
    for said in (page, " ".join(text.split())):
        assert "WAL per transaction" in said
        assert "2 metrics of the claim" in said
    story = " ".join(text_of(sentence) for paragraph in tell_story(two) for sentence in paragraph.sentences)
    assert "And: it is better in throughput" in story


def test_a_folder_keeps_its_findings(two: Findings, tmp_path: Path) -> None:
    assert Findings.model_validate_json(two.model_dump_json()) == two
