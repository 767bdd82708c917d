"""The series of experiments with a known answer: its plan, how it goes on, what it counts; and one of them for real."""

import math
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from gym.contenders import otava

from gym.live import __main__ as runner
from gym.live import disturber, experiment, graders, page, plan, record, runs, scoring
from pgtrial.analysis.analyze import analyze
from pgtrial.cli.checked import check_file
from pgtrial.cli.main import main
from support import EXPERIMENT, wait_until, write_result_folder
from support.programs import skip_for_want

Kind = plan.Kind
PLAN = plan.draw_plan(seed=7, null=60, planted=40)
SAMPLES = {(trial.kind, trial.method): trial for trial in PLAN}
QUICK = 34  # seed of a neighbour whose first pause is short
HALF = 0.02  # of a log, of the intervals below
T_5, T_4 = 2.5706, 2.7764  # quantiles of Student's distribution, 97.5 %


def made(trial: plan.Trial, log_ratio: float, verdict: str = "inconclusive", half: float = HALF) -> record.Record:
    """What would be kept of an experiment that found so much."""
    return record.Record.of(
        trial,
        started=1000.0 + trial.number,
        ended=1060.0 + trial.number,
        verdict=verdict,
        ratio=math.exp(log_ratio),
        low=math.exp(log_ratio - half),
        high=math.exp(log_ratio + half),
        error=half / (T_4 if trial.method == "blocks" else T_5),
        degrees=4 if trial.method == "blocks" else 5,
        blocks=(1.0,) * 6,
    )


def trial_of(kind: Kind, method: str = "interleaved", burdened: str = "", number: int = 1) -> plan.Trial:
    return plan.Trial(number=number, kind=kind, method=method, burdened=burdened, seed=1)


def series_of(*records: record.Record) -> record.Series:
    return record.Series(seed=7, null=60, planted=40, jobs=1, machine="a machine", records=records)


@pytest.fixture
def quiet(monkeypatch):
    """No neighbour."""
    monkeypatch.setattr(runner, "disturbed", lambda **_: nullcontext())


def test_a_plan_follows_from_its_seed():
    assert plan.draw_plan(seed=7, null=60, planted=40) == PLAN
    assert plan.draw_plan(seed=8, null=60, planted=40) != PLAN


def test_every_method_has_its_share_of_equal_arms_and_of_planted_work():
    assert Counter((trial.kind, trial.method) for trial in PLAN) == {
        **dict(zip([(Kind.NULL, method) for method in plan.METHODS], (30, 6, 24), strict=True)),
        **dict(zip([(Kind.PLANTED, method) for method in plan.METHODS], (20, 4, 16), strict=True)),
        **{(kind, method): 1 for kind in (Kind.IDLE, Kind.DOUBLE) for method in plan.METHODS},
    }


def test_either_arm_bears_the_planted_work_equally_often():
    borne = Counter((trial.method, trial.burdened) for trial in PLAN if trial.kind is Kind.PLANTED)

    assert all(borne[method, "treated"] == borne[method, "control"] for method in plan.METHODS)
    assert {trial.burdened for trial in PLAN if trial.kind is Kind.NULL} == {""}


