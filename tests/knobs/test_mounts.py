import os
from pathlib import Path

import pytest

from pgtrial.hosts.linux.mounts import existing, mount_at, mount_of, options_of, read_mounts
from pgtrial.hosts.operations import Operations

MOUNTINFO = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard,resuid=65534
40 27 7:0 / /mnt/a\040b rw,noatime - xfs /dev/mapper/x\134y rw,inode64,logbsize=32k
41 27 0:39 /sub /mnt/c rw,nosuid,nodev - btrfs /dev/loop1 rw,compress=zstd:3,space_cache=v2
42 41 0:40 / /mnt/c rw - tmpfs tmpfs rw
43 27 0:41 / /mnt/d rw - fuse.x  rw
"""


class Captured(Operations):
    def read(self, path: str, limit: int | None = None) -> str:
        assert path == "/proc/self/mountinfo"
        return MOUNTINFO

    def mount_id(self, path: str) -> int:
        return int(path)

    def resolve(self, path: str) -> str:
        return f"/sys/devices/{path.rpartition(':')[2]}/vda"

    def read_all(self, patterns: list[str], limit: int = 65536) -> dict[str, str]:
        return {path: "rw\ncommit=5\nnobarrier\n" for path in patterns if path == "/proc/fs/ext4/vda/options"}


def test_the_kernels_list_of_mounts_is_read() -> None:
    mounts = list(read_mounts(Captured()))

    assert [(mount.number, mount.point, mount.kind, mount.source) for mount in mounts] == [
        (22, "/proc", "proc", "proc"),
        (27, "/", "ext4", "/dev/vda"),
        (40, "/mnt/a b", "xfs", r"/dev/mapper/x\y"),
        (41, "/mnt/c", "btrfs", "/dev/loop1"),
        (42, "/mnt/c", "tmpfs", "tmpfs"),
        (43, "/mnt/d", "fuse.x", ""),
    ]
    assert mounts[1].shown == ("rw", "relatime", "rw", "discard", "resuid=65534")
    assert mounts[3].kept_flags == 2 | 4


def test_of_two_mounts_at_one_point_the_last_is_on_top() -> None:
    top = mount_at(Captured(), "/mnt/c")

    assert top is not None
    assert top.kind == "tmpfs"
    assert mount_at(Captured(), "/mnt") is None


def test_a_path_is_on_the_mount_that_the_kernel_says() -> None:
    assert mount_of(Captured(), "41").point == "/mnt/c"
    with pytest.raises(FileNotFoundError):
        mount_of(Captured(), "99")


def test_ext4_shows_elsewhere_what_is_the_default() -> None:
    options = options_of(Captured(), mount_of(Captured(), "27"))

    assert (options["barriers"], options["commit"], options["discard"]) == ("nobarrier", "commit=5", "discard")


def test_the_options_of_other_file_systems_are_not_known() -> None:
    assert options_of(Captured(), mount_of(Captured(), "42")) == {}
    assert options_of(Captured(), mount_of(Captured(), "40"))["logbsize"] == "logbsize=32768"


def test_this_machines_mounts_are_read(tmp_path: Path) -> None:
    ops = Operations()
    mount = mount_of(ops, str(tmp_path))

    assert f"{os.path.realpath(tmp_path)}/".startswith(mount.point)
    assert mount_of(ops, "/proc/self/stat").kind == "proc"


def test_the_nearest_directory_that_is_there_stands_for_one_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert existing(Operations(), str(tmp_path / "link" / "a" / "b")) == str(tmp_path.resolve())
    assert existing(Operations(), "/no/where") == "/"
