"""Files in /proc that tell of the whole machine: their parsers, and what is read of each.

Names are the kernel's, "Active(anon)" included. A kernel that does not know one has no reading for it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from pgtrial.collectors.base import FileCollector, Reading, counters, gauges

STAT, DISK, VMSTAT, MEMINFO, LOADAVG = "proc_stat", "disk", "proc_vmstat", "proc_meminfo", "proc_loadavg"
ZONEINFO, PRESSURE = "zoneinfo", "pressure"

# -- stat: CPU time by use, context switches, and tasks that run or wait for I/O -----------------------------

_TICKS_PER_SECOND = 100  # USER_HZ, the unit of this file whatever the kernel's own HZ is (proc(5))
# In the kernel's order; "user" contains "guest" and "nice" contains "guest_nice".
_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_STAT_COUNTERS = {"ctxt": "ctxt", "processes": "processes", "intr": "intr", "softirq": "softirqs"}
_STAT_GAUGES = ("procs_running", "procs_blocked")


def _parse_stat(text: str) -> Iterator[Reading]:
    """CPU times in s for the object "all"; ``cpus`` counts the CPUs that are online."""
    cpus = 0
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "cpu":
            for use, ticks in zip(_CPU, rest.split(), strict=False):
                yield Reading(f"{STAT}.cpu_{use}", "all", int(ticks) / _TICKS_PER_SECOND)
        elif name.startswith("cpu"):
            cpus += 1
        elif name in _STAT_COUNTERS:
            # Of interrupts the first number is the total; one number per interrupt line follows.
            yield Reading(f"{STAT}.{_STAT_COUNTERS[name]}", "", float(rest.split(maxsplit=1)[0]))
        elif name in _STAT_GAUGES:
            yield Reading(f"{STAT}.{name}", "", float(rest))
    yield Reading(f"{STAT}.cpus", "", float(cpus))


# -- diskstats: requests, bytes and time of the block devices ------------------------------------------------

_SECTOR = 512.0  # bytes; fixed in this file, whatever the device's own sectors are
_MILLISECOND = 1e-3
_UNITS = {1.0: "", _SECTOR: "B", _MILLISECOND: "s"}
# Quantity and factor, in the kernel's order (Documentation/admin-guide/iostats.rst). Kernels before 4.18 end after
# queue_time, those before 5.5 after discard_time; newer ones may append more.
_DISK_FIELDS = (
    ("reads", 1.0),
    ("reads_merged", 1.0),
    ("read_bytes", _SECTOR),
    ("read_time", _MILLISECOND),
    ("writes", 1.0),
    ("writes_merged", 1.0),
    ("write_bytes", _SECTOR),
    ("write_time", _MILLISECOND),
    ("in_flight", 1.0),
    ("io_time", _MILLISECOND),  # while at least one request was in flight
    ("queue_time", _MILLISECOND),  # summed over the requests in flight: queue length × time
    ("discards", 1.0),
    ("discards_merged", 1.0),
    ("discard_bytes", _SECTOR),
    ("discard_time", _MILLISECOND),
    ("flushes", 1.0),
    ("flush_time", _MILLISECOND),
)


def _parse_diskstats(text: str) -> Iterator[Reading]:
    """Readings of all devices; the object is the device's name ("vda", "nvme0n1")."""
    for line in text.splitlines():
        _major, _minor, device, *numbers = line.split()
        for (name, factor), number in zip(_DISK_FIELDS, numbers, strict=False):
            yield Reading(f"{DISK}.{name}", device, int(number) * factor)


def device_names(text: str) -> dict[str, str]:
    """Names of the devices by their numbers, {"254:0": "vda"}."""
    fields = [line.split(maxsplit=3) for line in text.splitlines()]
    return {f"{major}:{minor}": name for major, minor, name, _ in fields}


# -- vmstat: paging, reclaim, refaults, writeback and its thresholds, huge pages, NUMA -----------------------

