"""Limits that experiments in a folder prove: simulated, with elasticities that are known, against what rules name."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.design.limits import limits_to_prove, log_time
from pgtrial.errors import StoreError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import examine
from pgtrial.export.bundle import copy_folder
from pgtrial.export.redaction import Redaction
from pgtrial.export.tables.causes import cause_tables
from pgtrial.findings.causes import Resource
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.narrate.facts import tell_facts
from pgtrial.report.html import render_html
from pgtrial.report.text import render_text
from pgtrial.store import layout
from support import EXPERIMENT, Simulation, write_result_folder

TEXT = EXPERIMENT.replace("[design]", "[limits]\nprove = true\n\n[design]")
FLUSH = {"flush": 0.8, "cpu": 0.2}
CPU = {"cpu": 0.9, "flush": 0.1}


def read(text: str) -> Experiment:
    experiment = examine(text, Path("/")).experiment
    assert experiment is not None
    return experiment


def write(folder: Path, truths: Mapping[str, Mapping[str, float]], *, text: str = TEXT, noise: float = 0.01) -> Path:
    """A folder with the proofs of some arms, in which throughput is a product of powers of the times."""
    write_result_folder(folder, text=text, simulation=Simulation(tps={"on": 300.0, "off": 600.0, "placebo": 300.0}))
    experiment = read(text)
    proofs = limits_to_prove(experiment, resolve_arms(experiment))
    for arm, truth in truths.items():
        proof = read(proofs[arm])
        assert proof.limits is not None
        tps = {}
        for point in resolve_arms(proof):
            names = [name.partition(".") for name in proof.limits.resources]
            logs = sum(truth.get(key, 0.0) * log_time(knob, point.knobs[knob][key]) for knob, _, key in names)
            tps[point.name] = 300 * math.exp(-logs)
        simulation = Simulation(tps=tps, run_sd=noise, slice_sd=0.01, block_sd=0.2, seed=5)
        write_result_folder(layout.proof_folder(folder, arm), text=proofs[arm], simulation=simulation)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("proofs") / "folder", {"on": FLUSH, "off": CPU})


@pytest.fixture(scope="module")
def found(folder: Path) -> Findings:
    return analyze(folder)


def limit_of(findings: Findings, arm: str) -> tuple[Resource, Resource | None]:
    assert findings.causes is not None
    (limit,) = (limit for limit in findings.causes.limits if limit.arm == arm)
    return limit.resource, limit.by_rules


def test_ledgers_of_the_arms_stand_in_the_findings(found: Findings) -> None:
    assert [ledger.of for ledger in found.proofs] == ["on", "off"]
    assert [ledger.entries[0].resource for ledger in found.proofs] == ["slowdown.flush", "slowdown.cpu"]
    assert found.proofs[0].total.value == pytest.approx(1, abs=0.1)
    assert found.ledger is None
    assert Findings.model_validate_json(found.model_dump_json()).proofs == found.proofs


def test_intervention_counts_where_rules_say_something_else(found: Findings) -> None:
    assert limit_of(found, "on") == (Resource.WAL_FLUSH, None)
    resource, by_rules = limit_of(found, "off")
    assert resource is Resource.CPU
    assert by_rules is not None
    assert by_rules is not Resource.CPU
    assert found.causes is not None
    words = say(found.causes.text)
    assert "off is limited by the CPU, and on by the flush of the WAL" in words
    assert "By experiment: What limits “on” most is the flush of the WAL and of files" in words
    assert "the experiment counts" in words or "as an experiment has proved" in words


def test_page_terminal_model_and_tables_have_them(found: Findings) -> None:
    page, lines = render_html(found), render_text(found)
    assert page.index('id="limits"') < page.index('id="proofs"') < page.index('id="checks"')
    assert "Throughput of “off” in per cent for" in page
    assert "What limits on, by experiment:\n  the flush of the WAL and of files " in lines
    facts = [fact for fact in tell_facts(found, with_texts=False) if fact.key[0] == "proof"]
    assert [fact.path for fact in facts][:2] == ["proofs[0].text.text", "proofs[0].entries[0].elasticity"]
    (table,) = (each for each in cause_tables(found) if each.name == "elasticities")
    assert len(table.rows) == 8


def test_copy_for_somebody_else_has_them_with_and_without_names(folder: Path, found: Findings, tmp_path: Path) -> None:
    for number, kinds in enumerate(((), Redaction)):
        to = tmp_path / str(number)
        to.mkdir()
        assert copy_folder(folder, to, kinds).left_out == ()
        assert analyze(to).proofs == found.proofs


def test_undecided_proof_takes_back_what_it_refutes(tmp_path: Path) -> None:
    truth = {"cpu": 0.5, "generator": 0.5}
    findings = analyze(write(tmp_path / "folder", {"on": truth}, noise=0.03))
    assert not findings.proofs[0].leads
    assert limit_of(findings, "on") == (Resource.UNDETERMINED, Resource.WAL_FLUSH)


def test_ledger_of_all_load_levels_says_nothing_about_one(tmp_path: Path) -> None:
    text = TEXT.replace("clients = 4", "clients = [2, 4]")
    findings = analyze(write(tmp_path / "folder", {"on": CPU}, text=text))
    assert findings.proofs[0].leads
    assert findings.causes is not None
    assert {limit.by_rules for limit in findings.causes.limits} == {None}


def test_link_in_the_place_of_a_proof_is_not_followed(folder: Path, tmp_path: Path) -> None:
    own = write(tmp_path / "folder", {})
    (own / layout.PROOFS).symlink_to(folder / layout.PROOFS)
    assert analyze(own).proofs == ()


def test_proof_of_another_arm_is_damage(tmp_path: Path) -> None:
    own = write(tmp_path / "folder", {"on": CPU})
    layout.proof_folder(own, "on").rename(layout.proof_folder(own, "off"))
    with pytest.raises(StoreError, match="damaged"):
        analyze(own)
