import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.check_advice import CheckContext, advise
from pgtrial.analysis.causes.checks import check_samples, grade
from pgtrial.analysis.evidence import Evidence, measured
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.experiment_file.cause_tables import CheckTable
from pgtrial.experiment_file.check_rules import CheckKind, CheckRule, check_rules
from pgtrial.findings.causes import Check, Level
from pgtrial.findings.message import say
from pgtrial.model.series import find_metric

Make = Callable[..., Timeline]
ORDER = list(Level)


@pytest.fixture
def look(evidence: Evidence) -> Callable[..., dict[str, Check]]:
    """Checks by their ids (with "/" and the object), of one arm at one load level."""

    def check(*timelines: Timeline, log: Any = (), **changes: Any) -> dict[str, Check]:
        found = check_samples(replace(evidence, **changes), timelines, log)
        return {f"{each.id}/{each.object}" if each.object else each.id: each for each in found}

    return check


def with_checks(evidence: Evidence, **tables: Any) -> Any:
    checks = {name.replace("_", "-"): CheckTable.model_validate(table) for name, table in tables.items()}
    return evidence.experiment.model_copy(update={"checks": checks})


@pytest.mark.parametrize("rule", check_rules().values(), ids=lambda rule: rule.id)
def test_at_each_limit_exactly_one_level_begins_where_the_other_ends(rule: CheckRule) -> None:
    is_higher_worse = rule.is_higher_worse or rule.kind is CheckKind.TIME
    for _, limit in rule.limits():
        below, above = math.nextafter(limit, -math.inf), math.nextafter(limit, math.inf)
        grades = [ORDER.index(grade(rule, value)) for value in (below, limit, above)]
        assert grades == sorted(grades, reverse=not is_higher_worse)
        # The limit itself belongs to the values above it, but for a limit of zero: what never happens is ok.
        assert grades[1] == (grades[0] if limit == 0 and is_higher_worse else grades[2])
        assert grades[0] != grades[2]


@pytest.mark.parametrize("rule", check_rules().values(), ids=lambda rule: rule.id)
def test_a_worse_value_never_has_a_milder_level(rule: CheckRule) -> None:
    values = np.concatenate([np.linspace(-1, 2, 3001), [limit for _, limit in rule.limits()]])
    is_higher_worse = rule.is_higher_worse or rule.kind is CheckKind.TIME
    grades = [ORDER.index(grade(rule, value)) for value in sorted(values, reverse=not is_higher_worse)]

    assert grades == sorted(grades)


@pytest.mark.parametrize(
    ("share", "level"),
    [(0.0, "ok"), (0.2499, "ok"), (0.25, "warning"), (0.4999, "warning"), (0.5, "alarm"), (1.0, "alarm")],
)
def test_a_quarter_of_the_time_is_a_warning_and_half_an_alarm(share: float, level: str) -> None:
    assert grade(check_rules()["cpu-busy"], share) == level


@pytest.mark.parametrize(
    ("ratio", "level"),
    [(1.0, "ok"), (0.99, "ok"), (0.9899, "info"), (0.90, "info"), (0.85, "warning"), (0.8499, "alarm"), (0, "alarm")],
)
def test_a_hit_ratio_at_a_limit_has_the_better_level(ratio: float, level: str) -> None:
    assert grade(check_rules()["hit-ratio"], ratio) == level


def test_every_second_is_held_against_the_threshold_and_not_a_median(make_timeline: Make, look: Any) -> None:
    busy = np.where(np.arange(100) < 30, 0.9, 0.1)
    found = look(make_timeline({"vmstat.us": busy, "vmstat.sy": 0.0, "vmstat.wa": 0.1}))

    check = found["cpu-busy"]
    assert (check.value, check.threshold, check.share) == (pytest.approx(0.1), 0.8, 0.3)
    assert check.level is Level.WARNING
    assert "34.0 % of the CPUs' time is user time" in say(check.advice)
    # What equals the threshold is not beyond it.
    assert (found["io-wait"].share, found["io-wait"].level, found["io-wait"].advice) == (0, Level.OK, None)


