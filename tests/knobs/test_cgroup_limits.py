import asyncio
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from pgtrial.errors import SettingError, TargetError
from pgtrial.hosts.linux.control_groups import Hierarchy, hierarchies
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.cgroup_limits import (
    Device,
    describe,
    is_write_back,
    limit_files,
    place_limits,
    to_enable,
    unlimited_reads,
)
from pgtrial.knobs.filesystem import Filesystem
from pgtrial.model.change import JournalEntry, Outcome
from support.killing import KILLS, MOMENTS, run_killed

DISK = Device(name="sda", number="8:0")
EVERYTHING = {
    "memory": "2GB",
    "cpus": "1.5",
    "read_iops": "100",
    "write_iops": "50",
    "read_bytes": "10MB",
    "write_bytes": "5MB",
}
LOOP = "/sys/devices/virtual/block/loop3"
TOP = "/cg/blkio/blkio.throttle"
BYTES, IOPS = f"{TOP}.write_bps_device", f"{TOP}.write_iops_device"
WANTED = {"read_iops": "3000", "write_iops": "1500", "write_bytes": "8MB"}


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


def fill(tree, *, image: str = "/data/pgtrial-token-1.img", root: str = "/") -> None:
    """A host with version 1 and data on a loop device, beside another one with a limit of somebody's."""
    tree.add(
        {
            "/proc/self/mountinfo": f"31 23 0:27 {root} /cg/blkio rw - cgroup cgroup rw,blkio\n"
            "27 1 7:3 / /data/point rw - ext4 /dev/loop3 rw\n",
            f"{LOOP}/loop/backing_file": f"{image}\n",
            f"{LOOP}/dev": "7:3\n",
            "/data/point/file": "",
            BYTES: "7:1 4096\n",
            IOPS: "",
        }
    )
    for path in ("/sys/block/loop3", "/sys/class/block/loop3", "/sys/dev/block/7:3"):
        tree.link(path, LOOP)
    tree.numbers["/data/point"] = 7, 3
    for path in (BYTES, IOPS):
        tree.on_write[path] = lambda text, path=path: _set_rate(tree, path, text)


def _set_rate(tree, path: str, text: str) -> None:
    number, rate = text.split()
    lines = [line for line in tree.read(path).splitlines() if line.split()[0] != number]
    tree.add({path: "".join(f"{line}\n" for line in [*lines, *([f"{number} {rate}"] if rate != "0" else [])])})


def write_back(table) -> list:
    return [change for change in table.plan(WANTED) if is_write_back(change)]


@pytest.fixture
def table(tree, bench):
    fill(tree)
    return bench(Cgroup(), tree, "/data/point")


def test_write_back_to_the_own_loop_device_has_the_limits_of_writes(table) -> None:
    (change,) = write_back(table)

    assert change.name == "write-back to loop3"
    assert change.new == {f"{BYTES} 7:3": str(8 << 20), f"{IOPS} 7:3": "1500"}
    assert change.old == dict.fromkeys(change.new, "0")
    assert (change.old_text, change.new_text) == (
        "not limited, not limited",
        "1500 writes/s to loop3, 8 MB/s written to loop3",
    )


def test_limits_of_reads_are_those_of_the_servers_group_alone(table) -> None:
    assert not any(map(is_write_back, table.plan({"read_iops": "3000"})))


def test_they_are_set_read_back_and_lifted_and_others_stay(table, tree) -> None:
    (change,) = write_back(table)
    table.begin(change)
    got = asyncio.run(Cgroup().apply(table.context, change))
    confirmed = replace(table.entries[0], got=got)

    assert tree.read(BYTES) == f"7:1 4096\n7:3 {8 << 20}\n"
    assert asyncio.run(Cgroup().still_applied(table.host, confirmed)) == ""
    assert table.undo(confirmed).outcome is Outcome.RESTORED
    assert (tree.read(BYTES), tree.read(IOPS)) == ("7:1 4096\n", "")
    assert table.undo(confirmed).outcome is Outcome.ALREADY


def test_a_limit_that_somebody_else_has_set_since_is_left(table, tree) -> None:
    (change,) = write_back(table)
    table.begin(change)
    confirmed = replace(table.entries[0], got=asyncio.run(Cgroup().apply(table.context, change)))
    tree.write(BYTES, "7:3 99")

    assert "is 99 now" in asyncio.run(Cgroup().still_applied(table.host, confirmed))
    assert table.undo(confirmed).outcome is Outcome.CHANGED
    assert "7:3 99" in tree.read(BYTES)


def test_servers_that_share_a_device_have_the_higher_limit(table, tree) -> None:
    tree.write(BYTES, f"7:3 {16 << 20}")

    (change,) = write_back(table)

    assert change.new[f"{BYTES} 7:3"] == str(16 << 20)


@pytest.mark.parametrize(
    ("first", "second"), [("8MB", "8MB"), ("8MB", "16MB"), ("16MB", "8MB")], ids=["equal", "rising", "falling"]
)
def test_servers_that_share_a_device_are_no_fault_of_each_other(table, tree, first: str, second: str) -> None:
    """The last one that was started is the first to be undone."""
    for wanted in (first, second):
        (change,) = (each for each in table.plan({"write_bytes": wanted}) if is_write_back(each))
        table.begin(change)
        table.entries[-1] = replace(table.entries[-1], got=asyncio.run(Cgroup().apply(table.context, change)))

    assert [asyncio.run(Cgroup().still_applied(table.host, entry)) for entry in table.entries] == ["", ""]
    outcomes = [table.undo(entry).outcome for entry in reversed(table.entries)]
    assert outcomes == [Outcome.RESTORED if (first, second) == ("8MB", "16MB") else Outcome.ALREADY, Outcome.RESTORED]
    assert tree.read(BYTES) == "7:1 4096\n"


