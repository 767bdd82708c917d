"""Facts of the machine that can explain a difference between runs."""

import os
import platform
import re
from pathlib import Path

from pgtrial import __version__
from pgtrial.hosts.processes import boot_id
from pgtrial.postgres.programs import Programs

VERSION_FACT = "PostgreSQL/version"
_KERNEL_SETTINGS = (
    "vm/swappiness",
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_background_bytes",
    "vm/dirty_expire_centisecs",
    "vm/dirty_writeback_centisecs",
    "vm/vfs_cache_pressure",
    "vm/overcommit_memory",
    "vm/nr_hugepages",
    "vm/zone_reclaim_mode",
    "kernel/numa_balancing",
    "kernel/sched_autogroup_enabled",
)
_TRANSPARENT_HUGE_PAGES = ("enabled", "defrag", "shmem_enabled")


def read_machine() -> dict[str, str]:
    """Facts that could change between runs or after a reboot; "group/name" to value. What is unreadable is absent."""
    facts = {
        "kernel/release": platform.release(),
        "kernel/boot id": boot_id(),
        "machine/CPUs": str(os.cpu_count()),
        "machine/CPUs usable by pgtrial": str(len(os.sched_getaffinity(0))),
    }
    for name in _KERNEL_SETTINGS:
        _add(facts, f"kernel/{name.replace('/', '.')}", Path("/proc/sys") / name)
    for name in _TRANSPARENT_HUGE_PAGES:
        _add(facts, f"kernel/transparent_hugepage.{name}", Path("/sys/kernel/mm/transparent_hugepage") / name)
    _add(facts, "machine/CPU governor", Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
    return facts


def read_environment(*, programs: Programs, data_directory: Path) -> dict[str, str]:
    """Facts of the experiment as a whole; "group/name" to value."""
    facts = read_machine()
    facts |= {
        VERSION_FACT: programs.version,
        "PostgreSQL/programs": str(programs.directory),
        "PostgreSQL/found by": programs.origin,
        "pgtrial/version": __version__,
        "pgtrial/Python": platform.python_version(),
        "storage/data directory": str(data_directory),
    }
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    if model := re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE):
        facts["machine/CPU"] = model[1].strip()
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    for key, name in (("MemTotal", "memory"), ("SwapTotal", "swap")):
        if found := re.search(rf"^{key}:\s+(\d+ kB)", meminfo, re.MULTILINE):
            facts[f"machine/{name}"] = found[1]
    if mount := _mount_of(data_directory):
        facts["storage/mount point"], facts["storage/file system"], facts["storage/mount options"] = mount
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return facts
    return facts | {"machine/operating system": release.get("PRETTY_NAME", release["NAME"])}


def _mount_of(path: Path) -> tuple[str, str, str] | None:
    """(mount point, file system type, options) of a path, by its device number."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if fields[2] == wanted and path.is_relative_to(fields[4]):
            return fields[4], after.split()[0], fields[5]
    return None


def _add(facts: dict[str, str], name: str, path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return  # this kernel does not have it; absent is not zero
    chosen = re.search(r"\[(.+)\]", text)  # where the file lists all there is, the one in force is in brackets
    facts[name] = chosen[1] if chosen else text
