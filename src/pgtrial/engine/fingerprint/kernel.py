"""Facts of the kernel and its settings, from the text of its files."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from pgtrial.engine.fingerprint.machine import chosen, find, in_parentheses, one_line
from pgtrial.knobs.sysctl import path_of

_MM = "/sys/kernel/mm"
_PAGES = f"{_MM}/transparent_hugepage"
_SCHEDULER = "/sys/kernel/debug/sched"
_CLOCK = "/sys/devices/system/clocksource/clocksource0"
_WEAKNESSES = "/sys/devices/system/cpu/vulnerabilities"
_OS_RELEASE = "/etc/os-release"
_COMMAND_LINE = "/proc/cmdline"

# Named one by one: reading others does something (vm.stat_refresh), or tells of the moment (vm.drop_caches).
SYSCTLS = (
    "fs.aio-max-nr",
    "kernel.io_uring_disabled",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_cfs_bandwidth_slice_us",
    "kernel.sched_child_runs_first",
    "kernel.sched_latency_ns",
    "kernel.sched_migration_cost_ns",
    "kernel.sched_min_granularity_ns",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_schedstats",
    "kernel.sched_tunable_scaling",
    "kernel.sched_wakeup_granularity_ns",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "vm.compaction_proactiveness",
    "vm.dirty_background_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_ratio",
    "vm.dirty_writeback_centisecs",
    "vm.dirtytime_expire_seconds",
    "vm.extfrag_threshold",
    "vm.laptop_mode",
    "vm.lowmem_reserve_ratio",
    "vm.min_free_kbytes",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.overcommit_kbytes",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.page-cluster",
    "vm.page_lock_unfairness",
    "vm.percpu_pagelist_high_fraction",
    "vm.stat_interval",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
)

_SINGLE = {
    "kernel/boot id": "/proc/sys/kernel/random/boot_id",
    "kernel/release": "/proc/sys/kernel/osrelease",
    "kernel/build": "/proc/sys/kernel/version",
    "kernel/clocksource": f"{_CLOCK}/current_clocksource",
    "kernel/ksm.run": f"{_MM}/ksm/run",
    "kernel/lru_gen.enabled": f"{_MM}/lru_gen/enabled",
    "kernel/lru_gen.min_ttl_ms": f"{_MM}/lru_gen/min_ttl_ms",
    "kernel/zswap.enabled": "/sys/module/zswap/parameters/enabled",
}
# Only these: a command line may hold passwords.
_BOOT_PARAMETERS = re.compile(
    r"(amd_pstate|clocksource|default_hugepagesz|hugepages|hugepagesz|idle|intel_idle\.max_cstate|intel_pstate|isolcpus"
    r"|maxcpus|mem|mitigations|nohz|nohz_full|nosmt|numa|numa_balancing|preempt|processor\.max_cstate|pti|rcu_nocbs"
    r"|spectre_v2|threadirqs|transparent_hugepage|tsc)(=.*)?"
)

PATTERNS = (
    *_SINGLE.values(),
    _OS_RELEASE,
    _COMMAND_LINE,
    f"{_WEAKNESSES}/*",
    f"{_MM}/hugepages/*/nr_hugepages",
    f"{_PAGES}/*enabled",
    f"{_PAGES}/defrag",
    f"{_PAGES}/hugepages-*/*enabled",
    f"{_PAGES}/khugepaged/defrag",
    f"{_PAGES}/khugepaged/max_ptes_none",
    f"{_PAGES}/khugepaged/scan_sleep_millisecs",
    f"{_SCHEDULER}/*_ns",
    f"{_SCHEDULER}/preempt",
    f"{_SCHEDULER}/tunable_scaling",
)


def kernel_facts(texts: Mapping[str, str], *, sysctls: Iterable[str]) -> dict[str, str]:
    """Groups "kernel" and "system". ``texts`` is path to text of what PATTERNS and the sysctls name."""
    facts = {name: chosen(texts[path]) for name, path in _SINGLE.items() if path in texts}
    facts |= {f"kernel/{name}": one_line(texts[path]) for name in sysctls if (path := path_of(name)) in texts}
    facts |= _page_size_facts(texts)
    for path, text in texts.items():
        if path.startswith(f"{_PAGES}/") and "/hugepages-" not in path:
            name = path.removeprefix(f"{_PAGES}/").replace("/", ".")
            facts[f"kernel/transparent_hugepage.{name}"] = chosen(text)
        elif path.startswith(f"{_MM}/hugepages/"):
            size = PurePosixPath(path).parent.name.removeprefix("hugepages-")
            facts[f"kernel/huge pages of {size}"] = one_line(text)
        elif path.startswith(f"{_SCHEDULER}/"):
            name = PurePosixPath(path).name
            facts[f"kernel/sched.{name}"] = in_parentheses(text) if name == "preempt" else one_line(text)
    facts |= _boot_facts(texts)
    return {name: value for name, value in facts.items() if value}


def _page_size_facts(texts: Mapping[str, str]) -> dict[str, str]:
    """The sizes of transparent huge pages that are not switched off, each of which has switches of its own."""
    found: dict[str, list[str]] = {}
    for path, text in texts.items():
        if path.startswith(f"{_PAGES}/hugepages-"):
            size = PurePosixPath(path).parent.name.removeprefix("hugepages-")
            names = found.setdefault(f"kernel/transparent_hugepage.{PurePosixPath(path).name} by size", [])
            if chosen(text) != "never":
                names.append(f"{size} {chosen(text)}")
    return {name: ", ".join(sizes) or "never" for name, sizes in found.items()}


def _boot_facts(texts: Mapping[str, str]) -> dict[str, str]:
    words = texts.get(_COMMAND_LINE, "").split()
    weaknesses: dict[str, list[str]] = {}
    for path, text in texts.items():
        if path.startswith(f"{_WEAKNESSES}/"):
            weaknesses.setdefault(re.split(r"[:;]", text.strip())[0].lower(), []).append(PurePosixPath(path).name)
    weaknesses.pop("not affected", None)
    name = find(r'^PRETTY_NAME="?([^"\n]*)', texts.get(_OS_RELEASE, ""))
    return {
        "kernel/boot parameters": " ".join(word for word in words if _BOOT_PARAMETERS.fullmatch(word)),
        "kernel/CPU weaknesses": "; ".join(f"{state}: {', '.join(names)}" for state, names in weaknesses.items()),
        "system/operating system": name,
    }
