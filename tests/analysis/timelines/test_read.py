import contextlib
import math
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.evidence import Evidence, measured, read_evidence
from pgtrial.analysis.reduce import _files
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.timelines.read import compute, read_timelines
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.errors import StoreError
from pgtrial.model.formulas import TimelineMetric
from pgtrial.model.metric import Sample
from pgtrial.model.series import METRICS, find_metric
from pgtrial.store import layout, parquet
from pgtrial.store.samples import WaitRow, write_samples, write_waits
from support import (
    DUET,
    EXPERIMENT,
    INTERLEAVED,
    TransactionRow,
    detailed_simulation,
    write_result_folder,
    write_transactions,
)
from support.folder import first_file, first_window

NAN = math.nan
SHORT = EXPERIMENT.replace('"10s"', '"4s"')
MB = float(1 << 20)
CPU = 2.001  # s of CPU time per second, of all kinds

# What the simulated counters and gauges are by the definitions of vmstat, iostat and PostgreSQL, worked out by hand.
EXPECTED: Mapping[tuple[str, str], float] = {
    ("replication.flush_lag", ""): 8192.0,
    ("replication.replay_lag", ""): 65536.0,
    ("replication.replay_delay", ""): 0.5,
    ("vmstat.r", ""): 3.0,
    ("vmstat.b", ""): 1.0,
    ("vmstat.swpd", ""): 100 * MB,
    ("vmstat.free", ""): 2000 * MB,
    ("vmstat.buff", ""): 10 * MB,
    ("vmstat.cache", ""): 3100 * MB,
    ("vmstat.available", ""): 5000 * MB,
    ("vmstat.si", ""): 4096.0,
    ("vmstat.so", ""): 8192.0,
    ("vmstat.bi", ""): 4096.0,
    ("vmstat.bo", ""): 4e6,
    ("vmstat.in", ""): 9000.0,
    ("vmstat.cs", ""): 20_000.0,
    ("vmstat.us", ""): 0.8 / CPU,
    ("vmstat.sy", ""): 0.5 / CPU,
    ("vmstat.id", ""): 0.5 / CPU,
    ("vmstat.wa", ""): 0.2 / CPU,
    ("vmstat.st", ""): 0.001 / CPU,
    ("vmstat.cpus", ""): 2.0,
    ("loadavg.1", ""): 2.5,
    ("iostat.r", "vda"): 1.0,
    ("iostat.w", "vda"): 500.0,
    ("iostat.d", "vda"): 2.0,
    ("iostat.f", "vda"): 50.0,
    ("iostat.r_bytes", "vda"): 4096.0,
    ("iostat.w_bytes", "vda"): 4e6,
    ("iostat.d_bytes", "vda"): 8192.0,
    ("iostat.rrqm", "vda"): 0.5,
    ("iostat.wrqm", "vda"): 20.0,
    ("iostat.r_await", "vda"): 0.002,
    ("iostat.w_await", "vda"): 0.001,
    ("iostat.d_await", "vda"): 0.002,
    ("iostat.f_await", "vda"): 0.002,
    ("iostat.rareq", "vda"): 4096.0,
    ("iostat.wareq", "vda"): 8000.0,
    ("iostat.aqu", "vda"): 0.6,
    ("iostat.util", "vda"): 0.4,
    ("iostat.iops", "vda"): 501.0,
    ("iostat.bytes", "vda"): 4_004_096.0,
    ("dirty.bytes", ""): 60 * MB,
    ("dirty.writeback", ""): 4 * MB,
    ("dirty.threshold", ""): 640 * MB,
    ("dirty.background", ""): 320 * MB,
    ("dirty.share", ""): 0.1,
    ("dirty.background_share", ""): 0.1875,
    ("throttling.pauses", ""): 4.0,
    ("throttling.paused", ""): 0.2,
    ("reclaim.direct", ""): 20.0,
    ("reclaim.efficiency", ""): 0.5,
    ("reclaim.kswapd", ""): 200.0,
    ("reclaim.throttled", ""): 4.0,
    ("reclaim.stall", ""): 3.0,
    ("reclaim.refault", ""): 13.0,
    ("reclaim.major", ""): 6.0,
    ("reclaim.slabs", ""): 30.0,
    ("huge.explicit", ""): 70.0,
    ("huge.page_tables", ""): 6 * MB,
    ("huge.transparent", ""): 20 * MB,
    ("watermark.free", ""): 2000 * MB,
    ("watermark.low", ""): 80 * MB,
    ("watermark.min", ""): 64 * MB,
    ("psi.cpu", ""): 0.3,
    ("psi.memory", ""): 0.02,
    ("psi.io", ""): 0.1,
    ("psi.memory.full", ""): 0.01,
    ("psi.io.full", ""): 0.05,
    ("cgroup.cpu", ""): 0.95,
    ("cgroup.throttled", ""): 0.05,
    ("cgroup.memory", ""): 800 * MB,
    ("cgroup.memory_limit", ""): 1024 * MB,
    ("cgroup.memory_share", ""): 0.78125,
    ("cgroup.swapped", ""): 7 * MB,
    ("cgroup.si", ""): 3 * 4096.0,
    ("cgroup.swappiness", ""): 10.0,
    ("cgroup.reads", "vda"): 1.0,
    ("cgroup.writes", "vda"): 400.0,
    ("cgroup.read_bytes", "vda"): 4096.0,
    ("cgroup.write_bytes", "vda"): 3.2e6,
    ("server.cpu", "checkpointer"): 0.01,
    ("server.cpu", "client backend"): 0.9,
    ("server.cpu_queue", "client backend"): 0.25,
    ("pgbench.cpu", ""): 0.3,
    ("pgbench.cpu_queue", ""): 0.1,
    ("db.hit", ""): 40_000.0,
    ("db.read", ""): 10.0,
    ("db.evictions", ""): 11.0,
    ("db.hit_ratio", ""): 40_000 / 40_010,
    ("db.commits", ""): 1000.0,
    ("db.rows", ""): 5001.0,
    ("db.tuples_returned", ""): 5000.0,
    ("db.temp_bytes", ""): 0.0,
    ("db.deadlocks", ""): 0.5,
    ("tables.bytes", ""): 13 * MB + 8192,
    ("tables.indexes", ""): 2 * MB + 16384,
    ("tables.dead", ""): 3050.0,
    ("tables.dead_share", ""): 3050 / 103_051,
    ("tables.row_bytes", ""): (13 * MB + 8192) / 100_001,
    ("db.blk_read_time", ""): 0.02,
    ("db.blk_write_time", ""): 0.01,
    ("statements.calls", ""): 4000.0,
    ("statements.rows", ""): 5000.0,
    ("statements.dirtied", ""): 600.0,
    ("statements.hit", ""): 39_000.0,
    ("statements.read", ""): 8.0,
    ("statements.read_per_dirtied", ""): 39_008 / 600,
    ("statements.written", ""): 6.0,
    ("wal.bytes", ""): 600_000.0,
    ("wal.fpi", ""): 20.0,
    ("wal.syncs", ""): 45.0,
    ("wal.sync_time", ""): 0.2,
    ("wal.buffers_full", ""): 3.0,
    ("checkpoints.timed", ""): 0.0,
    ("checkpoints.requested", ""): 0.0,
    ("checkpoints.buffers", ""): 100.0,
    ("checkpoints.write_time", ""): 0.5,
    ("checkpoints.sync_time", ""): 0.01,
    ("bgwriter.buffers", ""): 30.0,
    ("backend.buffers", ""): 8.0,
    ("slru.read", "transaction"): 2.0,
    ("slru.hit", "transaction"): 800.0,
    ("locks.waiting", ""): 4.0,
    ("locks.chain", ""): 2.0,
    ("vacuum.running", ""): 1.0,
    ("analyze.running", ""): 1.0,
    # 4 clients: 0.3, 0.1 and 0.4 of them active, 0.2 idle.
    ("waits.CPU", ""): 1.2,
    ("waits.IO", ""): 0.4,
    ("waits.LWLock", ""): 1.6,
    ("wait.CPU", ""): 1.2,
    ("wait.IO", "WALSync"): 0.4,
    ("wait.LWLock", "WALWrite"): 1.6,
    ("sessions.active", ""): 3.2,
    ("sessions.idle", ""): 0.8,
    ("sessions.idle_in_transaction", ""): 0.0,
    ("sessions.autovacuum", ""): 0.0,
}
# These runs have none; see test_a_pooler_has_series_of_its_own.
OF_POOLER = {
    "pgbouncer.waiting": 3.0,
    "pgbouncer.wait": 0.05,
    "pgbouncer.servers": 10.0,
    "pgbouncer.servers_active": 8.0,
    "pgbouncer.tps": 400.0,
    "pgbouncer.cpu": 0.3,
    "pgbouncer.cpu_queue": 0.1,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 4 s with every metric there is."""
    folder = tmp_path_factory.mktemp("timelines") / "detailed"
    return write_result_folder(folder, text=SHORT, simulation=detailed_simulation(), runs=2)


@pytest.fixture
def two(template: Path, tmp_path: Path) -> Path:
    """A result folder of its own with two runs."""
    return shutil.copytree(template, tmp_path / "it's two")


def read(folder: Path) -> tuple[Timeline, ...]:
    evidence = read_evidence(folder)
    # Which files there are is all that timelines want to know of a reduction.
    samples, waits = (_files(evidence, name)[1] for name in (layout.SAMPLES, layout.WAITS))
    return read_timelines(evidence, Reduction(without_samples=samples, without_waits=waits))


def read_samples(folder: Path, *readings: tuple[str, str, Sequence[tuple[float, float]]]) -> Timeline:
    """The first run's timeline from (metric, object, readings), whose times are seconds since measuring began."""
    start, _ = first_window(folder)
    samples = [Sample(start + t, metric, about, value) for metric, about, found in readings for t, value in found]
    write_samples(samples, first_file(folder, layout.SAMPLES))
    return read(folder)[0]


def series(timeline: Timeline, metric: str, about: str = "") -> list[float]:
    found = timeline.get(metric, about)
    assert found is not None
    return found.tolist()


def near(*expected: float) -> object:
    return pytest.approx(list(expected), rel=1e-6, abs=1e-6, nan_ok=True)


def is_of_machine(name: str) -> bool:
    metric = find_metric(name)
    return isinstance(metric, TimelineMetric) and not metric.is_of_server


def steady(rate: float, *, base: float = 0.0) -> list[tuple[float, float]]:
    """Readings of a counter that grows evenly, a second apart and not aligned to the measured time."""
    return [(k - 0.3, base + rate * k) for k in range(-1, 7)]


@pytest.fixture(scope="module")
def detailed(template: Path) -> tuple[Timeline, ...]:
    return read(template)


def test_every_metric_is_what_its_definition_says(detailed: tuple[Timeline, ...]) -> None:
    first, _ = detailed

    assert set(first.series) == set(EXPECTED)
    assert {name for name, _ in first.series} >= {metric.name for metric in METRICS} - set(OF_POOLER)
    for key, expected in EXPECTED.items():
        assert series(first, *key) == near(*[expected] * 4), key


def test_a_pooler_has_series_of_its_own(two: Path) -> None:
    def stays(value: float) -> list[tuple[float, float]]:
        return [(k - 0.3, value) for k in range(-1, 7)]

    timeline = read_samples(
        two,
        ("pgbouncer.clients_waiting", "", stays(3.0)),
        ("pgbouncer.servers", "", stays(10.0)),
        ("pgbouncer.servers_active", "", stays(8.0)),
        ("pgbouncer.wait_time", "", steady(20.0)),
        ("pgbouncer.transactions", "", steady(400.0)),
        ("pgbouncer_cpu.run", "", steady(0.3)),
        ("pgbouncer_cpu.queue", "", steady(0.1)),
    )

    assert {metric.name for metric in METRICS if metric.name.startswith("pgbouncer")} == set(OF_POOLER)
    for name, expected in OF_POOLER.items():
        assert series(timeline, name) == near(*[expected] * 4), name


def test_every_series_is_explained(detailed: tuple[Timeline, ...]) -> None:
    assert all(find_metric(name) is not None for each in detailed for name, _ in each.series)


def test_several_threads_find_the_same(
    template: Path, detailed: tuple[Timeline, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_LITTLE", 0)

    for one, other in zip(read(template), detailed, strict=True):
        assert one.series == {key: pytest.approx(value) for key, value in other.series.items()}


def test_a_timeline_says_what_it_is_of(template: Path, detailed: tuple[Timeline, ...]) -> None:
    evidence = read_evidence(template)

    for timeline, run in zip(detailed, evidence.valid, strict=True):
        (phase,) = measured(run)
        assert (timeline.run, timeline.arm, timeline.block) == (run.id, run.slot.arm, run.slot.block)
        assert (timeline.level, timeline.started, timeline.offset) == (0, phase.start, 0.0)
        assert timeline.seconds == 4


def test_commits_and_their_latency_are_of_all_scenarios(two: Path) -> None:
    rows = [
        TransactionRow(level=0, second=0, scenario="a", count=100, latency=0.01),
        TransactionRow(level=0, second=0, scenario="b", count=300, latency=0.03),
        TransactionRow(level=0, second=3, scenario="a", count=50, latency=0.02),
        TransactionRow(level=0, second=4, scenario="a", count=9, latency=0.02),
    ]
    write_transactions(rows, first_file(two, layout.TRANSACTIONS))

    timeline = read(two)[0]

    assert timeline.tps.tolist() == [400, 0, 0, 50]
    assert timeline.latency.tolist() == near(0.025, NAN, NAN, 0.02)


def test_levels_follow_one_another(tmp_path: Path) -> None:
    text = SHORT.replace("clients = 4", "clients = [4, 9]")
    folder = write_result_folder(tmp_path / "levels", text=text, simulation=detailed_simulation(), runs=1)

    first, second = read(folder)

    assert [(each.level, each.offset) for each in (first, second)] == [(0, 0.0), (1, 4.0)]
    assert second.started == pytest.approx(first.started + 4)
    assert series(second, "sessions.active") == near(*[0.8 * 9] * 4)
    assert series(second, "iostat.w", "vda") == near(*[500] * 4)


def test_a_reset_is_unknown_only_while_it_lasts(two: Path) -> None:
    readings = [(k - 0.3, 100.0 * k if k < 3 else 100.0 * (k - 3)) for k in range(-1, 7)]

    timeline = read_samples(two, ("pg_stat_wal.wal_bytes", "", readings), ("proc_stat.ctxt", "", steady(50)))

    assert series(timeline, "wal.bytes") == near(100, NAN, NAN, 100)
    assert series(timeline, "vmstat.cs") == near(50, 50, 50, 50)


def test_a_gap_is_unknown(two: Path) -> None:
    readings = [(-0.5, 0.0), (0.5, 10.0), (3.5, 40.0), (4.5, 50.0)]

    timeline = read_samples(two, ("pg_stat_wal.wal_bytes", "", readings))

    assert series(timeline, "wal.bytes") == near(NAN, NAN, NAN, NAN)


def test_idle_time_may_go_back_a_little(two: Path) -> None:
    idle = [(-1.0, 99.0), (0.0, 100.0), (1.0, 101.0), (2.0, 100.98), (3.0, 102.0), (4.0, 103.0)]
    others = [
        ("proc_stat.cpu_" + use, "all", [(float(k), 7.0 + rate * k) for k in range(-1, 6)])
        for use, rate in (
            ("user", 1),
            ("nice", 0),
            ("system", 0),
            ("irq", 0),
            ("softirq", 0),
            ("iowait", 0),
            ("steal", 0),
        )
    ]

    timeline = read_samples(two, ("proc_stat.cpu_idle", "all", idle), *others)

    assert series(timeline, "vmstat.id") == near(0.5, 0.0, 0.5, 0.5)


def test_devices_have_their_own_series(two: Path) -> None:
    timeline = read_samples(
        two,
        ("disk.reads", "vda", steady(10)),
        ("disk.reads", "nvme0n1", steady(0)),
        ("disk.read_time", "vda", steady(0.5)),
        ("disk.read_time", "nvme0n1", steady(0)),
        ("disk.io_time", "vda", steady(0.25)),
    )

    assert timeline.objects("iostat.r") == ("nvme0n1", "vda")
    assert timeline.objects("iostat.util") == ("vda",)
    assert series(timeline, "iostat.r_await", "vda") == near(*[0.05] * 4)
    assert series(timeline, "iostat.r_await", "nvme0n1") == near(*[NAN] * 4)


def test_what_was_not_read_has_no_series(two: Path) -> None:
    timeline = read_samples(two, ("proc_stat.procs_running", "", [(0.2, 1.0), (1.2, 5.0), (2.2, 0.0), (3.2, 2.0)]))

    assert {key for key in timeline.series if not key[0].startswith(("wait", "sessions."))} == {("vmstat.r", "")}
    assert series(timeline, "vmstat.r") == near(0, 4, 0, 1)


def test_a_sum_needs_all_its_parts_unless_kernels_differ_in_them(two: Path) -> None:
    timeline = read_samples(
        two,
        ("pg_stat_database.tup_inserted", "", steady(5)),
        ("proc_vmstat.allocstall_normal", "", steady(2)),
        ("proc_vmstat.workingset_refault_file", "", steady(2)),
    )

    assert timeline.get("db.rows") is None
    assert timeline.get("reclaim.refault") is None
    assert series(timeline, "reclaim.stall") == near(2, 2, 2, 2)


def test_another_source_stands_for_one_that_a_version_does_not_have(two: Path) -> None:
    timeline = read_samples(
        two,
        ("pg_stat_io.fsyncs", "client backend/wal/normal", steady(40)),
        ("pg_stat_io.fsyncs", "walwriter/wal/normal", steady(2)),
        ("pg_stat_io.fsyncs", "checkpointer/relation/normal", steady(500)),
        ("pg_stat_bgwriter.buffers_backend", "", steady(9)),
        ("proc_vmstat.workingset_refault", "", steady(3)),
        ("cgroup.memory_high", "", [(k + 0.1, 5 * MB) for k in range(4)]),
    )

    assert series(timeline, "wal.syncs") == near(*[42] * 4)
    assert series(timeline, "backend.buffers") == near(*[9] * 4)
    assert series(timeline, "reclaim.refault") == near(*[3] * 4)
    assert series(timeline, "cgroup.memory_limit") == near(*[5 * MB] * 4)
    assert timeline.get("wal.sync_time") is None


def test_pages_have_the_size_of_those_in_which_the_kernel_tells_what_is_mapped(two: Path) -> None:
    gauges = {"proc_meminfo.Mapped": 65536.0 * 1003, "proc_vmstat.nr_mapped": 1000.0, "zoneinfo.low": 7.0}
    known = [(name, "", [(k + 0.1, value) for k in range(4)]) for name, value in gauges.items()]

    timeline = read_samples(two, *known, ("proc_vmstat.pswpin", "", steady(2)))
    without = read_samples(two, *known[1:], ("proc_vmstat.pswpin", "", steady(2)))

    assert series(timeline, "watermark.low") == near(*[7 * 65536.0] * 4)
    assert series(timeline, "vmstat.si") == near(*[2 * 65536.0] * 4)
    assert without.get("watermark.low") is None
    assert without.get("vmstat.si") is None


def test_what_comes_and_goes_is_zero_while_it_is_not_there(two: Path) -> None:
    timeline = read_samples(
        two,
        ("pg_locks.waiting", "", [(0.1, 0.0), (1.1, 0.0), (4.1, 0.0)]),
        ("pg_locks.waiting", "transactionid/ShareLock", [(2.1, 2.0), (3.1, 1.0)]),
        ("pg_locks.waiting", "tuple/ExclusiveLock", [(2.1, 5.0)]),
    )

    assert series(timeline, "locks.waiting") == near(0, 0, 7, 1)


def test_a_process_that_starts_later_has_used_nothing_before(two: Path) -> None:
    timeline = read_samples(
        two,
        ("backend_cpu.run", "client backend", steady(0.9)),
        ("backend_cpu.run", "autovacuum worker", [(1.7, 0.0), (2.7, 0.5), (3.7, 0.5), (4.7, 0.5)]),
    )

    assert series(timeline, "server.cpu", "client backend") == near(*[0.9] * 4)
    assert series(timeline, "server.cpu", "autovacuum worker") == near(0, 0.15, 0.35, 0)


def test_statements_are_read_less_often(two: Path) -> None:
    timeline = read_samples(
        two,
        ("pg_stat_statements.calls", "", [(-7.0, 0.0), (3.0, 100.0), (13.0, 600.0)]),
        ("proc_stat.ctxt", "", [(-7.0, 0.0), (3.0, 100.0), (13.0, 600.0)]),
    )

    assert series(timeline, "statements.calls") == near(10, 10, 10, 50)
    assert series(timeline, "vmstat.cs") == near(*[NAN] * 4)


Poll = tuple[float, str, str, str, str, int]  # seconds since measuring began, application, state, type, event, sessions


def write_polls(folder: Path, *polls: Poll) -> None:
    """waits.parquet of the first run, ten polls a second; without an application a row is of an autovacuum worker."""
    start, _ = first_window(folder)
    rows = [
        WaitRow(
            start + t, 10, "client backend" if name else "autovacuum worker", name, state, type_, event, "", sessions
        )
        for t, name, state, type_, event, sessions in polls
    ]
    write_waits(rows, first_file(folder, layout.WAITS))


def test_sessions_are_averages_over_the_polls_of_a_second(two: Path) -> None:
    write_polls(
        two,
        (0.0, "pgtrial/a", "active", "", "", 20),
        (0.0, "pgtrial/b", "active", "", "", 10),
        (0.0, "pgtrial/a", "active", "IO", "WalSync", 5),
        (0.0, "pgtrial/a", "active", "IO", "DataFileRead", 15),
        (0.0, "pgtrial/a", "idle in transaction", "Client", "ClientRead", 7),
        (0.0, "pgtrial/a", "idle in transaction (aborted)", "Client", "ClientRead", 1),
        (0.0, "psql", "active", "", "", 100),
        (0.0, "", "active", "IO", "DataFileRead", 10),
        (1.0, "pgtrial/a", "idle", "Client", "ClientRead", 40),
        (2.0, "pgtrial/a", "active", "IO", "WalSync", 30),
        (3.0, "pgtrial/a", "active", "IO", "WalSync", 10),
    )

    timeline = read(two)[0]

    assert series(timeline, "waits.CPU") == near(3, 0, 0, 0)
    assert series(timeline, "waits.IO") == near(2, 0, 3, 1)
    assert series(timeline, "wait.IO", "WalSync") == near(0.5, 0, 3, 1)
    assert series(timeline, "wait.IO", "DataFileRead") == near(1.5, 0, 0, 0)
    assert series(timeline, "sessions.active") == near(5, 0, 3, 1)
    assert series(timeline, "sessions.idle") == near(0, 4, 0, 0)
    assert series(timeline, "sessions.idle_in_transaction") == near(0.8, 0, 0, 0)
    assert series(timeline, "sessions.autovacuum") == near(1, 0, 0, 0)


def test_polls_that_are_not_aligned_count_by_their_share_of_a_second(two: Path) -> None:
    write_polls(two, *((k - 0.25, "pgtrial/a", "active", "", "", 10 * k) for k in range(6)))

    assert series(read(two)[0], "waits.CPU") == near(0.25, 1.25, 2.25, 3.25)


def test_seconds_without_polls_are_unknown(two: Path) -> None:
    write_polls(two, *((t, "pgtrial/a", "active", "", "", 10) for t in (-1.0, 0.0, 1.0, 3.6, 4.6)))

    assert series(read(two)[0], "waits.CPU") == near(1, NAN, NAN, NAN)


def test_a_wait_that_only_another_run_had_is_zero(two: Path) -> None:
    write_polls(two, *((float(k), "pgtrial/a", "active", "Lock", "tuple", 10) for k in range(5)))

    first, second = read(two)

    assert series(first, "waits.IO") == near(0, 0, 0, 0)
    assert series(first, "wait.LWLock", "WALWrite") == near(0, 0, 0, 0)
    assert series(second, "waits.Lock") == near(0, 0, 0, 0)
    assert series(second, "wait.Lock", "tuple") == near(0, 0, 0, 0)


def test_a_run_without_files_has_throughput_all_the_same(two: Path) -> None:
    first_file(two, layout.SAMPLES).unlink()
    first_file(two, layout.WAITS).unlink()

    first, second = read(two)

    assert first.series == {}
    assert first.tps.min() > 0
    assert second.series


LONG = 60 * 3600  # s


def make_long(folder: Path, *, every: int) -> tuple[Timeline, ...]:
    """The first run took 60 hours, with a transaction in each 200 s and a reading in each ``every`` s."""
    start, _ = first_window(folder)
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        db.execute("UPDATE phase SET ended = started + ? WHERE name = 'measure' AND started = ?", [LONG, start])
        db.commit()
    write_transactions(
        [TransactionRow(level=0, second=k, scenario="a", count=1, latency=150) for k in range(0, LONG, 200)],
        first_file(folder, layout.TRANSACTIONS),
    )
    first_file(folder, layout.WAITS).unlink()
    samples = (Sample(start + t, "proc_meminfo.MemFree", "", 1.0) for t in range(0, LONG, every))
    write_samples(samples, first_file(folder, layout.SAMPLES))
    return read(folder)


def test_a_long_run_of_few_transactions_is_read_where_there_are_readings_of_its_time(two: Path) -> None:
    first, _ = make_long(two, every=1)

    assert (first.seconds, first.tps.sum()) == (LONG, LONG / 200)
    assert np.isfinite(first.series["vmstat.free", ""]).all()


def test_a_run_is_not_as_long_as_it_says_where_nearly_nothing_is_known_of_that_time(two: Path) -> None:
    with pytest.raises(StoreError, match=r"damaged: of the 216,000 s .* 1,080 have a transaction, .* 1,000 readings"):
        make_long(two, every=216)


@pytest.mark.parametrize("name", [layout.SAMPLES, layout.WAITS, layout.TRANSACTIONS])
def test_a_damaged_file_is_named_as_the_run_s(two: Path, name: str) -> None:
    evidence = read_evidence(two)
    first_file(two, name).write_bytes(b"PAR1 no more")

    with pytest.raises(StoreError, match=r'cannot read run \d+ of ".*two"'):
        read_timelines(evidence, Reduction())


def test_without_valid_runs_there_are_no_timelines(template: Path) -> None:
    evidence: Evidence = replace(read_evidence(template), valid=())

    assert read_timelines(evidence, Reduction()) == ()


@pytest.mark.parametrize("text", [INTERLEAVED, DUET], ids=["interleaved", "duet"])
def test_arms_that_share_time_have_what_their_servers_tell(text: str, tmp_path: Path) -> None:
    short = text.replace("blocks = 6", "blocks = 1").replace("clients = 4", "clients = [4, 9]")
    folder = write_result_folder(tmp_path / "shared", text=short, simulation=detailed_simulation())

    timelines = read(folder)

    assert {each.arm for each in timelines} >= {"on", "off"}
    for each in timelines:
        assert each.seconds >= 6
        assert {key for key in each.series if is_of_machine(key[0])} == set()
        # A server that stands still counts that as its time, of flushes and reads; those of a duet do not.
        timed = {metric.name for metric in METRICS if metric.is_timed}
        told = {metric.name for metric in METRICS if metric.is_of_server} - set(OF_POOLER)
        assert "wal.sync_time" in timed
        assert "server.cpu_queue" not in timed
        assert {name for name, _ in each.series} >= (told - timed if text == INTERLEAVED else told)
        assert text == DUET or not timed & {name for name, _ in each.series}
        for key in (("wal.bytes", ""), ("db.hit", ""), ("server.cpu", "client backend"), ("pgbench.cpu", "")):
            # An arm's own clock and the slicer's differ by the moments in which it changes from slice to slice.
            assert series(each, *key) == pytest.approx([EXPECTED[key]] * each.seconds, rel=0.01), key
        clients = 4 if each.level == 0 else 9
        assert series(each, "waits.LWLock") == near(*[0.4 * clients] * each.seconds)
    by_level = [[each for each in timelines if each.level == level and each.arm == "on"] for level in (0, 1)]
    assert by_level[0][0].offset == 0
    assert by_level[1][0].offset == pytest.approx(by_level[0][0].seconds, abs=1)


def test_a_divisor_of_zero_is_unknown() -> None:
    metric = next(metric for metric in METRICS if metric.name == "iostat.wareq")
    arrays = {"disk.write_bytes": np.array([0.0, 8192.0, 5.0]), "disk.writes": np.array([0.0, 2.0, NAN])}

    found = compute(metric, lambda source: {"vda": arrays[source.metric]}, page_size=None)

    assert found["vda"].tolist() == near(NAN, 4096, NAN)
