"""Constructed loads whose limit is known, beside those that look alike and have another one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.causes.limit_rules import Facts, Scene
from pgtrial.analysis.causes.limit_rules.base import Relief
from pgtrial.analysis.causes.limit_rules.parts import is_data
from pgtrial.analysis.causes.limits import find_limits, gather_facts, judge_scene, rank_suspects, what_changed
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.reduction import Reduction
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.causes import Limit, Resource, Suspect
from pgtrial.findings.message import message, say, verbatim
from pgtrial.findings.record import Estimate
from pgtrial.findings.session_time import (
    BLOCKED,
    CPU,
    CPU_QUEUE,
    IDLE_IN_TRANSACTION,
    OUTSIDE,
    POOL,
    SCHEDULE_LAG,
    BudgetPart,
    LatencyBudget,
)
from pgtrial.model.run import LoadLevel
from support import EXPERIMENT, write_result_folder

Judge = Callable[..., Limit]
Series = Mapping[Any, Any]

LATENCY = 0.01  # s
SECONDS = 60
# An idle machine of two CPUs; what a test is about replaces some of it.
QUIET: Series = {
    "vmstat.us": 0.2,
    "vmstat.sy": 0.1,
    "vmstat.st": 0.0,
    "vmstat.r": 1.0,
    "vmstat.cpus": 2.0,
    "vmstat.si": 0.0,
    "vmstat.so": 0.0,
    "psi.memory": 0.0,
    "reclaim.direct": 0.0,
    "dirty.share": 0.1,
    "dirty.threshold": 4e9,
    "dirty.background": 2e9,
    "pgbench.cpu": 0.1,
    "db.temp_bytes": 0.0,
    "locks.chain": 0.0,
    "sessions.autovacuum": 0.0,
    "checkpoints.buffers": 0.0,
    "checkpoints.timed": 0.0,
    "checkpoints.requested": 0.0,
}
BUSY: Series = {**QUIET, "vmstat.us": 0.75, "vmstat.sy": 0.22, "vmstat.r": 7.0}
READ = ("IO", "DataFileRead")


def budget(shares: Mapping[tuple[str, str], float], *, arm: str = "on", level: int = 0) -> LatencyBudget:
    """Parts by their share of the latency; what is left is outside the server."""
    parts = {**shares, (OUTSIDE, ""): 1 - sum(shares.values())}
    return LatencyBudget(
        arm=arm,
        load_level=level,
        scenario=None,
        latency=Estimate(value=LATENCY),
        parts=tuple(
            BudgetPart(kind=kind, event=event, seconds=Estimate(value=share * LATENCY))
            for (kind, event), share in sorted(parts.items(), key=lambda item: -abs(item[1]))
        ),
        closure=None,
    )


def disk(rate: Any, *, size: float = 8192.0, queue: float = 6.0, await_: float = 0.002) -> Series:
    """A device that reads."""
    rates = np.asarray(rate, dtype=float)
    return {
        ("iostat.r", "vda"): rates,
        ("iostat.w", "vda"): 2.0,
        ("iostat.iops", "vda"): rates + 2.0,
        ("iostat.r_bytes", "vda"): rates * size,
        ("iostat.w_bytes", "vda"): 2 * 8192.0,
        ("iostat.bytes", "vda"): rates * size + 2 * 8192.0,
        ("iostat.aqu", "vda"): queue,
        ("iostat.r_await", "vda"): await_,
        ("iostat.w_await", "vda"): 0.001,
    }


def free(rate: float, *, seed: int = 1) -> np.ndarray[Any, Any]:
    """Demand that no ceiling holds: it scatters as a Poisson process does."""
    return np.random.default_rng(seed).poisson(rate, SECONDS).astype(float)


def held(rate: float, *, seed: int = 1) -> np.ndarray[Any, Any]:
    """A limiter hands out the same number each second, but for the moment at which it is read."""
    return rate + np.random.default_rng(seed).uniform(-2, 2, SECONDS)


@pytest.fixture
def make_scene(make_timeline: Callable[..., Timeline]) -> Callable[..., Scene]:
    """Two runs of a load with the given parts of its latency, on a machine with the given figures."""

    def make(
        shares: Mapping[tuple[str, str], float] | None,
        series: Series = QUIET,
        *,
        clients: int = 8,
        rate: float | None = None,
        seconds: int = SECONDS,
        tps: Any = None,
        facts: Facts | None = None,
        below: Scene | None = None,
    ) -> Scene:
        return Scene(
            arm="on",
            level=LoadLevel(index=0, clients=clients, rate=rate),
            timelines=tuple(
                make_timeline(
                    dict(series),
                    run=run,
                    block=run,
                    seconds=seconds,
                    tps=clients / LATENCY if tps is None else tps,
                    latency=LATENCY,
                )
                for run in (1, 2)
            ),
            budget=None if shares is None else budget(shares),
            facts=facts or Facts(),
            below=below,
        )

    return make


@pytest.fixture
def judge(make_scene: Callable[..., Scene]) -> Judge:
    return lambda *about, **more: judge_scene(make_scene(*about, **more))


def suspect(limit: Limit, resource: Resource) -> Suspect | None:
    return next((each for each in limit.suspects if each.resource is resource), None)


def strength(limit: Limit, resource: Resource) -> float:
    found = suspect(limit, resource)
    return found.strength if found else 0.0


# --- CPU ------------------------------------------------------------------------------------------------------------


def test_the_cpu_limits_when_none_is_free_and_transactions_want_it(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.3, (CPU_QUEUE, ""): 0.45}, BUSY)

    assert (limit.resource, say(limit.detail)) == (Resource.CPU, "")
    assert "97 % busy" in say(limit.text)
    assert "75 % of the latency is on a CPU or waiting for one" in say(limit.text)
    assert [proof.metric for proof in limit.suspects[0].evidence] == [
        *("vmstat.us+sy+st", "latency.CPU", "latency.CPU/server", "vmstat.r")
    ]


def test_clients_that_wait_for_a_cpu_of_the_same_machine_are_limited_by_it(judge: Judge) -> None:
    shares = {(IDLE_IN_TRANSACTION, ""): 0.6, (CPU, ""): 0.05, (CPU_QUEUE, ""): 0.1}
    facts = Facts(threads={0: 2})

    assert judge(shares, {**BUSY, "pgbench.cpu": 0.1, "pgbench.cpu_queue": 1.5}, facts=facts).resource is Resource.CPU
    # A client that pauses queues for nothing, whatever else makes the machine busy.
    pausing = judge(shares, {**BUSY, "pgbench.cpu": 0.1, "pgbench.cpu_queue": 0.02}, facts=facts)
    assert pausing.resource is Resource.CLIENT


def test_a_busy_machine_on_which_transactions_do_nothing_is_said_to_be_busy(judge: Judge) -> None:
    limit = judge({(IDLE_IN_TRANSACTION, ""): 0.9}, BUSY)

    assert "the CPUs are 97 % busy, but transactions hardly use them; the latency is mostly idle" in say(limit.text)


def test_few_clients_that_compute_all_the_time_are_not_limited_by_a_cpu_of_which_half_is_free(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.9}, {**QUIET, "vmstat.us": 0.45, "vmstat.sy": 0.05}, clients=1)

    assert limit.resource is Resource.UNDETERMINED
    assert "50 % busy" in say(limit.text)
    assert "mostly CPU 90 %" in say(limit.text)


def test_a_quota_limits_the_cpu_of_an_idle_machine(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.1, (CPU_QUEUE, ""): 0.8}, {**QUIET, "cgroup.throttled": 1.4})

    assert (limit.resource, say(limit.detail)) == (Resource.CPU, "quota of the control group")


def test_sessions_kept_from_the_free_cpus_of_a_machine_are_limited_by_those_they_have(judge: Judge) -> None:
    # A container on one of many CPUs, of whose quota nobody told.
    shares = {(CPU, ""): 0.12, (CPU_QUEUE, ""): 0.78}
    limit = judge(shares, {**QUIET, "vmstat.us": 0.07, "vmstat.sy": 0.03, "vmstat.cpus": 16.0})

    assert (limit.resource, say(limit.detail)) == (Resource.CPU, "the machine has more than the server may use")
    assert "wait for one 87 % of the time" in say(limit.text)
    # Two busy CPUs of three make sessions wait by chance: no name for that.
    by_chance = judge({(CPU, ""): 0.5, (CPU_QUEUE, ""): 0.4}, {**QUIET, "vmstat.us": 0.5, "vmstat.sy": 0.15})
    assert by_chance.resource is Resource.UNDETERMINED


def test_stolen_cpu_time_is_named(judge: Judge) -> None:
    limit = judge(
        {(CPU, ""): 0.4, (CPU_QUEUE, ""): 0.4}, {**BUSY, "vmstat.us": 0.5, "vmstat.sy": 0.1, "vmstat.st": 0.38}
    )

    assert limit.resource is Resource.CPU
    assert "hypervisor" in say(limit.detail)


def test_where_the_machine_was_not_seen_sessions_that_wait_for_a_cpu_tell(judge: Judge) -> None:
    assert judge({(CPU, ""): 0.3, (CPU_QUEUE, ""): 0.5}, {}).resource is Resource.CPU
    assert judge({(CPU, ""): 0.78, (CPU_QUEUE, ""): 0.02}, {}).resource is Resource.UNDETERMINED
    assert judge({(CPU, ""): 0.8}, {}).resource is Resource.UNDETERMINED


def test_a_busy_cpu_is_not_the_limit_where_transactions_wait_for_the_disk(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.15, (CPU_QUEUE, ""): 0.1, READ: 0.65}, {**BUSY, **disk(free(800), queue=5.0)})

    assert limit.resource is Resource.DISK_LATENCY
    assert strength(limit, Resource.CPU) < 0.1


def test_reads_from_the_page_cache_are_cpu_time(judge: Judge) -> None:
    shares = {(CPU, ""): 0.15, (CPU_QUEUE, ""): 0.2, READ: 0.5}

    assert judge(shares, {**BUSY, **disk(free(20), queue=0.02)}).resource is Resource.CPU
    assert judge(shares, {**BUSY, **disk(free(900), queue=3.9)}).resource is Resource.DISK_LATENCY


def test_leaders_of_parallel_queries_wait_for_workers_that_compute(judge: Judge) -> None:
    shares = {(CPU, ""): 0.1, (CPU_QUEUE, ""): 0.05, ("IPC", "ExecuteGather"): 0.5, ("IPC", "HashBuildHashInner"): 0.3}

    def workers(cpus: float, queue: float) -> dict[Any, float]:
        return {("server.cpu", "parallel worker"): cpus, ("server.cpu_queue", "parallel worker"): queue}

    limit = judge(shares, {**BUSY, **workers(1.7, 8.0)})
    assert limit.resource is Resource.CPU
    assert "95 % of the latency is on a CPU or waiting for one, that of parallel workers included" in say(limit.text)
    # Workers that wait themselves compute nothing for anybody.
    assert strength(judge(shares, {**BUSY, **workers(0.1, 0.1)}), Resource.CPU) < 0.1
    # And those who wait for a standby do not wait for them.
    other = {(CPU, ""): 0.1, (CPU_QUEUE, ""): 0.05, ("IPC", "SyncRep"): 0.8}
    assert strength(judge(other, {**BUSY, **workers(1.7, 8.0)}), Resource.CPU) < 0.1


def test_reads_that_are_held_back_before_the_device_are_no_cpu_time(judge: Judge) -> None:
    """Hardly anything is under way at the device in both cases; the kernel's accounts tell them apart."""
    shares = {(CPU, ""): 0.1, (CPU_QUEUE, ""): 0.15, READ: 0.6}
    series = {**BUSY, **disk(free(900), queue=0.1)}

    def accounts(queue: float) -> dict[Any, float]:
        return {("server.cpu", "client backend"): 0.5, ("server.cpu_queue", "client backend"): queue}

    # 2 of 8 sessions are known to want a CPU: none is left over, or all those in reads.
    assert strength(judge(shares, {**series, **accounts(1.5)}), Resource.CPU) == 0
    assert judge(shares, {**series, **accounts(6.0)}).resource is Resource.CPU


