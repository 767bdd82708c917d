import os
from pathlib import Path

import pytest

from pgtrial.engine.fingerprint import VERSION_FACT, read_environment, read_machine
from pgtrial.postgres.programs import Programs


@pytest.fixture
def environment(tmp_path):
    programs = Programs(directory=Path("/opt/pg/bin"), version="18.1", major=18, origin="PATH")
    return read_environment(programs=programs, data_directory=tmp_path)


def test_machine_is_described_by_what_its_files_say():
    facts = read_machine()

    assert facts["kernel/release"] == os.uname().release
    assert facts["kernel/boot id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["kernel/vm.swappiness"] == Path("/proc/sys/vm/swappiness").read_text().strip()
    assert int(facts["machine/CPUs usable by pgtrial"]) == len(os.sched_getaffinity(0))


def test_machine_is_the_same_when_it_is_read_twice():
    assert read_machine() == read_machine()


def test_choice_in_brackets_is_the_one_in_force():
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        assert "kernel/transparent_hugepage.enabled" not in read_machine()
        return
    value = read_machine()["kernel/transparent_hugepage.enabled"]
    assert f"[{value}]" in path.read_text()


def test_what_this_kernel_does_not_have_is_absent():
    for name, value in read_machine().items():
        assert value != ""
        if name.startswith("kernel/vm."):
            assert (Path("/proc/sys") / name.removeprefix("kernel/").replace(".", "/", 1)).exists()


def test_programs_and_storage_are_in_the_facts_of_the_experiment(environment, tmp_path):
    assert environment[VERSION_FACT] == "18.1"
    assert environment["PostgreSQL/programs"] == "/opt/pg/bin"
    assert environment["storage/data directory"] == str(tmp_path)


def test_mount_is_the_one_that_holds_the_data(environment, tmp_path):
    mount = Path(environment["storage/mount point"])

    assert os.path.ismount(mount)
    assert tmp_path.is_relative_to(mount)
    assert mount.stat().st_dev == tmp_path.stat().st_dev
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    assert environment["storage/file system"] in [fields[2] for fields in mounts if fields[1] == str(mount)]


def test_facts_of_the_machine_are_in_those_of_the_experiment(environment):
    assert read_machine().items() <= environment.items()
