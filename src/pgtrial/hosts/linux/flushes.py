"""Whether flushes (fsync) of what lies in a directory reach a disk, as far as its mounts and devices tell.

Sources: the kernel's Documentation/filesystems/overlayfs.rst ("Volatile mount"), ext4.rst and f2fs.rst, xfs(5) and
btrfs(5); what the kernel shows of them was tried with Linux 6.18. What lies beyond the machine cannot be seen: a
hypervisor that leaves flushes out (cache=unsafe), or a file server that does (exports with "async").
"""

import re
from collections.abc import Iterator

from pgtrial.hosts.linux.devices import DeviceTree, devices_under
from pgtrial.hosts.linux.mounts import Mount, mount_of, options_of
from pgtrial.hosts.operations import Operations
from pgtrial.model.fingerprint import Lost, LostFlushes

IN_MEMORY = {"tmpfs", "ramfs"}
_DEVICE_IN_MEMORY = re.compile(r"(zram|ram|nullb)[0-9]+")
_VOLATILE = ("volatile", "fsync=volatile")  # of overlay, older and newer kernels
# Of file systems whose options are not among those that can be varied.
_NO_BARRIER = ("nobarrier", "barrier=0", "fsync_mode=nobarrier")


def lost_flushes(ops: Operations, path: str) -> LostFlushes | None:
    """How flushes of what lies in a directory are lost, None if they are not known to be; the outermost loss counts.

    A loop device is looked through: there the flushes are those of the file system that holds its file.
    """
    return next(_find(ops, path, ()), None)


def _find(ops: Operations, path: str, seen: tuple[str, ...]) -> Iterator[LostFlushes]:
    """``seen`` are the files of loop devices on the way here, which end a circle."""
    if path in seen:
        return
    try:
        mount = mount_of(ops, path)
    except OSError:  # it is not ours to see
        return
    if mount.kind in IN_MEMORY:
        yield LostFlushes(lost=Lost.MEMORY, by=mount.kind)
        return
    yield from _left_out(mount)
    devices = devices_under(ops, path).devices
    yield from _cached(ops, mount, devices)
    for device in devices:
        yield from _of_device(ops, device, (*seen, path))


def _left_out(mount: Mount) -> Iterator[LostFlushes]:
    if mount.kind == "overlay":
        for option in _VOLATILE:
            if option in mount.shown:
                yield LostFlushes(lost=Lost.LEFT_OUT, by=f"{mount.kind}, {option}")


def _cached(ops: Operations, mount: Mount, devices: tuple[DeviceTree, ...]) -> Iterator[LostFlushes]:
    """Without barriers, unless no device below has a cache that loses anything."""
    caches = [f"/sys/block/{name}/queue/write_cache" for device in devices for name in (device.name, *device.disks)]
    texts = ops.read_all(caches)
    if caches and all(texts.get(path, "").strip() == "write through" for path in caches):
        return
    shown = (options_of(ops, mount).get("barriers", ""), *mount.shown)
    for option in _NO_BARRIER:
        if option in shown:
            yield LostFlushes(lost=Lost.CACHE, by=f"{mount.kind}, {option}")


def _of_device(ops: Operations, device: DeviceTree, seen: tuple[str, ...]) -> Iterator[LostFlushes]:
    if _DEVICE_IN_MEMORY.fullmatch(device.name):
        yield LostFlushes(lost=Lost.MEMORY, by=device.name)
    elif device.is_loop:
        for text in ops.read_all([f"/sys/block/{device.name}/loop/backing_file"]).values():
            yield from _find(ops, text.rstrip("\n"), seen)
    else:
        for below in device.below:
            yield from _of_device(ops, below, seen)