def test_no_two_experiments_have_the_same_seed_and_no_kind_comes_first():
    assert len({trial.seed for trial in PLAN}) == len(PLAN)
    assert [trial.number for trial in PLAN] == list(range(1, len(PLAN) + 1))
    first = Counter(trial.kind for trial in PLAN[: len(PLAN) // 2])
    assert first[Kind.NULL] > 20
    assert first[Kind.PLANTED] > 10


@pytest.mark.parametrize("count", [0, 1, 4, 7, 40, 61])
def test_methods_share_any_number(count):
    assert sum(plan.split(count).values()) == count


@pytest.mark.parametrize("trial", SAMPLES.values(), ids=[f"{kind}-{method}" for kind, method in SAMPLES])
def test_every_file_passes_the_check(trial, tmp_path, capsys):
    file = experiment.write_experiment(trial, tmp_path)

    assert main(["check", "--no-host", str(file)]) == 0, capsys.readouterr().err
    loaded = check_file(file).loaded.experiment
    assert loaded.design.seed == trial.seed
    assert loaded.design.blocks == 6


@pytest.mark.parametrize(
    ("kind", "burdened", "steps"),
    [
        (Kind.NULL, "", (500, 500)),
        (Kind.PLANTED, "treated", (500, 515)),
        (Kind.PLANTED, "control", (515, 500)),
        (Kind.IDLE, "treated", (500, 1)),
        (Kind.DOUBLE, "treated", (500, 1000)),
    ],
)
def test_arms_differ_in_their_steps_alone(kind, burdened, steps, tmp_path):
    file = experiment.write_experiment(trial_of(kind, burdened=burdened), tmp_path)

    control, treated = check_file(file).plan.arms
    assert (control.name, treated.name) == ("control", "treated")
    settings = [dict(arm.settings) for arm in (control, treated)]
    assert tuple(int(each.pop(experiment.CARRIER)) for each in settings) == steps
    assert settings[0] == settings[1]


@pytest.mark.parametrize(
    ("load", "method", "kind", "steps"),
    [
        (plan.SYSBENCH, "interleaved", Kind.NULL, (1000, 1000)),
        (plan.SYSBENCH, "interleaved", Kind.PLANTED, (1000, 1080)),
        (plan.COMMAND, "interleaved", Kind.NULL, (500, 500)),
        (plan.COMMAND, "interleaved", Kind.PLANTED, (500, 540)),
    ],
)
def test_programs_have_the_same_experiments_by_the_method_that_is_theirs(  # noqa: PLR0917
    load, method, kind, steps, tmp_path, capsys
):
    drawn = plan.draw_plan(seed=7, null=3, planted=2, load=load)
    assert {trial.method for trial in drawn} == {method}
    trial = trial_of(kind, method, burdened="treated" if kind is Kind.PLANTED else "")
    file = experiment.write_experiment(trial, tmp_path, load)

    assert main(["check", "--no-host", str(file)]) == 0, capsys.readouterr().err
    arms = check_file(file).plan.arms
    assert tuple(int(arm.settings[experiment.CARRIER]) for arm in arms) == steps


def test_a_series_by_one_method_alone(tmp_path, capsys):
    drawn = plan.draw_plan(seed=7, null=3, planted=2, method="blocks")
    assert Counter((trial.kind, trial.method) for trial in drawn) == {
        **dict.fromkeys([(Kind.IDLE, "blocks"), (Kind.DOUBLE, "blocks")], 1),
        (Kind.NULL, "blocks"): 3,
        (Kind.PLANTED, "blocks"): 2,
    }
    alone = replace(series_of(), null=3, planted=2, method="blocks")
    assert alone.plan == drawn
    record.write_series(alone, tmp_path / runner.RESULTS)
    few = ["--null", "3", "--planted", "2", "--results", str(tmp_path)]

    for other, said in (
        ([], "has a series of 3 and 2 by pgbench and blocks alone with the seed 7"),
        (["--method", "blocks", "--load", "sysbench"], "sysbench does not load experiments by blocks"),
    ):
        with pytest.raises(SystemExit):
            runner.main([*few, *other])
        assert said in capsys.readouterr().err


def test_who_is_interrupted_goes_on_with_what_remains(monkeypatch, tmp_path, quiet):
    asked: list[list[int]] = []

    def run_three(trials, results, *, load, jobs, may_begin):
        asked.append([trial.number for trial in trials])
        for trial in trials[:3]:
            yield made(trial, 0.0)
        if len(asked) == 1:
            raise SystemExit(143)

    monkeypatch.setattr(runner, "run_all", run_three)
    arguments = ["--null", "2", "--planted", "2", "--results", str(tmp_path), "--seed", "5"]
    with pytest.raises(SystemExit):
        runner.main(arguments)
    again = runner.main(arguments[:-2])  # the seed is that of the first time

    order = [trial.number for trial in record.read_series(tmp_path / runner.RESULTS).plan]
    assert sorted(asked[0]) == order
    assert asked[1] == asked[0][3:]
    assert again == runner._NOT_ALL
    kept = record.read_series(tmp_path / runner.RESULTS)
    assert [each.number for each in kept.records] == asked[0][:6]
    assert [trial.number for trial in kept.remaining] == asked[0][6:]


def test_what_measures_the_planted_work_is_run_first():
    kinds = [trial.kind for trial in series_of().remaining]

    assert set(kinds[:6]) == {Kind.IDLE, Kind.DOUBLE}
    assert set(kinds[6:]) == {Kind.NULL, Kind.PLANTED}


def test_a_series_waits_for_experiments_of_one_that_was_killed(monkeypatch, tmp_path):
    with runs.alone(tmp_path) as lock:
        left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock])
    is_free, found = runs._lock, []

    def look(file: int) -> bool:
        found.append(is_free(file))
        if not found[-1]:
            left.communicate()  # it ends when it has no input
        return found[-1]

    monkeypatch.setattr(runs, "_lock", look)
    with runs.alone(tmp_path):
        assert found == [False, True]


