"""The limits of write-back in version 1: those that the topmost control group has for an experiment's own loop device.

The kernel charges what it writes back by itself to that group, so the limits of the server's group do not hold for it.
For any other device they would hold for all that use it, and are not set. Source: the kernel's
Documentation/admin-guide/cgroup-v1/blkio-controller.rst, whose example limits a device in the topmost group.
"""

import re
from collections.abc import Mapping

from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import Hierarchy
from pgtrial.hosts.linux.loop_devices import file_of
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.cgroup_limits import OWN, Device, describe, limit_files
from pgtrial.knobs.kernel_values import apply_values, find_drift, undo_values
from pgtrial.model.change import Change, JournalEntry, Undone

_WRITES = ("write_iops", "write_bytes")
# An item: a file of the group, and the number of the device that has a line in it.
_ITEM = re.compile(r"/.*/blkio\.throttle\.write_(?:iops|bps)_device \d+:\d+")
_NONE = "0"  # as the kernel takes it for no limit; it then shows no line


def plan_write_back(
    ops: Operations, hierarchy: Hierarchy, items: Mapping[str, str], device: Device, *, knob: str, to_come: bool
) -> Change | None:
    """The change that limits the write-back to a device as ``items`` limit the server's group; None where nothing does.

    Servers that are up at a time may share a device: it has the higher of their limits, which is neither one's fault.
    """
    writes = {item: value for item, value in items.items() if item in _WRITES}
    is_at_top = hierarchy.version == 1 and hierarchy.root == "/"
    if not writes or not is_at_top or not (to_come or is_own_device(ops, device)):
        return None
    old, new = {}, {}
    for file, text in limit_files(1, writes, device=device, page_size=1).items():
        if not ops.exists(f"{hierarchy.mount}/{file}"):
            return None  # in a container the files of the topmost group are not there
        item = f"{hierarchy.mount}/{file} {device.number}"
        old[item] = _read(ops, item)
        new[item] = str(max(int(old[item]), int(text.partition(" ")[2])))
    return Change(
        knob=knob,
        name=f"write-back to {device.name}",
        old=old,
        new=new,
        old_text=", ".join("not limited" if rate == _NONE else rate for rate in old.values()),
        new_text=describe(writes, device),
    )


def is_own_device(ops: Operations, device: Device) -> bool:
    """Whether it is a loop device for an image of pgtrial's."""
    return file_of(ops, device.name).rpartition("/")[2].startswith(OWN)


def is_write_back(change: Change) -> bool:
    return bool(change.new) and all(_ITEM.fullmatch(item) for item in change.new)


def limit(ops: Operations, change: Change) -> Mapping[str, str]:
    """Set the limits and read them back. Raises SettingError."""
    return apply_values(ops, change, read=_read, write=_write)


def lift(host: Host, entry: JournalEntry) -> Undone:
    return undo_values(host, entry, read=_read, write=_write)


def find_lost_limit(host: Host, entry: JournalEntry) -> str:
    """What does not hold any more, as a sentence; "" if all does, or another server has raised it meanwhile."""
    return find_drift(host, entry, read=_read, holds=lambda made, now: int(now) >= int(made))


def _read(ops: Operations, item: str) -> str:
    path, _, number = item.rpartition(" ")
    rates = dict(line.split(maxsplit=1) for line in ops.read(path).splitlines())
    return rates.get(number, _NONE).strip()


def _write(ops: Operations, item: str, value: str) -> None:
    path, _, number = item.rpartition(" ")
    ops.write(path, f"{number} {value}\n")
