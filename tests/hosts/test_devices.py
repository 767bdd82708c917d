import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.hosts.linux.devices import DeviceTree, device_names, devices_under, disks_under, find_device
from pgtrial.hosts.operations import Operations
from support.programs import skip_for_want

OPS = Operations()
DATA = "/srv/data dir"


class Machine:
    """Block devices as the kernel shows them in /sys, with a file system mounted at ``DATA``."""

    def __init__(self, tree) -> None:
        self.tree = tree
        tree.add({f"{DATA}/file": "", "/proc/self/mountinfo": "22 1 0:99 / / rw,relatime - overlay overlay rw\n"})

    def disk(self, name: str, *, number: str | None = None, size: int = 2048) -> str:
        directory = f"/sys/devices/virtual/block/{name}"
        self.tree.add({f"{directory}/size": f"{size}\n", f"{directory}/queue/scheduler": "[none]\n"})
        return self._register(directory, number)

    def partition(self, disk: str, name: str, *, number: str | None = None) -> str:
        self.tree.add({f"{disk}/{name}/partition": "1\n", f"{disk}/{name}/size": "1024\n"})
        return self._register(f"{disk}/{name}", number, whole=False)

    def stacked(self, name: str, *below: str, number: str | None = None) -> str:
        directory = self.disk(name, number=number)
        self.tree.at(f"{directory}/slaves").mkdir()
        for each in below:
            self.tree.link(f"{directory}/slaves/{each.rpartition('/')[2]}", each)
        return directory

    def loop(self, name: str, file: str, *, number: str | None = None) -> str:
        directory = self.disk(name, number=number)
        self.tree.add({f"{directory}/loop/backing_file": f"{file}\n"})
        return directory

    def mount(self, number: str, *, at: str = DATA) -> None:
        """Make ``at`` lie on a device with this number."""
        self.tree.numbers[at] = tuple(int(part) for part in number.split(":"))

    def btrfs(self, *devices: str, read_ahead: bool = True) -> None:
        top = "/sys/fs/btrfs/97f14a31-051d-4712-befe-99af3a718891"
        for device in devices:
            self.tree.link(f"{top}/devices/{device.rpartition('/')[2]}", device)
        if read_ahead:
            self.tree.add({"/sys/devices/virtual/bdi/btrfs-1/read_ahead_kb": "4096\n"})
            self.tree.link(f"{top}/bdi", "/sys/devices/virtual/bdi/btrfs-1")

    def _register(self, directory: str, number: str | None, *, whole: bool = True) -> str:
        name = directory.rpartition("/")[2]
        self.tree.link(f"/sys/class/block/{name}", directory)
        if whole:
            self.tree.link(f"/sys/block/{name}", directory)
        if number is not None:
            self.tree.link(f"/sys/dev/block/{number}", directory)
        return directory


@pytest.fixture
def machine(tree) -> Machine:
    return Machine(tree)


def test_whole_disk_is_itself(machine: Machine):
    machine.disk("vda", number="254:0")
    machine.mount("254:0")

    found = devices_under(machine.tree, DATA)

    assert found.devices == (DeviceTree(name="vda"),)
    assert (found.reason, found.read_ahead) == ("", None)
    assert disks_under(machine.tree, f"{DATA}/file") == ("vda",)


def test_partition_is_its_disk(machine: Machine):
    machine.partition(machine.disk("nvme0n1"), "nvme0n1p2", number="259:2")
    machine.mount("259:2")

    assert devices_under(machine.tree, DATA).devices == (DeviceTree(name="nvme0n1"),)


def test_volume_over_an_encrypted_partition_and_a_disk(machine: Machine):
    crypt = machine.stacked("dm-0", machine.partition(machine.disk("sda"), "sda3"))
    machine.stacked("dm-1", crypt, machine.disk("sdb"), number="253:1")
    machine.mount("253:1")

    (volume,) = devices_under(machine.tree, DATA).devices

    assert volume == DeviceTree(
        name="dm-1",
        below=(DeviceTree(name="dm-0", below=(DeviceTree(name="sda"),)), DeviceTree(name="sdb")),
    )
    assert volume.disks == ("sda", "sdb")