# --- Devices --------------------------------------------------------------------------------------------------------


def test_requests_at_a_ceiling_with_a_queue_are_a_limit_of_requests(judge: Judge) -> None:
    limit = judge({READ: 0.85, (CPU, ""): 0.1}, {**QUIET, **disk(held(3000), queue=12.0)}, clients=16)

    assert (limit.resource, say(limit.detail)) == (Resource.DISK_IOPS, "vda")
    assert "3 k reads per second" in say(limit.text)
    assert strength(limit, Resource.DISK_LATENCY) < 0.1


def test_a_limit_before_the_device_is_seen_by_the_sessions_that_wait(judge: Judge) -> None:
    # A control group holds requests back before the device counts them: hardly any is under way there.
    limit = judge({READ: 0.9}, {**QUIET, **disk(held(3000), queue=0.3, await_=1e-4)}, clients=16)

    assert (limit.resource, say(limit.detail)) == (Resource.DISK_IOPS, "vda, limited before it gets there")


def test_a_control_group_at_its_limit_is_seen_beside_others_on_the_device(judge: Judge) -> None:
    series = {**QUIET, **disk(held(3000) + free(200), queue=1.0), ("cgroup.reads", "vda"): held(3000)}
    limit = judge({READ: 0.9}, series, clients=16)

    assert limit.resource is Resource.DISK_IOPS
    assert limit.suspects[0].evidence[0].metric == "cgroup.reads/vda"


