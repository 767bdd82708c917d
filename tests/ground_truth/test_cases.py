"""The ground truth suite without its runs: its files are right, and outcomes are judged as they should be."""

import os
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ground_truth import __main__ as runner
from ground_truth import by_rules, cases, left_overs, needs, page, runs, scoring, volumes
from pgtrial.cli.checked import check_file, check_text
from pgtrial.cli.main import main
from pgtrial.design.limits import limits_experiment
from pgtrial.findings.causes import Causes, Limit, Resource
from pgtrial.findings.over_time import Period, Stability
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import BudgetPart, LatencyBudget
from pgtrial.knobs import HOST_KNOBS
from pgtrial.workloads.pauses import longest_sleeps

ROOT = Path(__file__).parents[2]
HOST_TABLES = {knob.name for knob in HOST_KNOBS}
LONGEST = 45 * 60  # s, of the whole suite
LONGEST_PROOF = 6 * 60  # s, of what proves a case


SEEN = {case.name: case for case in cases.read_cases()}
UNSEEN = {case.name: case for case in cases.read_cases(cases.UNSEEN)}
CASES = SEEN | UNSEEN
CASE = CASES["row-locks"]
State = scoring.State


def document(
    *,
    found: Resource = Resource.LOCKS,
    latency: float = 0.01,
    parts: tuple[float, ...] = (0.009, 0.001),
    closure: float | None = 1.1,
    relief: float = 3.0,
) -> dict[str, object]:
    """What the judge reads of a findings.json of CASE."""

    def limit(arm: str, resource: Resource) -> Limit:
        return Limit(arm=arm, load_level=0, resource=resource, detail="tuple", text="", suspects=())

    budget = LatencyBudget(
        arm=CASE.arm,
        load_level=0,
        scenario=None,
        latency=Estimate(value=latency),
        parts=tuple(BudgetPart(kind="Lock", event="tuple", seconds=Estimate(value=part)) for part in parts),
        closure=closure,
    )
    causes = Causes(
        tier="sampled sessions",
        budgets=(budget,),
        limits=(limit(CASE.arm, found), limit(CASE.relieved, Resource.WAL_FLUSH)),
    )
    about = {"scenario": None, "load_level": 0}
    clients, pause = 16, 1.1  # a cycle of a client is a transaction and a pause of a tenth of it
    return {
        "experiment": {"levels": [{"clients": clients}]},
        "causes": causes.model_dump(mode="json"),
        "effects": [
            {"arm": CASE.relieved, "metric": "pgbench.latency_mean", "ratio": 0.3, **about},
            {"arm": CASE.relieved, "metric": "pgbench.tps", "ratio": 9.9, **about, "load_level": "all"},
            {"arm": CASE.relieved, "metric": "pgbench.tps", "ratio": relief, **about},
        ],
        "observations": [
            {"arm": CASE.arm, "metric": "pgbench.latency_mean", "value": latency * 0.9, **about},
            {"arm": CASE.arm, "metric": "pgbench.latency_mean", "value": latency * 1.1, **about},
            {"arm": CASE.arm, "metric": "pgbench.tps", "value": clients / (latency * 0.9 * pause), **about},
            {"arm": CASE.arm, "metric": "pgbench.tps", "value": clients / (latency * 1.1 * pause), **about},
            {"arm": CASE.relieved, "metric": "pgbench.latency_mean", "value": latency / 3, **about},
        ],
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Stands for the directory of the volumes that are made for a case."""
    place = tmp_path_factory.mktemp("volumes")
    for name in (volumes.LIMITED, volumes.FREE):
        (place / name).mkdir()
    return place


@pytest.fixture(scope="module")
def files(place: Path, tmp_path_factory) -> dict[str, Path]:
    """The experiment files by case, with their volumes below ``place``."""
    folder = tmp_path_factory.mktemp("copied") / "experiments"
    shutil.copytree(cases.EXPERIMENTS, folder)
    for path in folder.glob("*.toml"):
        path.write_text(path.read_text().replace(str(volumes.PLACE), str(place)))
    return {case.name: folder / case.file.name for case in CASES.values()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_experiment_passes_the_check(case, files, capsys):
    status = main(["check", "--no-host", str(files[case.name])])

    assert status == 0, capsys.readouterr().err


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_limited_arm_is_the_control_and_the_other_one_lacks_the_cause(case, files):
    experiment = check_file(files[case.name]).loaded.experiment

    assert experiment.experiment.name == case.name
    assert list(experiment.arms) == [case.arm, case.relieved]
    assert experiment.hypothesis.arm == case.relieved
    assert isinstance(experiment.workload.clients, int), "the judge looks at one load level"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_that_changes_the_host_says_that_it_needs_root(case):
    text = tomllib.loads(case.file.read_text())
    tables = set(text.get("target", {})).union(*text["arms"].values())
    changes_host = bool(tables & HOST_TABLES) or text["design"].get("cache") == "cold"

    assert ("root" in case.needs) == changes_host


def test_every_file_belongs_to_a_case():
    used = set()
    for case in CASES.values():
        text = tomllib.loads(case.file.read_text())
        scripts = [scenario.get("file") for scenario in text["workload"].get("scenario", [])]
        used |= {case.file.name, text.get("dataset", {}).get("setup"), *scripts}

    assert {path.name for path in cases.EXPERIMENTS.iterdir()} == used - {None}


def test_every_cause_that_was_asked_for_has_a_case():
    wanted = {
        *(Resource.LOCKS, Resource.LWLOCKS, Resource.WAL_FLUSH, Resource.CPU, Resource.DISK_IOPS, Resource.WRITE_BACK),
        *(Resource.MEMORY, Resource.SWAP, Resource.CHECKPOINTS, Resource.AUTOVACUUM, Resource.TEMPORARY_FILES),
        *(Resource.LOAD_GENERATOR, Resource.CLIENT),
    }

    assert wanted <= {case.expected[0] for case in SEEN.values()}


def test_the_whole_suite_is_planned_for_at_most_three_quarters_of_an_hour(files):
    assert sum(check_file(files[name]).plan.estimate.total for name in SEEN) <= LONGEST


def test_no_name_is_in_both_lists_and_there_are_enough_unseen_cases():
    assert SEEN.keys().isdisjoint(UNSEEN)
    assert len(UNSEEN) >= 15
    assert len({case.expected[0] for case in UNSEEN.values()}) >= 5, "whoever always says cpu is not right often"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_limits_each_case_can_be_asked_of_its_first_arm(case, files):
    """The options of pgtrial limits, and the file that it makes of them, are valid, and their runs take minutes."""
    given = check_file(files[case.name])
    proof = case.proof

    text = limits_experiment(
        given.loaded.experiment,
        given.plan.arms,
        resources=proof.vary,
        blocks=proof.blocks,
        method=proof.method or "auto",
        duration=proof.duration or None,
        warmup=proof.warmup or None,
        sleeps=longest_sleeps(given.loaded.experiment, given.plan.arms, given.loaded.folder),
    )

    checked = check_text(text, f"limits of {case.name}", given.loaded.folder, on_host=False)
    assert checked.loaded.experiment.limits.of == case.arm
    named = {name.partition(".")[2] for name in checked.loaded.experiment.limits.resources}
    assert {*proof.times, *filter(None, [proof.memory])} <= named
    assert checked.plan.estimate.total <= LONGEST_PROOF


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('time = ["flush"]', 'time = ["fsync"]'),
        ('time = ["flush"]', "time = []"),
        ('time = ["flush"]', 'time = ["flush"]\nnot_varied = "both"'),
        ('time = ["flush"]', 'time = ["flush"]\nvary = ["cpu"]'),
        ('time = ["flush"]', 'time = ["flush"]\nmemory = "page cache"'),
    ],
)
def test_a_proof_that_makes_no_sense_is_refused(tmp_path, old, new):
    text = cases.CASES.read_text()
    (tmp_path / "cases.toml").write_text(text.replace(old, new, 1))

    with pytest.raises(ValueError, match=r'"row-locks": its \[case.limits\]'):
        cases.read_cases(tmp_path / "cases.toml")


def test_a_case_without_a_cause_is_refused(tmp_path):
    text = (ROOT / "ground_truth" / "cases.toml").read_text()
    (tmp_path / "cases.toml").write_text(text.replace('expected = ["locks"]', 'expected = ["undetermined"]'))

    with pytest.raises(ValueError, match="row-locks"):
        cases.read_cases(tmp_path / "cases.toml")


def test_a_cause_named_right_is_right():
    outcome = scoring.judge(CASE, document())

    assert outcome.state is State.RIGHT
    assert (outcome.found, outcome.detail, outcome.without) == (Resource.LOCKS, "tuple", Resource.WAL_FLUSH)
    assert outcome.relief == 3
    assert outcome.excess == pytest.approx(0, abs=1e-12)
    assert outcome.is_good


def test_another_name_is_wrong():
    outcome = scoring.judge(CASE, document(found=Resource.CPU))

    assert outcome.state is State.WRONG
    assert outcome.reason == "expected locks, found cpu"
    assert not outcome.is_good


def test_another_detail_than_the_one_that_has_to_be_named_is_wrong():
    right, wrong = (replace(CASE, which=which) for which in ("tuple", "transactionid"))

    assert scoring.judge(right, document()).state is State.RIGHT
    outcome = scoring.judge(wrong, document())
    assert (outcome.state, outcome.reason) == (State.WRONG, 'expected "transactionid", found "tuple"')


ALIGNED = "Of 36 s in dips 30 s lie beside a checkpoint; by chance it would be 9 s (probability 0.003)."
NOT_ALIGNED = (
    "The dips do not follow the log: of 36 s in dips 9 s lie beside a checkpoint, and by chance it would be 9 s "
    "(probability 0.6)."
)


@pytest.mark.parametrize(
    ("aligned", "false_alarm", "reason"),
    [
        (ALIGNED, 0.001, ""),
        (ALIGNED, 0.2, "throughput is not found to go up and down with checkpoint_timeout"),
        (NOT_ALIGNED, 0.001, "the dips are not found beside each checkpoint of the log"),
        (ALIGNED.replace("a checkpoint", "an autovacuum"), 0.001, "the dips are not found beside each checkpoint"),
    ],
)
def test_what_should_be_known_of_the_time_is_asked_for(aligned, false_alarm, reason):
    case = replace(CASE, rhythm="checkpoint_timeout", beside="checkpoint")
    found = document()
    period = Period(seconds=30.0, share=0.5, false_alarm=false_alarm, like="checkpoint_timeout")
    stability = Stability(
        **dict.fromkeys(("coefficient_of_variation", "lowest", "dip_share", "stalled", "trend")),
        **{"arm": CASE.arm, "load_level": 0, "dips": (), "periods": (period,), "aligned": aligned},
    )
    found["causes"] |= {"stability": [stability.model_dump(mode="json")]}

    outcome = scoring.judge(case, found)

    assert outcome.state is (State.WRONG if reason else State.RIGHT)
    assert outcome.reason.startswith(reason)
    assert scoring.judge(case, document()).state is State.WRONG


@pytest.mark.parametrize(
    ("ceiling", "declared", "is_found"), [(1010.0, None, True), (1100.0, None, False), (1010.0, 1000.0, False)]
)
def test_a_limit_that_nobody_declared_is_asked_for_where_it_is(ceiling, declared, is_found):
    case = replace(CASE, outside={"read_iops": "1000"})
    found = SimpleNamespace(declared=declared, value=SimpleNamespace(value=ceiling))
    use = SimpleNamespace(arm=CASE.arm, levels=[SimpleNamespace(load_level=0, ceiling=found)])

    missed = list(scoring._missed_in_height(case, SimpleNamespace(disks=[use])))

    assert bool(missed) is not is_found
    assert list(scoring._missed_in_height(case, SimpleNamespace(disks=[]))) == [
        "the limit of 1000 (read_iops) is not found, but none"
    ]


def test_a_limit_from_outside_is_one_that_a_control_group_can_have(tmp_path):
    text = (ROOT / "ground_truth" / "cases.toml").read_text()
    (tmp_path / "cases.toml").write_text(text.replace('read_iops = "1000"', 'reads = "1000"'))

    with pytest.raises(ValueError, match="undeclared-limit"):
        cases.read_cases(tmp_path / "cases.toml")


def test_a_volume_with_a_limit_from_outside_is_named_and_its_limit_is_not(place, files):
    (case,) = [case for case in CASES.values() if case.outside]
    experiment = check_file(files[case.name]).loaded.experiment

    places = {name: str(arm.storage.data) for name, arm in experiment.arms.items()}
    assert places == {case.arm: str(place / volumes.LIMITED), case.relieved: str(place / volumes.FREE)}
    assert all(arm.cgroup == type(arm.cgroup)() for arm in experiment.arms.values())
    assert not experiment.disks


def test_a_cause_that_was_not_there_proves_nothing_about_its_name():
    outcome = scoring.judge(CASE, document(found=Resource.CPU, relief=1.1))

    assert outcome.state is State.NOT_MADE
    assert "many_rows has 1.10 times the throughput of one_row" in outcome.reason
    assert scoring.confusion([outcome]) == {}


@pytest.mark.parametrize(
    ("parts", "closure"),
    [((0.009, 0.0013), 1.1), ((0.009, 0.0007), 1.1), ((), 1.1), ((0.01,), 1.07), ((0.01,), 1.13), ((0.01,), None)],
)
def test_parts_that_are_off_by_more_than_2_percent_are_told(parts, closure):
    assert scoring.judge(CASE, document(parts=parts, closure=closure)).state is State.NOT_ADDING_UP


def test_parts_that_are_off_by_less_are_right():
    assert scoring.judge(CASE, document(parts=(0.00985,), closure=1.115)).state is State.RIGHT


def test_findings_without_causes_are_a_failure():
    outcome = scoring.judge(CASE, {"causes": None})

    assert outcome.state is State.FAILED
    assert not outcome.is_good


def test_a_case_that_cannot_run_here_is_no_fault():
    assert scoring.Outcome(case=CASE, state=State.NOT_RUN, reason="no root").is_good


def test_the_confusion_table_counts_truth_and_found():
    outcomes = [
        scoring.judge(CASE, document()),
        scoring.judge(CASE, document()),
        scoring.judge(CASE, document(found=Resource.CPU)),
        scoring.Outcome(case=CASE, state=State.NOT_RUN, reason="no root"),
    ]

    assert scoring.confusion(outcomes) == {
        (Resource.LOCKS, Resource.LOCKS): 2,
        (Resource.LOCKS, Resource.CPU): 1,
    }
    assert page.confusion_table(outcomes).splitlines() == [
        "| truth ↓ found → | cpu | locks |",
        "| --- | --- | --- |",
        "| locks | 1 | 2 |",
    ]


def test_the_text_of_a_run_has_every_case_and_every_reason():
    outcomes = [
        scoring.judge(CASE, document()),
        scoring.Outcome(case=CASES["swap"], state=State.NOT_RUN, reason="it needs root"),
    ]

    text = page.render(outcomes, machine="A machine.")

    assert text.startswith("1 of 2 cases are right. A machine.\n")
    assert "| row-locks | locks | locks | tuple | 3.0 | WAL flush | +0.00% | 1.100 | 1.000 | right |" in text
    assert "| swap | swap | – | – | – | – | – | – | – | not run |" in text
    assert "- swap: not run, it needs root" in text


def test_the_tables_replace_what_was_between_the_markers():
    text = f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n"

    once = page.put_between(text, "new")

    assert once == f"before\n{page.BEGIN}\n\nnew\n\n{page.END}\nafter\n"
    assert page.put_between(once, "new") == once
    with pytest.raises(ValueError, match="lacks"):
        page.put_between("no markers", "new")


def test_the_page_has_its_markers():
    assert page.put_between(page.PAGE.read_text(), "new")


def test_what_is_left_on_the_host_is_told():
    before = {"vm.dirty_bytes": "0", "mount /a": "x", "vm.swappiness": "60"}
    after = {"vm.dirty_bytes": "8388608", "vm.swappiness": "60", "loop device loop0": "/a.img"}

    assert left_overs.compare(before, after) == (
        "loop device loop0 is there now",
        "mount /a is gone",
        "vm.dirty_bytes was 0 and is 8388608",
    )
    assert left_overs.compare(before, before) == ()


def test_what_a_case_needs_is_said_when_it_cannot_run(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert needs.find_hindrance(CASES["swap"], host_changes=True) == (
        "it needs root, control groups, swap; run it as root"
    )
    assert needs.find_hindrance(CASE, host_changes=False) == ""

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--allow-host-changes" in needs.find_hindrance(CASES["swap"], host_changes=False)


def test_the_newest_finished_folder_is_judged_again(tmp_path):
    for name in ("x-20260101T000000Z", "x-20260102T000000Z", "x-20260103T000000Z"):
        (tmp_path / name).mkdir()
        if not name.endswith("0103T000000Z"):
            (tmp_path / name / "findings.json").touch()

    assert runs.last_folder(tmp_path) == tmp_path / "x-20260102T000000Z"
    assert by_rules.judge_again(CASE, tmp_path).state is State.NOT_RUN


def test_a_name_that_no_case_has_is_refused_before_anything_runs(capsys):
    with pytest.raises(SystemExit):
        runner.main(["--only", "row-locks", "nonsense"])

    assert "no case has the name nonsense" in capsys.readouterr().err
