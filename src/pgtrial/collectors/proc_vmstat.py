"""/proc/vmstat: paging, reclaim, refaults, writeback and its thresholds, huge pages, NUMA.

Names are the kernel's. Values are pages or events, but pgpgin and pgpgout, which the kernel counts in kB, are B.
A kernel that does not know a name has no reading for it.
"""

from collections.abc import Iterator

from pgtrial.collectors.base import FileCollector, Reading, counters, gauges

NAME = "proc_vmstat"

_GAUGES = (
    *("nr_free_pages", "nr_inactive_anon", "nr_active_anon", "nr_inactive_file", "nr_active_file", "nr_unevictable"),
    *("nr_mlock", "nr_slab_reclaimable", "nr_slab_unreclaimable", "nr_anon_pages", "nr_mapped", "nr_file_pages"),
    *("nr_shmem", "nr_page_table_pages", "nr_anon_transparent_hugepages", "workingset_nodes"),
    *("nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"),
)
_COUNTERS = (
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
_KILOBYTES = ("pgpgin", "pgpgout")
_FACTORS = {**dict.fromkeys((*_GAUGES, *_COUNTERS), 1), **dict.fromkeys(_KILOBYTES, 1024)}


def parse(text: str) -> Iterator[Reading]:
    """Readings of lines such as "nr_dirty 56734"."""
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        factor = _FACTORS.get(name)
        if factor is not None:
            yield Reading(f"{NAME}.{name}", "", float(int(number) * factor))


COLLECTOR = FileCollector(
    name=NAME,
    path="/proc/vmstat",
    metrics=(*gauges(NAME, "", *_GAUGES), *counters(NAME, "", *_COUNTERS), *counters(NAME, "B", *_KILOBYTES)),
    parse=parse,
)
