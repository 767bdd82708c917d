"""The long runs without their runs: what is left of them, what is kept, and that the same command goes on."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pytest
from ground_truth.kept import Kept, MeasuredRecord, ProofRecord, RulesRecord, Share
from ground_truth.kept_runs import Task, run_within
from ground_truth.predictions import Prediction, read_predictions
from ground_truth.scoring import Outcome, State

from ground_truth import __main__ as runner
from ground_truth import by_experiment, by_rules, cases, kept, kept_runs, proof_page, runs
from pgtrial.cli.limits import command
from pgtrial.design.limits import limits_experiment
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.load import examine, parse_experiment
from pgtrial.findings.causes import Resource

SEEN, UNSEEN = cases.read_cases(), cases.read_cases(cases.UNSEEN)
ALL = {case.name: case for case in (*SEEN, *UNSEEN)}
PREDICTIONS = read_predictions(ALL.values())
MADE = {"machine": "2 CPUs", "began": 1.0, "seconds": 300.0}
FLUSH = Share(name="flush", value=0.7, low=0.5, high=0.9)


@pytest.fixture(autouse=True)
def own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the repository is written."""
    for name in ("PROOFS", "CONTROLS", "RULES", "MEASURED"):
        for module in (kept, kept_runs, proof_page):
            monkeypatch.setattr(module, name, tmp_path / "kept" / f"{name.lower()}.json")
    page = tmp_path / "page.md"
    page.write_text(proof_page.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(proof_page, "PAGE", page)


def proof(**found: object) -> ProofRecord:
    return ProofRecord(**{**MADE, **found})  # type: ignore[arg-type]


def rules(case: cases.Case, state: State = State.RIGHT) -> RulesRecord:
    return RulesRecord.of(
        Outcome(case=case, state=state, found=case.expected[0], relief=3.0), **MADE, digest=case.digest
    )


def task(file: Path, name: str, record: Kept | Exception, begun: list[str]) -> Task:
    def run() -> Kept:
        begun.append(name)
        if isinstance(record, Exception):
            raise record
        return record

    return Task(file=file, name=name, run=run)


def test_records_are_read_as_they_were_kept() -> None:
    record = proof(times=(FLUSH,), total=FLUSH, rest=FLUSH, said=(FLUSH,), blocks=6, method="blocks", server="15.1")
    kept.keep(kept.PROOFS, "wal-flush", record)
    kept.keep(kept.PROOFS, "cpu", proof(reason="error: no"))
    kept.keep(kept.RULES, "jit", rules(ALL["jit"]))

    assert kept.read_kept(kept.PROOFS, ProofRecord) == {"cpu": (proof(reason="error: no"),), "wal-flush": (record,)}
    (of_jit,) = kept.read_kept(kept.RULES, RulesRecord)["jit"]
    assert of_jit.outcome(ALL["jit"]) == Outcome(case=ALL["jit"], state=State.RIGHT, found=Resource.CPU, relief=3.0)
    assert kept.longest(kept.PROOFS) == 300
    assert kept.longest(kept.MEASURED) is None


def test_all_attempts_stay_and_the_first_that_has_a_result_counts() -> None:
    """Nobody gets another result by asking again."""
    failed, first, second = proof(reason="error: no"), proof(times=(FLUSH,), blocks=6), proof(times=(FLUSH,), blocks=2)
    other = proof(times=(FLUSH,), blocks=3, digest="of the case before it was changed")
    for record in (other, failed, first, second):
        kept.keep(kept.PROOFS, "wal-flush", record)

    attempts = kept.read_kept(kept.PROOFS, ProofRecord)["wal-flush"]

    assert attempts == (other, failed, first, second)
    assert kept.read_counting(kept.PROOFS, ProofRecord, {"wal-flush": "", "cpu": ""}) == {"wal-flush": first}
    assert kept.find_counting(attempts) == other
    assert kept.find_counting((failed, failed), "") is failed
    assert kept.find_counting(attempts, "of another one") is None
    assert len(kept.PROOFS.read_text(encoding="utf-8").splitlines()) == 3


def test_a_record_of_the_older_form_is_the_first_attempt() -> None:
    first, second = proof(times=(FLUSH,), blocks=6, seconds=500.0), proof(times=(FLUSH,), blocks=2)
    kept.keep(kept.PROOFS, "wal-flush", first)
    alone = json.loads(kept.PROOFS.read_text(encoding="utf-8"))["wal-flush"][0]
    kept.PROOFS.write_text(json.dumps({"cpu": alone, "wal-flush": alone}), encoding="utf-8")

    assert kept.read_kept(kept.PROOFS, ProofRecord) == {"cpu": (first,), "wal-flush": (first,)}
    assert kept.longest(kept.PROOFS) == 500
    kept.keep(kept.PROOFS, "wal-flush", second)
    assert kept.read_kept(kept.PROOFS, ProofRecord) == {"cpu": (first,), "wal-flush": (first, second)}


def test_each_record_is_kept_at_once_and_what_cannot_run_here_is_passed_over(tmp_path: Path) -> None:
    file, begun = tmp_path / "kept" / "some.json", list[str]()
    tasks = [
        task(file, "first", proof(), begun),
        task(file, "second", runs.HindranceError("it needs root"), begun),
        task(file, "third", RuntimeError("killed"), begun),
    ]

    with pytest.raises(RuntimeError, match="killed"):
        run_within(tasks, limit=1e9)

    assert list(kept.read_kept(file, ProofRecord)) == ["first"]
    assert begun == ["first", "second", "third"]


def test_nothing_is_begun_that_is_not_likely_to_be_over(tmp_path: Path) -> None:
    file, begun = tmp_path / "kept" / "some.json", list[str]()
    tasks = [task(file, name, proof(seconds=500.0), begun) for name in ("first", "second")]

    assert run_within(tasks, limit=kept_runs.FIRST_GUESS - 1) == 2
    assert begun == []
    # There is time for one that takes as long as a first one is guessed to take, and not for one of 500 s.
    assert run_within(tasks, limit=kept_runs.FIRST_GUESS + 10) == 1
    assert begun == ["first"]


def names(tasks: tuple[Task, ...]) -> list[tuple[str, str]]:
    return [(task.file.stem, task.name) for task in tasks]


def test_ledgers_that_are_there_are_not_made_again_unless_they_are_named(tmp_path: Path) -> None:
    kept.keep(kept.PROOFS, "row-locks", proof(times=(FLUSH,), digest=ALL["row-locks"].digest))
    kept.keep(kept.PROOFS, "cpu", proof(reason="error: no compiler", digest=ALL["cpu"].digest))
    kept.keep(kept.PROOFS, "lwlocks", proof(times=(FLUSH,), digest="of the case before it was changed"))
    options = {"host_changes": False}

    left = kept_runs.proof_tasks(SEEN, PREDICTIONS, tmp_path, again=False, **options)
    named = kept_runs.proof_tasks(SEEN[:1], PREDICTIONS, tmp_path, again=True, **options)

    assert {name for _, name in names(left)} == {case.name for case in SEEN} - {"row-locks", "cpu"}
    assert names(named) == [("proofs", "row-locks")]


def test_unseen_cases_are_run_once_even_where_they_are_named(tmp_path: Path) -> None:
    first, second, third, *_ = UNSEEN
    kept.keep(kept.RULES, first.name, rules(first, State.WRONG))
    kept.keep(kept.PROOFS, first.name, proof(times=(FLUSH,)))
    kept.keep(kept.RULES, second.name, rules(second, State.FAILED))
    chosen = (first, second, third)

    left = kept_runs.unseen_tasks(chosen, PREDICTIONS, tmp_path, host_changes=False, again=False)
    again = kept_runs.unseen_tasks(chosen, PREDICTIONS, tmp_path, host_changes=False, again=True)

    assert names(left) == [("proofs", second.name), ("rules", third.name), ("proofs", third.name)]
    # Not even one that was changed since, of which another test tells.
    changed = (replace(first, table="{}"),)
    assert kept_runs.unseen_tasks(changed, PREDICTIONS, tmp_path, host_changes=False, again=True) == ()
    assert names(again) == [("rules", second.name), *names(left)]


def test_a_change_is_measured_after_it_was_predicted(tmp_path: Path) -> None:
    first, second, third, *_ = PREDICTIONS  # all of one case
    said = tuple(FLUSH.model_copy(update={"name": each.name}) for each in (first, second))
    kept.keep(kept.PROOFS, first.case, proof(said=said, began=10.0, digest=ALL[first.case].digest))
    kept.keep(kept.MEASURED, first.name, measured(first, began=20.0))
    kept.keep(kept.MEASURED, second.name, measured(second, began=1.0))
    chosen = (first, second, third)

    tasks = kept_runs.prediction_tasks(chosen, ALL, tmp_path, host_changes=False, again=False)

    assert names(tasks) == [("measured", second.name)]
    assert kept_runs.unspoken(chosen, ALL) == (third.case,)


def measured(prediction: Prediction, *, began: float) -> MeasuredRecord:
    return MeasuredRecord(machine="2 CPUs", began=began, seconds=60.0, digest=prediction.digest, ratio=1.1)


def test_a_command_goes_on_where_it_was_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    made: list[str] = []

    def make(case: cases.Case, results: Path, **_: object) -> ProofRecord:
        made.append(case.name)
        return proof(times=(FLUSH,), total=FLUSH, rest=FLUSH, seconds=1.0, digest=case.digest)

    controls: list[str] = []

    def control(case: cases.Case, results: Path, **_: object) -> ProofRecord:
        controls.append(case.name)
        return proof(times=(FLUSH,), total=FLUSH, rest=FLUSH, seconds=1.0, digest=case.digest)

    monkeypatch.setattr(kept_runs, "run_proof", make)
    monkeypatch.setattr(kept_runs, "run_control", control)
    # Nothing is run here; what comes and goes on the host is of tests beside this one.
    monkeypatch.setattr(runner, "tell_left", lambda *_: False)
    arguments = ["--limits", "--results", str(tmp_path / "results"), "--only", "wal-flush", "cpu"]

    assert runner.main([*arguments, "--limit", "10s"]) == 75
    assert made == []
    assert runner.main(["--limits", "--results", str(tmp_path / "results"), "--limit", "10min"]) == 0
    assert made == [case.name for case in SEEN]
    assert runner.main(["--limits", "--results", str(tmp_path / "results")]) == 0
    assert len(made) == len(SEEN)
    assert controls == [case.name for case in SEEN if not case.proof.is_varied]
    assert "| wal-flush | flush | flush 0.70 (0.50 to 0.90) |" in proof_page.PAGE.read_text(encoding="utf-8")


def test_what_pgtrial_says_when_it_fails_is_a_record_without_a_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case, called = ALL["wal-flush"], list[list[str]]()
    fake_program(monkeypatch, f'error: file "{runs._HERE}/x" is missing', called)

    found = by_experiment.run_proof(case, tmp_path, host_changes=False)

    assert found.reason == 'error: file "x" is missing'
    (words,) = called
    assert words[:4] == ["limits", str(case.file), "--arm", "waiting"]
    assert words[-1] == "--allow-code"
    assert by_rules.run_case(case, tmp_path, host_changes=False).state is State.FAILED


def test_a_control_varies_all_times_of_the_arm_without_the_cause(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    case, called = ALL["commit-delay"], list[list[str]]()
    fake_program(monkeypatch, "error: no", called)

    found = by_experiment.run_control(case, tmp_path, host_changes=False)

    assert (found.reason, found.digest) == ("error: no", case.digest)
    (words,) = called
    assert words[:4] == ["limits", str(case.file), "--arm", case.relieved]
    assert "--resource" not in words
    given = command.make_context("limits", words[1:]).params
    assert (given["resources"], given["method"], given["blocks"]) == ((), case.proof.method, 6)


# Those of undeclared-limit are on volumes that are made for it.
@pytest.mark.parametrize("name", [case.name for case in ALL.values() if not (case.proof.is_varied or case.outside)])
def test_a_control_can_be_planned_for_each_case_in_which_something_is_missing(name: str) -> None:
    case = ALL[name]
    experiment = parse_experiment(case.file.read_text(encoding="utf-8"), case.file.name, case.file.parent).experiment

    written = limits_experiment(
        experiment,
        resolve_arms(experiment),
        arm=case.relieved,
        method=case.proof.method or "auto",
        duration=case.proof.duration or None,
        warmup=case.proof.warmup or None,
    )

    found = examine(written, case.file.parent).experiment
    assert found is not None
    assert found.limits is not None
    assert set(found.limits.resources) >= {f"slowdown.{name}" for name in ("cpu", "flush", "files", "generator")}


def fake_program(monkeypatch: pytest.MonkeyPatch, said: str, called: list[list[str]], status: int = 2) -> None:
    class Process:
        def __init__(self, command: list[str], *, stdout: TextIO, stderr: TextIO) -> None:
            called.append(command[command.index("pgtrial") + 1 :])
            stdout.write(f"{said}\n")

        def wait(self, timeout: float | None = None) -> int:
            return status

    monkeypatch.setattr(runs.subprocess, "Popen", Process)


@pytest.mark.parametrize(
    ("said", "status"),
    [("interrupted", 130), ("error: host settings are in use by another experiment: pgtrial, process 7", 1)],
)
def test_what_ended_before_it_told_anything_comes_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, status: int
) -> None:
    fake_program(monkeypatch, said, [], status)
    tasks = kept_runs.unseen_tasks(UNSEEN[:1], PREDICTIONS, tmp_path, host_changes=False, again=False)

    assert run_within(tasks, limit=1e9) == 2
    assert not kept.RULES.exists()
    assert not kept.PROOFS.exists()
    assert by_rules.run_case(UNSEEN[0], tmp_path, host_changes=False).state is State.FAILED


def test_who_ends_the_series_ends_pgtrial_and_waits_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[str] = []

    class Process:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def wait(self, timeout: float | None = None) -> int:
            told.append("wait")
            if len(told) == 1:
                raise SystemExit(143)
            return 130

        def terminate(self) -> None:
            told.append("terminate")

    monkeypatch.setattr(runs.subprocess, "Popen", Process)

    with pytest.raises(SystemExit):
        runs.call_pgtrial(tmp_path, ["run"])
    assert told == ["wait", "terminate", "wait"]


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_pgtrial_limits_takes_the_options_of_each_case(case: cases.Case) -> None:
    words = [str(case.file), "--arm", case.arm, "--quiet", *case.proof.options, *runs.permission(case)]

    given = command.make_context("limits", words).params

    assert given["resources"] == case.proof.vary
    assert given["blocks"] == case.proof.blocks
    assert given["host_changes"] is case.changes_host


def test_a_case_that_needs_root_is_not_run_and_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runs, "find_hindrance", lambda case, *, host_changes: "it needs root")
    tasks = kept_runs.unseen_tasks(UNSEEN[:1], PREDICTIONS, tmp_path, host_changes=False, again=False)

    assert run_within(tasks, limit=1e9) == 0
    assert not kept.RULES.exists()
    assert not kept.PROOFS.exists()