@pytest.mark.parametrize(
    ("metric", "limit", "resource"),
    [("cgroup.reads", 3000.0, Resource.DISK_IOPS), ("cgroup.read_bytes", 3000 * 8192.0, Resource.DISK_THROUGHPUT)],
)
def test_a_limit_that_is_known_is_named_whatever_single_seconds_do(
    judge: Judge, metric: str, limit: float, resource: Resource
) -> None:
    scattered = 2900 * np.random.default_rng(3).uniform(0.7, 1.3, SECONDS)
    series = {**QUIET, **disk(scattered, queue=1.0), (metric, "vda"): scattered * limit / 3000}
    known, free_of_it = (
        judge({READ: 0.9}, series, clients=16, facts=Facts(device_limits={"on": {metric: value}}))
        for value in (limit, 2 * limit)
    )

    assert known.resource is resource
    assert "that its control group may have" in say(known.text)
    assert free_of_it.resource is not resource


def test_a_flush_is_explained_by_the_limit_of_writes_that_it_waits_for(judge: Judge) -> None:
    shares = {("LWLock", "WALWrite"): 0.75, ("IO", "WALSync"): 0.12}
    series = {**QUIET, ("cgroup.writes", "vda"): 149.0, "wal.syncs": 140.0}
    at_limit, far_from_it = (
        judge(shares, series, facts=Facts(device_limits={"on": {"cgroup.writes": limit}})) for limit in (150.0, 600.0)
    )

    assert at_limit.resource is Resource.DISK_IOPS
    assert "149 writes per second, of the 150 writes per second that its control group may have" in say(at_limit.text)
    assert "87 % of the latency is waiting for writes and flushes, most of it WALWrite" in say(at_limit.text)
    assert suspect(at_limit, Resource.WAL_FLUSH) is not None
    assert far_from_it.resource is Resource.WAL_FLUSH


def test_statements_that_sleep_are_the_clients_pause(judge: Judge) -> None:
    statements = {("on", 0): {("Timeout", "PgSleep"): {"SELECT pg_sleep(?)": 3.0}, (CPU, ""): {"SELECT ?": 0.1}}}
    limit = judge({("Timeout", "PgSleep"): 0.92}, facts=Facts(statements=statements))

    assert (limit.resource, say(limit.detail)) == (Resource.CLIENT, "pg_sleep in a statement")
    assert "100 % of that time is spent in “SELECT pg_sleep(?)”" in say(limit.text)


def test_what_another_arm_surely_saves_is_a_limit_where_a_share_alone_is_too_little(judge: Judge) -> None:
    """The first thing that anyone sees: the demonstration's control."""
    shares = {("LWLock", "WALWrite"): 0.2, ("IO", "WALSync"): 0.125, (CPU, ""): 0.2}
    waits = {("LWLock", "WALWrite"): 0.19 * LATENCY, ("IO", "WALSync"): 0.12 * LATENCY, (CPU, ""): 0.04 * LATENCY}
    relief = Relief(other="off", latency=LATENCY, saved=0.35 * LATENCY, parts=waits)

    assert judge(shares).resource is Resource.UNDETERMINED
    limit = judge(shares, facts=Facts(reliefs={("on", 0): [relief]}))
    assert limit.resource is Resource.WAL_FLUSH
    assert "off spends 3.1 ms less in it, 31 % of the latency" in say(limit.text)
    assert "that is 89 % of all that it saves" in say(limit.text)


@pytest.mark.parametrize(
    "relief",
    [
        Relief(other="off", latency=LATENCY, saved=0.05 * LATENCY, parts={("IO", "WALSync"): 0.05 * LATENCY}),
        Relief(other="off", latency=LATENCY, saved=0.9 * LATENCY, parts={("IO", "WALSync"): 0.15 * LATENCY}),
        Relief(other="off", latency=LATENCY, saved=0.4 * LATENCY, parts={(CPU, ""): 0.4 * LATENCY}),
    ],
)
def test_a_little_saved_and_a_small_part_of_it_and_cpu_time_prove_nothing(judge: Judge, relief: Relief) -> None:
    limit = judge({("IO", "WALSync"): 0.25, (CPU, ""): 0.4}, facts=Facts(reliefs={("on", 0): [relief]}))

    assert limit.resource is Resource.UNDETERMINED


def test_a_queue_for_the_cpu_names_the_statement_that_is_in_it(judge: Judge) -> None:
    seen = {"SELECT sum(qty) FROM items": 3.0, "SELECT ?": 1.0}
    facts = Facts(statements={("on", 0): {(CPU, ""): seen, ("IPC", "A"): seen}})
    busy = judge({(CPU, ""): 0.3, (CPU_QUEUE, ""): 0.45}, BUSY, facts=facts)
    unclear = judge({("IPC", "A"): 0.6}, facts=facts)

    assert "75 % of that time is spent in “SELECT sum(qty) FROM items”" in say(busy.text)
    assert busy.suspects[0].evidence[-1].metric == "sessions.statement"
    assert unclear.resource is Resource.UNDETERMINED
    assert "IPC A 60 % (75 % of that in “SELECT sum(qty) FROM items”)" in say(unclear.text)


def test_large_requests_at_a_ceiling_are_a_limit_of_bytes(judge: Judge) -> None:
    limit = judge({READ: 0.85}, {**QUIET, **disk(held(3000), size=128 * 1024, queue=12.0)}, clients=16)

    assert limit.resource is Resource.DISK_THROUGHPUT


def test_requests_of_different_sizes_whose_bytes_are_steady_are_a_limit_of_bytes(judge: Judge) -> None:
    rate = free(500)
    series = disk(rate, queue=12.0)
    volume = 60e6 + np.random.default_rng(2).uniform(-1e4, 1e4, SECONDS)
    limit = judge(
        {READ: 0.85},
        {**QUIET, **series, ("iostat.r_bytes", "vda"): volume, ("iostat.bytes", "vda"): volume + 2 * 8192},
        clients=16,
    )

    assert limit.resource is Resource.DISK_THROUGHPUT


def test_demand_that_runs_free_waits_for_the_time_that_requests_take(judge: Judge) -> None:
    limit = judge({READ: 0.8, (CPU, ""): 0.1}, {**QUIET, **disk(free(3200), queue=6.4)})

    assert (limit.resource, say(limit.detail)) == (Resource.DISK_LATENCY, "vda")
    assert "2 ms" in say(limit.text)


def test_requests_are_those_of_all_disks_of_an_array(judge: Judge) -> None:
    # Eight disks: each has an eighth of the requests for which the sessions wait.
    shares, disks = {READ: 0.8, (CPU, ""): 0.1}, [f"nvme{i}n1" for i in range(8)]
    each = disk(free(400), queue=0.8)
    series = {(metric, name): value for (metric, _), value in each.items() for name in disks}
    limit = judge(shares, {**BUSY, **series})

    assert limit.resource is Resource.DISK_LATENCY
    assert "6.4 requests are under way for 6.4 sessions" in say(limit.text)
    assert strength(limit, Resource.CPU) == 0


