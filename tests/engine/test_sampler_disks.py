"""Which devices are observed for the directories of a server."""

import pytest

from pgtrial.engine.sampler import control
from pgtrial.hosts.linux.devices import DevicesUnder, DeviceTree
from pgtrial.hosts.operations import Operations

DISK = DeviceTree(name="vda")
UNDER = {
    "/image": DevicesUnder(devices=(DeviceTree(name="loop3", below=(DISK,), is_loop=True),)),
    "/disk": DevicesUnder(devices=(DISK,)),
    "/array": DevicesUnder(devices=(DeviceTree(name="md0", below=(DISK, DeviceTree(name="vdb"))),)),
}


@pytest.mark.parametrize(
    ("directories", "names"),
    [
        (["/disk", "/disk"], ("vda",)),
        (["/array", "/disk"], ("vda", "vdb")),
        (["/image"], ("loop3",)),
        (["/image", "/disk"], ("loop3", "vda")),
    ],
)
def test_of_a_loop_device_it_is_itself_and_of_others_the_disks_below(
    monkeypatch: pytest.MonkeyPatch, directories: list[str], names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(control, "devices_under", lambda _, path: UNDER[path])

    assert control.find_disks(Operations(), directories).names == names
