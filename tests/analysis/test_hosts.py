"""Experiments whose blocks ran on several hosts: 4 hosts of three blocks, on one of which the effect is another."""

import contextlib
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects.stopping import decide_stop
from pgtrial.analysis.evidence import read_evidence
from pgtrial.errors import StoreError
from pgtrial.findings.findings import Findings
from pgtrial.model.verdict import Verdict
from support import write_result_folder
from support.simulation import EXPERIMENT, Simulation

NAMES = ("db-1", "db-2", "db-3", "db-4")
FACTS = {
    name: {
        "PostgreSQL/version": "15.7",
        "kernel/boot id": name,
        "kernel/release": "6.12.0" if name == "db-3" else "6.1.0",
    }
    for name in NAMES
}
SPREAD = Simulation(hosts=NAMES, host_gains={"db-3": -0.65}, host_facts=FACTS, run_sd=0.01)
TEXT = EXPERIMENT.replace("blocks = 6", "blocks = 12")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_result_folder(tmp_path_factory.mktemp("hosts") / "folder", text=TEXT, simulation=SPREAD)


@pytest.fixture(scope="module")
def findings(folder: Path) -> Findings:
    return analyze(folder)


def test_the_verdict_is_over_hosts(findings: Findings) -> None:
    (effect,) = (each for each in findings.effects if (each.metric, each.load_level) == ("pgbench.tps", "all"))
    assert findings.hosts is not None
    assert (effect.low, effect.high) == pytest.approx((findings.hosts.mean.low, findings.hosts.mean.high))
    assert effect.degrees == pytest.approx(3, abs=0.1)
    assert findings.hypothesis.verdict is Verdict.INCONCLUSIVE  # as one block of each host would have said


@pytest.mark.parametrize(("listed", "is_said"), [("4", True), ("1", False), ("", False), ("9" * 99, False)])
def test_all_blocks_on_one_host_of_several_say_nothing_of_the_others(
    tmp_path: Path, listed: str, is_said: bool
) -> None:
    folder = write_result_folder(tmp_path / "folder", simulation=replace(SPREAD, hosts=NAMES[:1]))
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as db, db:
        db.execute("INSERT INTO meta (key, value) VALUES ('fleet', ?)", (listed,))
    said = [each.text for each in analyze(folder).caveats if each.code == "other-hosts"]

    text = "All blocks ran on db-1, one of 4 hosts that were listed: nothing is known of the others."
    assert said == ([text] if is_said else [])


def test_each_host_is_judged_and_the_one_that_differs_is_named(findings: Findings) -> None:
    found = findings.hosts
    assert found is not None
    assert [(each.host, each.blocks, each.verdict) for each in found.hosts] == [
        ("db-1", 3, Verdict.SUPPORTED),
        ("db-2", 3, Verdict.SUPPORTED),
        ("db-3", 3, Verdict.INCONCLUSIVE),
        ("db-4", 3, Verdict.SUPPORTED),
    ]
    assert [each.host for each in found.hosts if each.differs] == ["db-3"]
    said = " ".join(each.say() for each in found.text)
    assert "supported on 3 of 4 hosts" in said
    assert "Another effect than on the rest: db-3 (" in said


def test_on_how_many_kinds_of_machine_it_is_supported_is_said_where_hosts_are_alike(tmp_path: Path) -> None:
    facts = {host: {"machine/CPU": "old" if host in ("db-1", "db-2") else "new"} for host in SPREAD.hosts}
    kinds = analyze(write_result_folder(tmp_path / "kinds", text=TEXT, simulation=replace(SPREAD, host_facts=facts)))

    assert kinds.hosts is not None
    said = " ".join(each.say() for each in kinds.hosts.text)
    assert "supported on 3 of 4 hosts. It is on all hosts of 1 of 2 kinds of machine" in said