def test_reads_are_those_of_the_device_that_is_read_and_not_of_the_wals(judge: Judge) -> None:
    writes = free(900, seed=2)
    wal = {
        **{("iostat.r", "vdb"): 0.0, ("iostat.w", "vdb"): writes, ("iostat.iops", "vdb"): writes},
        **{("iostat.r_bytes", "vdb"): 0.0, ("iostat.w_bytes", "vdb"): 8192 * writes},
        **{("iostat.bytes", "vdb"): 8192 * writes, ("iostat.aqu", "vdb"): 6.0},
        **{("iostat.r_await", "vdb"): np.nan, ("iostat.w_await", "vdb"): 0.006},
    }
    reading = judge({READ: 0.7, (CPU, ""): 0.1}, {**QUIET, **disk(free(1100), queue=4.4, await_=0.004), **wal})
    assert (reading.resource, say(reading.detail)) == (Resource.DISK_LATENCY, "vda")

    writing = judge({("IO", "DataFileWrite"): 0.7}, {**QUIET, **disk(free(20), queue=0.1), **wal})
    assert (writing.resource, say(writing.detail)) == (Resource.DISK_LATENCY, "vdb")


def test_steady_requests_without_a_queue_are_no_ceiling(judge: Judge) -> None:
    limit = judge({READ: 0.6, (CPU, ""): 0.3}, {**QUIET, **disk(held(300), queue=0.6)}, clients=1)

    assert limit.resource is not Resource.DISK_IOPS
    assert strength(limit, Resource.DISK_IOPS) == 0


def test_requests_that_still_grow_with_the_clients_are_at_no_ceiling(
    judge: Judge, make_scene: Callable[..., Scene]
) -> None:
    shares = {READ: 0.85}
    half = make_scene(shares, {**QUIET, **disk(held(1500), queue=4.0)}, clients=4)
    same = make_scene(shares, {**QUIET, **disk(held(2950), queue=4.0)}, clients=4)
    series = {**QUIET, **disk(held(3000), queue=8.0)}

    assert judge(shares, series, below=half).resource is Resource.DISK_LATENCY
    assert judge(shares, series, below=same).resource is Resource.DISK_IOPS


def test_a_steady_device_that_nobody_waits_for_limits_nothing(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.3, (CPU_QUEUE, ""): 0.5}, {**BUSY, **disk(held(3000), queue=12.0)})

    assert limit.resource is Resource.CPU
    assert strength(limit, Resource.DISK_IOPS) == 0


def test_a_device_that_was_not_observed_is_suspected_with_care(judge: Judge) -> None:
    limit = judge({READ: 0.95}, {})

    assert limit.resource is Resource.DISK_LATENCY
    assert say(limit.detail) == "device not observed"
    assert limit.suspects[0].strength <= 0.6


# --- Write-back -----------------------------------------------------------------------------------------------------

FULL: Series = {"dirty.share": 0.95, "dirty.threshold": 8 * 2**20, "dirty.background": 4 * 2**20}


def test_writers_that_wait_while_too_many_pages_are_dirty_are_throttled(judge: Judge) -> None:
    series = {**QUIET, **disk(free(500), queue=7.0), **FULL, ("iostat.w", "vda"): free(900)}
    limit = judge({("IO", "DataFileExtend"): 0.6, ("IO", "DataFileWrite"): 0.2}, series)

    assert (limit.resource, say(limit.detail)) == (Resource.WRITE_BACK, "limit of 8 MB")
    assert any("brings this about" in say(p.text) for s in limit.suspects[1:] for p in s.evidence)


def test_writers_that_wait_with_few_dirty_pages_wait_for_the_disk(judge: Judge) -> None:
    series = {**QUIET, **disk(free(500), queue=7.0), ("iostat.w", "vda"): free(900)}
    limit = judge({("IO", "DataFileExtend"): 0.6, ("IO", "DataFileWrite"): 0.2}, series)

    assert limit.resource is Resource.DISK_LATENCY
    assert strength(limit, Resource.WRITE_BACK) == 0


def test_dirty_pages_that_hold_up_no_writer_limit_nothing(judge: Judge) -> None:
    limit = judge({("Lock", "tuple"): 0.8}, {**QUIET, **FULL})

    assert limit.resource is Resource.LOCKS


def test_throttling_begins_half_way_between_the_background_limit_and_the_limit(judge: Judge) -> None:
    shares = {("IO", "DataFileExtend"): 0.8}

    # A background limit of half the limit makes writers sleep from 75 % on, one of a tenth from 55 % on.
    assert strength(judge(shares, {**QUIET, **FULL, "dirty.share": 0.7}), Resource.WRITE_BACK) == 0
    low = {**QUIET, **FULL, "dirty.share": 0.7, "dirty.background": 0.8 * 2**20}
    assert strength(judge(shares, low), Resource.WRITE_BACK) == 1


# --- Memory ---------------------------------------------------------------------------------------------------------


def test_memory_limits_when_tasks_wait_for_it_and_processes_free_it_themselves(judge: Judge) -> None:
    series = {**QUIET, **disk(free(2000), queue=6.0), "psi.memory": 0.6, "reclaim.direct": 20_000.0}
    limit = judge({READ: 0.8, (CPU, ""): 0.1, (CPU_QUEUE, ""): 0.02}, series)

    assert (limit.resource, say(limit.detail)) == (Resource.MEMORY, "")
    assert strength(limit, Resource.DISK_LATENCY) <= 0.5


def test_a_full_control_group_is_memory_pressure_only_where_tasks_wait(judge: Judge) -> None:
    full = {**QUIET, **disk(free(2000), queue=6.0), "cgroup.memory": 159e6, "cgroup.memory_limit": 160e6}
    shares = {READ: 0.8}

    limit = judge(shares, {**full, "psi.memory": 0.5})
    assert (limit.resource, say(limit.detail)) == (Resource.MEMORY, "limit of the control group")
    assert judge(shares, full).resource is Resource.DISK_LATENCY


def test_data_larger_than_memory_that_the_kernel_makes_room_for_is_a_matter_of_the_disk(judge: Judge) -> None:
    # PSI counts refaults as waits for memory, but the kernel's own thread frees enough.
    series = {**QUIET, **disk(free(2000), queue=6.0), "psi.memory": 0.6, "reclaim.kswapd": 20_000.0}

    assert judge({READ: 0.8}, series).resource is Resource.DISK_LATENCY


@pytest.mark.parametrize(
    ("metric", "allowed", "resource"),
    [
        ("cgroup.reads", 3000.0, Resource.DISK_IOPS),
        ("cgroup.reads", 6000.0, Resource.MEMORY),
        ("cgroup.writes", 3000.0, Resource.MEMORY),
    ],
)
def test_waits_for_memory_are_those_for_a_device_whose_reads_are_at_their_limit(
    judge: Judge, metric: str, allowed: float, resource: Resource
) -> None:
    scattered = 2990 * np.random.default_rng(5).uniform(0.8, 1.2, SECONDS)
    full = {"cgroup.memory": 256e6, "cgroup.memory_limit": 256e6, "psi.memory": 0.42}
    series = {**QUIET, **disk(scattered, queue=4.0), **full, (metric, "vda"): scattered}
    limit = judge({READ: 0.74}, series, clients=32, facts=Facts(device_limits={"on": {metric: allowed}}))

    assert limit.resource is resource
    assert strength(limit, Resource.MEMORY) > 0.3  # it is told of in any case


