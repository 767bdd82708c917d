import pytest

from pgtrial.engine.fingerprint.limits import limit_facts, read_limits
from pgtrial.model.fingerprint import QUOTA

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2_MOUNTS = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_nothing_is_said_where_there_are_no_groups(tree):
    assert read_limits(tree, pid=None) == {}


def test_a_group_without_limits_is_unlimited(tree):
    tree.add(
        {
            "/proc/self/mountinfo": V2_MOUNTS,
            "/proc/self/cgroup": "0::/user.slice\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu io memory\n",
            "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/user.slice/memory.max": "max\n",
        }
    )

    assert read_limits(tree, pid=None) == {
        "limits/CPU quota": "unlimited",
        "limits/memory": "unlimited",
        "limits/I/O": "unlimited",
    }


def test_the_tightest_limit_on_the_way_up_counts(tree):
    inner, outer = "/sys/fs/cgroup/system.slice/postgresql.service", "/sys/fs/cgroup/system.slice"
    tree.add(
        {
            "/proc/self/mountinfo": V2_MOUNTS,
            "/proc/321/cgroup": "0::/system.slice/postgresql.service\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu io memory\n",
            f"{inner}/cpu.max": "150000 100000\n",
            f"{outer}/cpu.max": "200000 100000\n",
            f"{inner}/memory.max": "max\n",
            f"{inner}/memory.high": "2147483648\n",
            f"{outer}/memory.max": "1073741824\n",
            f"{inner}/io.max": "254:0 rbps=104857600 wbps=max riops=max wiops=500\n",
            f"{outer}/io.max": "254:0 rbps=52428800 wbps=max riops=max wiops=max\n"
            "8:0 rbps=max wbps=max riops=9 wiops=max\n",
            f"{inner}/cpuset.cpus.effective": "2-3\n",
            f"{outer}/cpuset.cpus.effective": "0-3\n",
            f"{inner}/cpu.stat": "usage_usec 5\nnr_throttled 3\nthrottled_usec 1500000\n",
        }
    )

    assert read_limits(tree, pid=321) == {
        "limits/CPU quota": "1.5 CPUs",
        "limits/memory": "1 GB",
        "limits/I/O": "254:0 read 50 MB/s, write 500/s; 8:0 read 9/s",
        "limits/CPUs": "2-3",
        QUOTA: "1.500",
    }


def test_version_1_has_a_hierarchy_for_each_controller(tree):
    tree.add(
        {
            "/proc/self/mountinfo": V1_MOUNTS,
            "/proc/self/cgroup": "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n2:blkio:/\n1:name=systemd:/\n0::/\n",
            "/sys/fs/cgroup/unified/cgroup.controllers": "\n",
            "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us": "50000\n",
            "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/cpu/docker/x/cpu.stat": "nr_periods 4\nnr_throttled 2\nthrottled_time 2500000000\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "2147483648\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device": "254:0 1048576\n",
        }
    )

    assert read_limits(tree, pid=None) == {
        "limits/CPU quota": "0.5 CPUs",
        "limits/memory": "2 GB",
        "limits/I/O": "254:0 write 1 MB/s",
        QUOTA: "2.500",
    }


def test_a_container_sees_its_own_group_at_the_top(tree):
    tree.add(
        {
            "/proc/self/mountinfo": "31 23 0:28 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "/proc/self/cgroup": "0::/docker/x\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu\n",
            "/sys/fs/cgroup/cpu.max": "400000 100000\n",
        }
    )

    assert read_limits(tree, pid=None)["limits/CPU quota"] == "4 CPUs"


@pytest.mark.parametrize("path", ["/elsewhere", "/../.."])
def test_a_group_outside_of_what_is_mounted_says_nothing(tree, path):
    tree.add(
        {
            "/proc/self/mountinfo": "31 23 0:28 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "/proc/self/cgroup": f"0::{path}\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu\n",
            "/sys/fs/cgroup/cpu.max": "400000 100000\n",
        }
    )

    assert read_limits(tree, pid=None) == {}


def test_without_files_there_are_no_facts():
    assert limit_facts(["/sys/fs/cgroup"], {}) == {}
