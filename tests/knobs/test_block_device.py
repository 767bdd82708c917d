import asyncio
import errno
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.devices import disks_under
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.block_device import BlockDevice
from pgtrial.knobs.kernel_values import read_chosen
from pgtrial.model.change import Outcome
from support.killing import KILLS, MOMENTS, run_killed

OPS = Operations()
ALL = {
    "scheduler": "bfq",
    "nr_requests": "64",
    "wbt_lat_usec": "5000",
    "max_sectors_kb": "512",
    "read_ahead_kb": "16",
}


@pytest.fixture
def host(tree, add_disk):
    """A disk vda with the file system of the data."""
    device = add_disk(tree, "vda")
    tree.link("/sys/dev/block/254:0", device)
    tree.numbers["/"] = (254, 0)
    tree.at("/data").mkdir()
    return tree


@pytest.fixture
def volume(host, add_disk):
    """The data on a volume (dm-0) of a partition and a disk."""
    first, second = add_disk(host, "sda"), add_disk(host, "sdb")
    dm = "/sys/devices/virtual/block/dm-0"
    host.add({f"{dm}/size": "9\n", f"{dm}/queue/read_ahead_kb": "256\n", f"{first}/sda3/partition": "3\n"})
    for link in ("/sys/dev/block/253:0", "/sys/block/dm-0", "/sys/class/block/dm-0"):
        host.link(link, dm)
    host.link(f"{dm}/slaves/sda3", f"{first}/sda3")
    host.link(f"{dm}/slaves/sdb", second)
    host.numbers["/data"] = (253, 0)
    return host


@pytest.fixture
def table(host, bench):
    return bench(BlockDevice(), host)


def state(ops: Operations, device: str = "vda") -> dict[str, str]:
    return {name: read_chosen(ops, f"/sys/block/{device}/queue/{name}") for name in ALL}


BEFORE = {
    "scheduler": "none",
    "nr_requests": "128",
    "wbt_lat_usec": "2000",
    "max_sectors_kb": "1280",
    "read_ahead_kb": "128",
}


def test_device_under_the_data_is_found(table):
    (change,) = table.plan({"read_ahead_kb": "4096"})

    assert (change.name, change.old_text, change.new_text) == ("vda read_ahead_kb", "128", "4096")
    assert change.old == {"/sys/block/vda/queue/read_ahead_kb": "128"}


def test_directory_that_is_still_to_be_made_counts_as_the_one_above(host, bench):
    (change,) = bench(BlockDevice(), host, "/data/not/yet").plan({"read_ahead_kb": "4096"})

    assert change.name == "vda read_ahead_kb"


def test_data_of_the_server_come_before_the_directory(volume, bench):
    table = bench(BlockDevice(), volume, "/")
    table.context = replace(table.context, data="/data")

    assert table.plan({"read_ahead_kb": "4096"})[0].name == "dm-0 read_ahead_kb"


def test_planning_touches_nothing(table, host):
    table.plan(ALL)

    assert state(host) == BEFORE


@pytest.mark.parametrize("names", [list(ALL), *([name] for name in ALL), ["scheduler", "nr_requests"]])
def test_every_attribute_is_set_and_put_back(table, host, names: list[str]):
    wanted = {name: ALL[name] for name in names}

    table.apply(wanted)
    assert {name: state(host)[name] for name in names} == wanted

    assert table.undo().outcome is Outcome.RESTORED
    assert state(host) == BEFORE


def test_what_is_so_already_is_no_change(table):
    assert table.plan(BEFORE) == []


def test_scheduler_and_what_it_resets_are_one_change(table):
    scheduler, sizes = table.plan({"nr_requests": "64", "scheduler": "mq-deadline", "max_sectors_kb": "512"})

    assert scheduler.name == "vda scheduler, nr_requests"
    assert (scheduler.old_text, scheduler.new_text) == ("none, 128", "mq-deadline, 64")
    assert [path.rpartition("/")[2] for path in scheduler.old] == ["scheduler", "nr_requests", "wbt_lat_usec"]
    assert [path.rpartition("/")[2] for path in scheduler.new] == ["scheduler", "nr_requests"]
    assert sizes.name == "vda max_sectors_kb"
    assert [path.rpartition("/")[2] for path in sizes.new] == ["max_sectors_kb", "read_ahead_kb"]