def test_without_pressure_figures_pages_that_come_back_stand_for_it_and_are_believed_less(judge: Judge) -> None:
    series = {key: value for key, value in QUIET.items() if key != "psi.memory"} | {"reclaim.direct": 20_000.0}

    def refaults(pages: float) -> Limit:
        return judge({READ: 0.8}, {**series, "reclaim.refault": pages, "vmstat.bi": 4096 * 10_000.0})

    assert strength(refaults(9000.0), Resource.MEMORY) == pytest.approx(0.7)
    assert strength(refaults(1000.0), Resource.MEMORY) == 0


def test_pages_that_come_back_from_swap_limit(judge: Judge) -> None:
    series = {**QUIET, "vmstat.si": 20e6, "vmstat.so": 20e6, "psi.memory": 0.8, "reclaim.direct": 9000.0}
    limit = judge({(BLOCKED, ""): 0.8, (CPU, ""): 0.05, (CPU_QUEUE, ""): 0.01}, series)

    assert limit.resource is Resource.SWAP
    assert strength(limit, Resource.MEMORY) <= 0.5


def test_pages_that_only_go_out_to_swap_are_not_missed(judge: Judge) -> None:
    limit = judge({("Lock", "tuple"): 0.7}, {**QUIET, "vmstat.so": 20e6})

    assert limit.resource is Resource.LOCKS
    assert suspect(limit, Resource.SWAP) is None


def test_swapping_of_others_does_not_limit_sessions_that_wait_for_something_else(judge: Judge) -> None:
    limit = judge({("Lock", "tuple"): 0.7, (CPU, ""): 0.1, (CPU_QUEUE, ""): 0.1}, {**QUIET, "vmstat.si": 20e6})

    assert limit.resource is Resource.LOCKS
    assert strength(limit, Resource.SWAP) == 0


# --- Waits of sessions for each other -------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["transactionid", "tuple", "relation", "extend"])
def test_locks_are_named(judge: Judge, event: str) -> None:
    limit = judge(
        {("Lock", event): 0.6, ("Lock", "object"): 0.1, ("IO", "WALSync"): 0.1}, {**QUIET, "locks.chain": 5.0}
    )

    assert (limit.resource, say(limit.detail)) == (Resource.LOCKS, event)
    assert "70 % of the latency is waiting for locks" in say(limit.text)


def test_locks_whose_holders_wait_for_their_client_say_so(judge: Judge) -> None:
    limit = judge({("Lock", "transactionid"): 0.8, (IDLE_IN_TRANSACTION, ""): 0.15})

    assert say(limit.detail) == "transactionid, held by sessions that idle in a transaction"


@pytest.mark.parametrize("event", ["BufferMapping", "LockManager", "WALInsert"])
def test_lwlocks_are_named_also_on_a_busy_machine(judge: Judge, event: str) -> None:
    limit = judge({("LWLock", event): 0.55, (CPU, ""): 0.1, (CPU_QUEUE, ""): 0.3}, BUSY)

    assert (limit.resource, say(limit.detail)) == (Resource.LWLOCKS, event)


@pytest.mark.parametrize(
    "shares",
    [
        {("IO", "WALSync"): 0.3, ("LWLock", "WALWrite"): 0.4},
        {("IO", "WalSync"): 0.7},
        {("LWLock", "WALWriteLock"): 0.5, ("IO", "WALWrite"): 0.2},
    ],
)
def test_the_flush_of_the_wal_has_other_names_in_other_versions(
    judge: Judge, shares: dict[tuple[str, str], float]
) -> None:
    series = {**QUIET, **disk(free(100), queue=0.9), "wal.syncs": 500.0, "wal.sync_time": 0.9}
    limit = judge({**shares, (CPU, ""): 0.1}, series)

    assert limit.resource is Resource.WAL_FLUSH
    assert "500 flushes per second, each takes 1.8 ms" in say(limit.text)
    assert strength(limit, Resource.LWLOCKS) == strength(limit, Resource.DISK_LATENCY) == 0


@pytest.mark.parametrize("prefix", ["BufFile", "Buffile"])
def test_sorting_in_temporary_files_limits(judge: Judge, prefix: str) -> None:
    shares = {("IO", f"{prefix}Read"): 0.2, ("IO", f"{prefix}Write"): 0.2, (CPU, ""): 0.25, (CPU_QUEUE, ""): 0.2}
    series = {**BUSY, **disk(free(300), queue=4.0), **FULL, "db.temp_bytes": 80e6}

    limit = judge(shares, series)

    assert limit.resource is Resource.TEMPORARY_FILES
    assert "76.3 MB per second" in say(limit.text)


def test_a_few_temporary_files_do_not_limit(judge: Judge) -> None:
    limit = judge({("IO", "BufFileWrite"): 0.04, (CPU, ""): 0.4, (CPU_QUEUE, ""): 0.4}, {**BUSY, "db.temp_bytes": 80e6})

    assert limit.resource is Resource.CPU


# --- What comes and goes --------------------------------------------------------------------------------------------


def dipped(spans: tuple[tuple[int, int], ...], *, to: float, seed: int = 3) -> np.ndarray[Any, Any]:
    tps = np.random.default_rng(seed).normal(800, 20, SECONDS)
    for start, end in spans:
        tps[start:end] *= to
    return tps


SPANS = ((5, 20), (38, 52))
WRITING = {("IO", "WALSync"): 0.5, (CPU, ""): 0.1}


def test_checkpoints_limit_when_throughput_dips_with_them(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge
) -> None:
    scene = make_scene(WRITING)
    events = [make_entry(t, *span, kind="checkpoint") for t in scene.timelines for span in SPANS]
    limit = judge(WRITING, tps=dipped(SPANS, to=0.3), facts=Facts(events=events))

    assert limit.resource is Resource.CHECKPOINTS
    assert "of the throughput is lost to checkpoints" in say(limit.text)
    assert strength(limit, Resource.WAL_FLUSH) < 1


@pytest.mark.parametrize(("asked", "other"), [("timed", "requested"), ("requested", "timed")])
def test_checkpoints_are_named_by_what_most_of_them_were_asked_for(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge, asked: str, other: str
) -> None:
    scene = make_scene(WRITING)
    kinds = dict(zip(SPANS, (asked, asked), strict=True)) | {(59, 60): other}
    events = [
        make_entry(t, *span, kind="checkpoint", numbers={kind: 1.0})
        for t in scene.timelines
        for span, kind in kinds.items()
    ]
    limit = judge(WRITING, tps=dipped(SPANS, to=0.3), facts=Facts(events=events))

    assert (limit.resource, say(limit.detail)) == (Resource.CHECKPOINTS, asked)
    assert f"of the throughput is lost to {asked} checkpoints" in say(limit.text)


def test_without_a_log_counters_tell_what_checkpoints_were_asked_for(judge: Judge) -> None:
    writing = np.zeros(SECONDS)
    for start, end in SPANS:
        writing[start:end] = 500.0
    series = {**QUIET, "checkpoints.buffers": writing, "checkpoints.timed": 0.03}
    limit = judge(WRITING, series, tps=dipped(SPANS, to=0.3))

    assert (limit.resource, say(limit.detail)) == (Resource.CHECKPOINTS, "timed")


