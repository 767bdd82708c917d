"""Devices in a made-up /sys and /proc; the number of the file system is the real one of the test's directory."""

import os
from pathlib import Path

import pytest

from pgtrial.engine.sampler_devices import find_devices


class Machine:
    """Block devices below ``root``/sys, as the kernel shows them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.data = root / "data dir"
        self.data.mkdir()
        (root / "sys/dev/block").mkdir(parents=True)
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").touch()

    def add(self, name: str, *, number: str | None = None, parent: Path | None = None) -> Path:
        device = (parent or self.root / "sys/devices") / name
        device.mkdir(parents=True)
        if parent is not None:
            (device / "partition").write_text("1\n")
        if number is not None:
            (self.root / "sys/dev/block" / number).symlink_to(device)
        return device

    def stack(self, device: Path, *below: Path) -> None:
        (device / "slaves").mkdir()
        for slave in below:
            (device / "slaves" / slave.name).symlink_to(slave)

    @property
    def number(self) -> str:
        """Of the file system that the data are on."""
        device = self.data.stat().st_dev
        return f"{os.major(device)}:{os.minor(device)}"

    def find(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return find_devices([str(self.data)], root=self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_whole_disk_is_itself(machine: Machine) -> None:
    machine.add("vda", number=machine.number)

    assert machine.find() == (("vda",), ())


def test_partition_is_on_its_disk(machine: Machine) -> None:
    machine.add("nvme0n1p2", number=machine.number, parent=machine.add("nvme0n1"))

    assert machine.find() == (("nvme0n1",), ())


def test_volume_is_on_the_disks_it_is_made_of(machine: Machine) -> None:
    volume, crypt = machine.add("dm-1", number=machine.number), machine.add("dm-0")
    machine.stack(crypt, machine.add("sda3", parent=machine.add("sda")))
    machine.stack(volume, crypt, machine.add("sdb"))

    assert machine.find() == (("sda", "sdb"), ())


def test_disk_with_an_empty_list_of_slaves_is_a_disk(machine: Machine) -> None:
    machine.stack(machine.add("sda", number=machine.number))

    assert machine.find() == (("sda",), ())


def test_loop_device_is_on_the_disk_of_its_file(machine: Machine) -> None:
    loop = machine.add("loop3", number=machine.number)
    (loop / "loop").mkdir()
    (loop / "loop/backing_file").write_text("/proc/self/status\n")  # on a file system that is on no device

    assert machine.find() == (("loop3",), ())


def test_loop_device_whose_file_lies_on_itself_ends(machine: Machine) -> None:
    loop = machine.add("loop3", number=machine.number)
    (loop / "loop").mkdir()
    (loop / "loop/backing_file").write_text(f"{machine.data}\n")

    assert machine.find() == (("loop3",), ())


def test_btrfs_is_found_by_the_source_of_its_mount(machine: Machine) -> None:
    # A real device node is needed for its number; the machine's own directory of devices serves.
    (machine.root / "dev").symlink_to("/dev")
    device = os.stat("/dev/null").st_rdev  # noqa: PTH116 - the number is what is wanted
    machine.add("sdc", number=f"{os.major(device)}:{os.minor(device)}")
    escaped = str(machine.data).replace(" ", "\\040")
    (machine.root / "proc/self/mountinfo").write_text(
        "22 1 0:21 / / rw - ext4 /dev/nowhere rw\n"
        f"27 22 0:44 /@data {escaped} rw,relatime shared:1 - btrfs /dev/null rw,subvol=/@data\n"
        f"28 22 0:45 / {escaped}/below rw - tmpfs tmpfs rw\n"
    )

    assert machine.find() == (("sdc",), ())


@pytest.mark.parametrize("source", ["overlay", "server:/export", "/dev/does-not-exist"])
def test_directory_on_no_device_is_named(machine: Machine, source: str) -> None:
    (machine.root / "proc/self/mountinfo").write_text(f"22 1 0:21 / / rw - overlay {source} rw\n")

    assert machine.find() == ((), (str(machine.data),))


def test_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert find_devices([str(tmp_path / "none")]) == ((), (str(tmp_path / "none"),))


def test_device_under_data_and_wal_is_named_once(machine: Machine) -> None:
    machine.add("vda", number=machine.number)

    assert find_devices([str(machine.data), str(machine.root)], root=machine.root) == (("vda",), ())
