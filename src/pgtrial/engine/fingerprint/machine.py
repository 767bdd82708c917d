"""Facts of processors, machine and storage, with helpers that parse the kernel's files."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.devices import disks_under
from pgtrial.hosts.linux.flushes import lost_flushes
from pgtrial.hosts.linux.mounts import existing, mount_of
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.block_device import find_queues
from pgtrial.model.fingerprint import FREE, SIZE, WAL_FREE, WAL_SIZE, flush_facts
from pgtrial.units import format_bytes

_CPU = "/sys/devices/system/cpu"
_FREQUENCY = f"{_CPU}/cpufreq/policy"
_SINGLE = {
    "machine/CPUs online": f"{_CPU}/online",
    "machine/CPUs isolated": f"{_CPU}/isolated",
    "machine/SMT": f"{_CPU}/smt/control",
    "machine/CPU idle driver": f"{_CPU}/cpuidle/current_driver",
    "machine/CPU idle governor": f"{_CPU}/cpuidle/current_governor",
    "machine/NUMA nodes": "/sys/devices/system/node/online",
}
# Fact and the files, one per CPU or group of CPUs, that say it.
_EACH = {
    "machine/CPU governor": "scaling_governor",
    "machine/CPU frequency driver": "scaling_driver",
    "machine/CPU lowest frequency": "scaling_min_freq",
    "machine/CPU highest frequency": "scaling_max_freq",
    "machine/CPU energy preference": "energy_performance_preference",
}
_NO_TURBO = f"{_CPU}/intel_pstate/no_turbo"
_BOOST = f"{_CPU}/cpufreq/boost"
_VENDOR, _PRODUCT = "/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"
# Flags of the CPU for which PostgreSQL, libc and the kernel have code of its own, and those that tell of the clock.
_FLAGS = frozenset(
    (
        *("aes", "avx", "avx2", "avx512bw", "avx512f", "avx512vl", "avx512_vpopcntdq", "bmi2", "erms", "fsrm"),
        *("invpcid", "pcid", "pclmulqdq", "pdpe1gb", "popcnt", "sha_ni", "sse4_2", "vpclmulqdq"),
        *("constant_tsc", "hypervisor", "nonstop_tsc", "rdtscp"),
        *("asimd", "atomics", "crc32", "pmull", "sve", "sve2"),  # of ARM
    )
)
PATTERNS = (
    *_SINGLE.values(),
    *(f"{_FREQUENCY}*/{name}" for name in _EACH.values()),
    _NO_TURBO,
    _BOOST,
    _VENDOR,
    _PRODUCT,
    "/proc/meminfo",
    "/sys/class/power_supply/*/type",
    "/sys/class/power_supply/*/online",
    "/sys/class/power_supply/*/status",
)
_QUEUE = (
    "scheduler",
    "nr_requests",
    "wbt_lat_usec",
    "rotational",
    "write_cache",
    "max_sectors_kb",
    "nomerges",
    "rq_affinity",
)
_ROLES = ("data", "WAL")
_SPACE = {"data": (SIZE, FREE), "WAL": (WAL_SIZE, WAL_FREE)}


def chosen(text: str) -> str:
    """The value in brackets of a file that lists all possible values."""
    found = re.search(r"\[(.+?)\]", text)
    return found[1] if found else one_line(text)


def in_parentheses(text: str) -> str:
    """The same with parentheses."""
    found = re.search(r"\((.+?)\)", text)
    return found[1] if found else one_line(text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def find(pattern: str, text: str) -> str:
    """The first group of the pattern's first match in a line of the text; "" without a match."""
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def every(texts: Mapping[str, str], start: str, end: str) -> list[str]:
    """Texts of the paths with this start and end."""
    return [text.strip() for path, text in texts.items() if path.startswith(start) and path.endswith(end)]


def tally(values: Iterable[str]) -> str:
    """ "performance", or "performance × 6, powersave × 2" where not all have the same."""
    counts = Counter(values)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{v} × {n}" for v, n in sorted(counts.items()))


def memory_of(texts: Mapping[str, str]) -> dict[str, int]:
    """Bytes of /proc/meminfo by name."""
    found = re.findall(r"^(\w+): +(\d+) kB$", texts.get("/proc/meminfo", ""), re.MULTILINE)
    return {name: int(kilobytes) * 1024 for name, kilobytes in found}


def machine_facts(texts: Mapping[str, str], *, cpuinfo: str) -> dict[str, str]:
    """Group "machine". ``texts`` maps the paths that PATTERNS names to their texts; missing facts are left out."""
    facts = {name: one_line(texts[path]) for name, path in _SINGLE.items() if path in texts}
    for name, file in _EACH.items():
        if found := every(texts, _FREQUENCY, f"/{file}"):
            facts[name] = tally(found)
    facts["machine/model"] = " ".join(texts[path].strip() for path in (_VENDOR, _PRODUCT) if path in texts)
    facts |= _cpu_facts(cpuinfo) | _turbo_facts(texts) | _memory_facts(texts) | _power_facts(texts)
    return {name: value for name, value in facts.items() if value}


