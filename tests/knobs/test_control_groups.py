from pathlib import Path

import pytest

from pgtrial.hosts.linux.control_groups import Hierarchy, groups_of, hierarchies, own_groups, smallest_limit
from pgtrial.hosts.operations import Operations

# Debian 10: version 1, with a version 2 that has no controllers.
HYBRID = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda1 rw,discard
31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:8 - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:30 / /sys/fs/cgroup/systemd rw,nosuid shared:10 - cgroup cgroup rw,xattr,name=systemd
34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:13 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:14 - cgroup cgroup rw,memory
"""
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


class Captured(Operations):
    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str, limit: int | None = None) -> str:
        return super().read(f"{self.root}{path}", limit)

    def exists(self, path: str) -> bool:
        return super().exists(f"{self.root}{path}")

    def put_all(self, files: dict[str, str]) -> "Captured":
        for name, text in files.items():
            path = Path(f"{self.root}{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self


@pytest.fixture
def host(tmp_path: Path) -> Captured:
    return Captured(tmp_path)


def test_hybrid_system(host: Captured):
    host.put_all({"/proc/self/mountinfo": HYBRID, "/sys/fs/cgroup/unified/cgroup.controllers": "\n"})

    assert hierarchies(host) == (
        Hierarchy(version=2, mount="/sys/fs/cgroup/unified", root="/", controllers=frozenset()),
        Hierarchy(version=1, mount="/sys/fs/cgroup/cpu,cpuacct", root="/", controllers=frozenset({"cpu", "cpuacct"})),
        Hierarchy(version=1, mount="/sys/fs/cgroup/memory", root="/", controllers=frozenset({"memory"})),
    )


def test_system_with_version_2_alone(host: Captured):
    host.put_all({"/proc/self/mountinfo": UNIFIED, "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n"})

    (found,) = hierarchies(host)

    assert (found.version, found.mount) == (2, "/sys/fs/cgroup")
    assert found.controllers == {"cpuset", "cpu", "io", "memory", "pids"}


def test_smallest_limit_of_all_groups_above(host: Captured):
    host.put_all(
        {
            "/proc/self/mountinfo": UNIFIED,
            "/proc/self/cgroup": "0::/a.slice/b.scope\n",
            "/sys/fs/cgroup/cgroup.controllers": "hugetlb\n",
            "/sys/fs/cgroup/a.slice/hugetlb.2MB.max": "4096\n",
            "/sys/fs/cgroup/a.slice/b.scope/hugetlb.2MB.max": "max\n",
            "/sys/fs/cgroup/c.slice/hugetlb.2MB.max": "0\n",
        }
    )

    assert smallest_limit(host, "hugetlb", ["hugetlb.2MB.max"]) == ("/sys/fs/cgroup/a.slice/hugetlb.2MB.max", 4096)
    assert smallest_limit(host, "memory", ["hugetlb.2MB.max"]) is None
    assert smallest_limit(host, "hugetlb", ["hugetlb.1GB.max"]) is None


def test_group_outside_of_what_is_mounted_cannot_be_seen(host: Captured):
    """In a container whose mount shows another group than its own."""
    host.put_all(
        {
            "/proc/self/mountinfo": "31 1 0:27 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "/proc/self/cgroup": "4:memory:/docker/b\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "4096\n",
        }
    )

    assert smallest_limit(host, "memory", ["memory.limit_in_bytes"]) is None


def test_this_machine():
    assert all(Path(found.mount).is_dir() for found in hierarchies(Operations()))


def test_groups_of_a_process_are_its_own_and_those_above(host: Captured):
    host.put_all(
        {
            "/proc/self/mountinfo": HYBRID,
            "/sys/fs/cgroup/unified/cgroup.controllers": "\n",
            "/proc/7/cgroup": "5:memory:/a/b\n4:cpu,cpuacct:/\n1:name=systemd:/a\n0::/a\n",
        }
    )

    assert [groups for _, groups in groups_of(host, 7)] == [
        ("/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"),
        ("/sys/fs/cgroup/cpu,cpuacct",),
        ("/sys/fs/cgroup/unified/a", "/sys/fs/cgroup/unified"),
    ]


@pytest.mark.parametrize(
    ("ours", "own"),
    [
        ("/user.slice/session.scope", ("/sys/fs/cgroup/system.slice/postgresql.service",)),
        ("/system.slice", ("/sys/fs/cgroup/system.slice/postgresql.service",)),
        ("/system.slice/postgresql.service", ()),
    ],
)
def test_groups_that_hold_us_too_or_everybody_are_not_a_servers_own(host: Captured, ours: str, own: tuple[str, ...]):
    host.put_all(
        {
            "/proc/self/mountinfo": UNIFIED,
            "/sys/fs/cgroup/cgroup.controllers": "memory\n",
            "/proc/self/cgroup": f"0::{ours}\n",
            "/proc/7/cgroup": "0::/system.slice/postgresql.service\n",
            "/proc/8/cgroup": "0::/\n",
        }
    )

    assert own_groups(host, 7) == own
    assert own_groups(host, 8) == ()
