"""Limits of the control groups that hold for a server: CPU quota, memory, CPUs, I/O; versions 1 and 2 of the kernel's.

A process is bound by its own group and by every group above it, so the tightest one counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from pgtrial.hosts.linux.control_groups import groups_of
from pgtrial.hosts.operations import Operations
from pgtrial.model.fingerprint import QUOTA
from pgtrial.units import format_bytes

UNLIMITED = "unlimited"
_HUGE = 1 << 60  # B; version 1 writes "no limit" as a number near 2**63
_FILES = (
    *("cpu.max", "cpu.stat", "memory.max", "memory.high", "io.max", "cpuset.cpus.effective"),
    *("cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes", "cpuset.effective_cpus"),
    *(f"blkio.throttle.{way}_{what}_device" for way in ("read", "write") for what in ("bps", "iops")),
)
_V1_IO = {"read_bps": "rbps", "write_bps": "wbps", "read_iops": "riops", "write_iops": "wiops"}


def read_limits(ops: Operations, *, pid: int | None) -> dict[str, str]:
    """Limits of a process's groups (None: of the one that answers) as facts; "unlimited" where there is none."""
    try:
        groups = [directory for _, directories in groups_of(ops, pid) for directory in directories]
    except OSError:
        return {}
    texts = ops.read_all([f"{directory}/{file}" for directory in groups for file in _FILES])
    return limit_facts(groups, texts)


def limit_facts(groups: Sequence[str], texts: Mapping[str, str]) -> dict[str, str]:
    """``groups`` are directories, each followed by those above it; ``texts`` is path to text of their files."""
    if not texts:
        return {}
    quotas, memories, throttled = [], [], []
    devices: dict[str, dict[str, int]] = {}
    for group in groups:
        files = {
            PurePosixPath(path).name: text for path, text in texts.items() if str(PurePosixPath(path).parent) == group
        }
        quotas += _quotas(files)
        memories += [
            int(text)
            for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
            if (text := files.get(name, "").strip()).isdecimal() and int(text) < _HUGE
        ]
        throttled += [int(number) for number in re.findall(r"^throttled_usec (\d+)$", files.get("cpu.stat", ""), re.M)]
        throttled += [
            int(number) // 1000 for number in re.findall(r"^throttled_time (\d+)$", files.get("cpu.stat", ""), re.M)
        ]
        for device, limit, value in _io_limits(files):
            known = devices.setdefault(device, {})
            known[limit] = min(value, known.get(limit, value))
    cpus = [text.strip() for path, text in texts.items() if path.endswith(("cpus.effective", "effective_cpus"))]
    facts = {
        "limits/CPU quota": f"{min(quotas):g} CPUs" if quotas else UNLIMITED,
        "limits/memory": format_bytes(min(memories)) if memories else UNLIMITED,
        "limits/I/O": "; ".join(_device_text(device, devices[device]) for device in sorted(devices)) or UNLIMITED,
        "limits/CPUs": cpus[0] if cpus else "",
        QUOTA: f"{sum(throttled) / 1e6:.3f}" if throttled else "",
    }
    return {name: value for name, value in facts.items() if value}


def _quotas(files: Mapping[str, str]) -> list[float]:
    """CPUs."""
    quota, period = files.get("cpu.cfs_quota_us", "").strip(), files.get("cpu.cfs_period_us", "").strip()
    if "cpu.max" in files:
        quota, period = files["cpu.max"].split()
    return [int(quota) / int(period)] if quota.isdecimal() and period.isdecimal() else []


def _io_limits(files: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """(device number, limit, per second)."""
    for line in files.get("io.max", "").splitlines():
        device, *limits = line.split()
        for limit in limits:
            name, _, value = limit.partition("=")
            if value.isdecimal():
                yield device, name, int(value)
    for file, name in _V1_IO.items():
        for line in files.get(f"blkio.throttle.{file}_device", "").splitlines():
            device, value = line.split()
            yield device, name, int(value)


def _device_text(device: str, limits: Mapping[str, int]) -> str:
    texts = []
    for name, way in (("rbps", "read"), ("wbps", "write"), ("riops", "read"), ("wiops", "write")):
        if name in limits:
            amount = format_bytes(limits[name]) if name.endswith("bps") else str(limits[name])
            texts.append(f"{way} {amount}/s")
    return f"{device} {', '.join(texts)}"
