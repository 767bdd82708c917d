from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.errors import StoreError
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.model.run import RunState
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.store import layout
from pgtrial.store.state import State
from support import EXPERIMENT, Simulation, write_result_folder

SMALL = EXPERIMENT.replace('"10s"', '"3s"').replace("blocks = 6", "blocks = 2").replace("placebo = true", "")


def test_a_known_effect_is_supported_and_the_placebo_is_clean(findings: Findings) -> None:
    assert findings.hypothesis.verdict is Verdict.SUPPORTED
    assert say(findings.hypothesis.reason).startswith("off is ")
    assert findings.caveats == ()
    assert findings.needed.blocks is None
    assert {effect.arm for effect in findings.effects} == {"off"}
    assert {effect.arm for effect in findings.placebo} == {"placebo"}
    assert not {effect.decision for effect in findings.placebo} & {Decision.BETTER, Decision.WORSE}
    assert findings.noise.sd_log_ratio == pytest.approx(0.02 * 2**0.5, rel=1)
    assert findings.noise.sd_log_ratio_placebo is not None
    assert findings.noise.detectable is not None


def list_files(folder: Path) -> list[Path]:
    """Without what SQLite keeps beside a database while anybody reads it: tests share the folder."""
    return sorted(path for path in folder.rglob("*") if not path.name.endswith(("-shm", "-wal")))


def test_the_folder_is_only_read_and_the_analysis_repeatable(folder: Path, findings: Findings) -> None:
    before = list_files(folder)
    again = analyze(folder)

    assert list_files(folder) == before
    assert again.model_dump_json() == findings.model_dump_json()


def test_equal_arms_are_not_found_better(tmp_path: Path) -> None:
    simulation = Simulation(tps={"on": 700.0, "off": 700.0}, seed=5)
    findings = analyze(write_result_folder(tmp_path / "r", text=SMALL.replace("= 2", "= 4"), simulation=simulation))

    assert findings.hypothesis.verdict in (Verdict.REFUTED, Verdict.INCONCLUSIVE)


def test_an_undeclared_difference_makes_the_verdict_invalid(tmp_path: Path) -> None:
    simulation = Simulation(settings={"off": {"work_mem": "64MB"}})
    findings = analyze(write_result_folder(tmp_path / "r", text=SMALL, simulation=simulation))

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert "work_mem" in say(findings.hypothesis.reason)
    assert [difference.name for difference in findings.fingerprint.differences] == ["work_mem"]


def test_an_undeclared_difference_of_the_world_makes_the_verdict_invalid(tmp_path: Path) -> None:
    simulation = Simulation(facts={"on": {"kernel/vm.swappiness": "60"}, "off": {"kernel/vm.swappiness": "1"}})
    findings = analyze(write_result_folder(tmp_path / "r", text=SMALL, simulation=simulation))

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert say(findings.hypothesis.reason) == (
        "The runs cannot answer the claim: the arms did not run under the same conditions, although none declares it: "
        "vm.swappiness (on: 60; off: 1)."
    )


def test_the_same_difference_that_an_arm_declares_is_what_is_tested(tmp_path: Path) -> None:
    simulation = Simulation(facts={"on": {"kernel/vm.swappiness": "60"}, "off": {"kernel/vm.swappiness": "1"}})
    text = SMALL + '\n[arms.off.sysctl]\n"vm.swappiness" = 1\n'
    findings = analyze(write_result_folder(tmp_path / "r", text=text, simulation=simulation))

    assert findings.hypothesis.verdict is not Verdict.INVALID
    (difference,) = findings.fingerprint.differences
    assert (difference.name, difference.declared) == ("kernel: vm.swappiness", True)
    assert [(placed.where, placed.value) for placed in difference.values] == [("on", "60"), ("off", "1")]


def test_a_difference_of_one_arm_during_its_load_makes_the_verdict_invalid(tmp_path: Path) -> None:
    simulation = Simulation(
        facts={arm: {"machine/CPU governor": "performance"} for arm in ("on", "off")},
        facts_after={"off": {"machine/CPU governor": "powersave"}},
    )
    findings = analyze(write_result_folder(tmp_path / "r", text=SMALL, simulation=simulation))

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert "CPU governor (on: performance; off: performance, then powersave)" in say(findings.hypothesis.reason)


def test_a_stopped_experiment_is_analysed_as_far_as_it_went(tmp_path: Path) -> None:
    findings = analyze(write_result_folder(tmp_path / "r", text=SMALL, runs=3))

    assert not findings.experiment.complete
    assert findings.hypothesis.verdict is Verdict.INVALID
    assert {"incomplete", "too-few-blocks"} <= {caveat.code for caveat in findings.caveats}
    assert findings.effects[0].blocks == 1


def test_a_folder_without_runs_has_findings(tmp_path: Path) -> None:
    findings = analyze(write_result_folder(tmp_path / "r", text=SMALL, runs=0))

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert [caveat.code for caveat in findings.caveats] == ["no-runs"]
    assert (findings.effects, findings.series, findings.overhead.share) == ((), (), None)


def test_a_folder_without_a_schedule_has_findings(tmp_path: Path) -> None:
    (tmp_path / layout.EXPERIMENT).write_text(EXPERIMENT)
    State.create(tmp_path).close()

    findings = analyze(tmp_path)

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert findings.experiment.arms == ()


def test_a_folder_with_invalid_runs_only_has_findings(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=SMALL, runs=0)
    state = State.open(folder, write=True)
    run = state.begin_run(state.slots()[0], 10.0)
    state.end_runs([run.id], RunState.INVALID, 20.0, "pgbench: connection refused")
    state.close()

    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert {caveat.code for caveat in findings.caveats} == {"no-runs", "invalid-runs"}
    assert findings.runs[0].reason == "pgbench: connection refused"


def test_a_missing_file_of_a_run_is_named(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=SMALL, runs=2)
    missing = next(folder.glob(f"runs/*/{layout.TRANSACTIONS}"))
    missing.unlink()

    with pytest.raises(StoreError) as caught:
        analyze(folder)

    assert str(missing) in caught.value.message


def test_the_claim_may_name_the_only_scenario(tmp_path: Path) -> None:
    text = SMALL.replace('expect = "better"', 'expect = "better"\nscenario = "simple-update"')
    findings = analyze(write_result_folder(tmp_path / "r", text=text))

    assert findings.hypothesis.scenario == "simple-update"
    assert findings.hypothesis.verdict is not Verdict.INVALID