def _cpu_facts(cpuinfo: str) -> dict[str, str]:
    """Of the first CPU of /proc/cpuinfo."""
    fields: dict[str, str] = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", cpuinfo.partition("\n\n")[0], re.MULTILINE))
    model = fields.get("model name", "")
    if not model and "CPU part" in fields:  # ARM has numbers only
        model = f"implementer {fields.get('CPU implementer', '?')}, part {fields['CPU part']}"
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    return {
        "machine/CPU": model.strip(),
        "machine/CPU microcode": fields.get("microcode", ""),
        "machine/CPU features": " ".join(sorted(flags & _FLAGS)),
    }


def _turbo_facts(texts: Mapping[str, str]) -> dict[str, str]:
    if _NO_TURBO in texts:
        return {"machine/CPU turbo": "off" if texts[_NO_TURBO].strip() == "1" else "on"}
    if _BOOST in texts:
        return {"machine/CPU turbo": "on" if texts[_BOOST].strip() == "1" else "off"}
    return {}


def _memory_facts(texts: Mapping[str, str]) -> dict[str, str]:
    memory = memory_of(texts)
    return {
        f"machine/{name}": format_bytes(memory[key])
        for key, name in (("MemTotal", "memory"), ("SwapTotal", "swap"))
        if key in memory
    }


def _power_facts(texts: Mapping[str, str]) -> dict[str, str]:
    supplies: dict[str, dict[str, str]] = {}
    for path, text in texts.items():
        if path.startswith("/sys/class/power_supply/"):
            supplies.setdefault(str(PurePosixPath(path).parent), {})[PurePosixPath(path).name] = text.strip()
    mains = [supply.get("online") for supply in supplies.values() if supply.get("type") == "Mains"]
    discharging = any(
        supply.get("status") == "Discharging" for supply in supplies.values() if supply.get("type") == "Battery"
    )
    if "1" in mains:
        return {"machine/power": "mains"}
    return {"machine/power": "battery"} if mains or discharging else {}


def read_storage(ops: Operations, directories: Sequence[str]) -> dict[str, str]:
    """Group "storage", and the space. ``directories`` are those of the data and of the WAL, or only the first; of a
    directory that is only going to be made it is the place that counts.

    Of the WAL there is nothing where it lies on the data's file system.
    """
    facts: dict[str, str] = {}
    mounts: list[int] = []
    for role, directory in zip(_ROLES, directories, strict=False):
        place = existing(ops, directory)
        try:
            mount = mount_of(ops, place)
        except OSError:  # it is not ours to see
            continue
        if mount.number in mounts:
            facts[f"storage/{role} file system"] = "that of the data"
            continue
        mounts.append(mount.number)
        facts |= {
            f"storage/{role} directory": directory,
            f"storage/{role} mount point": mount.point,
            f"storage/{role} source": mount.source,
            f"storage/{role} file system": mount.kind,
            f"storage/{role} mount options": ",".join(dict.fromkeys(filter(None, mount.shown))),
        }
        facts |= flush_facts(role, lost_flushes(ops, place))
        facts |= {f"storage/{role} {name}": value for name, value in _device_facts(ops, place).items()}
        with suppress(OSError):
            size, free = ops.space(place)
            facts |= dict(zip(_SPACE[role], (str(size), str(free)), strict=True))
    return facts


def _device_facts(ops: Operations, place: str) -> dict[str, str]:
    """Of the disks under a directory, and of the queues that the knob for block devices sets."""
    disks = disks_under(ops, place)
    try:
        queues = find_queues(ops, None, place)
    except SettingError:  # a network file system, or one in memory
        return {}
    paths = {
        "device model": [f"/sys/block/{disk}/device/model" for disk in disks],
        "read_ahead_kb": [f"{queue}/read_ahead_kb" for queue in queues.read_ahead],
        **{f"queue {file}": [f"{queue}/{file}" for queue in queues.requests] for file in _QUEUE},
    }
    texts = ops.read_all([path for found in paths.values() for path in found])
    return {"device": ", ".join(disks), **queue_facts(paths, texts)}


def queue_facts(paths: Mapping[str, Sequence[str]], texts: Mapping[str, str]) -> dict[str, str]:
    """``paths`` is fact to files, ``texts`` file to text. Where several devices differ, all values are told."""
    found = {name: [chosen(texts[path]) for path in files if path in texts] for name, files in paths.items()}
    return {name: tally(values) for name, values in found.items() if values}