def test_all_runs_of_an_arm_count_together(make_timeline: Make, look: Any) -> None:
    found = look(
        make_timeline({"vmstat.r": 5.0, "vmstat.cpus": 2.0}, run=1),
        make_timeline({"vmstat.r": 1.0, "vmstat.cpus": 2.0}, run=2, block=2, seconds=300),
        make_timeline({"vmstat.us": 1.0}, run=3, block=3),  # it was not read there
    )

    check = found["run-queue"]
    assert (check.share, check.value, check.level) == (0.25, 0.5, Level.WARNING)
    assert "2 tasks run or want to, on 2 CPUs" in say(check.advice)


def test_arms_and_load_levels_have_their_own_checks(make_timeline: Make, evidence: Evidence) -> None:
    timelines = [
        make_timeline({"vmstat.wa": wa}, run=run, arm=arm, level=level)
        for run, (arm, level, wa) in enumerate([("on", 0, 0.0), ("on", 1, 0.5), ("off", 0, 0.0), ("off", 1, 0.0)], 1)
    ]
    found = [each for each in check_samples(evidence, timelines, None) if each.id == "io-wait"]

    assert [(each.arm, each.load_level, each.level) for each in found] == [
        ("on", 0, "ok"),
        ("on", 1, "alarm"),
        ("off", 0, "ok"),
        ("off", 1, "ok"),
    ]


def test_what_was_not_read_is_not_checked(make_timeline: Make, look: Any) -> None:
    assert look(make_timeline(), log=None) == {}
    assert look(make_timeline({"vmstat.us": 0.9}), log=None) == {}  # without sy there is no sum
    assert look(make_timeline({"vmstat.wa": np.nan}), log=None) == {}


def test_unknown_seconds_are_no_part_of_the_time(make_timeline: Make, look: Any) -> None:
    wa = np.where(np.arange(100) < 60, np.nan, 0.0)
    wa[90:] = 0.5

    assert look(make_timeline({"vmstat.wa": wa}))["io-wait"].share == 0.25


def test_a_second_without_a_read_is_known_to_be_not_slow(make_timeline: Make, look: Any) -> None:
    reads = np.where(np.arange(100) < 20, 5.0, 0.0)
    wait = np.where(reads > 0, 0.02, np.nan)
    check = look(make_timeline({("iostat.r", "vda"): reads, ("iostat.r_await", "vda"): wait}))["read-response/vda"]

    assert (check.value, check.share, check.level) == (0.02, 0.2, Level.OK)


def test_every_device_has_its_own_check(make_timeline: Make, look: Any) -> None:
    found = look(
        make_timeline(
            {
                ("iostat.util", "vda"): 0.9,
                ("iostat.util", "vdb"): 0.1,
                ("iostat.iops", "vda"): 3000.0,
                ("iostat.bytes", "vda"): 24e6,
                ("iostat.w_await", "vda"): 0.002,
            }
        )
    )

    assert found["device-busy/vda"].level is Level.ALARM
    assert "vda does 3 k requests and 22.9 MB per second, with 2 ms for a write." in say(
        found["device-busy/vda"].advice
    )
    assert found["device-busy/vdb"].level is Level.OK


def test_what_should_never_happen_is_worth_a_remark_when_it_does(make_timeline: Make, look: Any) -> None:
    once = np.zeros(100)
    quiet = look(make_timeline({"vmstat.si": once}))["swap-in"]
    once[7] = 4096
    check = look(make_timeline({"vmstat.si": once, "vmstat.swpd": 1e9}))["swap-in"]

    assert (quiet.level, quiet.share) == (Level.OK, 0)
    assert (check.level, check.share) == (Level.INFO, 0.01)
    assert "954 MB lie in swap" in say(check.advice)


