import os
import subprocess
import time
from pathlib import Path

import pytest

from pgtrial.engine.fingerprint.read import (
    VERSION_FACT,
    Machine,
    read_environment,
    read_machine,
    read_server,
    taken_by_others,
)
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.operations import MARK, Operations
from pgtrial.model.fingerprint import CPU_ALL, CPU_OTHERS, CPU_OWN, CPU_STEAL, FREE, NOW, OTHERS, SIZE
from pgtrial.postgres.programs import Programs
from support import wait_until

OPS = Operations()
BUSY = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


def cpu_seconds(pid: int) -> float:
    return next((rest[-1] for found, *rest in OPS.cpu_times("test-fingerprint") if found == pid), 0.0)


def compared(machine: Machine) -> dict[str, str]:
    return {name: value for name, value in machine.facts.items() if not name.startswith(f"{NOW}/")}


def test_machine_is_described_by_what_its_files_say():
    facts = read_machine(OPS).facts

    assert facts["kernel/release"] == os.uname().release
    assert facts["kernel/boot id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["kernel/vm.swappiness"] == Path("/proc/sys/vm/swappiness").read_text().strip()
    assert int(facts["machine/CPUs usable by pgtrial"]) == len(os.sched_getaffinity(0))
    assert float(facts[CPU_ALL]) > 0


def test_what_is_not_of_the_moment_is_the_same_when_it_is_read_twice(tmp_path):
    # Some kernel settings may be set by another program just now; the machine itself is not.
    first, second = (compared(read_machine(OPS, directories=(str(tmp_path),))) for _ in range(2))

    assert {name for name in first.keys() | second.keys() if first.get(name) != second.get(name)} <= {
        name for name in first if name.startswith(("kernel/", "storage/data queue", "limits/"))
    }


def test_nothing_is_empty_and_every_name_has_a_group():
    facts = read_machine(OPS, directories=("/var/tmp",)).facts

    assert all(value for value in facts.values())
    assert {name.partition("/")[0] for name in facts} <= {
        "kernel",
        "limits",
        "machine",
        "now",
        "pgtrial",
        "storage",
        "system",
    }


def test_what_this_kernel_does_not_have_is_absent():
    names = [name for name in read_machine(OPS).facts if name.startswith("kernel/vm.")]

    assert names
    assert all(Path("/proc/sys/vm", name.removeprefix("kernel/vm.")).exists() for name in names)


def test_other_kernel_settings_are_read_where_an_arm_sets_them():
    name = "vm.admin_reserve_kbytes"

    assert f"kernel/{name}" not in read_machine(OPS).facts
    for written in (name, name.replace(".", "/")):
        facts = read_machine(OPS, sysctls=(written,)).facts
        assert facts[f"kernel/{name}"] == Path("/proc/sys/vm/admin_reserve_kbytes").read_text().strip()


def test_storage_is_that_of_the_place_where_a_directory_will_be(tmp_path):
    facts = read_machine(OPS, directories=(str(tmp_path / "data"), str(tmp_path / "data/pg_wal"))).facts

    mount = Path(facts["storage/data mount point"])
    assert os.path.ismount(mount)
    assert tmp_path.is_relative_to(mount)
    assert facts["storage/WAL file system"] == "that of the data"
    assert 0 < int(facts[FREE]) <= int(facts[SIZE])


def test_who_used_the_cpu_between_two_readings_is_told():
    mine = {**os.environ, MARK: "test-fingerprint"}
    before, begun = read_machine(OPS, mark="test-fingerprint"), time.monotonic()
    # One of them has ended, and is waited for, when the second reading is made.
    with subprocess.Popen(["python3", "-c", BUSY], env=mine) as own, subprocess.Popen(["python3", "-c", BUSY]) as other:
        try:
            wait_until(lambda: min(cpu_seconds(own.pid), cpu_seconds(other.pid)) >= 0.3)
            after = read_machine(OPS, mark="test-fingerprint", since=before)
        finally:
            own.kill()
            other.kill()

    of_all = (time.monotonic() - begun) * (os.cpu_count() or 1)
    assert float(after.facts[CPU_OWN]) + 0.005 >= 0.3 / of_all  # it has two digits
    assert float(after.facts[CPU_OTHERS]) + 0.005 >= 0.3 / of_all
    # The three that used most are named; other tests may be among them.
    assert "python3" in after.facts[OTHERS] or after.facts[OTHERS].count("%") == 3
    assert OTHERS not in before.facts


def test_environment_tells_whose_programs_and_whose_pgtrial(tmp_path):
    pgbench = tmp_path / "pgbench"
    pgbench.write_text("#!/bin/sh\necho 'pgbench (PostgreSQL) 18.1'\n")
    pgbench.chmod(0o755)
    facts = read_environment(OPS, programs=Programs(directory=tmp_path, version="18.1", major=18, origin="PATH"))

    assert facts[VERSION_FACT] == "18.1"
    assert facts["PostgreSQL/programs"] == str(tmp_path)
    assert facts["PostgreSQL/pgbench"] == "pgbench (PostgreSQL) 18.1"
    assert facts["pgtrial/version"] == read_machine(OPS).facts["pgtrial/version"]


def test_programs_that_do_not_start_are_no_error():
    programs = Programs(directory=Path("/no/where"), version="18.1", major=18, origin="PATH")

    assert "PostgreSQL/pgbench" not in read_environment(OPS, programs=programs)


@pytest.mark.pg
def test_a_running_server_tells_its_version_and_how_it_was_built(served, runner, programs):
    facts = runner.run(read_server(served.conninfo()))

    assert facts[VERSION_FACT] == programs.version
    assert facts["PostgreSQL/build"].startswith(f"PostgreSQL {programs.version}")
    assert facts["PostgreSQL/compiler flags"]
    assert "PostgreSQL/configured with" in facts


@pytest.mark.pg
def test_an_ordinary_user_is_not_told_how_a_server_was_built(served, runner):
    async def ask() -> dict[str, str]:
        from pgtrial.postgres.connect import execute

        await execute(served.conninfo(), "CREATE ROLE ordinary LOGIN")
        return await read_server(f"{served.conninfo()} user=ordinary")

    assert set(runner.run(ask())) == {VERSION_FACT, "PostgreSQL/build"}


@pytest.mark.pg
def test_limits_are_those_of_the_server(served):
    facts = read_machine(OPS, directories=(str(served.data),)).facts
    lock = Path(served.data / "postmaster.pid").read_text()

    assert facts["limits/CPU quota"]
    assert Path(f"/proc/{lock.splitlines()[0]}/cgroup").exists()


def test_a_host_is_read_over_a_connection_as_it_is_read_here(sshd, runner, monkeypatch):
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())

    async def read() -> tuple[Machine, Machine]:
        async with open_host(sshd.address, mark="remote-fingerprint") as host:
            before = read_machine(host.ops, directories=("/var/tmp",), mark="remote-fingerprint")
            return before, read_machine(host.ops, directories=("/var/tmp",), since=before)

    before, after = runner.run(read())
    here = read_machine(OPS, directories=("/var/tmp",))

    assert before.facts.keys() == here.facts.keys()
    same = [name for name in here.facts if name.startswith(("machine/", "system/")) or name == "kernel/boot id"]
    assert {name: before.facts[name] for name in same} == {name: here.facts[name] for name in same}
    assert CPU_OTHERS in after.facts


@pytest.mark.parametrize(
    ("others", "stolen", "share"),
    [("3.00", "1.00", 0.4), ("3.00", None, 0.3), ("0.00", "0.00", 0.0), (None, "1.00", None)],
)
def test_what_others_took_of_the_cpu_time_is_known_with_the_hypervisors(others, stolen, share):
    before = {CPU_ALL: "100.00", CPU_STEAL: "5.00"}
    after = {CPU_ALL: "110.00"}
    after |= {} if others is None else {CPU_OTHERS: others}
    after |= {} if stolen is None else {CPU_STEAL: f"{5 + float(stolen):.2f}"}

    found = taken_by_others(Machine(facts=before, times=()), Machine(facts=after, times=()))

    assert found == (None if share is None else pytest.approx(share))
