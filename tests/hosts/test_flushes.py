"""Flushes that do not reach a disk, found by mounts and devices."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.fingerprint.machine import read_storage
from pgtrial.hosts.linux.flushes import lost_flushes
from pgtrial.hosts.operations import Operations
from pgtrial.model.fingerprint import Lost, LostFlushes, flush_facts, read_flushes

# Captured: the root of a container that buildah ran (its name shortened), overlays of Linux 6.18 and 5.15, and others.
ROOT = "27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,discard"
BUILDAH = (
    "27 1 0:39 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containers/storage/overlay/l/7M,"
    "upperdir=/var/lib/containers/storage/overlay/d0/diff,workdir=/var/lib/containers/storage/overlay/d0/work,"
    "uuid=on,fsync=volatile"
)
OLDER = "27 1 0:39 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w,volatile"
PLAIN = "27 1 0:39 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/volatile,workdir=/w,uuid=on"
TMPFS = "40 27 0:40 / /data rw,nosuid,nodev - tmpfs tmpfs rw,size=8g"


@pytest.fixture
def machine(tree: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A disk with a write cache under "/"; ``mounts(lines)`` says what else is mounted, and ``/data`` is looked at."""
    tree.add({"/sys/devices/sda/queue/write_cache": "write back\n", "/sys/devices/sda/sda1/partition": "1\n"})
    tree.link("/sys/block/sda", "/sys/devices/sda")
    tree.link("/sys/dev/block/8:1", "/sys/devices/sda/sda1")
    tree.at("/data").mkdir(parents=True)
    tree.numbers = {"/": (8, 1)}

    def mounts(*lines: str) -> None:
        tree.add({"/proc/self/mountinfo": "".join(f"{line}\n" for line in lines)})
        points = {line.split()[4]: int(line.split()[0]) for line in lines}

        def number(_: object, path: str) -> int:
            above = (point for point in points if f"{path}/".startswith(f"{point.rstrip('/')}/"))
            return points[max(above, key=len)]

        monkeypatch.setattr(type(tree), "mount_id", number, raising=False)

    tree.mounts = mounts
    return tree


def test_on_a_disk_nothing_is_known_to_be_lost(machine: Any) -> None:
    machine.mounts(ROOT)

    assert lost_flushes(machine, "/data") is None


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        ([BUILDAH], LostFlushes(lost=Lost.LEFT_OUT, by="overlay, fsync=volatile")),
        ([OLDER], LostFlushes(lost=Lost.LEFT_OUT, by="overlay, volatile")),
        ([PLAIN], None),
        ([ROOT, TMPFS], LostFlushes(lost=Lost.MEMORY, by="tmpfs")),
        ([f"{ROOT},nobarrier"], LostFlushes(lost=Lost.CACHE, by="ext4, nobarrier")),
        ([f"{ROOT},barrier=0".replace("ext4", "ext3")], LostFlushes(lost=Lost.CACHE, by="ext3, barrier=0")),
        ([f"{ROOT},nobarrier".replace("ext4", "xfs")], LostFlushes(lost=Lost.CACHE, by="xfs, nobarrier")),
        ([f"{ROOT},nobarrier".replace("ext4", "btrfs")], LostFlushes(lost=Lost.CACHE, by="btrfs, nobarrier")),
        (
            [f"{ROOT},fsync_mode=nobarrier".replace("ext4", "f2fs")],
            LostFlushes(lost=Lost.CACHE, by="f2fs, fsync_mode=nobarrier"),
        ),
        ([f"{ROOT},barrier".replace("ext4", "f2fs")], None),
    ],
)
def test_mounts_tell_which_flushes_are_lost(machine: Any, lines: list[str], lost: LostFlushes | None) -> None:
    machine.mounts(*lines)

    assert lost_flushes(machine, "/data") == lost


def test_options_that_are_kept_in_the_file_system_count(machine: Any) -> None:
    """tune2fs -o nobarrier: mountinfo shows what differs from it."""
    machine.mounts(ROOT)
    machine.add({"/proc/fs/ext4/sda1/options": "rw\nnobarrier\n"})

    assert lost_flushes(machine, "/data") == LostFlushes(lost=Lost.CACHE, by="ext4, nobarrier")


def test_barriers_are_not_missed_where_the_disk_has_no_cache_to_empty(machine: Any) -> None:
    machine.mounts(f"{ROOT},nobarrier")
    machine.add({"/sys/devices/sda/queue/write_cache": "write through\n"})

    assert lost_flushes(machine, "/data") is None


