"""Pages of shared memory, pools and the processor's misses, from what kernels and perf have written."""

import asyncio
import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgtrial.engine.pages import (
    SharedMemory,
    are_about_pages,
    children_of,
    count_translations,
    find_mismatch,
    find_shared_memory,
    parse_counts,
    parse_memory,
    read_pools,
    read_shared_memory,
)
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.model.arm import Arm, Role
from pgtrial.postgres.settings import Setting

# Of servers with shared_buffers = 512MB: by hand from smaps of Linux 6.1, other mappings left out.
ORDINARY = """\
55d4a2c00000-55d4a2cc0000 r--p 00000000 fe:01 655370                     /usr/lib/postgresql/15/bin/postgres
Size:                768 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                 768 kB
VmFlags: rd mr mw me
7f1c40000000-7f1c61a00000 rw-s 00000000 00:01 1024                       /dev/zero (deleted)
Size:             550912 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:              143212 kB
ShmemPmdMapped:     6144 kB
VmFlags: rd wr sh mr mw me ms sd
7f1c62000000-7f1c62007000 rw-s 00000000 00:19 3                          /dev/shm/PostgreSQL.1234
Size:                 28 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
VmFlags: rd wr sh mr mw me ms
"""
HUGE = """\
7f1c40000000-7f1c61c00000 rw-s 00000000 00:0f 36865                      /anon_hugepage (deleted)
Size:             552960 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
Rss:                   0 kB
Shared_Hugetlb:   143360 kB
VmFlags: rd wr sh mr mw me ms de ht sd
"""
MEMINFO = """\
MemTotal:        8105740 kB
HugePages_Total:     270
HugePages_Free:      200
HugePages_Rsvd:       12
HugePages_Surp:        0
Hugepagesize:       2048 kB
Hugetlb:          552960 kB
"""
COUNTED = """\
# started on Sat Nov 21 10:00:00 2026

8123456789;;instructions:u;4700000000;100.00;1.2;insn per cycle
2345678901;;dTLB-loads:u;4700000000;100.00;;
12345678;;dTLB-load-misses:u;4700000000;100.00;0.53;of all dTLB cache accesses
<not supported>;;dTLB-store-misses:u;0;100.00;;
456789;;iTLB-load-misses:u;4700000000;80.00;;
"""
KB, MB = 1024, 1024**2


def settings(**shown: str) -> dict[str, Setting]:
    return {
        name: Setting(name=name, value=text, unit="", vartype="", source="", source_file="", shown=text)
        for name, text in shown.items()
    }


def test_the_servers_memory_is_the_largest_shared_mapping() -> None:
    assert find_shared_memory(ORDINARY) == SharedMemory(size=550912 * KB, page=4 * KB, transparent=6144 * KB)
    assert find_shared_memory(HUGE) == SharedMemory(size=552960 * KB, page=2 * MB, transparent=0)


def test_without_a_shared_mapping_there_is_nothing_to_tell() -> None:
    assert find_shared_memory(ORDINARY.partition("7f1c40000000")[0]) is None
    assert find_shared_memory("") is None


def test_memory_of_a_process_that_is_gone_is_not_known() -> None:
    assert read_shared_memory(Operations(), 2**22 + 1) is None


def test_shared_memory_of_this_process_is_found() -> None:
    with mmap.mmap(-1, 64 * MB) as shared:
        shared[0] = 1
        found = read_shared_memory(Operations(), os.getpid())

    assert found is not None
    assert found.size >= 64 * MB
    assert found.page == mmap.PAGESIZE


@pytest.mark.parametrize(
    ("shown", "page", "problem"),
    [
        ({"huge_pages": "on", "huge_page_size": "2MB"}, 2 * MB, ""),
        ({"huge_pages": "on", "huge_page_size": "1GB"}, 2 * MB, "in pages of 2 MB, expected 1 GB (huge_pages = on)"),
        ({"huge_pages": "on", "huge_page_size": "0"}, 2 * MB, ""),
        ({"huge_pages": "on"}, 4 * KB, "in pages of 4 kB, expected 2 MB"),
        ({"huge_pages": "off"}, 4 * KB, ""),
        ({"huge_pages": "off"}, 2 * MB, "in pages of 2 MB, expected 4 kB"),
        ({"huge_pages": "try"}, 4 * KB, ""),
        ({"huge_pages": "try"}, 2 * MB, ""),
    ],
)
def test_pages_other_than_the_settings_say_are_named(shown: dict[str, str], page: int, problem: str) -> None:
    memory = SharedMemory(size=512 * MB, page=page, transparent=0)
    found = find_mismatch(memory, settings(**shown), base_page=4 * KB, default_page=2 * MB)

    assert problem in found
    assert bool(found) == bool(problem)


