"""Mounts of a host: which one holds a path, and which options are in force."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgtrial.hosts.linux.mount_options import ITEMS, KEPT_FLAGS, options_in_force
from pgtrial.hosts.operations import Operations

_MOUNTINFO = "/proc/self/mountinfo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A line of /proc/self/mountinfo (proc_pid_mountinfo(5)).

    ``device`` is "major:minor", ``root`` the directory of the file system that is mounted, ``source`` what was mounted,
    ``shown`` all options, those of the mount and those of the file system.
    """

    number: int
    device: str
    root: str
    point: str
    kind: str
    source: str
    shown: tuple[str, ...]

    @property
    def kept_flags(self) -> int:
        """Flags of mount(2) that a remount has to repeat."""
        return sum(flag for name, flag in KEPT_FLAGS.items() if name in self.shown)


def read_mounts(ops: Operations) -> Iterator[Mount]:
    """All mounts in the order in which they were made: of several at one point the last is on top."""
    for line in ops.read(_MOUNTINFO).splitlines():
        mount, _, file_system = line.partition(" - ")
        number, _, device, root, point, options, *_ = mount.split(" ")
        kind, source, more = (*file_system.split(" "), "", "")[:3]
        yield Mount(
            number=int(number),
            device=device,
            root=_unescape(root),
            point=_unescape(point),
            kind=kind,
            source=_unescape(source),
            shown=(*options.split(","), *more.split(",")),
        )


def mount_of(ops: Operations, path: str) -> Mount:
    """The mount that a file or directory lies on. Raises OSError for a path that is not there."""
    number = ops.mount_id(path)
    found = next((mount for mount in read_mounts(ops) if mount.number == number), None)
    if found is None:
        raise FileNotFoundError(2, "its mount is in another namespace", path)
    return found


def existing(ops: Operations, path: str) -> str:
    """The path without symbolic links, or the nearest directory above it that is there."""
    path = ops.resolve(path)
    while not ops.exists(path):
        path = path.rpartition("/")[0] or "/"
    return path


def mount_over(ops: Operations, path: str, device: str) -> Mount | None:
    """The mount whose point is nearest above a path; of several there, the one of the device, else the one on top.

    For a host that does not tell the number of a path's mount. None if no mount is above it.
    """
    path = ops.resolve(path)
    above = [mount for mount in read_mounts(ops) if f"{path}/".startswith(f"{mount.point.rstrip('/')}/")]
    return max(reversed(above), key=lambda mount: (len(mount.point.rstrip("/")), mount.device == device), default=None)


def mount_at(ops: Operations, point: str) -> Mount | None:
    """The mount on top at a directory; None if nothing is mounted there."""
    return next((mount for mount in reversed(list(read_mounts(ops))) if mount.point == point), None)


def options_of(ops: Operations, mount: Mount) -> Mapping[str, str]:
    """Item (as in ITEMS) to the option in force; empty for a kind of file system that is not known."""
    if mount.kind not in ITEMS:
        return {}
    shown = list(mount.shown)
    if mount.kind == "ext4":
        # Where mountinfo shows only what is not the default, which may be kept in the file system, this shows all.
        name = ops.resolve(f"/sys/dev/block/{mount.device}").rpartition("/")[2]
        shown += next(iter(ops.read_all([f"/proc/fs/ext4/{name}/options"]).values()), "").split()
    return options_in_force(mount.kind, shown)


def _unescape(field: str) -> str:
    """A field of mountinfo, where blanks, backslashes and the like are written as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