def test_a_series_does_not_begin_beside_another(monkeypatch, tmp_path, quiet, capsys):
    monkeypatch.setattr(runs, "PATIENCE", 0.0)

    with runs.alone(tmp_path):
        status = runner.main(["--results", str(tmp_path)])

    assert status == 1
    assert "are at work in" in capsys.readouterr().err


def test_a_series_with_another_plan_is_not_mixed_with_the_one_that_is_there(tmp_path, capsys):
    record.write_series(series_of(), tmp_path / runner.RESULTS)

    for other in (["--null", "59"], ["--planted", "41"], ["--seed", "8"]):
        with pytest.raises(SystemExit):
            runner.main([*other, "--results", str(tmp_path)])
        assert "has a series of 60 and 40 by pgbench with the seed 7" in capsys.readouterr().err


def test_what_is_kept_is_read_again_as_it_was(tmp_path):
    series = series_of(made(PLAN[0], 0.0), record.Record.of(PLAN[1], started=1.0, ended=2.0, reason='error: "x"'))

    record.write_series(series, tmp_path / "results.json")
    once = record.read_series(tmp_path / "results.json")
    record.write_series(once, tmp_path / "again.json")

    assert [each.number for each in once.records] == [1, 2]
    assert once.records[1] == series.records[1]
    assert (tmp_path / "again.json").read_text() == (tmp_path / "results.json").read_text()


def test_runs_are_kept_as_pgtrial_observes_them_in_the_order_of_time(tmp_path):
    text = EXPERIMENT.replace("[design]\n", '[design]\nmethod = "blocks"\n')
    findings = analyze(write_result_folder(tmp_path / "folder", text=text))
    by_start = sorted(findings.runs, key=lambda row: row.started)
    mixed = findings.model_copy(update={"runs": findings.runs[::-1]})

    kept = runs.runs_of(mixed)

    assert [(run.arm, run.block) for run in kept] == [(row.arm, row.block) for row in by_start]
    assert len(kept) == 3 * 6  # with the placebo's
    found = {(run.arm, run.block): run.throughput for run in kept}
    effect = next(each for each in findings.effects if (each.arm, each.metric) == ("off", findings.hypothesis.metric))
    for block, ratio in enumerate(effect.block_ratios, start=1):
        assert found["off", block] / found["on", block] == pytest.approx(ratio)


def test_runs_are_read_again_and_old_records_have_none(tmp_path):
    kept = replace(made(PLAN[0], 0.0), runs=runs_of_arms([100.5, 99.0], [98.0, 97.25]))

    record.write_series(series_of(kept), tmp_path / "results.json")

    assert record.read_series(tmp_path / "results.json").records[0].runs == kept.runs
    old = record.read_series(page.results_of(plan.SYSBENCH))
    assert {each.runs for each in old.records} == {()}
    assert old.method == ""


def test_no_experiment_is_begun_that_would_not_be_over_in_time(monkeypatch):
    series = series_of(*(made(trial, 0.0) for trial in PLAN[:4]))  # of a minute each
    monkeypatch.setattr(runner.time, "monotonic", lambda: 100.0)

    assert runner.has_time(series, started=0.0, limit=200.0)()
    assert not runner.has_time(series, started=0.0, limit=180.0)()


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 60, 0.0, 0.0596), (3, 60, 0.0104, 0.1392), (95, 100, 0.8872, 0.9836), (5, 5, 0.4782, 1.0)],
)
def test_the_interval_of_a_share_is_the_exact_one(count, of, low, high):
    """Figures of R's binom.test."""
    assert scoring.Count(count=count, of=of).interval == pytest.approx((low, high), abs=5e-5)


def truths(fixed: float = 0.05) -> dict[str, scoring.Truth]:
    return scoring.find_truths(
        [
            made(trial_of(kind, method, "treated"), log)
            for method in plan.METHODS
            for kind, log in ((Kind.IDLE, -math.log(fixed)), (Kind.DOUBLE, -math.log(2 - fixed)))
        ]
    )


