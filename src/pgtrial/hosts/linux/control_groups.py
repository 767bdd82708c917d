"""The control groups of a host: which hierarchy has which controller, and what the groups of a process allow it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from pgtrial.hosts.linux.mounts import read_mounts
from pgtrial.hosts.operations import Operations

# Among the options of a mount of version 1; the kernel's Documentation/admin-guide/cgroup-v1.
_VERSION_1 = frozenset(
    [
        *("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb"),
        *("memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """A tree of control groups. ``root`` is the group that its mount shows at the top ("/" except in a container)."""

    version: int  # 1 or 2
    mount: str
    root: str
    controllers: frozenset[str]


def hierarchies(ops: Operations) -> tuple[Hierarchy, ...]:
    """Those that are mounted, in the order of the mounts; none of version 1 that has a name instead of controllers."""
    found = []
    for mount in read_mounts(ops):
        if mount.kind == "cgroup" and (controllers := _VERSION_1.intersection(mount.shown)):
            version = 1
        elif mount.kind == "cgroup2":
            version, controllers = 2, frozenset(ops.read(f"{mount.point}/cgroup.controllers").split())
        else:
            continue
        found.append(Hierarchy(version=version, mount=mount.point, root=mount.root, controllers=controllers))
    return tuple(found)


def groups_of(ops: Operations, pid: int | None) -> tuple[tuple[Hierarchy, tuple[str, ...]], ...]:
    """Directories of a process's groups (None: of the one that answers): its own, then those above it.

    A group that lies outside of what the mounts show is left out. Raises OSError where there is no such process.
    """
    lines = ops.read(f"/proc/{pid or 'self'}/cgroup").splitlines()
    mounted = hierarchies(ops)
    return tuple((hierarchy, groups) for line in lines for hierarchy, groups in _groups_of_line(line, mounted))


def own_groups(ops: Operations, pid: int) -> tuple[str, ...]:
    """The groups of a process that are its own: neither those at the top, nor those in which we are, too."""
    ours = {groups[0] for _, groups in groups_of(ops, None)}
    found = (groups for _, groups in groups_of(ops, pid) if len(groups) > 1)
    return tuple(groups[0] for groups in found if groups[0] not in ours)


def _groups_of_line(line: str, mounted: Iterable[Hierarchy]) -> Iterator[tuple[Hierarchy, tuple[str, ...]]]:
    """Of a line of /proc/PID/cgroup, such as "4:memory:/some/group"."""
    _, controllers, path = line.split(":", 2)
    names = set(controllers.split(","))
    for hierarchy in mounted:
        matches = hierarchy.version == 2 if controllers == "" else names <= hierarchy.controllers
        if matches and PurePosixPath(path).is_relative_to(hierarchy.root):
            group = PurePosixPath(hierarchy.mount) / PurePosixPath(path).relative_to(hierarchy.root)
            above = (place for place in group.parents if place.is_relative_to(hierarchy.mount))
            yield hierarchy, tuple(str(place) for place in (group, *above))


def smallest_limit(ops: Operations, controller: str, files: Iterable[str]) -> tuple[str, int] | None:
    """The smallest number in these files of our own group and of those above it: (path, number); None without any.

    The files are named as in either version; a controller has only those of one.
    """
    limits = []
    for hierarchy, groups in groups_of(ops, None):
        if controller not in hierarchy.controllers:
            continue
        for path in (f"{group}/{name}" for group in groups for name in files):
            if ops.exists(path) and (text := ops.read(path).strip()).isdecimal():
                limits.append((path, int(text)))
    return min(limits, key=lambda limit: limit[1], default=None)