def test_names_that_do_not_exist_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--limits", "--unseen", "--predict"):
        with pytest.raises(SystemExit):
            runner.main([option, "--only", "nonsense"])
        assert "nonsense" in capsys.readouterr().err


def test_the_page_tells_how_often_each_is_right() -> None:
    first, second, *_ = UNSEEN
    found = {
        first.name: rules(first),
        second.name: RulesRecord.of(
            Outcome(case=second, state=State.WRONG, found=Resource.CPU), **MADE, digest=second.digest
        ),
    }
    missing = Share(name="rest", value=0.1, low=0.0, high=0.2)
    made = proof(times=(FLUSH,), total=FLUSH, rest=missing, digest=second.digest)
    proofs = {second.name: (made.model_copy(update={"digest": "of an older form"}), made, made)}

    text = proof_page.render_unseen(UNSEEN, {name: (record,) for name, record in found.items()}, proofs, {})

    assert "2 of 17 have been run. By rules, the right name was found in 1 of 2 whose cause was there" in text
    assert "always says “locks” is right in 2 of 2. By experiment, the right time is the largest in 1 of 1" in text
    assert f"| {second.name} | one advisory lock | locks | **cpu** | flush | flush |" in text
    assert f"- {second.name}: 2 ledgers were made of it; the first that has a result counts" in text