def test_scheduler_brings_its_own_number_of_requests(table, host):
    table.apply({"scheduler": "mq-deadline"})

    assert (state(host)["scheduler"], state(host)["nr_requests"]) == ("mq-deadline", "256")


def test_largest_request_does_not_vary_the_read_ahead(table, host):
    host.write("/sys/block/vda/queue/read_ahead_kb", "16")

    table.apply({"max_sectors_kb": "512"})
    assert state(host)["read_ahead_kb"] == "16"

    assert table.undo().outcome is Outcome.RESTORED
    assert (state(host)["max_sectors_kb"], state(host)["read_ahead_kb"]) == ("1280", "16")


def test_default_of_write_back_throttling_can_be_asked_for(table, host):
    table.apply({"wbt_lat_usec": "-1"})

    assert state(host)["wbt_lat_usec"] == "75000"


def test_volume_has_its_own_read_ahead_and_the_queues_of_its_disks(volume, bench):
    table = bench(BlockDevice(), volume)

    changes = table.plan({"scheduler": "bfq", "read_ahead_kb": "16"})

    assert [change.name for change in changes] == ["sda scheduler", "sdb scheduler", "dm-0 read_ahead_kb"]
    table.apply({"scheduler": "bfq", "read_ahead_kb": "16"})
    assert (state(volume, "sda")["scheduler"], state(volume, "sdb")["scheduler"]) == ("bfq", "bfq")
    assert state(volume, "sda")["read_ahead_kb"] == "128"
    assert table.undo().outcome is Outcome.RESTORED
    assert state(volume, "sda") == state(volume, "sdb") == BEFORE


def test_volume_that_is_named_is_treated_alike(volume, bench):
    changes = bench(BlockDevice(), volume, "/").plan({"device": "dm-0", "scheduler": "bfq", "read_ahead_kb": "16"})

    assert [change.name for change in changes] == ["sda scheduler", "sdb scheduler", "dm-0 read_ahead_kb"]


def test_multipath_on_requests_has_the_scheduler_itself(volume, bench):
    volume.add({"/sys/devices/virtual/block/dm-0/queue/scheduler": "[none] bfq\n"})

    (change,) = bench(BlockDevice(), volume).plan({"scheduler": "bfq"})

    assert change.name == "dm-0 scheduler"


@pytest.mark.parametrize(("wanted", "name"), [({}, "vda nr_requests"), ({"device": "loop3"}, "loop3 nr_requests")])
def test_queue_of_a_loop_device_is_meant_when_it_is_named(host, bench, add_disk, wanted: dict[str, str], name: str):
    loop = add_disk(host, "loop3")
    host.add({f"{loop}/loop/backing_file": "/image\n", "/image": ""})
    host.link("/sys/dev/block/7:3", loop)
    host.numbers["/data"] = (7, 3)

    (change,) = bench(BlockDevice(), host).plan({**wanted, "nr_requests": "64"})

    assert change.name == name


def test_btrfs_has_a_read_ahead_of_its_own(host, bench, add_disk):
    host.link("/sys/fs/btrfs/some-id/devices/vda", "/sys/devices/virtual/block/vda")
    host.add(
        {
            "/sys/fs/btrfs/some-id/bdi/read_ahead_kb": "4096\n",
            "/proc/self/mountinfo": "27 1 0:44 / / rw - btrfs /dev/vda rw\n",
            "/dev/vda": "",
        }
    )
    host.numbers |= {"/": (0, 99), "/dev/vda": (254, 0)}

    changes = bench(BlockDevice(), host).plan({"nr_requests": "64", "read_ahead_kb": "16"})

    assert [change.name for change in changes] == ["vda nr_requests", "btrfs read_ahead_kb"]
    assert changes[1].old == {"/sys/fs/btrfs/some-id/bdi/read_ahead_kb": "4096"}