# Pages or events, but pgpgin and pgpgout, which the kernel counts in kB, are B.
_VM_GAUGES = (
    *("nr_free_pages", "nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file", "nr_unevictable"),
    *("nr_mlock", "nr_slab_reclaimable", "nr_slab_unreclaimable", "nr_anon_pages", "nr_mapped", "nr_file_pages"),
    *("nr_shmem", "nr_page_table_pages", "nr_anon_transparent_hugepages", "workingset_nodes"),
    *("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"),
)
_VM_COUNTERS = (
    # writeback
    *("nr_dirtied", "nr_written", "nr_throttled_written", "nr_vmscan_write", "nr_vmscan_immediate_reclaim"),
    # paging
    *("pswpin", "pswpout", "pgfault", "pgmajfault", "pgfree", "pgactivate", "pgdeactivate", "pgrefill", "pgreuse"),
    *("swap_ra", "swap_ra_hit", "zswpin", "zswpout", "oom_kill", "drop_pagecache", "drop_slab"),
    # reclaim
    *("pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive", "pgscan_direct_throttle"),
    *("pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive"),
    *("pgscan_anon", "pgscan_file", "pgsteal_anon", "pgsteal_file", "slabs_scanned", "pgrotated"),
    # by zone since 4.10
    *("allocstall", "allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_highmem"),
    *("allocstall_movable", "allocstall_device"),
    *("pageoutrun", "pginodesteal", "kswapd_inodesteal"),
    *("kswapd_low_wmark_hit_quickly", "kswapd_high_wmark_hit_quickly", "zone_reclaim_success", "zone_reclaim_failed"),
    # refaults; the names without a suffix are those of kernels before 5.9
    *("workingset_refault", "workingset_activate", "workingset_restore", "workingset_nodereclaim"),
    *("workingset_refault_anon", "workingset_activate_anon", "workingset_restore_anon"),
    *("workingset_refault_file", "workingset_activate_file", "workingset_restore_file"),
    # huge pages and compaction
    *("thp_fault_alloc", "thp_fault_fallback", "thp_collapse_alloc", "thp_collapse_alloc_failed", "thp_split_page"),
    *("compact_stall", "compact_fail", "compact_success", "compact_daemon_wake"),
    *("htlb_buddy_alloc_success", "htlb_buddy_alloc_fail"),
    # NUMA
    *("numa_hit", "numa_miss", "numa_foreign", "numa_local", "numa_other"),
    *("numa_pte_updates", "numa_hint_faults", "numa_hint_faults_local", "numa_pages_migrated"),
    *("pgmigrate_success", "pgmigrate_fail"),
    # memory that the hypervisor takes and gives back
    *("balloon_inflate", "balloon_deflate"),
)
_VM_KILOBYTES = ("pgpgin", "pgpgout")

# -- meminfo: what the memory is used for --------------------------------------------------------------------

