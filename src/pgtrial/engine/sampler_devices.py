"""The block devices under a directory: from the file system down to whole disks.

Through partitions to their disk, through device mapper and md to what they are made of, and through loop devices to the
disk that holds their file: only there requests, bytes and time are those of the hardware, and none is counted twice.
"""

import os
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path("/")


def find_devices(directories: Iterable[str], *, root: Path = _ROOT) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the devices ("vda") under the directories, and the directories under which none was found.

    None is found below a network file system, tmpfs, overlay, or a pool such as ZFS. ``root`` is where /proc, /sys and
    /dev are looked for.
    """
    found: dict[str, None] = {}
    nowhere: list[str] = []
    for directory in directories:
        names = _devices_under(Path(directory), root, frozenset())
        found.update(dict.fromkeys(names))
        if not names and directory not in nowhere:
            nowhere.append(directory)
    return tuple(found), tuple(nowhere)


def _devices_under(path: Path, root: Path, seen: frozenset[Path]) -> list[str]:
    try:
        number = path.stat().st_dev
    except OSError:
        return []
    block = _block_of(f"{os.major(number)}:{os.minor(number)}", root)
    if block is None:
        block = _block_of_mount(path, f"{os.major(number)}:{os.minor(number)}", root)
    return [] if block is None else _disks_of(block, root, seen)


def _block_of(number: str, root: Path) -> Path | None:
    entry = root / "sys/dev/block" / number
    return entry.resolve() if entry.exists() else None


def _block_of_mount(path: Path, number: str, root: Path) -> Path | None:
    """The device that a mount names as its source: btrfs gives its files device numbers of no device."""
    real = path.resolve()
    best: tuple[int, str] | None = None
    for line in (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        mount, _, file_system = line.partition(" - ")
        mount_number, mount_point = mount.split()[2], Path(_unescape(mount.split()[4]))
        source = _unescape(file_system.split()[1])
        if real.is_relative_to(mount_point):
            # The longest mount point holds the path; a matching number decides between mounts over each other.
            rank = 2 * len(mount_point.parts) + (mount_number == number)
            if best is None or rank >= best[0]:
                best = rank, source
    if best is None or not best[1].startswith("/dev/"):
        return None
    try:
        device = (root / best[1].removeprefix("/")).stat().st_rdev
    except OSError:
        return None
    return _block_of(f"{os.major(device)}:{os.minor(device)}", root)


def _unescape(field: str) -> str:
    """A field of mountinfo, where blank, tab, newline and backslash are written as three octal digits."""
    for character in " \t\n\\":
        field = field.replace(f"\\{ord(character):03o}", character)
    return field


def _disks_of(block: Path, root: Path, seen: frozenset[Path]) -> list[str]:
    """Names of the disks at the bottom of a device of /sys; ``seen`` ends a circle."""
    if block in seen:
        return []
    seen |= {block}
    if (block / "partition").exists():
        return _disks_of(block.parent, root, seen)
    slaves = sorted((block / "slaves").iterdir()) if (block / "slaves").is_dir() else []
    if slaves:
        return [name for slave in slaves for name in _disks_of(slave.resolve(), root, seen)]
    backing_file = block / "loop/backing_file"
    if backing_file.exists():
        below = _devices_under(Path(backing_file.read_text(encoding="utf-8").rstrip("\n")), root, seen)
        return below or [block.name]
    return [block.name]