def test_timed_checkpoints_are_held_against_their_timer(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge
) -> None:
    beat = ((0, 6), (20, 26), (40, 46))
    scene = make_scene(WRITING)
    events = [make_entry(t, *span, kind="checkpoint", numbers={"timed": 1.0}) for t in scene.timelines for span in beat]
    told, untold, too_long = (
        judge(WRITING, tps=dipped(beat, to=0.2), facts=Facts(events=events, checkpoint_timeouts=timeouts))
        for timeouts in ({"on": 20.0}, {}, {"on": 30.0})
    )

    assert (told.resource, say(told.detail)) == (Resource.CHECKPOINTS, "timed")
    texts = [[say(proof.text) for proof in limit.suspects[0].evidence] for limit in (told, too_long)]
    assert any("it goes up and down every 20 s, as checkpoint_timeout does" in text for text in texts[0])
    assert strength(told, Resource.CHECKPOINTS) == pytest.approx(strength(untold, Resource.CHECKPOINTS))
    # Three of them do not fit into a run: nothing can be said.
    assert not any("checkpoint_timeout" in text for text in texts[1])


def test_without_a_log_blocks_that_checkpoints_write_show_when(judge: Judge) -> None:
    writing = np.zeros(SECONDS)
    for start, end in SPANS:
        writing[start:end] = 500.0
    limit = judge(WRITING, {**QUIET, "checkpoints.buffers": writing}, tps=dipped(SPANS, to=0.3))

    assert limit.resource is Resource.CHECKPOINTS


def test_the_end_of_a_checkpoint_is_when_files_are_synced(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge
) -> None:
    # Checkpoints write nearly all the time; only their last seconds hurt.
    scene = make_scene(WRITING)
    events = [
        make_entry(t, start, start + 29, kind="checkpoint", numbers={"sync seconds": 8.0})
        for t in scene.timelines
        for start in (0, 30)
    ]
    limit = judge(WRITING, tps=dipped(((21, 29), (51, 59)), to=0.05), facts=Facts(events=events))

    assert strength(limit, Resource.CHECKPOINTS) > 0.3


def test_dips_at_other_times_are_not_the_checkpoints(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge
) -> None:
    scene = make_scene(WRITING)
    events = [make_entry(t, *span, kind="checkpoint") for t in scene.timelines for span in ((22, 34), (54, 59))]
    limit = judge(WRITING, tps=dipped(SPANS, to=0.3), facts=Facts(events=events))

    assert limit.resource is Resource.WAL_FLUSH
    assert strength(limit, Resource.CHECKPOINTS) == 0


def test_checkpoints_too_often_write_all_pages_to_the_wal(judge: Judge) -> None:
    shares = {(CPU, ""): 0.35, (CPU_QUEUE, ""): 0.2, ("IO", "WALSync"): 0.3}
    often = {**BUSY, "checkpoints.requested": 0.3, "wal.bytes": 30e6, "wal.fpi": 3000.0}

    limit = judge(shares, often)
    assert (limit.resource, say(limit.detail)) == (Resource.CHECKPOINTS, "too frequent")
    assert "a checkpoint comes every 3.33 s; 82 % of the WAL is whole pages" in say(limit.text)
    by_time = {**often, "checkpoints.requested": 0.0, "checkpoints.timed": 0.3}
    assert say(judge(shares, by_time).detail) == "timed"
    # Compressed pages are a smaller part of it.
    compressed = judge(shares, often, facts=Facts(wal_compression={"on": "pglz"}))
    assert compressed.resource is Resource.CPU
    much = judge(shares, {**often, "wal.bytes": 9e6}, facts=Facts(wal_compression={"on": "pglz"}))
    assert "about 68 % of the WAL is whole pages, if wal_compression leaves a quarter of each" in say(much.text)
    # A bulk load asks for checkpoints as often, but changes each page once.
    assert judge(shares, {**often, "wal.fpi": 30.0}).resource is Resource.CPU


def test_whole_pages_that_cost_nothing_limit_nothing(judge: Judge) -> None:
    shares = {(CPU, ""): 0.4, (CPU_QUEUE, ""): 0.4}
    often = {**BUSY, "checkpoints.requested": 0.3, "wal.bytes": 30e6, "wal.fpi": 6000.0}
    often[("server.cpu", "client backend")] = 1.6

    copied = judge(shares, often)
    assert copied.resource is Resource.CPU
    assert strength(copied, Resource.CHECKPOINTS) == 0
    # Of 1.6 CPUs, 0.6 compress them; a page of lz4 takes a fifth of that.
    compressed, quickly = (
        judge(shares, {**often, "wal.bytes": 13e6}, facts=Facts(wal_compression={"on": method}))
        for method in ("pglz", "lz4")
    )
    assert compressed.resource is Resource.CHECKPOINTS
    assert "about 30 % of the latency is CPU time that makes whole pages ready for the WAL" in say(compressed.text)
    assert quickly.resource is Resource.CPU


def test_a_single_checkpoint_in_each_run_does_not_come_often(judge: Judge) -> None:
    # A timer of five minutes that falls into this level of 20 s, in every run at the same moment.
    shares = {(CPU, ""): 0.35, (CPU_QUEUE, ""): 0.2, ("IO", "WALSync"): 0.3}
    series = {**BUSY, "wal.bytes": 30e6, "wal.fpi": 3000.0}
    once, twice = (np.where(np.isin(np.arange(20), at), 1.0, 0.0) for at in ([8], [3, 13]))

    alone = judge(shares, {**series, "checkpoints.timed": once}, seconds=20)
    assert (alone.resource, suspect(alone, Resource.CHECKPOINTS)) == (Resource.CPU, None)
    often = judge(shares, {**series, "checkpoints.timed": twice}, seconds=20)
    assert "a checkpoint comes every 10 s" in say(often.text)


def test_autovacuum_limits_when_throughput_dips_with_it(judge: Judge) -> None:
    workers = np.zeros(SECONDS)
    for start, end in SPANS:
        workers[start:end] = 1.0
    series = {**QUIET, "sessions.autovacuum": workers}

    assert judge(WRITING, series, tps=dipped(SPANS, to=0.3)).resource is Resource.AUTOVACUUM
    assert judge(WRITING, series, tps=dipped((), to=1.0)).resource is Resource.WAL_FLUSH


def test_autovacuum_limits_when_it_takes_the_cpus_of_a_busy_machine(judge: Judge) -> None:
    shares = {(CPU, ""): 0.3, (CPU_QUEUE, ""): 0.4}
    used = {("server.cpu", "client backend"): 0.8, ("server.cpu", "autovacuum worker"): 1.0}
    workers = {"sessions.autovacuum": 2.0}

    assert judge(shares, {**BUSY, **used, **workers}).resource is Resource.AUTOVACUUM
    little = {("server.cpu", "client backend"): 1.7, ("server.cpu", "autovacuum worker"): 0.1}
    assert judge(shares, {**BUSY, **little, **workers}).resource is Resource.CPU


