"""The parsers of control groups on text of version 1 and 2, and on the files of this machine's kernel."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.collectors import COLLECTORS, cgroup
from pgtrial.collectors.base import FileCollector

BY_FILE = {collector.path: collector for collector in cgroup.COLLECTORS}

CPU_V1 = """\
nr_periods 30
nr_throttled 16
throttled_time 1234567890
nr_bursts 0
burst_time 0
"""
CPU_V2 = """\
usage_usec 506108
user_usec 309347
system_usec 196761
nice_usec 0
nr_periods 30
nr_throttled 16
throttled_usec 1234567
nr_bursts 0
burst_usec 0
"""
CPU_V2_WITHOUT_CONTROLLER = """\
usage_usec 506108
user_usec 309347
system_usec 196761
"""
MEMORY_V1 = """\
cache 90112
rss 4096
rss_huge 0
shmem 8192
mapped_file 12288
dirty 135168
writeback 0
workingset_refault_anon 0
workingset_refault_file 22
swap 16384
pgpgin 100
pgmajfault 1
hierarchical_memory_limit 268435456
total_cache 90112
total_rss 4096
"""
MEMORY_V2 = """\
anon 4096
file 90112
kernel 20480
shmem 8192
file_mapped 12288
file_dirty 135168
file_writeback 0
swapcached 0
workingset_refault_anon 0
workingset_refault_file 22
pgscan 5
pgsteal 4
pgmajfault 1
unheard_of 1
"""
EVENTS_V2 = """\
low 0
high 3
max 12
oom 1
oom_kill 2
oom_group_kill 0
"""
OOM_CONTROL_V1 = """\
oom_kill_disable 0
under_oom 0
oom_kill 2
"""
IO_V2 = """\
8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0
7:2 7:1 7:0 254:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021 cost.usage=12
253:1
"""
SERVICED_V1 = """\
254:0 Read 130
254:0 Write 64
254:0 Sync 194
254:0 Async 0
254:0 Discard 0
254:0 Total 194
Total 194
"""
BYTES_V1 = SERVICED_V1.replace("130", "67198976").replace("64", "67108864")


def values(path: str, text: str) -> dict[str, float]:
    readings = BY_FILE[path].parse(text)
    return {f"{metric}[{about}]" if about else metric: value for metric, about, value in readings}


def test_throttled_periods_are_counts_and_times_seconds() -> None:
    assert values("cpu.stat", CPU_V2) == {
        "cgroup.cpu_usage": pytest.approx(0.506108),
        "cgroup.cpu_user": pytest.approx(0.309347),
        "cgroup.cpu_system": pytest.approx(0.196761),
        "cgroup.cpu_periods": 30,
        "cgroup.cpu_throttled_periods": 16,
        "cgroup.cpu_throttled_time": pytest.approx(1.234567),
    }


def test_version_1_counts_throttled_time_in_nanoseconds() -> None:
    assert values("cpu.stat", CPU_V1) == {
        "cgroup.cpu_periods": 30,
        "cgroup.cpu_throttled_periods": 16,
        "cgroup.cpu_throttled_time": pytest.approx(1.23456789),
    }
    assert values("cpuacct.usage", "1500000000\n") == {"cgroup.cpu_usage": pytest.approx(1.5)}


def test_group_without_a_cpu_limit_has_no_reading_of_throttling() -> None:
    assert values("cpu.stat", CPU_V2_WITHOUT_CONTROLLER).keys() == {
        "cgroup.cpu_usage",
        "cgroup.cpu_user",
        "cgroup.cpu_system",
    }


def test_both_versions_have_the_same_names_for_what_memory_is_used_for() -> None:
    old, new = values("memory.stat", MEMORY_V1), values("memory.stat", MEMORY_V2)

    assert old.keys() - new.keys() == {"cgroup.memory_swap"}
    assert new.keys() - old.keys() == {"cgroup.pgscan", "cgroup.pgsteal"}
    assert {name: old[name] for name in old.keys() & new.keys()} == {
        name: new[name] for name in old.keys() & new.keys()
    }
    assert new["cgroup.memory_file_dirty"] == 135168


def test_swappiness_of_a_group_is_read_where_groups_have_one() -> None:
    assert values("memory.swappiness", "60\n") == {"cgroup.swappiness": 60}


@pytest.mark.parametrize(("path", "unlimited"), [("memory.max", "max"), ("memory.limit_in_bytes", f"{2**63 - 4096}")])
def test_limit_that_is_not_set_is_no_reading(path: str, unlimited: str) -> None:
    assert values(path, "268435456\n") == {"cgroup.memory_limit": 268435456}
    assert values(path, f"{unlimited}\n") == {}


def test_hits_of_the_memory_limit_are_counted() -> None:
    assert values("memory.events", EVENTS_V2) == {
        "cgroup.memory_high_hits": 3,
        "cgroup.memory_limit_hits": 12,
        "cgroup.memory_oom_kills": 2,
    }
    assert values("memory.failcnt", "12\n") == {"cgroup.memory_limit_hits": 12}
    assert values("memory.oom_control", OOM_CONTROL_V1) == {"cgroup.memory_oom_kills": 2}


def test_io_is_by_device_also_where_the_kernel_runs_lines_together() -> None:
    found = values("io.stat", IO_V2)

    assert found["cgroup.io_write_bytes[8:16]"] == 314773504
    assert found["cgroup.io_reads[254:0]"] == 8950
    assert len(found) == 8


def test_io_of_version_1_is_in_two_files() -> None:
    assert values("blkio.throttle.io_serviced", SERVICED_V1) == {
        "cgroup.io_reads[254:0]": 130,
        "cgroup.io_writes[254:0]": 64,
    }
    assert values("blkio.throttle.io_service_bytes", BYTES_V1) == {
        "cgroup.io_read_bytes[254:0]": 67198976,
        "cgroup.io_write_bytes[254:0]": 67108864,
    }


def test_group_that_has_done_no_io_has_no_reading_of_it() -> None:
    assert values("blkio.throttle.io_serviced", "Total 0\n") == {}
    assert values("io.stat", "") == {}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *(("cpu.stat", text) for text in (CPU_V1, CPU_V2)),
        *(("memory.stat", text) for text in (MEMORY_V1, MEMORY_V2)),
        ("memory.events", EVENTS_V2),
        ("memory.oom_control", OOM_CONTROL_V1),
        ("io.stat", IO_V2),
        ("blkio.throttle.io_serviced", SERVICED_V1),
        ("blkio.throttle.io_service_bytes", BYTES_V1),
        *((path, "1\n") for path in ("memory.current", "memory.swap.current", "memory.high", "memory.failcnt")),
    ],
)
def test_every_reading_is_of_a_metric_that_its_collector_declares(path: str, text: str) -> None:
    readings = list(BY_FILE[path].parse(text))

    assert readings
    assert {reading.metric for reading in readings} <= {metric.name for metric in BY_FILE[path].metrics}


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """A new control group in each hierarchy of this machine in which one can be made."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a control group")
    made = []
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line]
    try:
        for mount in mounts:
            group = Path(mount) / f"pgtrial-test-collectors-{os.getpid()}"
            try:
                group.mkdir()
            except OSError:
                continue  # mounted for reading only, as in most containers
            made.append(group)
        if not made:
            pytest.skip("no control group can be made in any hierarchy of this machine")
        yield made
    finally:
        for group in made:
            group.rmdir()


def test_files_of_this_kernel_are_understood(groups: list[Path]) -> None:
    there = [(collector, group / collector.path) for group in groups for collector in BY_FILE.values()]
    found = [(collector, path.read_text()) for collector, path in there if path.exists()]

    assert found
    for collector, text in found:
        for reading in collector.parse(text):
            assert reading.metric in {metric.name for metric in collector.metrics}
            assert reading.value >= 0


def test_only_collectors_of_groups_have_relative_paths() -> None:
    files = [collector for collector in COLLECTORS if isinstance(collector, FileCollector)]

    assert {collector.in_group for collector in files} == {True, False}
    assert all(collector.in_group != collector.path.startswith("/") for collector in files)
