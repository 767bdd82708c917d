"""Where runs failed, or the attempt is not the first, every output says what the terminal and the page say."""

import sqlite3
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.cli.main import main
from pgtrial.export.tables.experiment import experiment_table
from pgtrial.export.tables.results import effects_table
from pgtrial.findings.findings import Findings
from pgtrial.narrate.facts import tell_facts
from pgtrial.report.markdown import render_summary
from pgtrial.report.text import render_text
from support import EXPERIMENT, Simulation, write_result_folder

TEXT = EXPERIMENT.replace("placebo = true", "placebo = false").replace('"10s"', '"4s"')
ATTEMPT, FAILURES = "Attempt 3 at this claim", "off failed in 4 of 10 attempts and on in 0 of 6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the third attempt at a clear gain, whose arm failed in four attempts."""
    clear = Simulation(tps={"on": 500.0, "off": 1000.0}, run_sd=0.005)
    place = tmp_path_factory.mktemp("beside") / "r"
    made = write_result_folder(place, text=TEXT, simulation=clear, attempts_before=2)
    with sqlite3.connect(made / "state.sqlite") as db:
        db.execute(
            "INSERT INTO run (slot, attempt, state, started, ended, reason) "
            "SELECT number, 2, 'invalid', 1767225600, 1767225700, 'the server died' FROM slot "
            "WHERE arm = 'off' ORDER BY number LIMIT 4"
        )
    db.close()
    return made


@pytest.fixture(scope="module")
def findings(folder: Path) -> Findings:
    return analyze(folder)


def test_tables_for_spreadsheets_say_it(findings: Findings) -> None:
    facts = {row[1]: row[2] for row in experiment_table(findings).rows}
    effects = effects_table(findings)
    place = [column.name for column in effects.columns].index("fails_more")

    assert ATTEMPT in str(facts["beside it"])
    assert FAILURES in str(facts["beside it"])
    assert {row[place] for row in effects.rows} == {True}


def test_status_says_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())

    assert ATTEMPT in said
    assert FAILURES in said


def test_terminal_summary_and_facts_of_a_narrative_say_it(findings: Findings) -> None:
    for said in (
        render_text(findings),
        render_summary(findings),
        "\n".join(fact.value for fact in tell_facts(findings, with_texts=True)),
    ):
        assert ATTEMPT in " ".join(said.split())
        assert FAILURES in " ".join(said.split())