def test_reclaim_that_waits_for_dirty_pages_is_not_taken_for_writers_that_do(make_timeline: Make, look: Any) -> None:
    # nr_throttled_written of the kernel is of reclaim (mm/vmscan.c); writers sleep in balance_dirty_pages.
    reclaim = look(make_timeline({"reclaim.throttled": 50.0}))
    writers = look(make_timeline({"reclaim.throttled": 0.0, "throttling.paused": 0.8}))

    assert (reclaim["reclaim-writing"].level, "throttled-writers" in reclaim) == (Level.ALARM, False)
    assert "Memory is short" in say(reclaim["reclaim-writing"].advice)
    assert (writers["reclaim-writing"].level, writers["throttled-writers"].level) == (Level.OK, Level.ALARM)


def test_memory_is_judged_by_what_is_available_of_the_machines(
    make_timeline: Make, look: Any, evidence: Evidence
) -> None:
    known = {run.id: {"machine/memory": "4 GB"} for run in evidence.valid}
    low = make_timeline({"vmstat.available": 100 * 2.0**20, "vmstat.free": 0.0})

    assert look(low, fingerprints=known)["available-memory"].level is Level.ALARM
    assert look(low, fingerprints=known)["available-memory"].value == pytest.approx(100 / 4096)
    assert "available-memory" not in look(low, fingerprints={})
    enough = make_timeline({"vmstat.available": 0.05 * 4 * 2.0**30, "vmstat.free": 0.0})
    assert look(enough, fingerprints=known)["available-memory"].level is Level.OK


def test_autovacuum_is_held_against_its_setting(make_timeline: Make, look: Any, evidence: Evidence) -> None:
    settings = {1: {"autovacuum_max_workers": ("3", "default")}}
    check = look(make_timeline({"sessions.autovacuum": 3.0}), settings=settings)["autovacuum-workers"]

    assert (check.value, check.level) == (1.0, Level.ALARM)
    assert "autovacuum-workers" not in look(make_timeline({"sessions.autovacuum": 3.0}), settings={})


def test_a_hit_ratio_is_that_of_all_blocks_and_not_a_mean_of_ratios(make_timeline: Make, look: Any) -> None:
    hit, read = np.full(100, 10_000.0), np.zeros(100)
    hit[:50], read[:50] = 0.0, 10.0  # half of the time nothing is hit, and hardly anything is read
    check = look(make_timeline({"db.hit": hit, "db.read": read}))["hit-ratio"]

    assert check.value == pytest.approx(500_000 / 500_500)
    assert (check.level, check.share) == (Level.OK, None)
    low = look(make_timeline({"db.hit": 80.0, "db.read": 20.0, ("iostat.r", "vda"): 1.0}))["hit-ratio"]
    assert low.level is Level.ALARM
    assert "the page cache has them" in say(low.advice)


def test_nothing_divided_by_nothing_is_no_ratio(make_timeline: Make, look: Any) -> None:
    assert "requested-checkpoints" not in look(make_timeline({"checkpoints.requested": 0.0, "checkpoints.timed": 0.0}))


def test_advice_on_waits_names_the_event(make_timeline: Make, look: Any) -> None:
    check = look(
        make_timeline(
            {
                "sessions.active": 10.0,
                "waits.Lock": 4.0,
                ("wait.Lock", "transactionid"): 3.0,
                ("wait.Lock", "tuple"): 1.0,
            }
        )
    )["wait-lock"]

    assert (check.value, check.level) == (0.4, Level.ALARM)
    assert say(check.advice).startswith(
        "4 sessions wait for it on average, 75.0 % of them for transactionid. Transactions"
    )


@pytest.mark.parametrize(("share", "level"), [(0.03, "ok"), (0.04, "info"), (0.1, "warning"), (0.2, "alarm")])
def test_waits_are_judged_by_their_share_of_the_active_sessions(
    make_timeline: Make, look: Any, share: float, level: str
) -> None:
    found = look(make_timeline({"sessions.active": 100.0, "waits.IO": 100 * share}))

    assert found["wait-io"].level == level


def test_limits_of_the_experiment_file_replace_the_defaults(make_timeline: Make, look: Any, evidence: Evidence) -> None:
    timeline = make_timeline({"vmstat.wa": 0.15, ("iostat.util", "vda"): 0.6})
    changed = with_checks(evidence, io_wait={"threshold": "20%"}, device_busy={"warning": "1%", "alarm": 2.0})
    found = look(timeline, experiment=changed)

    assert look(timeline)["io-wait"].level is Level.ALARM
    assert (found["io-wait"].level, found["io-wait"].threshold) == (Level.OK, 0.2)
    assert found["device-busy/vda"].level is Level.WARNING  # all of the time is less than 200 % of it


