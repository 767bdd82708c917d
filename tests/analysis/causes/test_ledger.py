"""The ledger of simulated experiments whose elasticities are known, from the folder to the page."""

import math
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.causes.ledger import _not_varied, predict_change
from pgtrial.design.limits import limits_experiment, log_time
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import examine
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import Ledger
from pgtrial.report.html import render_html
from pgtrial.report.text import render_text
from support import EXPERIMENT, Simulation, write_result_folder


def read(text: str) -> Experiment:
    experiment = examine(text, Path("/")).experiment
    assert experiment is not None
    return experiment


def derive(source: str = EXPERIMENT, **options: object) -> str:
    experiment = read(source)
    return limits_experiment(experiment, resolve_arms(experiment), duration=10, **options)  # type: ignore[arg-type]


def simulate(
    folder: Path, truth: Mapping[str, float], *, text: str | None = None, noise: float = 0.01, **options: object
) -> Findings:
    """Findings of an experiment in which throughput is a product of powers of the times."""
    text = text or derive()
    experiment = read(text)
    assert experiment.limits is not None
    tps = {}
    for arm in resolve_arms(experiment):
        logs = 0.0
        for name in experiment.limits.resources:
            knob, _, key = name.partition(".")
            logs -= truth.get(key, 0.0) * log_time(knob, {**arm.knobs, "postgresql": arm.settings}[knob][key])
        tps[arm.name] = 300 * math.exp(logs)
    simulation = Simulation(tps=tps, run_sd=noise, slice_sd=0.01, block_sd=0.2, seed=5)
    return analyze(write_result_folder(folder, text=text, simulation=simulation, **options))  # type: ignore[arg-type]


def ledger_of(findings: Findings) -> Ledger:
    assert findings.ledger is not None
    return findings.ledger