def test_a_limit_that_is_lifted_meanwhile_is_lost(table, tree) -> None:
    (change,) = write_back(table)
    table.begin(change)
    confirmed = replace(table.entries[0], got=asyncio.run(Cgroup().apply(table.context, change)))
    tree.write(BYTES, "7:3 0")

    assert "is 0 now" in asyncio.run(Cgroup().still_applied(table.host, confirmed))


@pytest.mark.parametrize(
    "other", [{"image": "/srv/disk.img"}, {"root": "/docker/1"}], ids=["an image of somebody's", "in a container"]
)
def test_what_is_not_of_the_experiment_alone_is_not_limited(tree, bench, other: dict[str, str]) -> None:
    fill(tree, **other)

    assert write_back(bench(Cgroup(), tree, "/data/point")) == []


@given(applying=MOMENTS, undoing=KILLS)
@settings(deadline=None, max_examples=50)
def test_killed_at_any_moment_they_are_lifted(make_tree, bench, applying, undoing) -> None:
    tree = make_tree()
    fill(tree)
    table = bench(Cgroup(), tree, "/data/point")
    (change,) = write_back(table)
    table.plan = lambda _wanted: [change]

    run_killed(table, WANTED, applying, undoing)

    assert (tree.read(BYTES), tree.read(IOPS)) == ("7:1 4096\n", "")


GROUP = "/cg/blkio/pgtrial-token"
READ_IOPS, WRITE_IOPS = (f"{GROUP}/blkio.throttle.{what}_iops_device" for what in ("read", "write"))


@pytest.mark.parametrize("fails", [False, True], ids=["filled", "the server is lost"])
@pytest.mark.parametrize(
    ("files", "path", "lifted"),
    [
        ({READ_IOPS: "8:0 50\n", WRITE_IOPS: "8:0 40\n"}, READ_IOPS, "8:0 0"),
        (
            {f"{GROUP}/io.max": "8:0 rbps=max wbps=4096 riops=50 wiops=40\n"},
            f"{GROUP}/io.max",
            "8:0 riops=max rbps=max",
        ),
    ],
    ids=["version 1", "version 2"],
)
def test_reads_are_not_limited_while_caches_are_filled(tree, files, path: str, lifted: str, fails: bool) -> None:
    tree.add(files)
    written: list[str] = []
    tree.on_write[path] = written.append
    before = nullcontext() if not fails else pytest.raises(TargetError)

    with before, unlimited_reads(tree, [GROUP]):
        assert written == [lifted]
        if fails:
            raise TargetError("the server is lost")

    assert written == [lifted, files[path].strip()]


def test_limits_of_reads_in_groups_of_others_are_left(tree) -> None:
    tree.add({"/cg/blkio/others/blkio.throttle.read_iops_device": "8:0 50\n"})
    tree.on_write["/cg/blkio/others/blkio.throttle.read_iops_device"] = pytest.fail

    with unlimited_reads(tree, ["/cg/blkio/others"]):
        assert tree.read("/cg/blkio/others/blkio.throttle.read_iops_device") == "8:0 50\n"


# -- on this kernel


TOPS = [h for h in hierarchies(Operations()) if h.version == 1 and "blkio" in h.controllers and h.root == "/"]


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="pgtrial-test-"))
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0 or not TOPS, reason="needs root and control groups of version 1")
def test_the_kernel_writes_back_as_slowly_as_asked(place: Path) -> None:
    """12 MB at 8 MB/s take 1.5 s."""
    host, token = LocalHost(), f"test-{uuid.uuid4().hex[:8]}"
    filesystem, wanted = Filesystem(), {"type": "ext4", "size": "128MB"}
    base = KnobContext(host=host, token=token, directory=str(place))
    made: list[tuple[Filesystem | Cgroup, JournalEntry]] = []

    async def turn(knob: Filesystem | Cgroup, context: KnobContext, table: dict[str, str]) -> None:
        for change in await knob.plan(context, table):
            got = await knob.apply(context, change)
            entry = JournalEntry(
                id=1, t=0.0, host="local", boot_id=host.ops.boot_id(), folder="f", run=1, change=change, got=got
            )
            made.append((knob, entry))

    async def measure() -> float:
        await turn(filesystem, base, wanted)
        (point,) = place.glob("pgtrial-*-????????")
        await turn(
            Cgroup(), replace(base, directory=str(point), data=str(point), wal=str(point)), {"write_bytes": "8MB"}
        )
        assert [is_write_back(entry.change) for _, entry in made] == [False, False, True]
        (point / "data").write_bytes(os.urandom(12 << 20))
        started = time.monotonic()
        subprocess.run(["sync", "-f", str(point / "data")], check=True)
        return time.monotonic() - started

    async def turn_back() -> list[Outcome]:
        return [(await knob.undo(host, entry)).outcome for knob, entry in reversed(made)]

    try:
        took = asyncio.run(measure())
    finally:
        outcomes = asyncio.run(turn_back())

    assert took > 1.2
    assert outcomes == [Outcome.RESTORED] * 3
    assert not any(Path(f"{TOPS[0].mount}/blkio.throttle.write_{what}_device").read_text() for what in ("bps", "iops"))
