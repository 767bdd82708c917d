"""Interleaved and paired experiments through the whole analysis."""

import math
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.curves import trace_series
from pgtrial.analysis.describe import describe_experiment, overhead_seconds, sum_overhead
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.slices import describe_slices, stretches, windows
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.model.metric import Sample
from pgtrial.model.verdict import Verdict
from pgtrial.store import layout
from pgtrial.store.samples import WaitRow, write_samples, write_waits
from support import DUET, INTERLEAVED, Simulation, write_result_folder

WAL = "pg_stat_wal.wal_bytes"
SHORT = INTERLEAVED.replace('"10s"', '"4s"').replace("clients = 4", "clients = [4, 9]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three blocks of on, off and a placebo that take turns, at two load levels."""
    return write_result_folder(tmp_path_factory.mktemp("sliced") / "interleaved", text=SHORT)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A block of it."""
    text = SHORT.replace("blocks = 6", "blocks = 1")
    return write_result_folder(tmp_path_factory.mktemp("sliced") / "one", text=text)


@pytest.fixture(scope="module")
def shared(folder: Path) -> Evidence:
    return read_evidence(folder)


@pytest.fixture(scope="module")
def reduction(shared: Evidence) -> Reduction:
    return reduce_runs(shared)


@pytest.fixture(scope="module")
def findings(folder: Path) -> Findings:
    return analyze(folder)


@pytest.fixture(scope="module")
def duet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Off and on at the same time, on sets of CPUs of unequal speed."""
    simulation = Simulation(speeds=(1.0, 1.5))
    return write_result_folder(tmp_path_factory.mktemp("sliced") / "duet", text=DUET, simulation=simulation)


@pytest.fixture(scope="module")
def pair(duet: Path) -> Findings:
    return analyze(duet)


def test_throughput_is_of_the_counted_time(shared: Evidence, reduction: Reduction, findings: Findings) -> None:
    counts = {cell: totals.count for cell, totals in reduction.totals.items()}
    found = {(o.run, o.load_level): o.value for o in findings.observations if o.metric == "pgbench.tps"}

    for run in shared.valid:
        for window in windows(run):
            assert window.counted < (window.ended - window.started) / 2
            assert found[run.id, window.level] == pytest.approx(counts[run.id, window.level, None] / window.counted)


def test_the_effect_is_that_of_the_simulation(findings: Findings, pair: Findings) -> None:
    for found in (findings, pair):
        assert found.hypothesis.verdict is Verdict.SUPPORTED
        effect = next(e for e in found.effects if (e.metric, e.load_level) == ("pgbench.tps", "all"))
        assert effect.ratio == pytest.approx(2, rel=0.1)


def test_costs_of_the_server_are_per_transaction_and_those_of_the_machine_are_left_out(
    shared: Evidence, findings: Findings
) -> None:
    found = {(o.run, o.metric): o.value for o in findings.observations if o.load_level == 0}

    for run in shared.valid:
        # 600 kB of WAL for each second that the server is at work, of which the counted part has the transactions.
        assert found[run.id, "cost.wal_bytes"] == pytest.approx(600_000 / found[run.id, "pgbench.tps"], rel=0.01)
    assert not {metric for _, metric in found} & {"cost.cpu_seconds", "cost.context_switches", "cost.device_writes"}
    assert [c.code for c in findings.caveats].count("no-host-costs") == 1


def test_counters_of_the_machine_keep_the_time_of_the_clock(shared: Evidence, reduction: Reduction) -> None:
    increases = reduction.increases

    for run in shared.valid:
        for window in windows(run):
            # 20 000 context switches in each second, whichever arm is at work.
            passed = window.ended - window.started
            assert increases[run.id, window.level, "proc_stat.ctxt"][""] == pytest.approx(20_000 * passed, rel=0.01)


def test_a_reset_inside_an_arms_time_yields_no_increase(one: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(one, tmp_path / "reset")
    run = read_evidence(copy).valid[0]
    first, second = stretches(run)[:2]
    times = [first.started + 0.1, first.ended - 0.1, second.started + 0.1, second.ended - 0.1, windows(run)[0].ended]
    path = layout.run_folder(copy, run.folder) / layout.SAMPLES
    write_samples((Sample(t, WAL, "", v) for t, v in zip(times, (10, 20, 5, 30, 90), strict=True)), path)

    assert (run.id, 0, WAL) not in reduce_runs(read_evidence(copy)).increases


def test_what_a_counter_gains_between_levels_is_no_part_of_them(one: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(one, tmp_path / "between")
    run = read_evidence(copy).valid[0]
    readings, value = [], 0.0
    for window in windows(run):
        for stretch in (each for each in stretches(run) if each.level == window.level):
            readings += [
                Sample(stretch.started, WAL, "", value),
                Sample(stretch.ended, WAL, "", value + stretch.seconds),
            ]
            value += stretch.seconds
        value += 1e9  # a checkpoint
    write_samples(readings, layout.run_folder(copy, run.folder) / layout.SAMPLES)
    reduction = reduce_runs(read_evidence(copy))

    for window in windows(run):
        assert reduction.increases[run.id, window.level, WAL] == {"": pytest.approx(window.active)}


def test_the_standstill_of_an_arm_is_no_gap_of_its_sampler(shared: Evidence, reduction: Reduction) -> None:
    gaps = reduction.gaps

    assert set(gaps) == {run.id for run in shared.valid}
    assert max(gaps.values()) < 1.1


def test_waits_belong_to_the_level_whose_slices_lie_around_them(one: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(one, tmp_path / "waits")
    run = read_evidence(copy).valid[0]
    first, second = windows(run)
    rows = [
        WaitRow(first.started, 10, "client backend", "pgtrial/all", "active", "", "", "", 10),
        WaitRow(first.started, 10, "autovacuum worker", "", "active", "", "", "", 5),
        WaitRow(second.ended - 0.1, 10, "client backend", "pgtrial/all", "active", "IO", "WALSync", "", 20),
        WaitRow(second.ended + 0.1, 10, "client backend", "pgtrial/all", "active", "IO", "WALSync", "", 90),
    ]
    write_waits(rows, layout.run_folder(copy, run.folder) / layout.WAITS)
    reduction = reduce_runs(read_evidence(copy))

    assert [(wait.wait_event, wait.sessions) for wait in reduction.waits[run.id, 0]] == [("", 1.0)]
    assert [(wait.wait_event, wait.sessions) for wait in reduction.waits[run.id, 1]] == [("WALSync", 2.0)]
    assert (reduction.autovacuum[run.id, 0], reduction.autovacuum[run.id, 1]) == (0.5, 0.0)


def test_series_are_of_counted_time_put_end_to_end(shared: Evidence, reduction: Reduction) -> None:
    series = next(each for each in trace_series(shared, reduction) if each.metric == "pgbench.tps")
    counted = [window.counted for window in windows(next(run for run in shared.valid if run.id == series.run))]

    assert len(series.t) == sum(round(seconds) for seconds in counted)
    assert series.t[round(counted[0])] == pytest.approx(counted[0], abs=1e-3)
    assert all(value is not None and value > 0 for value in series.value)


def test_time_that_runs_share_counts_once(shared: Evidence) -> None:
    overhead = sum_overhead(shared)
    took = sum(run.ended - run.started for run in shared.valid if run.slot.position == 1)

    assert sum(overhead.by_phase.values()) == pytest.approx(took)
    # Half of each slice, and the switches.
    assert overhead.by_phase["guard"] == pytest.approx(overhead.by_phase["measure"], rel=0.05)
    # What lies around the load (4.5 s), and its own guards.
    own = overhead_seconds(shared.valid[0])
    assert own == pytest.approx(4.5 + sum(each.counted - each.started for each in shared.valid[0].slices), abs=0.1)


def test_the_method_is_what_was_used(tmp_path: Path) -> None:
    text = SHORT.replace('"interleaved"', '"auto"').replace("blocks = 6", "blocks = 1")
    experiment = describe_experiment(read_evidence(write_result_folder(tmp_path / "auto", text=text)))

    assert (experiment.method, say(experiment.method_reason)) == ("interleaved", "Every setting takes effect at once.")


def test_slices_are_described_by_their_figures(findings: Findings, pair: Findings) -> None:
    assert findings.slices is not None
    assert pair.slices is not None
    assert (findings.slices.length, findings.slices.guard) == pytest.approx((1.0, 0.5), rel=0.1)
    assert findings.slices.number == 6  # a Williams square of three arms
    assert findings.slices.counted == pytest.approx(6 * 0.5)
    assert [arm.arm for arm in findings.slices.arms] == ["off", "placebo"]
    assert (pair.slices.number, pair.slices.length) == pytest.approx((500, 0.03), abs=1e-6)


def test_an_effect_that_grows_inside_the_slices_is_found(tmp_path: Path) -> None:
    text = INTERLEAVED.replace('"10s"', '"4s"')
    text = text.replace("placebo = true", "placebo = false")
    folder = write_result_folder(tmp_path / "leak", text=text, simulation=Simulation(leaks={"off": 0.3}))
    found = analyze(folder)
    assert found.slices is not None
    (arm,) = found.slices.arms

    # From -0.15 and -0.05 to 0.05 and 0.15 in log throughput.
    assert arm.growth == pytest.approx(math.exp(0.2), rel=0.02)
    (caveat,) = [c for c in found.caveats if c.code == "effect-grows-inside-slices"]
    assert "the ratio of off to the control changes by +22." in caveat.text
    assert 'slice = "4s"' in caveat.hint


def test_blocks_that_differ_more_than_their_slices_are_told(tmp_path: Path) -> None:
    text = INTERLEAVED.replace("placebo = true", "placebo = false").replace("clients = 4", "clients = 1")
    folders = [
        write_result_folder(tmp_path / str(sd), text=text, simulation=Simulation(run_sd=sd)) for sd in (0.0, 0.1)
    ]
    alike, differing = (analyze(folder) for folder in folders)

    assert alike.slices is not None
    (arm,) = alike.slices.arms
    assert arm.sd_blocks is not None
    assert arm.sd_expected is not None
    assert arm.is_spread_explained
    # Slices with an SD of 3 % each, 10 of each arm.
    assert arm.sd_expected == pytest.approx(0.03 * math.sqrt(2 / 10), rel=0.4)
    assert "blocks-differ" not in {c.code for c in alike.caveats}
    assert "blocks-differ" in {c.code for c in differing.caveats}


def test_slices_that_were_not_recorded_say_nothing(shared: Evidence, reduction: Reduction) -> None:
    bare = replace(reduction, parts={})
    found = describe_slices(shared, bare)

    assert found is not None
    assert all((arm.growth, arm.autocorrelation, arm.sd_blocks) == (None, None, None) for arm in found.arms)
    assert describe_slices(replace(shared, valid=()), bare) is None


def test_a_run_without_its_slices_still_counts_and_is_listed(one: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(one, tmp_path / "without")
    run = read_evidence(copy).valid[0]
    (layout.run_folder(copy, run.folder) / layout.SLICES).unlink()
    reduction = reduce_runs(read_evidence(copy))

    assert reduction.without_slices == (run.id,)
    assert (run.id, 0, None) in reduction.totals
    assert (run.id, 0) not in reduction.parts


def test_the_parts_of_slices_add_up_to_the_transactions(shared: Evidence, reduction: Reduction) -> None:
    for run in shared.valid:
        for window in windows(run):
            parts = reduction.parts[run.id, window.level]
            assert parts.shape == (6, 4)
            totals = reduction.totals[run.id, window.level, None]
            assert np.sum(parts) == totals.count
            assert np.sum(reduction.part_latencies[run.id, window.level]) == pytest.approx(totals.latency_sum)


def test_a_clean_interleaved_experiment_has_no_warning(findings: Findings) -> None:
    assert {c.code for c in findings.caveats if c.severity != "info"} <= {"few-blocks"}


def test_unequal_sets_of_cpus_cancel_and_are_told(pair: Findings) -> None:
    (caveat,) = [c for c in pair.caveats if c.code == "unequal-cpus"]

    assert "is faster by +5" in caveat.text or "is faster by +4" in caveat.text


def test_slices_that_no_plan_has_tell_nothing_of_the_cpus(duet: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(duet, tmp_path / "forged")
    with closing(sqlite3.connect(copy / layout.STATE)) as db, db:
        db.execute("UPDATE slice SET number = number + 10000")

    assert "unequal-cpus" not in {caveat.code for caveat in analyze(copy).caveats}
