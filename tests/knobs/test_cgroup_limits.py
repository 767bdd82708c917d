from collections.abc import Mapping

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.control_groups import Hierarchy
from pgtrial.knobs.cgroup_limits import Device, describe, limit_files, place_limits, to_enable

DISK = Device(name="sda", number="8:0")
EVERYTHING = {
    "memory": "2GB",
    "cpus": "1.5",
    "read_iops": "100",
    "write_iops": "50",
    "read_bytes": "10MB",
    "write_bytes": "5MB",
}


def hierarchy(version: int, *controllers: str) -> Hierarchy:
    return Hierarchy(version=version, mount=f"/{controllers[0]}", root="/", controllers=frozenset(controllers))


def files(version: int, wanted: Mapping[str, str]) -> Mapping[str, str]:
    return limit_files(version, wanted, device=DISK, page_size=4096)


def test_version_1():
    assert files(1, EVERYTHING) == {
        "memory.limit_in_bytes": "2147483648",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "blkio.throttle.read_bps_device": "8:0 10485760",
        "blkio.throttle.write_bps_device": "8:0 5242880",
        "blkio.throttle.read_iops_device": "8:0 100",
        "blkio.throttle.write_iops_device": "8:0 50",
    }


def test_version_2():
    assert files(2, EVERYTHING) == {
        "memory.max": "2147483648",
        "cpu.max": "150000 100000",
        "io.max": "8:0 rbps=10485760 wbps=5242880 riops=100 wiops=50",
    }


def test_what_is_not_limited_is_at_its_most_in_version_2():
    assert files(2, {"write_iops": "50"}) == {"io.max": "8:0 rbps=max wbps=max riops=max wiops=50"}


@pytest.mark.parametrize(("version", "name"), [(1, "memory.limit_in_bytes"), (2, "memory.max")])
def test_memory_is_rounded_down_to_pages_as_the_kernel_does(version: int, name: str):
    assert files(version, {"memory": "100000000B"}) == {name: "99999744"}


def test_less_cpu_than_the_kernel_can_count():
    assert files(2, {"cpus": "0.01"}) == {"cpu.max": "1000 100000"}
    with pytest.raises(SettingError, match=r"cannot limit the server to 0.001 CPUs, the least is 0.01"):
        files(2, {"cpus": "0.001"})


def test_each_hierarchy_gets_what_it_has_a_controller_for():
    first, second, unified = hierarchy(1, "memory"), hierarchy(1, "cpuacct", "cpu"), hierarchy(2, "io", "hugetlb")

    assert place_limits((first, second, unified), {"memory": "1GB", "cpus": "2.0", "read_iops": "5"}) == (
        (first, {"memory": "1GB"}),
        (second, {"cpus": "2.0"}),
        (unified, {"read_iops": "5"}),
    )


def test_one_hierarchy_with_all_controllers_gets_all():
    unified = hierarchy(2, "cpu", "io", "memory")

    assert place_limits((unified,), EVERYTHING) == ((unified, EVERYTHING),)


@pytest.mark.parametrize(
    ("wanted", "enabled"),
    [
        ({"read_iops": "5"}, {"io"}),
        ({"write_iops": "5"}, {"io", "memory"}),
        ({"write_bytes": "5MB", "cpus": "1"}, {"cpu", "io", "memory"}),
    ],
)
def test_write_back_is_told_apart_by_the_memory_controller(wanted: Mapping[str, str], enabled: set[str]):
    assert to_enable(hierarchy(2, "cpu", "io", "memory", "pids"), wanted) == enabled
    assert to_enable(hierarchy(2, "cpu", "io"), wanted) == enabled - {"memory"}


def test_controller_of_the_other_version_by_that_name_does_not_do():
    """It is blkio in version 1 and io in version 2."""
    with pytest.raises(SettingError):
        place_limits((hierarchy(1, "io"), hierarchy(2, "blkio")), {"read_iops": "5"})


def test_kernel_without_the_controller_names_it_and_what_there_is():
    with pytest.raises(
        SettingError, match='cannot limit read_iops: no mounted control group has the controller "io"'
    ) as (caught):
        place_limits((hierarchy(1, "memory"), hierarchy(2, "hugetlb")), {"memory": "1GB", "read_iops": "5"})

    assert caught.value.detail == "There are: memory in /memory (version 1); hugetlb in /hugetlb (version 2)."


def test_kernel_without_control_groups():
    with pytest.raises(SettingError) as caught:
        place_limits((), {"memory": "1GB"})

    assert caught.value.detail == "There are: none."


def test_limits_in_words():
    assert describe(EVERYTHING, DISK) == (
        "2 GB of memory and page cache, 1.5 CPUs, 100 reads/s from sda, 50 writes/s to sda, 10 MB/s read from sda, "
        "5 MB/s written to sda"
    )


def test_a_group_of_its_own_for_swappiness_is_made_where_groups_have_one():
    cpu, memory, new = hierarchy(1, "cpu"), hierarchy(1, "memory"), hierarchy(2, "memory", "cpu")
    wanted = {"cpus": "1", "own_swappiness": "on"}

    assert place_limits((cpu, memory), wanted) == ((cpu, {"cpus": "1"}), (memory, {"own_swappiness": "on"}))
    assert place_limits((new,), wanted) == ((new, {"cpus": "1"}),)
    assert place_limits((cpu,), {"own_swappiness": "on"}) == ()
    assert place_limits((memory,), {"own_swappiness": "off"}) == ()
    assert files(1, {"own_swappiness": "on"}) == {}
    assert describe({"own_swappiness": "on"}, None) == "a swappiness of its own"