def test_events_of_the_clock_say_nothing_of_runs_that_took_turns(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge
) -> None:
    scene = make_scene(WRITING)
    events = [make_entry(t, *span, kind="checkpoint") for t in scene.timelines for span in SPANS]
    limit = judge(WRITING, tps=dipped(SPANS, to=0.3), facts=Facts(events=events, in_turns=frozenset({1, 2})))

    assert suspect(limit, Resource.CHECKPOINTS) is None


# --- Connections, load generator, client ----------------------------------------------------------------------------

SESSIONS: Series = {"sessions.active": 60.0, "sessions.idle": 36.0, "sessions.idle_in_transaction": 1.0}


@pytest.mark.parametrize("about", [{"kind": "error", "object": "53300"}, {"kind": "error 53300"}])
def test_clients_that_were_refused_show_that_connections_limit(
    make_scene: Callable[..., Scene], make_entry: Callable[..., Any], judge: Judge, about: dict[str, str]
) -> None:
    scene = make_scene({})
    events = [make_entry(scene.timelines[0], second, **about) for second in (3, 4)]
    outside = [make_entry(scene.timelines[0], 500, **about), make_entry(scene.timelines[0], 3, kind="error 40001")]
    limit = judge({(CPU, ""): 0.5}, facts=Facts(events=[*events, *outside]))

    assert limit.resource is Resource.CONNECTIONS
    assert "2 clients were refused" in say(limit.text)


def test_connections_that_are_nearly_used_up_limit_nothing_yet(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.3}, {**QUIET, **SESSIONS}, facts=Facts(max_connections={"on": 97}))

    assert limit.resource is not Resource.CONNECTIONS
    assert strength(limit, Resource.CONNECTIONS) == pytest.approx(0.4)


def test_clients_that_wait_for_a_pooler_that_waits_for_a_cpu_wait_for_the_cpu(judge: Judge) -> None:
    shares = {(OUTSIDE, POOL): 0.85, (CPU, ""): 0.03, (CPU_QUEUE, ""): 0.05}

    assert judge(shares, {**BUSY, "pgbouncer.cpu": 0.3, "pgbouncer.cpu_queue": 0.6}).resource is Resource.CPU
    # A small pool in front of a server with nothing to do is no pause of the client.
    idle = judge(shares, {**QUIET, "pgbouncer.cpu": 0.1, "pgbouncer.cpu_queue": 0.0, "pgbench.cpu": 0.1})
    assert idle.resource is Resource.UNDETERMINED
    assert "the wait for a session of PgBouncer's pool" in say(idle.text)


def test_a_generator_with_one_thread_is_saturated_by_one_cpu(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.1}, {**QUIET, "pgbench.cpu": 0.98, "vmstat.us": 0.6}, facts=Facts(threads={0: 1}))

    assert limit.resource is Resource.LOAD_GENERATOR
    assert "uses 0.98 CPUs, and its threads are at work 98 % of the time" in say(limit.text)


def test_the_same_cpu_time_does_not_saturate_a_generator_with_more_threads(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.1}, {**QUIET, "pgbench.cpu": 0.98, "vmstat.us": 0.6}, facts=Facts(threads={0: 4}))

    assert strength(limit, Resource.LOAD_GENERATOR) == 0


def test_a_generator_whose_thread_always_wants_a_cpu_is_saturated_if_it_mostly_has_one(judge: Judge) -> None:
    def generator(cpu: float, queue: float) -> Limit:
        series = {**BUSY, "pgbench.cpu": cpu, "pgbench.cpu_queue": queue}
        return judge({(CPU, ""): 0.05, (CPU_QUEUE, ""): 0.05}, series, facts=Facts(threads={0: 1}))

    assert generator(0.85, 0.13).resource is Resource.LOAD_GENERATOR
    # Others have taken the CPU from it.
    assert generator(0.2, 0.78).resource is Resource.CPU


def test_a_client_that_pauses_leaves_everything_idle(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.02})

    assert (limit.resource, say(limit.detail)) == (Resource.CLIENT, "pauses, or the way to the server")


def test_a_client_that_pauses_inside_transactions_is_told_apart(judge: Judge) -> None:
    limit = judge({(IDLE_IN_TRANSACTION, ""): 0.85, (CPU, ""): 0.05}, facts=Facts(threads={0: 2}))

    assert (limit.resource, say(limit.detail)) == (Resource.CLIENT, "pauses inside transactions")


def test_on_a_busy_machine_the_client_waits_for_its_cpu(judge: Judge) -> None:
    limit = judge({(CPU, ""): 0.25, (CPU_QUEUE, ""): 0.3}, {**BUSY, "pgbench.cpu": 0.7}, facts=Facts(threads={0: 2}))

    assert limit.resource is Resource.CPU
    assert strength(limit, Resource.CLIENT) == 0


def test_a_load_that_arrives_no_faster_than_it_is_served_is_not_limited(judge: Judge) -> None:
    keeps_up = judge({(CPU, ""): 0.1}, rate=800.0)
    assert keeps_up.resource is Resource.UNDETERMINED
    assert "keeps up with the rate" in say(keeps_up.text)

    shares = {("Lock", "tuple"): 0.5, (OUTSIDE, SCHEDULE_LAG): 0.4}
    assert judge(shares, rate=2000.0).resource is Resource.LOCKS


# --- The answer -----------------------------------------------------------------------------------------------------


def test_two_that_are_as_strong_are_undetermined_and_both_named(judge: Judge) -> None:
    limit = judge({("Lock", "tuple"): 0.44, ("IO", "WALSync"): 0.45}, {**QUIET, "locks.chain": 3.0})

    assert limit.resource is Resource.UNDETERMINED
    assert "locks (tuple)" in say(limit.text)
    assert "the flush of the WAL (WALSync)" in say(limit.text)


def test_weak_suspicions_are_undetermined(judge: Judge) -> None:
    limit = judge({("Lock", "tuple"): 0.27, (CPU, ""): 0.4}, {**QUIET, "locks.chain": 3.0})

    assert limit.resource is Resource.UNDETERMINED
    assert "locks (tuple) is suspected most, but weakly (0.23 of 1, 0.5 would do)" in say(limit.text)


def test_without_anything_known_nothing_is_suspected(judge: Judge) -> None:
    limit = judge(None, {})

    assert (limit.resource, limit.suspects) == (Resource.UNDETERMINED, ())
    assert say(limit.text) == "What limits on with 8 clients is undetermined: what its sessions do is not known."
    idle = judge(None, QUIET)
    assert "what its sessions do is not known, the CPUs are 30 % busy" in say(idle.text)


def test_suspects_come_strongest_first_and_each_resource_once() -> None:
    found = rank_suspects(
        Suspect(resource=resource, strength=value, detail="", evidence=())
        for resource, value in (
            (Resource.LOCKS, 0.4),
            (Resource.CPU, 0.9),
            (Resource.LOCKS, 0.6),
            (Resource.SWAP, 0.01),
        )
    )

    assert [(each.resource, each.strength) for each in found] == [(Resource.CPU, 0.9), (Resource.LOCKS, 0.6)]


