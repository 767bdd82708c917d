"""The limits of a control group as the files of the kernel have them, in version 1 and version 2.

In version 1 the kernel charges what it writes back by itself to the topmost group, so the limits of the server's group
do not hold for it. That group has limits for an experiment's own loop device alone: for any other device they would
hold for all that use it, and are not set.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,blkio-controller}.rst, and
Documentation/scheduler/sched-bwc.rst.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import Hierarchy
from pgtrial.hosts.linux.loop_devices import file_of
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.kernel_values import apply_values, find_drift, undo_values
from pgtrial.model.change import Change, JournalEntry, Undone
from pgtrial.units import format_bytes, parse_bytes

_PERIOD = 100_000  # µs over which CPU time is counted, the kernel's default
_LEAST_QUOTA = 1_000  # µs of CPU time in it, the least that the kernel takes

OWN = "pgtrial-"  # what the names of groups that pgtrial makes begin with
# Key of a table: a group for memory, without a limit, where the kernel reclaims each by a swappiness of its own.
OWN_SWAPPINESS = "own_swappiness"
# A controller's name in each version, by what the experiment file asks for.
_CONTROLLERS = {
    "memory": ("memory", "memory"),
    OWN_SWAPPINESS: ("memory", "memory"),
    "cpus": ("cpu", "cpu"),
    "read_iops": ("blkio", "io"),
    "write_iops": ("blkio", "io"),
    "read_bytes": ("blkio", "io"),
    "write_bytes": ("blkio", "io"),
}
# The same with what the files of the two versions call it, in the order in which version 2 shows them. Version 1
# charges the write-back of buffered writes to the topmost group (blkio-controller.rst): see ``plan_write_back``.
# Version 2 charges it to the group that dirtied the page, on file systems that know how: ext2, ext4, btrfs, f2fs and
# xfs (cgroup-v2.rst, "Writeback").
_IO = {
    "read_bytes": ("blkio.throttle.read_bps_device", "rbps"),
    "write_bytes": ("blkio.throttle.write_bps_device", "wbps"),
    "read_iops": ("blkio.throttle.read_iops_device", "riops"),
    "write_iops": ("blkio.throttle.write_iops_device", "wiops"),
}
_WRITES = ("write_iops", "write_bytes")
_READS = ("read_iops", "read_bytes")
# An item: a file of the group, and the number of the device that has a line in it.
_ITEM = re.compile(r"/.*/blkio\.throttle\.write_(?:iops|bps)_device \d+:\d+")
_NONE = "0"  # as the kernel takes it for no limit; it then shows no line


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A block device that is no partition; the kernel takes no others."""

    name: str
    number: str  # "major:minor"


def is_own_group(directory: str) -> bool:
    """Whether pgtrial has made a group, by its name."""
    return directory.rpartition("/")[2].startswith(OWN)


def needs_device(wanted: Mapping[str, str]) -> bool:
    return not _IO.keys().isdisjoint(wanted)


def place_limits(
    found: tuple[Hierarchy, ...], wanted: Mapping[str, str]
) -> tuple[tuple[Hierarchy, Mapping[str, str]], ...]:
    """The part of ``wanted`` that each hierarchy has to limit. Raises SettingError where none has the controller."""
    placed: dict[int, dict[str, str]] = {}
    for item, value in wanted.items():
        names = _CONTROLLERS[item]
        index = next(
            (index for index, hierarchy in enumerate(found) if names[hierarchy.version - 1] in hierarchy.controllers),
            None,
        )
        if item == OWN_SWAPPINESS and (value != "on" or index is None or found[index].version == 2):
            continue  # not asked for, or the machine's governs all groups
        if index is None:
            raise SettingError(
                f'cannot limit {item}: no mounted control group has the controller "{names[1]}"',
                detail=f"There are: {_overview(found)}.",
                hint='Mount it, or boot a kernel that has it ("zgrep CGROUP /proc/config.gz").',
            )
        placed.setdefault(index, {})[item] = value
    return tuple((found[index], items) for index, items in placed.items())


def controllers(hierarchy: Hierarchy, items: Mapping[str, str]) -> frozenset[str]:
    """Those that have the limits."""
    return frozenset(_CONTROLLERS[item][hierarchy.version - 1] for item in items)


