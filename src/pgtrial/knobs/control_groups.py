"""The control groups of a host: which hierarchy has which controller, and what the groups of a process allow it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

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
    for line in ops.read("/proc/self/mountinfo").splitlines():
        mount, _, file_system = line.partition(" - ")
        kind, _, options = file_system.split(" ", 2)
        root, mount_point = mount.split()[3:5]
        if kind == "cgroup" and (controllers := _VERSION_1.intersection(options.split(","))):
            pass
        elif kind == "cgroup2":
            controllers = frozenset(ops.read(f"{mount_point}/cgroup.controllers").split())
        else:
            continue
        found.append(
            Hierarchy(version=2 if kind == "cgroup2" else 1, mount=mount_point, root=root, controllers=controllers)
        )
    return tuple(found)


def smallest_limit(ops: Operations, controller: str, files: Iterable[str]) -> tuple[str, int] | None:
    """The smallest number in these files of our own group and of those above it: (path, number); None without any.

    The files are named as in either version; a controller has only those of one.
    """
    limits = []
    for hierarchy in hierarchies(ops):
        if controller not in hierarchy.controllers:
            continue
        for group in _own_groups(ops, hierarchy, controller):
            for path in (f"{group}/{name}" for name in files):
                if ops.exists(path) and (text := ops.read(path).strip()).isdecimal():
                    limits.append((path, int(text)))
    return min(limits, key=lambda limit: limit[1], default=None)


def _own_groups(ops: Operations, hierarchy: Hierarchy, controller: str) -> list[str]:
    """Directories from our own group up to the mount; none for what lies outside of it."""
    for line in ops.read("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if (controller in controllers.split(",")) if hierarchy.version == 1 else controllers == "":
            path, root = PurePosixPath(group), PurePosixPath(hierarchy.root)
            if not path.is_relative_to(root):
                return []
            inside = PurePosixPath(hierarchy.mount) / path.relative_to(root)
            return [str(place) for place in (inside, *inside.parents) if place.is_relative_to(hierarchy.mount)]
    return []
