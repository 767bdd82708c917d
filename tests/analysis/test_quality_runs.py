from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pgtrial.analysis.evidence import Event, Evidence
from pgtrial.analysis.observations import Values
from pgtrial.analysis.reduction import Reduction, Stall, Wait
from pgtrial.analysis.slices import windows
from pgtrial.analysis.validity import runs
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.record import ALL
from pgtrial.model.caveat import Severity
from pgtrial.model.histogram import bucket_value
from pgtrial.model.rules import CURRENT, RULES, Rules

Assess = Any


def with_increases(
    reduction: Reduction, runs: set[int], increases: Mapping[str, Mapping[str, float]]
) -> dict[str, object]:
    """The reduction's increases, replaced in some runs."""
    changed = dict(reduction.increases)
    for run in runs:
        for counter, found in increases.items():
            changed[run, 0, counter] = dict(found)
    return {"increases": changed}


def runs_of(evidence: Evidence, arm: str) -> set[int]:
    return {run.id for run in evidence.runs_of(arm)}


def test_a_clean_experiment_has_no_caveat_about_its_runs(assess: Assess) -> None:
    clean = assess()

    for check in (
        runs.check_warmup,
        runs.check_steadiness,
        runs.check_stalls,
        runs.check_checkpoints,
        runs.check_failures,
        runs.check_open_loop,
        runs.check_samples,
        runs.check_gaps,
        runs.check_steal,
        runs.check_generator,
    ):
        assert list(check(clean)) == []


def test_a_warm_up_that_ended_by_its_cap_is_told_of_valid_runs(assess: Assess) -> None:
    events = tuple(Event(run=run, t=0.0, kind="warmup-capped", data={}) for run in (2, 5, 99))
    (caveat,) = runs.check_warmup(assess(events=events))

    assert (caveat.code, caveat.severity, caveat.runs) == ("warmup-capped", Severity.INFO, (2, 5))
    assert caveat.text.startswith("In 2 of 18 runs the warm-up was ended by its cap")


def test_a_unit_that_writes_ten_times_as_much_may_be_other_work(
    assess: Assess, evidence: Evidence, reduction: Reduction
) -> None:
    arms = tuple(
        replace(arm, knobs={**arm.knobs, "workload": {"scripts.s": f"{arm.name}.sql"}}) for arm in evidence.arms
    )
    counts = {run.id: reduction.totals[run.id, 0, None].count for run in evidence.valid}
    off = runs_of(evidence, "off")

    def written(of_off: float, of_others: float) -> dict[str, Any]:
        rows = {run: {"": count * (of_off if run in off else of_others)} for run, count in counts.items()}
        none = {run: {"": 0.0} for run in counts}
        changed = dict(reduction.increases)
        for run in counts:
            changed[run, 0, "pg_stat_database.tup_updated"] = rows[run]
            changed[run, 0, "pg_stat_database.tup_inserted"] = changed[run, 0, "pg_stat_database.tup_deleted"] = none[
                run
            ]
        return {"increases": changed}

    (caveat,) = runs.check_units(assess(arms=arms, reduced=written(10.0, 1.0)))
    assert (caveat.code, caveat.severity) == ("other-work", Severity.WARNING)
    assert "one of off writes 10.0 rows, one of on 1.0" in caveat.text
    assert list(runs.check_units(assess(arms=arms, reduced=written(2.0, 1.0)))) == []
    assert list(runs.check_units(assess(reduced=written(10.0, 1.0)))) == []  # where the load is the same


