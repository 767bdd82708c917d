"""Disturbances of a measurement: the host's memory and storage."""

import re
from collections.abc import Iterator, Mapping

from pgtrial.engine.disturbances.base import Disturbance, Situation
from pgtrial.engine.fingerprint.limits import UNLIMITED
from pgtrial.hosts.linux.flushes import IN_MEMORY
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import FREE, SIZE, SWAP_USED, WAL_FREE, WAL_SIZE, read_flushes
from pgtrial.units import format_bytes, format_percent

SWAP_BYTES = 64 * 1024**2
SWAPPINESS = 10

SPACE_SHARE = 0.1
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "9p", "virtiofs", "lustre", "gpfs"}
# Part of the name of a device or a machine, whose volume it is, and what gives it a steady speed.
_PROVIDERS = (
    ("Amazon Elastic Block Store", "Amazon EBS", "Use io2, or gp3 with provisioned IOPS, and look at BurstBalance."),
    (
        "PersistentDisk|nvme_card-pd|Google",
        "Google Persistent Disk",
        "Use a volume that is large or provisioned enough.",
    ),
    ("Microsoft Corporation|Msft", "an Azure disk", "Switch off bursting, or use Premium SSD v2 or Ultra Disk."),
)


def check_transparent_huge_pages(situation: Situation) -> Iterator[Disturbance]:
    if situation.facts.get("kernel/transparent_hugepage.enabled") == "always" and not situation.intent.varies(
        "transparent_huge_pages"
    ):
        yield Disturbance(
            code="transparent-huge-pages",
            severity=Severity.WARNING,
            text="Transparent huge pages are on for all memory (always).",
            why="The kernel compacts memory and collects pages in the background, at times that nobody chooses.",
            remedy="Leave them to programs that ask for them, until the next boot:",
            command="echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )


def check_swap_used(situation: Situation) -> Iterator[Disturbance]:
    used = situation.number(SWAP_USED)
    if used is not None and used > SWAP_BYTES:
        yield Disturbance(
            code="swap-in-use",
            severity=Severity.WARNING,
            text=f"{format_bytes(used)} of swap are in use.",
            why="What was swapped out comes back some time, perhaps while measuring.",
            remedy="Where memory suffices, bring it back now:",
            command="sudo swapoff --all && sudo swapon --all",
        )


def check_swappiness(situation: Situation) -> Iterator[Disturbance]:
    swap, swappiness = situation.facts.get("machine/swap", "0 B"), situation.number("kernel/vm.swappiness")
    if swap != "0 B" and (swappiness or 0) > SWAPPINESS and not situation.intent.varies("sysctl", "vm.swappiness"):
        yield Disturbance(
            code="swappiness",
            severity=Severity.INFO,
            text=f"vm.swappiness is {swappiness:g}, and there is swap ({swap}).",
            why="To have more page cache the kernel may swap out memory of the server.",
            remedy="Let it do so only when it must, until the next boot:",
            command="sudo sysctl vm.swappiness=1",
        )


def check_memory_limit(situation: Situation) -> Iterator[Disturbance]:
    limit = situation.facts.get("limits/memory", UNLIMITED)
    if limit != UNLIMITED:
        yield Disturbance(
            code="memory-limit",
            severity=Severity.INFO,
            text=f"A control group limits what runs here to {limit} of memory.",
            why="The page cache is part of it, so the machine's memory is not what caches the data.",
            remedy="Raise the limit of the container or the service, or choose sizes that suit it.",
        )


def check_numa(situation: Situation) -> Iterator[Disturbance]:
    nodes = situation.facts.get("machine/NUMA nodes", "0")
    if situation.number("kernel/vm.zone_reclaim_mode") and not situation.intent.varies(
        "sysctl", "vm.zone_reclaim_mode"
    ):
        yield Disturbance(
            code="zone-reclaim",
            severity=Severity.WARNING,
            text=f"vm.zone_reclaim_mode is {situation.facts['kernel/vm.zone_reclaim_mode']}.",
            why="A memory node drops its page cache although others have free memory.",
            remedy="Switch it off, until the next boot:",
            command="sudo sysctl vm.zone_reclaim_mode=0",
        )
    is_balanced = situation.number("kernel/kernel.numa_balancing") and nodes != "0"
    if is_balanced and not situation.intent.varies("sysctl", "kernel.numa_balancing"):
        yield Disturbance(
            code="numa-balancing",
            severity=Severity.INFO,
            text=f"The kernel moves memory between NUMA nodes ({nodes}) by itself.",
            why="It takes access away to see who uses a page; what that costs changes from run to run.",
            remedy="Switch it off, until the next boot:",
            command="sudo sysctl kernel.numa_balancing=0",
        )


def check_space(situation: Situation) -> Iterator[Disturbance]:
    for place in situation.places:
        for role, free_name, size_name in (("data", FREE, SIZE), ("WAL", WAL_FREE, WAL_SIZE)):
            if free_name not in place or size_name not in place:
                continue
            free, size = float(place[free_name]), float(place[size_name])
            where = place.get(f"storage/{role} directory", "")
            if role == "data" and free < situation.intent.bytes_needed:
                yield Disturbance(
                    code="no-space",
                    severity=Severity.WARNING,
                    text=f"{format_bytes(free)} are free in {where}, and about "
                    f"{format_bytes(situation.intent.bytes_needed)} are needed.",
                    why="The data are kept twice, as a snapshot and as the copy that runs use.",
                    remedy="Free space, choose another location (directory in [target]), or a smaller scale.",
                )
            elif size and free / size < SPACE_SHARE:
                yield Disturbance(
                    code="little-space",
                    severity=Severity.WARNING,
                    text=f"{format_percent(free / size)} of the file system of {where} is free ({format_bytes(free)}).",
                    why="A file system or an SSD that is nearly full writes more slowly, the more the fuller it gets.",
                    remedy="Free space, or choose another location (directory in [target]).",
                )


def check_file_system(situation: Situation) -> Iterator[Disturbance]:
    for role, where, kind in _kinds(situation):
        if kind in IN_MEMORY:
            yield Disturbance(
                code="in-memory",
                severity=Severity.WARNING,
                text=f"The {role} would lie in memory: {where} is on {kind}.",
                why="Nothing is written to a disk, so nothing that has to do with storage shows its effect.",
                remedy="Choose a directory on the storage that you want to test (directory in [target]).",
            )
        elif kind in _NETWORK or kind.startswith("fuse"):
            yield Disturbance(
                code="network-file-system",
                severity=Severity.WARNING,
                text=f"The {role} would lie on a network file system or in user space: {where} is on {kind}.",
                why="What the network and other machines do is in every result, and cannot be seen here.",
                remedy="Choose a directory on a disk of this machine (directory in [target]).",
            )
        elif kind == "overlay":
            yield Disturbance(
                code="overlay",
                severity=Severity.INFO,
                text=f"The {role} would lie in the layers of a container: {where} is on overlay.",
                why="The first write to a file copies it, and the disk below cannot be seen.",
                remedy="Mount a volume, and choose it as directory in [target].",
            )


def check_flushes(situation: Situation) -> Iterator[Disturbance]:
    """What is in memory as a whole has a remark of its own."""
    seen = set()
    for place in situation.places:
        for role in ("data", "WAL"):
            found, where = read_flushes(place, role), place.get(f"storage/{role} directory")
            if found is None or where is None or _kind(place, role) in IN_MEMORY or (role, found) in seen:
                continue
            seen.add((role, found))
            yield Disturbance(
                code="flushes-lost",
                severity=Severity.WARNING,
                text=f"The {role} would lie where flushes {found.lost}: {where} ({found.by}).",
                why="A commit does not wait for a disk, and whatever makes fewer of these waits shows no effect.",
                remedy="Choose a directory whose flushes reach a disk (directory in [target]).",
            )


def check_provider(situation: Situation) -> Iterator[Disturbance]:
    machine = situation.facts.get("machine/model", "")
    seen = set()
    for place in situation.places:
        for role in ("data", "WAL"):
            model = place.get(f"storage/{role} device model")
            if model is None:
                continue
            for pattern, name, remedy in _PROVIDERS:
                if name not in seen and re.search(pattern, f"{model} {machine}") and not _is_local(model):
                    seen.add(name)
                    yield Disturbance(
                        code="provider-disk",
                        severity=Severity.INFO,
                        text=f"The {role} would lie on {name} ({model}).",
                        why="Such volumes have limits, and many may exceed them until their credits are used up.",
                        remedy=remedy,
                    )


def check_io_limits(situation: Situation) -> Iterator[Disturbance]:
    limits = situation.facts.get("limits/I/O", UNLIMITED)
    if limits != UNLIMITED:
        yield Disturbance(
            code="io-limit",
            severity=Severity.WARNING,
            text=f"A control group limits the I/O of what runs here: {limits}.",
            why="The limit is measured then, not the disk.",
            remedy="Remove it from the container or the service, or declare it in [target.cgroup].",
        )


def _kinds(situation: Situation) -> Iterator[tuple[str, str, str]]:
    """(role, directory, kind of file system), each kind of a role once."""
    seen: set[tuple[str, str]] = set()
    for place in situation.places:
        for role in ("data", "WAL"):
            kind, where = _kind(place, role), place.get(f"storage/{role} directory")
            if where is not None and (role, kind) not in seen:
                seen.add((role, kind))
                yield role, where, kind


def _kind(place: Mapping[str, str], role: str) -> str:
    return place.get(f"storage/{role} file system", "")


def _is_local(model: str) -> bool:
    """Whether it is a disk inside the machine of a provider, which has no credits."""
    return re.search("Instance Storage|EphemeralDisk|nvme_card$|Direct Disk", model) is not None


CHECKS = (
    check_transparent_huge_pages,
    check_swap_used,
    check_swappiness,
    check_memory_limit,
    check_numa,
    check_space,
    check_file_system,
    check_flushes,
    check_provider,
    check_io_limits,
)