def test_a_trend_counts_when_blocks_agree_on_it(make_timeline: Make, look: Any) -> None:
    rng = np.random.default_rng(1)
    runs = range(1, 7)
    noise = {run: rng.normal(4, 0.5, 300) for run in runs}
    rising = [
        make_timeline({"vmstat.r": noise[run] + np.linspace(0, 3, 300), "vmstat.cpus": 4.0}, run=run, seconds=300)
        for run in runs
    ]
    level = [make_timeline({"vmstat.r": noise[run], "vmstat.cpus": 4.0}, run=run, seconds=300) for run in runs]

    check = look(*rising)["run-queue-trend"]
    assert check.value == pytest.approx(0.75, rel=0.1)
    assert (check.level, check.share) == (Level.ALARM, None)
    assert "keeps changing" in say(check.advice)
    assert look(*level)["run-queue-trend"].level is Level.OK


def test_a_large_trend_that_may_be_chance_is_only_a_remark(make_timeline: Make, look: Any) -> None:
    found = look(
        *(
            make_timeline({"vmstat.id": np.linspace(0.5, 0.5 + change, 100)}, run=run)  # the runs do not agree at all
            for run, change in enumerate((-0.4, 0.3, -0.3, 0.1), 1)
        )
    )

    assert found["idle-trend"].value == pytest.approx(-0.075, abs=0.003)
    assert found["idle-trend"].level is Level.INFO


def test_a_single_run_is_judged_by_its_own_noise(make_timeline: Make, look: Any) -> None:
    rng = np.random.default_rng(2)
    steps = np.linspace(0, 0.3, 400)
    sure = make_timeline({"vmstat.wa": 0.2 + steps + rng.normal(0, 0.02, 400)}, seconds=400)

    assert look(sure)["io-wait-trend"].level is Level.ALARM


@pytest.fixture
def logged(make_timeline: Make, evidence: Evidence) -> Timeline:
    """A timeline of the first run, at its own time."""
    run = evidence.valid[0]
    return replace(make_timeline(run=run.id, arm=run.slot.arm, seconds=120), started=measured(run)[0].start)


def test_errors_are_counted_per_minute_by_their_sqlstate(logged: Timeline, make_entry: Any, look: Any) -> None:
    entries = [
        *(make_entry(logged, second, kind="error", object="40001", text="could not serialize") for second in range(3)),
        make_entry(logged, 30, kind="error", object="40001", count=2),
        make_entry(logged, 60, kind="error", object="53100", text="no space left"),
        make_entry(logged, 200, kind="error", object="40001"),  # after it
        make_entry(logged, -3, kind="error", object="40001"),
        make_entry(logged, 5, kind="checkpoint"),
    ]
    found = look(logged, log=entries)

    assert (found["log-errors/40001"].value, found["log-errors/40001"].level) == (2.5, Level.WARNING)
    assert "could not serialize" in say(found["log-errors/40001"].advice)
    assert (found["log-errors/53100"].value, found["log-errors/53100"].level) == (0.5, Level.ALARM)
    assert "log-errors" not in found


def test_a_log_without_errors_is_ok_and_no_log_says_nothing(logged: Timeline, look: Any) -> None:
    assert look(logged, log=())["log-errors"].level is Level.OK
    assert look(logged, log=None) == {}


@pytest.mark.parametrize("rule", check_rules().values(), ids=lambda rule: rule.id)
def test_every_check_has_metrics_that_exist_and_advice(rule: CheckRule, make_timeline: Make) -> None:
    if rule.kind is not CheckKind.LOG:
        names = {*rule.metric, *rule.per, *([rule.known_by] if rule.known_by else [])}
        recorded = {name for name in names if name.startswith(("machine.", "settings."))}
        assert all(find_metric(name) for name in names - recorded)
    timeline = make_timeline({rule.metric[0]: 1.0, "vmstat.cpus": 1.0})

    assert advise(rule.id, CheckContext(timelines=(timeline,), metric=rule.metric[0], about=""))