_BYTES = (
    *("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "SwapTotal", "SwapFree"),
    *("Active", "Inactive", "Active(anon)", "Inactive(anon)", "Active(file)", "Inactive(file)"),
    *("Unevictable", "Mlocked", "Dirty", "Writeback", "AnonPages", "Mapped", "Shmem", "Zswap", "Zswapped"),
    *("KReclaimable", "Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Percpu"),
    *("CommitLimit", "Committed_AS"),
    *("AnonHugePages", "ShmemHugePages", "ShmemPmdMapped", "FileHugePages", "FilePmdMapped"),
    *("Hugepagesize", "Hugetlb"),
)
_COUNTS = ("HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp")


def _parser(source: str, factors: Mapping[str, int]) -> Callable[[str], Iterator[Reading]]:
    """Makes what reads lines such as "nr_dirty 56734" and "MemFree:  23020232 kB", by the names that are known."""

    def parse(text: str) -> Iterator[Reading]:
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            name = word.removesuffix(":")
            if name in factors:
                yield Reading(f"{source}.{name}", "", float(int(rest.split(maxsplit=1)[0]) * factors[name]))

    return parse


# -- loadavg: the load averages, and how many tasks can run or exist -----------------------------------------

_LOADS = ("load1", "load5", "load15")
_TASKS = ("tasks_runnable", "tasks")


def _parse_loadavg(text: str) -> Iterator[Reading]:
    """Readings of "0.08 0.04 0.04 1/92 10161"."""
    *loads, tasks, _last_pid = text.split()
    for name, value in (*zip(_LOADS, loads, strict=True), *zip(_TASKS, tasks.split("/"), strict=True)):
        yield Reading(f"{LOADAVG}.{name}", "", float(value))


# -- zoneinfo: free pages of each zone of memory, and the watermarks at which the kernel begins to reclaim ---

# Below "low" kswapd wakes up, below "min" allocating processes reclaim directly, and up to "high" kswapd continues. The
# kernel raises them for a while after fragmentation, so they are not constants.
_WATERMARKS = ("free", "min", "low", "high")


def _parse_zoneinfo(text: str) -> Iterator[Reading]:
    """Readings, in pages, of lines such as "  pages free 3840" and "  min 25"; the object is "node/zone"."""
    about = ""
    for line in text.splitlines():
        words = line.replace("pages free", "free").split()
        if line.startswith("Node"):
            about = f"{words[1].rstrip(',')}/{words[3]}"
        elif len(words) == 2 and words[0] in _WATERMARKS:
            yield Reading(f"{ZONEINFO}.{words[0]}", about, float(words[1]))


# -- pressure: time that tasks stalled waiting for CPU, memory or I/O (Linux 4.20 and newer, may be disabled)

# Only the running totals are read: averages over 10 s would smooth what is to be seen. "full" is not defined for the
# CPU of a whole machine; kernels print a zero there (Documentation/accounting/psi.rst).
_STALLS = {"cpu": ("some",), "io": ("some", "full"), "memory": ("some", "full")}


def _parse_pressure(text: str, *, resource: str) -> Iterator[Reading]:
    """Readings of lines such as "some avg10=0.34 avg60=0.54 avg300=0.26 total=6560526"."""
    for line in text.splitlines():
        stall, *fields = line.split()
        if stall in _STALLS[resource]:
            microseconds = dict(field.split("=", 1) for field in fields)["total"]
            yield Reading(f"{PRESSURE}.{resource}_{stall}_total", "", int(microseconds) * 1e-6)


COLLECTORS = (
    FileCollector(
        name=STAT,
        path="/proc/stat",
        metrics=(
            *counters(STAT, "s", *(f"cpu_{use}" for use in _CPU)),
            *counters(STAT, "", *_STAT_COUNTERS.values()),
            *gauges(STAT, "", *_STAT_GAUGES, "cpus"),
        ),
        parse=_parse_stat,
    ),
    FileCollector(
        name=DISK,
        path="/proc/diskstats",
        metrics=(
            *(
                metric
                for name, factor in _DISK_FIELDS
                if name != "in_flight"
                for metric in counters(DISK, _UNITS[factor], name)
            ),
            *gauges(DISK, "", "in_flight"),
        ),
        parse=_parse_diskstats,
        per_device=True,
    ),
    FileCollector(
        name=VMSTAT,
        path="/proc/vmstat",
        metrics=(
            *gauges(VMSTAT, "", *_VM_GAUGES),
            *counters(VMSTAT, "", *_VM_COUNTERS),
            *counters(VMSTAT, "B", *_VM_KILOBYTES),
        ),
        parse=_parser(VMSTAT, {**dict.fromkeys((*_VM_GAUGES, *_VM_COUNTERS), 1), **dict.fromkeys(_VM_KILOBYTES, 1024)}),
    ),
    FileCollector(
        name=MEMINFO,
        path="/proc/meminfo",
        metrics=(*gauges(MEMINFO, "B", *_BYTES), *gauges(MEMINFO, "", *_COUNTS)),
        parse=_parser(MEMINFO, {**dict.fromkeys(_BYTES, 1024), **dict.fromkeys(_COUNTS, 1)}),
    ),
    FileCollector(
        name=LOADAVG,
        path="/proc/loadavg",
        metrics=gauges(LOADAVG, "", *_LOADS, *_TASKS),
        parse=_parse_loadavg,
    ),
    FileCollector(
        name=ZONEINFO,
        path="/proc/zoneinfo",
        metrics=gauges(ZONEINFO, "", *_WATERMARKS),
        parse=_parse_zoneinfo,
        # The rest of it grows with the number of CPUs, and is a hundred times as long on a large machine.
        lines=("Node", "  pages free", *(f"        {name} " for name in _WATERMARKS[1:])),
    ),
)
STALLS = tuple(
    FileCollector(
        name=f"{PRESSURE}_{resource}",
        path=f"/proc/pressure/{resource}",
        metrics=counters(PRESSURE, "s", *(f"{resource}_{stall}_total" for stall in stalls)),
        parse=partial(_parse_pressure, resource=resource),
    )
    for resource, stalls in _STALLS.items()
)