def test_directory_on_no_device_is_an_error_with_the_reason(host, bench):
    host.add({"/proc/self/mountinfo": "27 1 0:99 / / rw - tmpfs tmpfs rw\n"})
    host.numbers.clear()

    with pytest.raises(SettingError, match="there is no block device under the data") as caught:
        bench(BlockDevice(), host).plan({"read_ahead_kb": "16"})

    assert caught.value.detail == 'The tmpfs at "/" ("tmpfs") is on no block device of its own.'


def test_device_that_is_not_there_names_those_that_are(table, volume):
    with pytest.raises(SettingError, match='there is no block device "sdc"') as caught:
        table.plan({"device": "sdc", "read_ahead_kb": "16"})

    assert "Block devices: dm-0, sda, sdb, vda." in caught.value.hint


def test_scheduler_that_the_kernel_has_not_lists_those_it_has(table, host):
    release = host.uname()["release"]
    host.add({f"/lib/modules/{release}/kernel/block/kyber-iosched.ko.zst": "", f"/lib/modules/{release}/modules": ""})

    with pytest.raises(SettingError, match='the kernel has no I/O scheduler "cfq" for vda') as caught:
        table.plan({"scheduler": "cfq"})

    assert caught.value.hint.endswith("It has: none, mq-deadline, bfq, kyber.")


def test_scheduler_that_is_a_module_is_left_to_the_kernel_to_load(table, host):
    host.add({f"/lib/modules/{host.uname()['release']}/kernel/block/kyber-iosched.ko.zst": ""})

    (change,) = table.plan({"scheduler": "kyber"})

    assert change.new_text == "kyber"


def test_device_without_schedulers_is_not_given_one_by_a_module(host, bench, add_disk):
    add_disk(host, "nvme0n1", schedulers="none")
    host.add({f"/lib/modules/{host.uname()['release']}/kernel/block/bfq.ko": ""})

    with pytest.raises(SettingError, match='no I/O scheduler "bfq" for nvme0n1'):
        bench(BlockDevice(), host).plan({"device": "nvme0n1", "scheduler": "bfq"})


@pytest.mark.parametrize("attribute", ["scheduler", "nr_requests", "wbt_lat_usec"])
def test_attribute_that_a_device_has_not_is_an_error_with_the_reason(host, bench, add_disk, attribute: str):
    device = add_disk(host, "zram0")
    host.at(f"{device}/queue/{attribute}").unlink()

    with pytest.raises(SettingError, match=f"the block device zram0 has no {attribute}") as caught:
        bench(BlockDevice(), host).plan({"device": "zram0", attribute: "none" if attribute == "scheduler" else "8"})

    assert caught.value.detail


def test_write_back_throttling_that_cannot_be_read_is_left_out(host, bench, monkeypatch):
    def refuse(ops, path: str) -> str:
        if path.endswith("wbt_lat_usec"):
            raise OSError(errno.EINVAL, "Invalid argument", path)
        return read_chosen(ops, path)

    monkeypatch.setattr("pgtrial.knobs.block_device.read_chosen", refuse)
    table = bench(BlockDevice(), host)

    with pytest.raises(SettingError, match="the block device vda has no wbt_lat_usec"):
        table.plan({"wbt_lat_usec": "0"})
    (entry,) = table.apply({"scheduler": "bfq"})
    assert [path.rpartition("/")[2] for path in entry.change.old] == ["scheduler", "nr_requests"]
    assert table.undo().outcome is Outcome.RESTORED