def test_advice_on_a_busy_cpu_names_the_load_generator(make_timeline: Make, look: Any) -> None:
    series = {"vmstat.us": 0.7, "vmstat.sy": 0.25, "vmstat.cpus": 4.0}

    assert "load generator" not in say(look(make_timeline(series))["cpu-busy"].advice)
    assert "itself uses 1.5 CPUs" in say(look(make_timeline({**series, "pgbench.cpu": 1.5}))["cpu-busy"].advice)
    in_kernel = {**series, "vmstat.us": 0.25, "vmstat.sy": 0.7}
    assert "spent in the kernel" in say(look(make_timeline(in_kernel))["cpu-busy"].advice)


def test_a_check_has_advice_only_where_it_is_not_ok(make_timeline: Make, look: Any) -> None:
    series = {name: 2.0 for rule in check_rules().values() for name in (*rule.metric, *rule.per)}
    found = look(make_timeline(series))

    assert {check.level for check in found.values()} > {Level.OK, Level.ALARM}
    assert all(bool(check.advice) is (check.level is not Level.OK) for check in found.values())


@pytest.mark.parametrize(
    ("check", "metric", "series", "words"),
    [
        ("run-queue", "vmstat.r", {"vmstat.r": 9.0}, ""),
        ("io-wait", "vmstat.wa", {("wait.IO", "DataFileRead"): 3.0}, "Sessions wait mostly for DataFileRead."),
        ("blocked", "vmstat.b", {"vmstat.b": 5.0, ("iostat.w_await", "vda"): 0.3}, "A write to vda takes 300 ms."),
        ("kernel-time", "vmstat.sy", {"vmstat.cs": 2e5}, "Beside it are 200 k context switches per second."),
        ("swap-out", "vmstat.so", {"psi.memory": 0.3}, "Tasks waited for memory in 30.0 % of the time."),
        ("memory-pressure", "psi.memory", {"reclaim.refault": 500.0}, "500 pages per second came back"),
        ("direct-reclaim", "reclaim.direct", {"reclaim.direct": 4000.0}, "4 k pages per second"),
        (
            "throttled-writers",
            "throttling.paused",
            {"dirty.bytes": 2.0**20, "dirty.threshold": 2.0**21},
            "1 MB wait to be written, of 2 MB at which writers stop.",
        ),
        (
            "reclaim-writing",
            "reclaim.throttled",
            {"dirty.bytes": 2.0**20},
            "On average 1 MB of dirty pages are in memory.",
        ),
        ("read-response", "iostat.r_await", {("wait.IO", "DataFileRead"): 6.0}, "6 sessions wait for a read."),
        ("write-response", "iostat.w_await", {("wait.IO", "WalSync"): 2.0}, "2 sessions wait for the WAL to be safe"),
        ("write-response", "iostat.w_await", {("wait.IO", "WALWrite"): 1.0}, "1 sessions wait for the WAL to be safe"),
        ("write-response", "iostat.w_await", {("wait.LWLock", "WALWrite"): 5.0}, "5 sessions wait for the WAL"),
        ("write-response", "iostat.w_await", {}, "Nobody waits for a commit there"),
        ("requested-checkpoints", "checkpoints.requested", {"wal.bytes": 2.0**25}, "32 MB of WAL per second fill"),
        ("temporary-files", "db.temp_bytes", {("wait.IO", "BufFileWrite"): 1.5}, "1.5 sessions wait for them."),
        ("wait-ipc", "waits.IPC", {"waits.IPC": 2.0}, "2 sessions wait for it on average. Sessions wait for another"),
    ],
)
def test_advice_tells_what_was_seen_beside_it(
    make_timeline: Make, check: str, metric: str, series: dict[Any, Any], words: str
) -> None:
    text = say(advise(check, CheckContext(timelines=(make_timeline(series),), metric=metric, about="vda")))

    assert words in text
    assert bool(text) is bool(words)
