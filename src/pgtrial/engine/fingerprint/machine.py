"""Facts of the processors and of the machine around them, from the text of the kernel's files."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from pgtrial.engine.fingerprint.text import every, memory_of, one_line, tally
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


def machine_facts(texts: Mapping[str, str], *, cpuinfo: str) -> dict[str, str]:
    """Group "machine". ``texts`` is path to text of what PATTERNS names; what a machine does not have is absent."""
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