def test_largest_request_above_that_of_the_hardware_is_refused_in_advance(table):
    with pytest.raises(SettingError, match="vda max_sectors_kb cannot be set to 8192") as caught:
        table.plan({"max_sectors_kb": "8192"})

    assert caught.value.detail == "The device takes at most 4096 (max_hw_sectors_kb)."


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        ({"nr_requests": "2"}, "vda nr_requests: asked for 2, got 4", "The least is 4; "),
        ({"nr_requests": "9999"}, "vda nr_requests cannot be set to 9999", "The least is 4; "),
        ({"read_ahead_kb": "5"}, "vda read_ahead_kb: asked for 5, got 4", "The kernel counts in whole pages."),
        ({"max_sectors_kb": "1"}, "vda max_sectors_kb cannot be set to 1", "The least is a page"),
    ],
)
def test_limits_of_the_kernel_are_one_clear_error_and_undone(table, host, wanted, message: str, hint: str):
    with pytest.raises(SettingError, match=message) as caught:
        table.apply(wanted)

    assert caught.value.hint.startswith(hint)
    assert table.undo().outcome in (Outcome.RESTORED, Outcome.ALREADY)
    assert state(host) == BEFORE


def test_nobody_but_root_is_told_so(table, host):
    host.uid = 1000

    with pytest.raises(SettingError, match="setting vda nr_requests needs root"):
        table.plan({"nr_requests": "64"})


def test_device_that_is_gone_is_not_tried_again(table, host):
    (entry,) = table.apply({"nr_requests": "64"})
    host.at("/sys/block/vda").unlink()

    assert table.undo(entry).outcome is Outcome.CHANGED