def test_array_of_two_partitions_of_one_disk_has_it_once(machine: Machine):
    disk = machine.disk("sda")
    machine.stacked("md0", machine.partition(disk, "sda1"), machine.partition(disk, "sda2"), number="9:0")
    machine.mount("9:0")

    assert devices_under(machine.tree, DATA).devices == (DeviceTree(name="md0", below=(DeviceTree(name="sda"),)),)


def test_loop_device_is_named_with_the_disk_below_it(machine: Machine):
    machine.disk("vda", number="254:0")
    machine.tree.add({"/images/data.img": ""})
    machine.mount("254:0", at="/images")
    machine.loop("loop3", "/images/data.img", number="7:3")
    machine.mount("7:3")

    (loop,) = devices_under(machine.tree, DATA).devices

    assert loop == DeviceTree(name="loop3", below=(DeviceTree(name="vda"),), is_loop=True)
    assert loop.disks == ("vda",)


def test_loop_device_that_is_given_back_meanwhile_is_none(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    """Also what a host says that answers wrongly: that the file is there, and that it is not."""
    machine.disk("vda", number="254:0")
    machine.mount("254:0")
    exists = machine.tree.exists
    monkeypatch.setattr(machine.tree, "exists", lambda path: path.endswith("/backing_file") or exists(path))

    assert devices_under(machine.tree, DATA).devices == (DeviceTree(name="vda"),)


@pytest.mark.parametrize("file", ["/images/gone.img (deleted)", "/dev/shm/data.img"])
def test_loop_device_whose_file_is_on_no_disk_is_the_bottom(machine: Machine, file: str):
    machine.tree.add({"/dev/shm/data.img": ""})
    machine.loop("loop3", file, number="7:3")
    machine.mount("7:3")

    assert devices_under(machine.tree, DATA).devices == (DeviceTree(name="loop3", is_loop=True),)
    assert disks_under(machine.tree, DATA) == ("loop3",)


def test_loop_device_whose_file_lies_on_itself_ends(machine: Machine):
    machine.loop("loop3", f"{DATA}/file", number="7:3")
    machine.mount("7:3")

    assert disks_under(machine.tree, DATA) == ("loop3",)


def test_btrfs_is_found_by_its_mount_with_all_its_devices(machine: Machine):
    first = machine.partition(machine.disk("sda"), "sda2", number="8:2")
    second = machine.disk("sdb", number="8:16")
    machine.btrfs(first, second)
    machine.mount("8:2", at="/dev/sda2")
    machine.tree.add(
        {
            "/dev/sda2": "",
            "/proc/self/mountinfo": "22 1 0:21 / / rw - ext4 /dev/nowhere rw\n"
            "27 22 0:44 /@data /srv/data\\040dir rw,relatime shared:1 - btrfs /dev/sda2 rw,subvol=/@data\n"
            "28 22 0:45 / /srv/data\\040dir/below rw - tmpfs tmpfs rw\n",
        }
    )

    found = devices_under(machine.tree, DATA)

    assert found.devices == (DeviceTree(name="sda"), DeviceTree(name="sdb"))
    assert machine.tree.read(found.read_ahead) == "4096\n"


def test_btrfs_that_the_kernel_shows_nothing_of_is_on_the_device_of_its_mount(machine: Machine):
    machine.disk("sdc", number="8:32")
    machine.mount("8:32", at="/dev/sdc")
    machine.tree.add({"/dev/sdc": "", "/proc/self/mountinfo": "27 1 0:44 / / rw - btrfs /dev/sdc rw\n"})

    assert devices_under(machine.tree, DATA).devices == (DeviceTree(name="sdc"),)


def test_upper_one_of_two_mounts_over_each_other_counts(machine: Machine):
    machine.disk("sdc", number="8:32")
    machine.mount("8:32", at="/dev/sdc")
    machine.tree.add(
        {
            "/dev/sdc": "",
            "/proc/self/mountinfo": "27 1 0:44 / / rw - btrfs /dev/sdc rw\n28 27 0:99 / / rw - overlay overlay rw\n",
        }
    )

    found = devices_under(machine.tree, DATA)

    assert found.devices == ()
    assert "overlay" in found.reason


@pytest.mark.parametrize(
    ("kind", "source"),
    [("overlay", "overlay"), ("nfs4", "server:/export"), ("zfs", "tank/data"), ("btrfs", "/dev/gone"), ("tmpfs", "")],
)
def test_directory_on_no_device_has_a_reason(machine: Machine, kind: str, source: str):
    machine.tree.add({"/proc/self/mountinfo": f"22 1 0:21 / / rw - {kind} {source} rw\n"})

    found = devices_under(machine.tree, DATA)

    assert found.devices == ()
    assert found.reason == f'The {kind} at "/" ("{source}") is on no block device of its own.'


def test_file_system_without_a_mount_is_named_by_its_number(machine: Machine):
    machine.tree.add({"/proc/self/mountinfo": ""})

    assert "unknown file system" in devices_under(machine.tree, DATA).reason
    assert DATA not in devices_under(machine.tree, DATA).reason


def test_directory_that_is_not_there_has_a_reason(machine: Machine):
    assert devices_under(machine.tree, "/none").reason == '"/none": No such file or directory.'


def test_device_is_found_by_the_name_of_its_partition_too(machine: Machine):
    machine.partition(machine.disk("sda"), "sda1")

    assert find_device(machine.tree, "sda") == find_device(machine.tree, "sda1") == DeviceTree(name="sda")


@pytest.mark.parametrize("name", ["sdb", "..", "../../devices", "sda/sda1", "", "*"])
def test_what_is_no_name_of_a_device_is_none(machine: Machine, name: str):
    machine.partition(machine.disk("sda"), "sda1")

    assert find_device(machine.tree, name) is None


def test_names_of_devices_leave_empty_ones_out(machine: Machine):
    machine.disk("vda")
    machine.disk("loop7", size=0)

    assert device_names(machine.tree) == ("vda",)


def test_directory_of_this_machine_agrees_with_the_kernel(tmp_path: Path):
    major, minor = OPS.device_of(str(tmp_path))
    entry = Path(f"/sys/dev/block/{major}:{minor}")
    found = devices_under(OPS, str(tmp_path))

    if entry.exists():
        assert [device.name in entry.resolve().parts for device in found.devices] == [True]
    assert bool(found.devices) != bool(found.reason)
    assert all(Path(f"/sys/block/{name}/queue").is_dir() for name in disks_under(OPS, str(tmp_path)))


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory that is not in memory, of whose file system one knows the disks."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def loops(on_disk: Path) -> Iterator[list[str]]:
    """Two loop devices on files of 256 MB, without blocks yet."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("attaching a loop device needs root and /dev/loop-control")
    devices = []
    try:
        for number in range(2):
            image = on_disk / f"{number}.img"
            with image.open("wb") as file:
                file.truncate(256 << 20)
            argv = ["losetup", "--find", "--show", image]
            devices.append(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip())
        yield devices
    finally:
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture
def mounted(loops: list[str], tmp_path: Path) -> Iterator[Path]:
    """A real btrfs of both of them."""
    if "btrfs" not in Path("/proc/filesystems").read_text():
        pytest.skip("no btrfs in this kernel")
    if shutil.which("mkfs.btrfs") is None:
        skip_for_want("mkfs.btrfs", "apt install btrfs-progs")
    subprocess.run(["mkfs.btrfs", "--quiet", "--force", *loops], check=True, capture_output=True)
    directory = tmp_path / "mounted here"
    directory.mkdir()
    subprocess.run(["mount", "-t", "btrfs", loops[0], directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", directory], check=True)


def test_real_btrfs_on_two_loop_devices(mounted: Path, loops: list[str], on_disk: Path):
    found = devices_under(OPS, str(mounted))

    assert {device.name for device in found.devices} == {Path(loop).name for loop in loops}
    assert all(device.is_loop and device.disks == disks_under(OPS, str(on_disk)) for device in found.devices)
    assert int(OPS.read(found.read_ahead)) > 0