def test_what_does_not_grow_with_the_work_makes_planted_work_smaller():
    truth = truths(fixed=0.05)["blocks"]

    assert truth.fixed == pytest.approx(0.05)
    assert math.exp(-truth.planted) == pytest.approx(1 + 0.03 * 0.95)
    assert truth.error == pytest.approx(0.03 * 0.05 * HALF / T_4)
    assert truth.is_linear


def test_twice_the_work_that_takes_another_time_is_told():
    found = scoring.find_truths(
        [made(trial_of(Kind.IDLE, burdened="treated"), 3.0), made(trial_of(Kind.DOUBLE, burdened="treated"), -0.5)]
    )

    assert found["interleaved"].is_linear is False


def test_verdicts_are_counted_against_the_truth():
    planted = truths()["interleaved"].planted
    null, treated, control = (
        trial_of(Kind.NULL),
        trial_of(Kind.PLANTED, burdened="treated"),
        trial_of(Kind.PLANTED, burdened="control"),
    )
    found = scoring.score(
        [
            made(null, 0.001),
            made(null, 0.03, "supported"),  # a false alarm
            made(null, -0.019),
            made(treated, planted),
            made(treated, -planted, "supported"),  # found the wrong way round
            made(control, -planted, "supported"),
            made(control, 0.0, "refuted"),  # narrow enough to be wrong: the truth is 2.8 %
            record.Record.of(null, started=0.0, ended=1.0, reason="error: no room"),
        ],
        truths(),
        "interleaved",
    )

    assert found is not None
    assert (found.null, found.planted, found.lost) == (3, 4, 1)
    assert (found.alarms.count, found.supported_null.count) == (1, 1)
    assert (found.found.count, found.wrong_sign.count) == (2, 1)
    assert (found.supported.count, found.refuted.count) == (2, 1)
    assert found.covered[-1] == scoring.Count(count=4, of=7)
    assert found.half_width == pytest.approx(math.expm1(HALF))
    assert found.minutes == pytest.approx(1.0)


def test_narrower_intervals_of_the_same_error_cover_less():
    """Of the errors 0, ±1 and ±2 standard errors with 5 degrees of freedom: t is 0.73 at 50 % and 1.48 at 80 %."""
    records = [made(trial_of(Kind.NULL), shift * HALF / T_5) for shift in (-2, -1, 0, 1, 2)]

    found = scoring.score(records, truths())

    assert found is not None
    assert [each.count for each in found.covered] == [1, 3, 5]


def test_planted_work_of_which_the_truth_is_not_known_counts_for_nothing():
    records = [made(trial_of(Kind.NULL), 0.0), made(trial_of(Kind.PLANTED, burdened="treated"), -0.03)]

    found = scoring.score(records, {})

    assert found is not None
    assert (found.null, found.planted) == (1, 0)


def test_tables_of_a_series_and_of_one_that_has_just_begun(tmp_path):
    full = series_of(*(made(trial, {Kind.IDLE: 3.0, Kind.DOUBLE: -0.66}.get(trial.kind, 0.0)) for trial in PLAN))
    shown = page.render(full)

    assert "| all | 60 | 0 of 60: 0% (0% to 6%) | 0 of 60 | 40 |" in shown
    assert "60 of 60 planned experiments of equal arms and 40 of 40 with planted work, in 0.0 h" in shown
    assert shown.count("\n| interleaved |") == 3
    assert page.render(series_of()).startswith("0 of 60 planned experiments")


def runs_of_arms(control, treated) -> tuple[record.Run, ...]:
    """As they would be kept of blocks in which either arm is the first in turns."""
    sides = [
        [record.Run(arm=arm, block=block, throughput=value) for arm, value in (("control", x), ("treated", y))]
        for block, (x, y) in enumerate(zip(control, treated, strict=True), start=1)
    ]
    return tuple(run for block, side in enumerate(sides) for run in side[:: 1 if block % 2 else -1])


EVEN = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2]


def by_blocks(kind: Kind, treated, burdened: str = "", log: float = 0.0) -> record.Record:
    return replace(made(trial_of(kind, "blocks", burdened), log), runs=runs_of_arms(EVEN, treated))