def test_what_another_cause_brings_about_is_weakened_by_as_much_as_that_is_sure() -> None:
    def rank(memory: float) -> dict[Resource, float]:
        pairs = ((Resource.MEMORY, memory), (Resource.DISK_LATENCY, 1.0))
        found = rank_suspects(Suspect(resource=r, strength=s, detail="", evidence=()) for r, s in pairs)
        return {each.resource: each.strength for each in found}

    assert rank(1.0)[Resource.DISK_LATENCY] == pytest.approx(0.5)
    assert rank(0.6)[Resource.DISK_LATENCY] == pytest.approx(0.7)
    assert rank(0.4)[Resource.DISK_LATENCY] == 1.0


def test_every_proof_has_its_metric_and_its_threshold(judge: Judge) -> None:
    limit = judge(
        {READ: 0.5, ("Lock", "tuple"): 0.2, (IDLE_IN_TRANSACTION, ""): 0.1},
        {**BUSY, **disk(held(3000), queue=9.0), **FULL, **SESSIONS, "psi.memory": 0.5, "reclaim.direct": 500.0},
        facts=Facts(max_connections={"on": 100}, threads={0: 2}),
    )

    for proof in (proof for each in limit.suspects for proof in each.evidence):
        assert proof.metric
        assert proof.text
        assert proof.threshold is not None


def test_every_arm_and_level_of_an_experiment_has_its_limit(
    evidence: Evidence, make_timeline: Callable[..., Timeline]
) -> None:
    shares = {
        "on": {("IO", "WALSync"): 0.7},
        "off": {(CPU, ""): 0.4, (CPU_QUEUE, ""): 0.4},
        "placebo": {("IO", "WALSync"): 0.7},
    }
    timelines = [
        make_timeline(dict(BUSY if run.slot.arm == "off" else QUIET), run=run.id, arm=run.slot.arm, seconds=SECONDS)
        for run in evidence.valid
    ]
    rng = np.random.default_rng(1)
    of_runs = {
        (run.id, 0): budget(
            {part: share + rng.normal(0, 0.01) for part, share in shares[run.slot.arm].items()}, arm=run.slot.arm
        )
        for run in evidence.valid
    }
    budgets = [budget(each, arm=arm) for arm, each in shares.items()]
    found = find_limits(evidence, timelines, budgets, Facts(), of_runs=of_runs)

    assert [(limit.arm, limit.load_level, limit.resource) for limit in found] == [
        ("on", 0, Resource.WAL_FLUSH),
        ("off", 0, Resource.CPU),
        ("placebo", 0, Resource.WAL_FLUSH),
    ]
    assert say(found[0].text).startswith("on with 4 clients is limited by the flush of the WAL (WALSync): 70 % ")
    assert [limit.is_apart for limit in found] == [None, True, False]
    labels = {0: message("level.clients", count=4)}
    assert [change.say() for change in what_changed(found, "on", labels=labels)] == [
        "off is limited by the CPU, and on by the flush of the WAL (WALSync).",
        "placebo is limited by the flush of the WAL (WALSync), as on is.",
    ]

    # What a single block shows may be chance.
    first = replace(evidence, valid=tuple(run for run in evidence.valid if run.slot.block == 1))
    found = find_limits(first, timelines, budgets, Facts(), of_runs=of_runs)
    assert next(change.say() for change in what_changed(found, "on", labels=labels)) == (
        "That another limit holds for off than for on is not shown: it is the CPU against the flush of the WAL "
        "(WALSync), but the runs do not tell the two apart."
    )


def test_levels_with_the_same_change_are_told_together() -> None:
    def limit(arm: str, level: int, resource: Resource) -> Limit:
        return Limit(
            arm=arm,
            load_level=level,
            resource=resource,
            detail="",
            text=verbatim(""),
            suspects=(),
            is_apart=level < 2,
        )

    found = [
        *(limit("old", level, Resource.LOCKS) for level in (0, 1, 2)),
        *(limit("new", level, Resource.CPU) for level in (0, 1)),
        limit("new", 2, Resource.UNDETERMINED),
    ]

    labels = {level: message("level.clients", count=count) for level, count in enumerate((4, 8, 16))}
    assert [change.say() for change in what_changed(found, "old", labels=labels)] == [
        (
            "new is limited with 4 clients and 8 clients by the CPU, and old by locks; "
            "with 16 clients by nothing that could be determined and old by locks, which the runs do not tell apart."
        )
    ]


def test_facts_are_those_of_the_record(evidence: Evidence) -> None:
    facts = gather_facts(evidence, (), cpus=2)

    assert facts.max_connections == {"on": 100, "off": 100, "placebo": 100}
    assert facts.wal_compression == {}
    run = evidence.runs_of("off")[0].id
    settings = {**evidence.settings, run: {**evidence.settings[run], "wal_compression": ("lz4", "configuration file")}}
    assert gather_facts(replace(evidence, settings=settings), (), cpus=2).wal_compression == {"off": "lz4"}
    # One process with a thread for each CPU, of which there are fewer than clients.
    assert facts.threads == {0: 2}
    assert gather_facts(evidence, (), cpus=64).threads == {0: 4}
    assert gather_facts(evidence, (), cpus=None).threads == {}


def test_sessions_are_busy_with_transactions_that_fail_too(
    evidence: Evidence, reduction: Reduction, make_scene: Callable[..., Scene]
) -> None:
    totals = {key: replace(each, failed=3 * each.count) for key, each in reduction.totals.items()}
    facts = gather_facts(evidence, (), cpus=2, reduction=replace(reduction, totals=totals))
    assert facts.attempts == {(arm, 0): 4.0 for arm in ("on", "off", "placebo")}

    # A quarter of 8 clients' transactions succeeds; half of the latency is half of the sessions all the same.
    scene = make_scene({READ: 0.5}, tps=8 / LATENCY / 4, facts=facts)
    assert scene.sessions(is_data) == pytest.approx(4.0)


def test_limits_of_an_arms_control_group_are_known(tmp_path: Path) -> None:
    limits = '[arms.off.cgroup]\nread_iops = 3000\nwrite_bytes = "60MB"\n\n[design]'
    folder = write_result_folder(tmp_path / "limited", text=EXPERIMENT.replace("[design]", limits))
    facts = gather_facts(read_evidence(folder), (), cpus=2)

    assert facts.device_limits["off"] == {"cgroup.reads": 3000.0, "cgroup.write_bytes": 60 * 1024**2}
    assert facts.device_limits["on"] == {}
    assert facts.in_turns == frozenset()


def test_time_that_is_all_spent_outside_of_the_server_leaves_it_no_share(judge: Judge) -> None:
    # Of a forged record: what is left of the latency for outside of the server is all of it.
    limit = judge({(CPU, ""): 0.5, READ: -0.5}, BUSY)

    assert strength(limit, Resource.CPU) >= 0