def texts(ledger: Ledger) -> list[str]:
    return [each.code for each in ledger.text.values["parts"]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    truth = {"flush": 0.6, "cpu": 0.3, "generator": 0.1}
    return simulate(tmp_path_factory.mktemp("ledger") / "folder", truth)


def test_elasticities_and_their_sum_are_the_true_ones(found: Findings) -> None:
    ledger = ledger_of(found)
    by_name = {entry.resource.partition(".")[2]: entry.elasticity.value for entry in ledger.entries}
    assert by_name == pytest.approx({"flush": 0.6, "cpu": 0.3, "generator": 0.1, "files": 0.0}, abs=0.06)
    assert [entry.resource for entry in ledger.entries][:2] == ["slowdown.flush", "slowdown.cpu"]
    assert {round(entry.step, 6) for entry in ledger.entries} == {1.5}
    assert ledger.total.low is not None
    assert ledger.total.high is not None
    assert ledger.total.low < 1 < ledger.total.high
    assert ledger.rest.value == pytest.approx(1 - ledger.total.value)
    assert ledger.blocks == 6


def test_what_limits_is_named_with_what_is_next(found: Findings) -> None:
    ledger = ledger_of(found)
    assert ledger.leads
    assert texts(ledger) == ["ledger.leads", "ledger.buys", "ledger.next", "ledger.whole"]
    words = say(ledger.text)
    assert words.startswith("What limits “on” most is the flush of the WAL and of files: 1 % less of that time")
    assert "% higher, in the middle of the step." in words
    assert "Next is the CPU time of the server (0.30)." in words


def test_ledger_survives_findings_json(found: Findings) -> None:
    again = Findings.model_validate_json(found.model_dump_json())
    assert again.ledger == found.ledger


def test_page_and_terminal_show_the_ledger(found: Findings) -> None:
    page, lines = render_html(found), render_text(found)
    assert 'id="ledger"' in page
    assert "the flush of the WAL and of files: 0." in page
    assert "not found" in page
    assert "Limits: What limits “on” most is the flush" in lines
    assert any(line.startswith("  not found") for line in lines.splitlines())


def test_what_was_not_varied_is_missing_from_one(tmp_path: Path) -> None:
    text = derive(resources=["cpu", "files"])
    ledger = ledger_of(simulate(tmp_path / "folder", {"cpu": 0.3}, text=text))
    assert ledger.leads
    assert texts(ledger)[0] == "ledger.leads-of-varied"
    assert "It may owe more to what was not varied." in say(ledger.text)
    assert texts(ledger)[-1] == "ledger.less"
    assert ledger.rest.value == pytest.approx(0.7, abs=0.1)
    assert [say(each) for each in ledger.not_varied][:2] == [
        "the flush of the WAL and of files (left out)",
        "the CPU time of the load generator (left out)",
    ]


def test_declared_limit_is_a_time_like_others(tmp_path: Path) -> None:
    source = EXPERIMENT.replace("[design]", "[arms.on.cgroup]\nwrite_iops = 150\n[design]")
    text = derive(source, resources=["write_iops", "flush"], step=1.25)
    ledger = ledger_of(simulate(tmp_path / "folder", {"write_iops": 0.95, "flush": 0.05}, text=text))
    assert ledger.entries[0].resource == "cgroup.write_iops"
    assert ledger.entries[0].elasticity.value == pytest.approx(0.95, abs=0.1)
    assert say(ledger.entries[0].name) == "waits for the limit of writes per second"


def test_two_that_are_alike_are_not_decided(tmp_path: Path) -> None:
    ledger = ledger_of(simulate(tmp_path / "folder", {"cpu": 0.5, "flush": 0.5}, noise=0.03))
    assert not ledger.leads
    assert texts(ledger)[0] == "ledger.undecided"


def test_nothing_that_limits_is_said(tmp_path: Path) -> None:
    ledger = ledger_of(simulate(tmp_path / "folder", {}))
    assert texts(ledger)[0] == "ledger.nothing"


def test_more_than_one_is_said(tmp_path: Path) -> None:
    ledger = ledger_of(simulate(tmp_path / "folder", {"cpu": 0.9, "flush": 0.6}))
    assert texts(ledger)[-1] == "ledger.more"


def test_the_largest_is_not_decided_where_it_may_owe_its_lead_to_what_exceeds_one(tmp_path: Path) -> None:
    """0.75 is surely more than 0.5, and not if it is 0.25 too large."""
    ledger = ledger_of(simulate(tmp_path / "folder", {"cpu": 0.75, "flush": 0.5}))
    first, second = ledger.entries[:2]
    assert first.elasticity.low > second.elasticity.high  # type: ignore[operator]
    assert not ledger.leads
    assert texts(ledger) == ["ledger.undecided", "ledger.more"]


def test_the_largest_leads_where_what_exceeds_one_is_less_than_its_lead(tmp_path: Path) -> None:
    ledger = ledger_of(simulate(tmp_path / "folder", {"cpu": 1.2, "flush": 0.1}))
    assert ledger.leads
    assert texts(ledger)[-1] == "ledger.more"


def test_arms_whose_runs_fail_make_nothing_sure(tmp_path: Path) -> None:
    assert ledger_of(simulate(tmp_path / "r", {"flush": 0.9, "cpu": 0.1})).leads
    with sqlite3.connect(tmp_path / "r" / "state.sqlite") as db:
        db.execute(
            "INSERT INTO run (slot, attempt, state, started, ended, reason) "
            "SELECT number, 2, 'invalid', 1767225600, 1767225700, 'the server died' FROM slot "
            "WHERE arm <> (SELECT name FROM arm WHERE role = 'control')"
        )
    db.close()
    found = ledger_of(analyze(tmp_path / "r"))

    assert not found.leads
    assert texts(found)[:2] == ["ledger.fails", "ledger.undecided"]


def test_one_block_has_no_interval(tmp_path: Path) -> None:
    ledger = ledger_of(simulate(tmp_path / "folder", {"cpu": 0.9}, runs=8))
    assert ledger.blocks == 1
    assert ledger.total.low is None
    assert texts(ledger)[-1] == "ledger.no-interval"


def test_experiment_without_a_whole_block_has_no_ledger(tmp_path: Path) -> None:
    assert simulate(tmp_path / "folder", {"cpu": 0.9}, runs=3).ledger is None


def test_other_experiments_have_no_ledger(tmp_path: Path) -> None:
    findings = analyze(write_result_folder(tmp_path / "folder"))
    assert findings.ledger is None
    assert 'id="ledger"' not in render_html(findings)


def test_memory_is_told_beside_the_sum(tmp_path: Path) -> None:
    source = EXPERIMENT.replace('synchronous_commit = "on"', 'synchronous_commit = "on"\nshared_buffers = "64MB"')
    text = derive(source, resources=["cpu", "flush", "shared_buffers"])
    findings = simulate(tmp_path / "folder", {"cpu": 0.7, "flush": 0.3, "shared_buffers": 0.4}, text=text)
    ledger = ledger_of(findings)
    assert [entry.resource for entry in ledger.entries] == ["slowdown.cpu", "slowdown.flush"]
    assert ledger.memory[0].elasticity.value == pytest.approx(0.4, abs=0.1)
    assert ledger.total.value == pytest.approx(1, abs=0.1)
    assert "With 1 % more of shared_buffers, throughput would be 0.4" in say(ledger.text)
    assert "shared_buffers, not in the sum" in render_text(findings)
    assert "÷ 1.5" in render_html(findings)
    twice = predict_change(tmp_path / "folder", {"shared_buffers": 2})
    assert twice.ratio.side(2**0.4) == 0
    assert twice.beyond == pytest.approx({"shared_buffers": 1.5}, rel=1e-3)  # whole pages


def test_pauses_are_told_as_not_varied_unless_they_are() -> None:
    left, varied = (
        [each.code for each in _not_varied(resources)] for resources in (("slowdown.cpu",), ("workload.pauses",))
    )

    assert "not-slowed.pauses" in left
    assert "not-slowed.sleeping" not in left
    assert "not-slowed.pauses" not in varied
    assert "not-slowed.sleeping" in varied