def test_other_graders_are_asked_about_the_same_runs(monkeypatch):
    monkeypatch.setattr(graders, "is_installed", lambda: False)
    slower, faster = [value * 0.8 for value in EVEN[::-1]], [value * 1.25 for value in EVEN[::-1]]
    mixed = by_blocks(Kind.PLANTED, slower, "treated")
    records = [
        by_blocks(Kind.NULL, [94.0, *EVEN[:5]]),  # the first run alone is off
        by_blocks(Kind.NULL, slower, log=0.03),  # whatever made it slower; pgtrial takes the other arm for faster
        by_blocks(Kind.PLANTED, slower, "treated", log=-0.03),
        by_blocks(Kind.PLANTED, faster, "control"),
        by_blocks(Kind.PLANTED, faster, "treated"),  # the wrong way round
        replace(mixed, method="interleaved"),  # its runs shared their time
        replace(mixed, runs=()),  # an old record
        record.Record.of(trial_of(Kind.NULL, "blocks"), started=0.0, ended=1.0, reason="error: no room"),
    ]

    found = {each.name: each for each in graders.grade(records, truths())}

    def counts(name):
        each = found[name]
        assert (each.alarms.of, each.found.of, each.wrong_sign.of) == (2, 3, 3)
        return each.runs, each.alarms.count, each.found.count, each.wrong_sign.count

    assert counts("pgtrial") == (6, 1, 1, 0)
    assert counts("single pair, 5 %") == (1, 2, 2, 1)
    assert counts("benchstat") == counts("hyperfine") == (6, 1, 2, 1)
    assert counts("randomised medians (ClickHouse)") == (6, 1, 2, 1)
    assert counts("ratio of medians (DuckDB)") == (5, 1, 1, 0)  # it says nothing of an arm that is faster
    assert len(found) == 6
    # 2.8 % of planted work: of 0, 3, -3 and twice 0 % with ±2 % the first and the third hold.
    assert found["pgtrial"].covered == scoring.Count(count=2, of=5)
    assert found["hyperfine"].covered == scoring.Count(count=1, of=5)
    assert {name for name, each in found.items() if each.covered is None} == found.keys() - {"pgtrial", "hyperfine"}


def test_otava_is_asked_about_the_same_runs():
    if not otava.is_installed():
        skip_for_want("Apache Otava", "tools/otava.sh")
    slower = [value * 0.8 for value in EVEN]
    records = [by_blocks(Kind.NULL, EVEN[::-1]), by_blocks(Kind.PLANTED, slower, "treated")]

    found = next(each for each in graders.grade(records, truths()) if each.name == "Apache Otava")

    assert (found.runs, found.alarms.count, found.found.count) == (6, 0, 1)