def to_enable(hierarchy: Hierarchy, items: Mapping[str, str]) -> frozenset[str]:
    """Those that a group of version 2 must have for its limits to hold.

    Whose write-back it is, the kernel knows only from the memory controller.
    """
    writes = not {"write_iops", "write_bytes"}.isdisjoint(items)
    return controllers(hierarchy, items) | (hierarchy.controllers & {"memory"} if writes else frozenset())


def limit_files(version: int, items: Mapping[str, str], *, device: Device | None, page_size: int) -> Mapping[str, str]:
    """Name to content of the files of a group that has these limits; the content is what the kernel shows again."""
    files: dict[str, str] = {}
    if "memory" in items:
        asked = int(parse_bytes(items["memory"]))
        whole = asked - asked % page_size  # as the kernel does
        files["memory.limit_in_bytes" if version == 1 else "memory.max"] = str(whole)
    if "cpus" in items:
        quota = round(float(items["cpus"]) * _PERIOD)
        if quota < _LEAST_QUOTA:
            raise SettingError(
                f"cannot limit the server to {items['cpus']} CPUs, the least is {_LEAST_QUOTA / _PERIOD:g}"
            )
        if version == 1:
            files |= {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": str(quota)}
        else:
            files["cpu.max"] = f"{quota} {_PERIOD}"
    if device is not None and needs_device(items):
        rates = {
            item: str(int(parse_bytes(items[item]))) if item.endswith("bytes") else items[item]
            for item in _IO
            if item in items
        }
        if version == 1:
            files |= {_IO[item][0]: f"{device.number} {rate}" for item, rate in rates.items()}
        else:
            each = " ".join(f"{key}={rates.get(item, 'max')}" for item, (_, key) in _IO.items())
            files["io.max"] = f"{device.number} {each}"
    return files


def describe(items: Mapping[str, str], device: Device | None) -> str:
    """What is limited, as a person reads it."""
    words = {
        "memory": "{} of memory and page cache",
        OWN_SWAPPINESS: "a swappiness of its own",
        "cpus": "{} CPUs",
        "read_iops": "{} reads/s from {}",
        "write_iops": "{} writes/s to {}",
        "read_bytes": "{}/s read from {}",
        "write_bytes": "{}/s written to {}",
    }
    sizes = {"memory", "read_bytes", "write_bytes"}
    return ", ".join(
        words[item].format(format_bytes(parse_bytes(value)) if item in sizes else value, device and device.name)
        for item, value in items.items()
    )


def _overview(found: tuple[Hierarchy, ...]) -> str:
    return (
        "; ".join(
            f"{', '.join(sorted(hierarchy.controllers)) or 'none'} in {hierarchy.mount} (version {hierarchy.version})"
            for hierarchy in found
        )
        or "none"
    )


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


@contextmanager
def unlimited_reads(ops: Operations, groups: Sequence[str]) -> Iterator[None]:
    """Let the groups that pgtrial has made read as fast as the disk can, until they have their limits again.

    Through its limits a disk of 38 MB/s takes a minute to fill a cache of 1 GB, and what is cached is the same. It
    needs no entry in the journal, as the groups themselves have one. Raises SettingError.
    """
    names = ("io.max", *(_IO[item][0] for item in _READS))
    paths = (f"{group}/{name}" for group in groups if is_own_group(group) for name in names)
    limited = {path: ops.read(path) for path in paths if ops.exists(path)}
    try:
        for path, text in limited.items():
            none = " ".join(f"{_IO[item][1]}=max" for item in _READS) if path.endswith("/io.max") else _NONE
            _write_lines(ops, path, [f"{line.partition(' ')[0]} {none}" for line in text.splitlines()])
        yield
    finally:
        for path, text in limited.items():
            _write_lines(ops, path, text.splitlines())


def _write_lines(ops: Operations, path: str, lines: Sequence[str]) -> None:
    """Write the limits of devices, each by itself as the kernel wants them. Raises SettingError."""
    for line in lines:
        try:
            ops.write(path, f"{line}\n")
        except OSError as err:
            raise SettingError(f'cannot set "{path}" to "{line}": {err.strerror}') from err


def _read(ops: Operations, item: str) -> str:
    path, _, number = item.rpartition(" ")
    rates = dict(line.split(maxsplit=1) for line in ops.read(path).splitlines())
    return rates.get(number, _NONE).strip()


def _write(ops: Operations, item: str, value: str) -> None:
    path, _, number = item.rpartition(" ")
    ops.write(path, f"{number} {value}\n")