def test_what_there_is_to_beware_of_is_said(findings: Findings) -> None:
    caveats = {each.code: each for each in findings.caveats}
    assert "Only 4 hosts" in caveats["few-hosts"].text
    assert "db-3" in caveats["other-effect-on-host"].text
    assert caveats["other-effect-on-host"].text in findings.beside_verdict
    assert "kernel release (db-1: 6.1.0; db-2: 6.1.0; db-3: 6.12.0; db-4: 6.1.0)" in caveats["hosts-differ"].text
    assert "boot id" not in caveats["hosts-differ"].text
    assert not {"fingerprint-differs", "undeclared-difference", "level-drift"} & set(caveats)
    assert findings.hosts is not None
    assert findings.hosts.prediction is None
    assert findings.hosts.no_prediction is not None
    assert "takes 5 hosts, and there are 4" in findings.hosts.no_prediction.say()


def test_more_that_is_needed_is_more_hosts(findings: Findings) -> None:
    assert findings.needed.text.code in ("needed.hosts", "needed.infeasible")


def test_with_one_host_nothing_is_said_of_hosts(tmp_path: Path) -> None:
    without = analyze(write_result_folder(tmp_path / "without"))
    one = analyze(write_result_folder(tmp_path / "one", simulation=replace(SPREAD, hosts=("db-1",), run_sd=0.02)))

    assert without.hosts is one.hosts is None
    assert one.effects == without.effects
    assert one.hypothesis == without.hypothesis


def test_a_host_without_a_complete_block_is_named(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "folder", text=TEXT, simulation=SPREAD)
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as db:
        db.execute(
            "UPDATE run SET state = 'invalid' WHERE slot IN "
            "(SELECT number FROM slot JOIN block_host USING (block) WHERE host = 'db-2')"
        )

    found = analyze(folder).hosts

    assert found is not None
    assert [each.host for each in found.hosts] == ["db-1", "db-3", "db-4"]
    said = " ".join(each.say() for each in found.text)
    assert "supported on 2 of 4 hosts" in said
    assert "No block with both arms on db-2." in said


def test_until_it_is_finished_there_is_no_interval(tmp_path: Path) -> None:
    found = analyze(write_result_folder(tmp_path / "half", text=TEXT, simulation=SPREAD, runs=27))

    assert found.hypothesis.verdict is Verdict.INCONCLUSIVE
    assert all(effect.low is None for effect in found.effects)
    assert "hosts-unfinished" in {each.code for each in found.caveats}
    assert found.hosts is not None
    assert {each.verdict for each in found.hosts.hosts} == {Verdict.INCONCLUSIVE}


def test_a_rule_for_stopping_makes_no_look(tmp_path: Path) -> None:
    text = TEXT.replace("placebo = true", 'placebo = true\nstop = "decision"')
    folder = write_result_folder(tmp_path / "stop", text=text, simulation=SPREAD, runs=18)

    decision = decide_stop(folder)

    assert (decision.stop, decision.look) == (False, None)


def test_a_block_without_a_host_among_others_is_damage(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "folder", text=TEXT, simulation=SPREAD)
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite", isolation_level=None)) as db:
        db.execute("DELETE FROM block_host WHERE block = 7")

    with pytest.raises(StoreError, match="does not say on which host block 7 was run"):
        read_evidence(folder)


def test_the_interval_is_that_of_students_t_where_blocks_are_even(tmp_path: Path) -> None:
    text = TEXT.replace("placebo = true", 'placebo = false\nmethod = "interleaved"')
    found = analyze(write_result_folder(tmp_path / "turns", text=text, simulation=SPREAD))
    assert found.hosts is not None
    assert found.hosts.method == "means"
    (effect,) = (each for each in found.effects if (each.metric, each.load_level) == ("pgbench.tps", "all"))
    hosts = [each.effect.value for each in found.hosts.hosts]
    known = stats.ttest_1samp([math.log(value) for value in hosts], 0.0)

    assert effect.p_value == pytest.approx(known.pvalue)