# -- the real kernel ---------------------------------------------------------------------------------------------------


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """Name of a loop device on a file of 16 MB; its queue outlives that, and is put back."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("attaching a loop device needs root and /dev/loop-control")
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    argv = ["losetup", "--find", "--show", image]
    device = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    name = Path(device).name
    before = real_state(name)
    try:
        if not OPS.is_writable(f"/sys/block/{name}/queue/read_ahead_kb"):
            pytest.skip("/sys cannot be written here, as in a container")
        OPS.write(f"/sys/block/{name}/queue/read_ahead_kb", "64\n")
        yield name
    finally:
        for attribute, value in before.items():
            if real_state(name)[attribute] != value:
                OPS.write(f"/sys/block/{name}/queue/{attribute}", f"{value}\n")
        after = real_state(name)
        subprocess.run(["losetup", "--detach", device], check=True)
    assert after == before


@pytest.fixture
def real(bench):
    return bench(BlockDevice(), OPS)


def other_scheduler(device: str) -> str:
    listed = OPS.read(f"/sys/block/{device}/queue/scheduler").split()
    others = [word for word in listed if not word.startswith("[")]
    if not others:
        pytest.skip("this kernel has only one I/O scheduler")
    return others[-1]


def real_state(device: str) -> dict[str, str]:
    queue = f"/sys/block/{device}/queue"
    return {name: read_chosen(OPS, f"{queue}/{name}") for name in ALL if OPS.exists(f"{queue}/{name}")}


def test_real_queue_is_set_and_put_back(real, loop: str):
    before = real_state(loop)
    wanted = {
        "scheduler": other_scheduler(loop),
        "nr_requests": "32",
        "max_sectors_kb": "512",
        "read_ahead_kb": "16",
    }

    real.apply({"device": loop, **wanted})
    assert {name: real_state(loop)[name] for name in wanted} == wanted
    for entry in real.entries:
        assert asyncio.run(BlockDevice().still_applied(real.host, entry)) == ""

    assert real.undo().outcome is Outcome.RESTORED
    assert real_state(loop) == before


def test_real_scheduler_resets_what_is_put_back_with_it(real, loop: str):
    queue = f"/sys/block/{loop}/queue"
    OPS.write(f"{queue}/nr_requests", "30\n")
    before = real_state(loop)

    real.apply({"device": loop, "scheduler": other_scheduler(loop)})
    assert real_state(loop)["nr_requests"] != "30"

    assert real.undo().outcome is Outcome.RESTORED
    assert real_state(loop) == before


def test_real_largest_request_keeps_the_read_ahead(real, loop: str):
    real.apply({"device": loop, "max_sectors_kb": "512"})
    assert (real_state(loop)["max_sectors_kb"], real_state(loop)["read_ahead_kb"]) == ("512", "64")

    assert real.undo().outcome is Outcome.RESTORED
    assert real_state(loop)["read_ahead_kb"] == "64"


def test_real_undo_that_was_cut_short_after_the_scheduler(real, loop: str):
    OPS.write(f"/sys/block/{loop}/queue/nr_requests", "30\n")
    before = real_state(loop)
    (entry,) = real.apply({"device": loop, "scheduler": other_scheduler(loop)})
    OPS.write(f"/sys/block/{loop}/queue/scheduler", f"{before['scheduler']}\n")

    assert real.undo(entry).outcome is Outcome.RESTORED
    assert real_state(loop) == before


def test_real_scheduler_changed_by_somebody_else_is_left(real, loop: str):
    listed = OPS.read(f"/sys/block/{loop}/queue/scheduler").split()
    others = [word for word in listed if not word.startswith("[")]
    if len(others) < 2:
        pytest.skip("this kernel has fewer than three I/O schedulers")
    (entry,) = real.apply({"device": loop, "scheduler": others[0]})
    OPS.write(f"/sys/block/{loop}/queue/scheduler", f"{others[1]}\n")

    undone = real.undo(entry)

    assert (undone.outcome, real_state(loop)["scheduler"]) == (Outcome.CHANGED, others[1])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"nr_requests": "2"}, "nr_requests: asked for 2, got 4"),
        ({"nr_requests": "1000000"}, "nr_requests cannot be set to 1000000"),
        ({"read_ahead_kb": "5"}, "read_ahead_kb: asked for 5, got"),
        ({"max_sectors_kb": "2"}, "max_sectors_kb cannot be set to 2"),
        ({"max_sectors_kb": "2147483647"}, "max_sectors_kb cannot be set to 2147483647"),
        ({"scheduler": "cfq"}, 'the kernel has no I/O scheduler "cfq" for'),
    ],
)
def test_real_limits_are_one_clear_error_and_undone(real, loop: str, wanted: dict[str, str], message: str):
    before = real_state(loop)

    with pytest.raises(SettingError, match=message):
        real.apply({"device": loop, **wanted})

    if real.entries:
        assert real.undo().outcome in (Outcome.RESTORED, Outcome.ALREADY)
    assert real_state(loop) == before


def test_real_directory_has_a_queue(bench):
    place = tempfile.gettempdir()  # memory has none
    if os.geteuid() != 0 or not disks_under(OPS, place):
        pytest.skip("not root, or the temporary directory is on no block device")

    changes = bench(BlockDevice(), OPS, place).plan({"read_ahead_kb": "123456"})

    assert [change.new_text for change in changes] == ["123456"]


queue_wishes = st.fixed_dictionaries(
    {},
    optional={
        "scheduler": st.sampled_from(["none", "mq-deadline", "bfq"]),
        "nr_requests": st.integers(4, 1024).map(str),
        "wbt_lat_usec": st.integers(-1, 9000).map(str),
        "max_sectors_kb": st.integers(4, 4096).map(str),
        "read_ahead_kb": st.integers(0, 1024).map(lambda pages: str(4 * pages)),
    },
)


@settings(max_examples=150)
@given(before=queue_wishes, wanted=queue_wishes, applying=MOMENTS, undoing=KILLS)
def test_queue_is_as_before_wherever_pgtrial_was_killed(
    *, make_tree: Callable, bench: Callable, add_disk: Callable, before, wanted, applying, undoing
):
    tree = make_tree()
    add_disk(tree, "vda")
    bench(BlockDevice(), tree).apply({"device": "vda", **before})
    old = state(tree)

    run_killed(bench(BlockDevice(), tree), {"device": "vda", **wanted}, applying, undoing)

    assert state(tree) == old