@pytest.mark.parametrize(
    ("under", "lost"),
    [
        ([BUILDAH], LostFlushes(lost=Lost.LEFT_OUT, by="overlay, fsync=volatile")),
        ([ROOT, "41 27 0:41 / /images rw - tmpfs tmpfs rw"], LostFlushes(lost=Lost.MEMORY, by="tmpfs")),
        ([ROOT], None),
    ],
)
def test_a_loop_device_is_looked_through(machine: Any, under: list[str], lost: LostFlushes | None) -> None:
    machine.mounts(*under, "50 27 7:3 / /data rw,relatime - ext4 /dev/loop3 rw")
    machine.add({"/sys/devices/loop3/loop/backing_file": "/images/file\n", "/images/file": ""})
    machine.link("/sys/block/loop3", "/sys/devices/loop3")
    machine.link("/sys/dev/block/7:3", "/sys/devices/loop3")
    machine.numbers["/data"] = (7, 3)

    assert lost_flushes(machine, "/data") == lost


def test_a_loop_device_on_itself_ends(machine: Any) -> None:
    machine.mounts(ROOT, "50 27 7:3 / /data rw,relatime - ext4 /dev/loop3 rw")
    machine.add({"/sys/devices/loop3/loop/backing_file": "/data/file\n", "/data/file": ""})
    machine.link("/sys/block/loop3", "/sys/devices/loop3")
    machine.link("/sys/dev/block/7:3", "/sys/devices/loop3")
    machine.numbers["/data"] = (7, 3)

    assert lost_flushes(machine, "/data") is None


@pytest.mark.parametrize("name", ["zram0", "ram12", "nullb0"])
def test_devices_in_memory_are_known_by_their_names_also_under_a_volume(machine: Any, name: str) -> None:
    machine.mounts(ROOT, "50 27 253:0 / /data rw,relatime - xfs /dev/mapper/vg-data rw")
    machine.add({"/sys/devices/dm-0/size": "1\n", f"/sys/devices/{name}/size": "1\n"})
    machine.link("/sys/dev/block/253:0", "/sys/devices/dm-0")
    machine.link(f"/sys/devices/dm-0/slaves/{name}", f"/sys/devices/{name}")
    machine.numbers["/data"] = (253, 0)

    assert lost_flushes(machine, "/data") == LostFlushes(lost=Lost.MEMORY, by=name)


@pytest.mark.parametrize("lost", [LostFlushes(lost=lost, by="x") for lost in Lost])
def test_facts_are_read_as_they_were_written(lost: LostFlushes) -> None:
    assert read_flushes(flush_facts("WAL", lost), "WAL") == lost
    assert read_flushes(flush_facts("WAL", lost), "data") is None


def test_what_is_not_known_is_no_fact_and_an_unknown_fact_is_none() -> None:
    assert flush_facts("data", None) == {}
    assert read_flushes({"storage/data flushes": "go to the moon"}, "data") is None


@pytest.fixture
def volatile(tmp_path: Path) -> Iterator[Path]:
    """A real overlay that leaves flushes out."""
    if os.geteuid() != 0:
        pytest.skip("mounting an overlay needs root")
    places = {name: tmp_path / name for name in ("lower", "upper", "work", "merged")}
    for place in places.values():
        place.mkdir()
    directories = f"lowerdir={places['lower']},upperdir={places['upper']},workdir={places['work']}"
    command = ["mount", "-t", "overlay", "-o", f"{directories},volatile", "overlay", str(places["merged"])]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("this kernel mounts no volatile overlay here")
    try:
        yield places["merged"]
    finally:
        subprocess.run(["umount", places["merged"]], check=True)


def test_a_real_overlay_that_is_volatile_is_found(volatile: Path) -> None:
    facts = read_storage(Operations(), [str(volatile / "data")])

    assert facts["storage/data flushes"] == "are left out"
    assert facts["storage/data flushes decided by"] in {"overlay, volatile", "overlay, fsync=volatile"}


def test_this_machine_s_memory_is_no_disk() -> None:
    if not any(line.split()[4:5] == ["/dev/shm"] for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        pytest.skip("nothing is mounted at /dev/shm")

    assert lost_flushes(Operations(), "/dev/shm") == LostFlushes(lost=Lost.MEMORY, by="tmpfs")
