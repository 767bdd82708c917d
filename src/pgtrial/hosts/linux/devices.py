"""The block devices under a directory: from the file system down to whole disks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgtrial.hosts.linux.mounts import mount_over
from pgtrial.hosts.operations import Operations


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTree:
    """A whole block device, as /sys/block names it; a partition is its disk, whose queue it uses.

    ``below`` is what it is made of: the disks of a volume (device mapper) or of an array (md), the disks that hold the
    file of a loop device. ``is_loop`` tells the last apart: it has a queue of its own.
    """

    name: str
    below: tuple[DeviceTree, ...] = ()
    is_loop: bool = False

    @property
    def disks(self) -> tuple[str, ...]:
        """Names of the disks at the bottom; only there requests, bytes and time are those of the hardware."""
        if not self.below:
            return (self.name,)
        return tuple(dict.fromkeys(name for device in self.below for name in device.disks))


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesUnder:
    """Where a directory lies. ``devices`` are those its file system is on, several where btrfs spans them.

    Without any, ``reason`` is the sentence that says why, the same for all directories of a file system.
    ``read_ahead`` is the kernel's file with the read-ahead of the file system (kB) where that is not the one of its
    device.
    """

    devices: tuple[DeviceTree, ...] = ()
    reason: str = ""
    read_ahead: str | None = None


def devices_under(ops: Operations, path: str) -> DevicesUnder:
    """The block devices on which a file or directory lies.

    None are found below a network file system, tmpfs, overlay, or a pool such as ZFS.
    """
    return _under(ops, path, ())


def disks_under(ops: Operations, path: str) -> tuple[str, ...]:
    """Names of the whole disks ("vda") at the bottom of what a file or directory lies on."""
    return disks_of(devices_under(ops, path).devices)


def disks_of(devices: Iterable[DeviceTree]) -> tuple[str, ...]:
    """Names of the disks at the bottom of all of them, each once."""
    return tuple(dict.fromkeys(name for device in devices for name in device.disks))


def find_device(ops: Operations, name: str) -> DeviceTree | None:
    """The device of this name, or the disk of the partition of this name; None if there is none."""
    path = f"/sys/class/block/{name}"
    return _devices(ops, ops.resolve(path), ())[0] if path in ops.glob("/sys/class/block/*") else None


def device_names(ops: Operations) -> tuple[str, ...]:
    """Names of the whole devices that there are, without empty ones such as loop devices that are not in use."""
    sizes = ops.read_all(["/sys/block/*/size"])
    return tuple(path.split("/")[3] for path, size in sizes.items() if size.strip() != "0")


def _under(ops: Operations, path: str, seen: tuple[str, ...]) -> DevicesUnder:
    """``seen`` are the devices of /sys on the way here, which end a circle."""
    try:
        major, minor = ops.device_of(path)
    except OSError as err:
        return DevicesUnder(reason=f'"{path}": {err.strerror}.')
    entry = f"/sys/dev/block/{major}:{minor}"
    if ops.exists(entry):
        return DevicesUnder(devices=_devices(ops, ops.resolve(entry), seen))
    # A file system of several devices gives its files device numbers of no device; its mount names one that it is on.
    mount = mount_over(ops, path, f"{major}:{minor}")
    kind, source, name = (
        ("", "", f"The unknown file system {major}:{minor}")
        if mount is None
        else (mount.kind, mount.source, f'The {mount.kind} at "{mount.point}" ("{mount.source}")')
    )
    block = _block_of_source(ops, source)
    if block is None:
        return DevicesUnder(reason=f"{name} is on no block device of its own.")
    members = ops.glob(f"/sys/fs/btrfs/*/devices/{block.rpartition('/')[2]}") if kind == "btrfs" else []
    if not members:
        return DevicesUnder(devices=_devices(ops, block, seen))
    return _under_btrfs(ops, members[0].rpartition("/devices/")[0], seen)


def _under_btrfs(ops: Operations, directory: str, seen: tuple[str, ...]) -> DevicesUnder:
    """All devices of a btrfs, given by its directory in /sys, where newer kernels also show its own read-ahead."""
    paths = ops.glob(f"{directory}/devices/*")
    devices = (device for path in paths for device in _devices(ops, ops.resolve(path), seen))
    read_ahead = f"{directory}/bdi/read_ahead_kb"
    return DevicesUnder(
        devices=tuple(dict.fromkeys(devices)), read_ahead=read_ahead if ops.exists(read_ahead) else None
    )


def _block_of_source(ops: Operations, source: str) -> str | None:
    if not source.startswith("/dev/"):
        return None
    try:
        major, minor = ops.device_of(source)
    except OSError:
        return None
    entry = f"/sys/dev/block/{major}:{minor}"
    return ops.resolve(entry) if ops.exists(entry) else None


def _devices(ops: Operations, block: str, seen: tuple[str, ...]) -> tuple[DeviceTree, ...]:
    """The device whose directory of /sys, without symbolic links, is ``block``; none if that closes a circle."""
    if ops.exists(f"{block}/partition"):
        block = block.rpartition("/")[0]
    if block in seen:
        return ()
    name, seen, file = block.rpartition("/")[2], (*seen, block), f"{block}/loop/backing_file"
    loop = ops.read_all([file]) if ops.exists(file) else {}
    if file in loop:  # not where it is given back just now
        below = _under(ops, loop[file].rstrip("\n"), seen).devices
        return (DeviceTree(name=name, below=below, is_loop=True),)
    slaves = (ops.resolve(path) for path in ops.glob(f"{block}/slaves/*"))
    below = tuple(dict.fromkeys(device for slave in slaves for device in _devices(ops, slave, seen)))
    return (DeviceTree(name=name, below=below),)