def test_runs_without_one_of_the_other_arm_in_their_block_are_left_out():
    runs = runs_of_arms([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
    lone = replace(made(trial_of(Kind.NULL, "blocks"), 0.0), runs=(*runs[:2], *runs[3:]))

    assert graders.runs_by_arm(lone) == ([1.0, 3.0], [10.0, 30.0])


def test_the_table_of_graders_or_that_there_is_none_yet(monkeypatch, tmp_path):
    monkeypatch.setattr(graders, "is_installed", lambda: False)
    monkeypatch.setattr(page, "is_installed", lambda: False)
    alone = replace(series_of(by_blocks(Kind.NULL, EVEN)), method="blocks")
    record.write_series(alone, tmp_path / "results.json")

    shown = page.render(record.read_series(tmp_path / "results.json"))

    head = "| grader | runs of each arm | false alarms | found | wrong sign | 95 % intervals that hold |"
    assert head in shown
    assert "\n| benchstat | 6 | 0 of 1: 0% (0% to 79%) | – | – | – |" in shown  # Wilson's: 1.96^2 / (1 + 1.96^2)
    assert shown.endswith("Apache Otava was not installed, and is not graded.")
    assert page.render(replace(alone, records=())).endswith(page.NOT_GRADED)
    assert "graded" not in page.render(series_of())
    assert page.marks_of(plan.PGBENCH, "blocks")[0] == "<!-- begin: written by python -m gym.live --method blocks -->"


def test_the_page_has_the_graders_or_how_they_come_to_be_graded():
    results = page.results_of(plan.PGBENCH, graders.METHOD)
    if not results.exists():
        assert page.NOT_GRADED in page.PAGE.read_text()
        return
    if not otava.is_installed():
        skip_for_want("Apache Otava", "tools/otava.sh")
    assert page.render(record.read_series(results)) in page.PAGE.read_text()


@pytest.mark.parametrize("load", plan.LOADS)
def test_the_page_has_the_tables_of_the_results_that_are_kept(load):
    series = record.read_series(page.results_of(load))

    assert series.load == load
    assert page.render(series) in page.PAGE.read_text()
    assert {each.number for each in series.records} <= {trial.number for trial in series.plan}


def test_publishing_keeps_the_results_and_changes_the_tables_alone(tmp_path):
    begin, end = page.marks_of(plan.PGBENCH)
    (tmp_path / "page.md").write_text(f"before\n{begin}\nold\n{end}\nafter\n")

    page.publish(series_of(made(PLAN[0], 0.0)), results=tmp_path / "results.json", page=tmp_path / "page.md")

    text = (tmp_path / "page.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert record.read_series(tmp_path / "results.json").records[0].number == 1


def test_the_time_in_which_the_neighbour_was_busy():
    bursts = [(0.0, 10.0), (20.0, 30.0), (90.0, 110.0)]

    assert disturber.disturbed_share(bursts, 5.0, 105.0) == pytest.approx(0.3)
    assert disturber.disturbed_share([], 5.0, 105.0) == 0.0


def test_the_neighbour_is_busy_and_ends_with_the_block(tmp_path):
    log = tmp_path / "bursts.jsonl"

    with disturber.disturbed(seed=QUICK, log=log):
        wait_until(lambda: disturber.read_bursts(log))

    wait_until(lambda: not processes_of(log))
    assert [path.name for path in tmp_path.iterdir()] == ["bursts.jsonl"]


def test_the_neighbour_ends_with_a_series_that_is_killed(tmp_path):
    log = tmp_path / "bursts.jsonl"
    code = (
        "import pathlib, signal, sys\n"
        "from gym.live.disturber import disturbed\n"
        f"with disturbed(seed={QUICK}, log=pathlib.Path(sys.argv[1])):\n"
        "    signal.pause()\n"
    )
    series = subprocess.Popen([sys.executable, "-c", code, str(log)], cwd=experiment.FOLDER.parents[1])
    try:
        wait_until(lambda: disturber.read_bursts(log))
        assert processes_of(log)
    finally:
        series.send_signal(signal.SIGKILL)
        series.wait()

    wait_until(lambda: not processes_of(log))


def processes_of(log: Path) -> list[int]:
    """The neighbour that writes this log, and its parts."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"gym.live.disturber" in words and os.fsencode(log) in words:
            found.append(int(path.parent.name))
    return found


def children() -> set[str]:
    """Process ids of this process's children, of which the test's own surroundings may have made some."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


@pytest.mark.parametrize("act", disturber.ACTS)
def test_a_burst_is_over_in_its_time_and_leaves_no_process(act, tmp_path):
    before = children()
    disturber.burst(act, 0.05, tmp_path / "scratch")

    assert children() <= before


def test_an_experiment_that_fails_is_a_record_with_its_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "BLOCKS", 0)

    (found,) = runs.run_all([PLAN[0]], tmp_path, jobs=1, may_begin=lambda: True)

    assert not found.is_judged
    assert found.reason.startswith("error: ")


def test_what_takes_too_long_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "LONGEST", 0.0)

    (found,) = runs.run_all([PLAN[0]], tmp_path, jobs=1, may_begin=lambda: True)

    assert not found.is_judged
    assert found.reason


def test_a_real_experiment_is_run_and_recorded(programs, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "BLOCKS", 2)
    trial = replace(SAMPLES[Kind.DOUBLE, "interleaved"], number=1)

    (found,) = runs.run_all([trial], tmp_path, jobs=1, may_begin=lambda: True)

    assert found.reason == ""
    assert found.is_judged
    assert 0.3 < found.ratio < 0.95  # twice the work, on a machine that may have other work in some of the runs
    assert len(found.blocks) == 2
    assert found.verdict == "inconclusive"  # two blocks decide nothing
    assert (runs.state_directory(tmp_path) / "attempts.jsonl").is_file()


def test_a_series_that_paused_was_at_work_only_in_between() -> None:
    hours = [(0.0, 10.0), (5.0, 20.0), (6.0, 7.0), (100_000.0, 100_001.5)]

    assert page.time_at_work(hours) == 21.5
    assert page.time_at_work([]) == 0