def test_wal_tells_of_other_work_where_a_unit_writes_rows(
    assess: Assess, evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    """A server writes WAL of its own, which is more in each unit of an arm that does fewer of them."""
    arms = tuple(
        replace(arm, knobs={**arm.knobs, "workload": {"scripts.s": f"{arm.name}.sql"}}) for arm in evidence.arms
    )
    off = runs_of(evidence, "off")
    wal = {(run.id, "cost.wal_bytes", None, ALL): 20_000.0 if run.id in off else 300.0 for run in evidence.valid}

    def told(rows: float) -> list[str]:
        increases = dict(reduction.increases)
        for run in evidence.valid:
            count = reduction.totals[run.id, 0, None].count * rows
            for counter, increase in (("tup_inserted", 0.0), ("tup_updated", count), ("tup_deleted", 0.0)):
                increases[run.id, 0, f"pg_stat_database.{counter}"] = {"": increase}
        changed = assess(arms=arms, values={**values, **wal}, reduced={"increases": increases})
        return [each.code for each in runs.check_units(changed)]

    assert told(1.0) == ["other-work"]
    assert told(0.1) == []


def test_what_a_replay_adds_to_its_latencies_is_told(assess: Assess, evidence: Evidence, reduction: Reduction) -> None:
    workload = evidence.experiment.workload.model_copy(update={"kind": "command", "command": ("pgtrial", "replay")})
    experiment = evidence.experiment.model_copy(update={"workload": workload})
    off = runs_of(evidence, "off")

    def late(share: float) -> dict[str, Any]:
        return {
            "totals": {
                cell: replace(each, lag_sum=share * (each.latency_sum or 0.0)) if cell[0] in off else each
                for cell, each in reduction.totals.items()
            }
        }

    (caveat,) = runs.check_own_lag(assess(experiment=experiment, reduced=late(0.25)))
    assert (caveat.code, caveat.severity) == ("own-lag", Severity.WARNING)
    assert caveat.text.startswith("25 % of the mean latency of off is the load's own delay")
    assert list(runs.check_own_lag(assess(experiment=experiment, reduced=late(0.05)))) == []
    own = workload.model_copy(update={"command": ("python3", "load.py")})  # which has a rate of its own
    (caveat,) = runs.check_own_lag(
        assess(experiment=experiment.model_copy(update={"workload": own}), reduced=late(0.25))
    )
    assert caveat.text.startswith("25 % of the mean latency of off passed before its requests were sent: behind slow")
    assert list(runs.check_own_lag(assess(reduced=late(0.25)))) == []  # pgbench's, which has a rate then
    counted = {
        cell: replace(each, lag_sum=1.0, latency_sum=None) for cell, each in reduction.totals.items()
    }  # of lines with a count, and no mean
    assert list(runs.check_own_lag(assess(experiment=experiment, reduced={"totals": counted}))) == []


def test_latencies_that_are_longer_than_the_clients_have_time_are_told(
    assess: Assess, evidence: Evidence, reduction: Reduction
) -> None:
    given = {"kind": "command", "command": ["load"], "clients": 4}
    off, level = runs_of(evidence, "off"), evidence.levels[0]
    (window,) = windows(evidence.runs_of("off")[0])
    longest = max(bucket_value(int(each.buckets[-1])) for cell, each in reduction.histograms.items() if cell[0] in off)

    def longer(times: float, **changes: Any) -> list[CaveatFinding]:
        workload = evidence.experiment.workload.model_validate({**given, **changes})
        experiment = evidence.experiment.model_copy(update={"workload": workload})
        latency = times * level.clients * (window.counted + longest)
        totals = {
            cell: replace(each, latency_sum=latency) if cell[0] in off else each
            for cell, each in reduction.totals.items()
        }
        return list(runs.check_clients(assess(experiment=experiment, reduced={"totals": totals})))

    (caveat,) = longer(20.0)
    assert (caveat.code, caveat.severity) == ("more-clients", Severity.WARNING)
    assert caveat.text.startswith("The latencies of off are 20.")
    assert f"({level.clients})" in caveat.text
    assert longer(1.2) == []
    assert longer(20.0, results="hdr") == []  # may be corrected for requests that were not sent
    assert longer(20.0, rate=100) == []
    del given["clients"]
    assert longer(20.0) == []  # the program may have as many as it likes


def test_what_the_load_said_beside_its_results_is_told_once(assess: Assess) -> None:
    events = tuple(
        Event(run=run, t=float(run), kind="load-said", data={"level": 0, "text": f"left out {run}"})
        for run in (5, 2, 99)
    )
    (caveat,) = runs.check_said(assess(events=events))

    assert (caveat.code, caveat.severity, caveat.runs) == ("load-said", Severity.INFO, (2, 5))
    assert caveat.text.startswith("In 2 of 18 runs the program that is the load said something")
    assert caveat.text.endswith("in run 2: “left out 2”")


def test_throughput_that_falls_inside_the_runs_is_told(
    assess: Assess, evidence: Evidence, reduction: Reduction
) -> None:
    slow = runs_of(evidence, "off")
    bins = {
        key: tuple(replace(b, count=b.count // 2 if key[0] in slow and b.index >= 5 else b.count) for b in found)
        for key, found in reduction.bins.items()
    }
    (caveat,) = runs.check_steadiness(assess(reduced={"bins": bins}))

    assert caveat.code == "unsteady"
    assert caveat.text.startswith("Throughput of off ")
    assert "−50." in caveat.text


def test_steadiness_needs_two_runs_with_transactions_in_both_halves(assess: Assess, reduction: Reduction) -> None:
    bins = {key: found[:2] for key, found in reduction.bins.items()}

    assert list(runs.check_steadiness(assess(reduced={"bins": bins}))) == []


def test_halves_that_are_all_alike_have_no_interval_and_no_caveat(assess: Assess, reduction: Reduction) -> None:
    bins = {key: tuple(replace(b, count=100 - b.index) for b in found) for key, found in reduction.bins.items()}

    assert list(runs.check_steadiness(assess(reduced={"bins": bins}))) == []


@pytest.mark.parametrize("counter", ["pg_stat_checkpointer.num_done", "pg_stat_checkpointer.num_timed"])
def test_unequal_checkpoints_are_told(assess: Assess, evidence: Evidence, reduction: Reduction, counter: str) -> None:
    reduced = with_increases(reduction, runs_of(evidence, "off"), {counter: {"": 2.0}})
    (caveat,) = runs.check_checkpoints(assess(reduced=reduced))

    assert caveat.code == "unequal-checkpoints"
    assert "on 0.0 per run, off 2.0 per run" in caveat.text


def test_unknown_checkpoints_are_not_compared(assess: Assess) -> None:
    assert list(runs.check_checkpoints(assess(reduced={"increases": {}}))) == []


@pytest.mark.parametrize(
    ("metric", "code"),
    [
        ("pgbench.failures", "failed-transactions"),
        ("pgbench.skipped", "skipped-transactions"),
        ("pgbench.late", "late-transactions"),
    ],
)
def test_transactions_that_were_lost_are_told(
    assess: Assess, evidence: Evidence, values: Values, metric: str, code: str
) -> None:
    changed = {**values, **{(run, metric, None, ALL): 0.2 for run in runs_of(evidence, "off")}}
    assessment = assess(values=changed)

    (caveat,) = [*runs.check_failures(assessment), *runs.check_open_loop(assessment)]

    assert caveat.code == code
    assert "of off" in caveat.text


@pytest.mark.parametrize(
    ("arm", "longer", "severity"),
    [
        ("off", 1.0, Severity.INVALID),
        ("off", 2.0, Severity.WARNING),  # seen to take longer, and what it skipped would have taken longer still
        ("on", 2.0, Severity.INVALID),
        ("on", 1.0, Severity.WARNING),  # not worse, and better still if what on skipped would have taken longest
        ("on", 0.5, Severity.WARNING),
        ("placebo", 1.0, Severity.WARNING),
    ],
)
def test_an_arm_that_loses_what_would_take_long_is_not_called_as_fast(
    assess: Assess, evidence: Evidence, values: Values, *, arm: str, longer: float, severity: Severity
) -> None:
    for kind, code in (("skipped", "skipped-transactions"), ("failures", "failed-transactions")):
        assessment = losing(assess, evidence, values, {arm: 0.2}, kind=kind, longer=longer)
        (caveat,) = [*runs.check_failures(assessment), *runs.check_open_loop(assessment)]

        assert (caveat.code, caveat.severity) == (code, severity)


def losing(
    assess: Assess,
    evidence: Evidence,
    values: Values,
    shares: dict[str, float],
    *,
    kind: str,
    longer: float = 1.0,
    rules: Rules = CURRENT,
) -> Assessment:
    """A claim about the p99, of which off is ``longer`` times as long, and arms that lost these shares."""
    time = "pgbench.latency_p99"
    asked = evidence.experiment.hypothesis.model_copy(update={"metric": time, "expect": "not-worse"})
    experiment = evidence.experiment.model_copy(update={"hypothesis": asked})
    gain = {"off": longer}
    changed = {
        key: (0.01 + 1e-6 * key[0]) * gain.get(by_id[key[0]], 1.0) if key[1] == time else value
        for by_id in ({run.id: run.slot.arm for run in evidence.valid},)
        for key, value in values.items()
    }
    for arm, share in shares.items():
        changed |= {(run, f"pgbench.{kind}", None, ALL): share for run in runs_of(evidence, arm)}
    found: Assessment = assess(values=changed, experiment=experiment, rules=rules)
    return found


@pytest.mark.parametrize(
    ("shares", "severity"),
    [
        ({"off": 0.012}, Severity.INVALID),
        ({"off": 0.002}, Severity.WARNING),  # fewer than are slower than the p99: the interval bears them
        ({"off": 0.012, "on": 0.012}, Severity.WARNING),
    ],
)
def test_failures_leave_no_verdict_where_more_failed_than_is_slower(
    assess: Assess, evidence: Evidence, values: Values, shares: dict[str, float], severity: Severity
) -> None:
    found = list(runs.check_failures(losing(assess, evidence, values, shares, kind="failures")))

    assert {one.severity for one in found} == {severity}


def test_by_rules_14_failures_hid_nothing(assess: Assess, evidence: Evidence, values: Values) -> None:
    failed = losing(assess, evidence, values, {"off": 0.2}, kind="failures", rules=RULES[14])
    skipped = losing(assess, evidence, values, {"off": 0.2}, kind="skipped", rules=RULES[14])

    assert [one.severity for one in runs.check_failures(failed)] == [Severity.WARNING]
    assert [one.severity for one in runs.check_open_loop(skipped)] == [Severity.INVALID]


def test_throughput_that_the_rate_decides_is_told(assess: Assess, evidence: Evidence) -> None:
    workload = evidence.experiment.workload.model_copy(update={"rate": 100.0})
    open_loop = evidence.experiment.model_copy(update={"workload": workload})
    asked = open_loop.hypothesis.model_copy(update={"metric": "pgbench.latency_p99"})
    (caveat,) = runs.check_open_loop(assess(experiment=open_loop))

    assert (caveat.code, caveat.severity) == ("rate-sets-throughput", Severity.WARNING)
    assert list(runs.check_open_loop(assess(experiment=open_loop.model_copy(update={"hypothesis": asked})))) == []


@pytest.mark.parametrize(
    "load", [{"command": ("pgtrial", "replay", "a.csv")}, {"command": ("pgreplay", "a.csv"), "results": "pgreplay"}]
)
def test_throughput_that_a_log_decides_is_told(assess: Assess, evidence: Evidence, load: dict[str, Any]) -> None:
    workload = evidence.experiment.workload.model_copy(update={"kind": "command", "rate": None, **load})
    replay = evidence.experiment.model_copy(update={"workload": workload})
    asked = replay.hypothesis.model_copy(update={"metric": "pgbench.latency_mean"})
    (caveat,) = runs.check_open_loop(assess(experiment=replay))

    assert (caveat.code, caveat.severity) == ("rate-sets-throughput", Severity.WARNING)
    assert "the log and not the server decides the throughput" in caveat.text
    assert list(runs.check_open_loop(assess(experiment=replay.model_copy(update={"hypothesis": asked})))) == []


def test_missing_sample_files_are_told(assess: Assess) -> None:
    samples, waits = runs.check_samples(assess(reduced={"without_samples": (1, 2), "without_waits": (2,)}))

    assert (samples.code, samples.runs) == ("no-samples", (1, 2))
    assert "waits.parquet" in waits.text


def test_gaps_of_the_sampler_are_told(assess: Assess) -> None:
    (caveat,) = runs.check_gaps(assess(reduced={"gaps": {1: 1.0, 2: 4.5}}))

    assert (caveat.code, caveat.runs) == ("sampler-gaps", (2,))
    assert "4.5 s" in caveat.text


def test_stolen_cpu_time_is_told(assess: Assess, reduction: Reduction) -> None:
    reduced = with_increases(reduction, {3}, {"proc_stat.cpu_steal": {"all": 5.0}})
    (caveat,) = runs.check_steal(assess(reduced=reduced))

    assert (caveat.code, caveat.runs) == ("cpu-steal", (3,))
    # 5 of 5 + 20 CPU seconds.
    assert "1 of 18 runs" in caveat.text
    assert "20.0 %" in caveat.text


def test_unknown_cpu_times_say_nothing(assess: Assess) -> None:
    blind = assess(reduced={"increases": {}})

    assert list(runs.check_steal(blind)) == []
    assert list(runs.check_generator(blind)) == []


def test_behind_a_pooler_the_load_has_no_more_sessions_than_the_pool(
    assess: Assess, evidence: Evidence, reduction: Reduction
) -> None:
    reduced = with_increases(reduction, {4}, {"proc_stat.cpu_idle": {"all": 0.1}, "proc_stat.cpu_iowait": {"all": 0.0}})
    waits = {**reduction.waits, (4, 0): (Wait(wait_type="", wait_event="", sessions=1.0),)}
    pooled = tuple(replace(arm, knobs={**arm.knobs, "pgbouncer": {"pool_size": "2"}}) for arm in evidence.arms)

    found = runs.check_generator(assess(arms=pooled, reduced={**reduced, "waits": waits}))

    assert list(found) == []  # half of the two sessions


@pytest.mark.parametrize(("active", "is_saturated"), [(1.0, True), (3.5, False)])
def test_a_generator_that_takes_the_last_cpu_is_told(
    assess: Assess, evidence: Evidence, reduction: Reduction, active: float, is_saturated: bool
) -> None:
    reduced = with_increases(reduction, {4}, {"proc_stat.cpu_idle": {"all": 0.1}, "proc_stat.cpu_iowait": {"all": 0.0}})
    waits = {**reduction.waits, (4, 0): (Wait(wait_type="", wait_event="", sessions=active),)}

    found = list(runs.check_generator(assess(reduced={**reduced, "waits": waits})))

    assert [(caveat.code, caveat.runs) for caveat in found] == ([("generator-saturated", (4,))] if is_saturated else [])
    # Sessions of a replay have nothing to do until the time of their next statement.
    workload = evidence.experiment.workload.model_copy(update={"kind": "command", "command": ("pgtrial", "replay")})
    replay = evidence.experiment.model_copy(update={"workload": workload})
    assert list(runs.check_generator(assess(experiment=replay, reduced={**reduced, "waits": waits}))) == []


def test_seconds_without_a_transaction_among_many_are_told(assess: Assess, reduction: Reduction) -> None:
    stalls = {**reduction.stalls, (2, 0): Stall(seconds=1), (5, 0): Stall(seconds=3)}
    (caveat,) = runs.check_stalls(assess(reduced={"stalls": stalls}))

    assert (caveat.code, caveat.severity, caveat.runs) == ("stalled", Severity.WARNING, (2, 5))
    assert caveat.text.startswith("In 2 of 18 runs no transaction ended for up to 3 s")


def test_stall_in_which_the_server_had_nothing_to_do_is_the_loads(assess: Assess, reduction: Reduction) -> None:
    usual = (Wait(wait_type="", wait_event="", sessions=1.5), Wait(wait_type="IO", wait_event="WalSync", sessions=2.5))
    stalls = {
        **reduction.stalls,
        (2, 0): Stall(seconds=2, active=4.0),
        (3, 0): Stall(seconds=4, active=0.39),
        (5, 0): Stall(seconds=5, active=0.41),
    }
    waits = {**reduction.waits, (2, 0): usual, (3, 0): usual, (5, 0): usual}

    server, load = runs.check_stalls(assess(reduced={"stalls": stalls, "waits": waits}))

    assert [(server.code, server.runs), (load.code, load.runs)] == [("stalled", (2, 5)), ("load-stalled", (3,))]
    assert load.severity is Severity.WARNING
    assert "for up to 4 s" in load.text


def test_long_or_rare_transactions_do_not_stall(assess: Assess, values: Values, reduction: Reduction) -> None:
    stalls = {**reduction.stalls, (2, 0): Stall(seconds=1)}
    times = reduction.histograms[2, 0, None]
    long = {**reduction.histograms, (2, 0, None): replace(times, buckets=times.buckets + 1000)}
    rare = {**values, (2, "pgbench.tps", None, 0): runs.STALL_RATE - 1}

    assert list(runs.check_stalls(assess(values=values, reduced={"stalls": stalls, "histograms": long}))) == []
    assert list(runs.check_stalls(assess(values=rare, reduced={"stalls": stalls}))) == []


@pytest.mark.parametrize(
    ("results", "texts"),
    [
        ("pgreplay", ["only the mean of its latencies", "tells all at its end", "The throughput of a replay"]),
        ("k6", ["A latency is that of an iteration"]),
        ("benchbase", ["from when a worker takes it up"]),
    ],
)
def test_what_a_generator_does_not_tell_is_told(
    results: str, texts: list[str], assess: Assess, evidence: Evidence
) -> None:
    workload = evidence.experiment.workload.model_copy(update={"kind": "command", "results": results})
    experiment = evidence.experiment.model_copy(update={"workload": workload})
    told = list(runs.check_told(replace(assess(), evidence=replace(evidence, experiment=experiment))))

    assert {caveat.code for caveat in told} == {"generator-tells"}
    assert [text for text, caveat in zip(texts, told, strict=True) if text not in caveat.text] == []


@pytest.mark.parametrize(
    ("metric", "criteria", "severity"),
    [
        ("pgbench.tps", (), Severity.INFO),
        ("pgbench.latency_p99", (), Severity.WARNING),
        ("pgbench.tps", ("pgbench.latency_mean",), Severity.WARNING),
    ],
)
def test_the_time_to_connect_is_not_in_latencies(
    assess: Assess, evidence: Evidence, metric: str, criteria: tuple[str, ...], severity: Severity
) -> None:
    given = evidence.experiment.model_dump(exclude_unset=True)
    given["hypothesis"] = {**given.get("hypothesis", {}), "metric": metric}
    given["criteria"] = [{"metric": each} for each in criteria]
    experiment = Experiment.model_validate(given)
    connecting = {"workload": {"connect": "each-transaction"}}
    arms = tuple(replace(arm, knobs=connecting) if arm.name == "off" else arm for arm in evidence.arms)

    (caveat,) = runs.check_latencies(assess(arms=arms, experiment=experiment))

    assert (caveat.code, caveat.severity) == ("partial-latency", severity)
    assert caveat.text.startswith("Latencies of off begin when a client has connected")
    assert list(runs.check_latencies(assess(experiment=experiment))) == []