def test_pools_are_told_by_the_size_of_their_pages() -> None:
    pools = read_pools(Operations())

    assert pools.keys() <= {"64kB", "2MB", "32MB", "512MB", "1GB", "16GB"}
    assert all(pool.keys() >= {"nr", "free"} for pool in pools.values())


def test_what_meminfo_says_of_huge_pages_is_counts_and_bytes() -> None:
    assert parse_memory(MEMINFO) == {
        "HugePages_Total": 270,
        "HugePages_Free": 200,
        "HugePages_Rsvd": 12,
        "HugePages_Surp": 0,
        "Hugepagesize": 2 * MB,
        "Hugetlb": 552960 * KB,
    }


def test_what_perf_could_not_count_is_left_out() -> None:
    assert parse_counts(COUNTED) == {
        "instructions": 8123456789.0,
        "dTLB-loads": 2345678901.0,
        "dTLB-load-misses": 12345678.0,
        "iTLB-load-misses": 456789.0,
    }


def test_counts_of_two_kinds_of_cores_are_added_up() -> None:
    """As of a processor with performance and efficiency cores: each line is extrapolated from its part of the time."""
    told = """\
1000;;cpu_core/instructions/u;600;60.00;;
2000;;cpu_atom/instructions/u;400;40.00;;
500;;cpu_core/dTLB-loads/u;600;60.00;;
<not supported>;;cpu_atom/dTLB-loads/;0;100.00;;
"""
    assert parse_counts(told) == {"instructions": 1400.0}


def test_other_lines_of_perf_count_nothing() -> None:
    assert parse_counts("Error:\nAccess to performance monitoring is limited;;\n1;;cycles;1;100.00\n") == {}


def fake_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, says: str) -> None:
    """A program of perf's name that writes to stderr, first in PATH."""
    (tmp_path / "says").write_text(says)
    program = tmp_path / "perf"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {tmp_path}/says >&2\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_perf_is_asked_for_the_server_and_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_perf(tmp_path, monkeypatch, says=COUNTED)
    found = asyncio.run(count_translations(LocalHost(), os.getpid(), seconds=1.5))

    assert found.reason == ""
    assert found.seconds == 1.5
    assert found.counts["dTLB-load-misses"] == 12345678.0
    asked = (tmp_path / "asked").read_text()
    assert f"-p {os.getpid()}" in asked
    assert asked.rstrip().endswith("-- sleep 1.500")


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("<not supported>;;dTLB-loads;0;100.00;;\n", "as in many virtual machines"),
        ("<not counted>;;dTLB-loads;0;0.00;;\n", "no time in which the processor's counters were free"),
        ("Error:\nAccess to performance monitoring and observability operations is limited.\n", "perf_event_paranoid"),
        ("WARNING: perf not found for kernel 6.1\n", "perf counted nothing: WARNING: perf not found for kernel 6.1"),
        ("", "printed nothing"),
    ],
)
def test_where_perf_counts_nothing_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, reason: str
) -> None:
    fake_perf(tmp_path, monkeypatch, says=says)
    found = asyncio.run(count_translations(LocalHost(), os.getpid(), seconds=1.5))

    assert found.counts == {}
    assert reason in found.reason


def test_a_machine_without_perf_is_told() -> None:
    class Without(Operations):
        def which(self, program: str) -> str | None:
            return None

        def exists(self, path: str) -> bool:
            return False

    found = asyncio.run(count_translations(LocalHost(ops=Without()), os.getpid(), seconds=1.5))

    assert found.reason == 'The program "perf" is missing. Install the package "linux-perf".'


def test_a_level_that_is_too_short_is_not_counted() -> None:
    assert "too short" in asyncio.run(count_translations(LocalHost(), 1, seconds=0.1)).reason


def test_processes_of_one_that_is_gone_are_none() -> None:
    assert children_of(Operations(), 2**22 + 1) == ()


def arm(name: str, *, settings: Mapping[str, str] = {}, **knobs: Mapping[str, str]) -> Arm:
    return Arm(name=name, role=Role.CANDIDATE, settings=settings, knobs=knobs)


def test_pages_are_looked_at_where_arms_differ_in_them_whichever_way_that_is_written() -> None:
    plain, thp = arm("a"), arm("c", transparent_huge_pages={"enabled": "never"})

    assert are_about_pages([plain, thp])
    assert are_about_pages([arm("off", settings={"huge_pages": "off"}), arm("on", settings={"Huge_Pages": "on"})])
    assert not are_about_pages([plain, arm("b", settings={"work_mem": "8MB"})])
    assert not are_about_pages([arm(name, settings={"huge_pages": "off"}) for name in "ab"])