def test_no_unseen_case_and_no_prediction_was_changed_after_its_first_run() -> None:
    """Of the repository. What was run once stays as it was; a record of another digest tells that it did not."""
    folder = kept.FOLDER
    rules, proofs, controls, changes = (
        folder / f"{name}.json" for name in ("rules", "proofs", "controls", "predictions")
    )
    as_run = [
        *((name, attempts) for name, attempts in kept.read_kept(rules, RulesRecord).items()),
        *(
            (name, attempts)
            for path in (proofs, controls)
            for name, attempts in kept.read_kept(path, ProofRecord).items()
        ),
        *((name, attempts) for name, attempts in kept.read_kept(changes, MeasuredRecord).items()),
    ]
    now = {case.name: case.digest for case in UNSEEN} | {each.name: each.digest for each in PREDICTIONS}

    changed = [name for name, attempts in as_run for each in attempts if each.digest != now.get(name, each.digest)]

    assert changed == []


def test_a_changed_script_or_truth_changes_the_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = ALL["jit"]
    shutil.copytree(cases.EXPERIMENTS, tmp_path / "experiments")
    (tmp_path / "unseen.toml").write_text(cases.UNSEEN.read_text().replace("many milliseconds", "some milliseconds"))
    before = case.digest
    monkeypatch.setattr(cases, "EXPERIMENTS", tmp_path / "experiments")

    assert case.digest == before
    (other,) = cases.choose(cases.read_cases(tmp_path / "unseen.toml"), ["jit"])
    assert other.digest != before
    (tmp_path / "experiments" / "jit.sql").write_text("SELECT 1;")
    assert case.digest != before
    file = tmp_path / "experiments" / "jit.toml"
    scripts = '[arms.compiled.workload]\nscripts = { sum = "planning.sql" }\n'
    file.write_text(file.read_text().replace("[arms.compiled.postgresql]", f"{scripts}[arms.compiled.postgresql]"))
    with_script = case.digest
    (tmp_path / "experiments" / "planning.sql").write_text("SELECT 2;")
    assert case.digest != with_script
    assert replace(PREDICTIONS[0], factors={"cpu": 0.9}).digest != PREDICTIONS[0].digest


def test_kept_files_can_be_read_and_are_lines() -> None:
    """Of the repository: a record is a line, so that a change shows what is new."""
    for path in kept.FOLDER.glob("*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        assert len(path.read_text(encoding="utf-8").splitlines()) == len(found) + 2
