"""What pgtrial knows of single kernel settings: which are varied, which change one another, how they settle.

Names of VARIED, REFUSALS, TOGETHER and HINTS are paths below /proc/sys. Sources: the kernel's documentation,
admin-guide/sysctl and networking/ip-sysctl; where it is silent, the handlers in the kernel's own source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pgtrial.knobs.declaration import Acts, EffectTiming, OfGroup, Outlook, Rule, Shared, idle_without_writes

# (ratio, absolute): one of the two is in force and the other reads 0, for the kernel makes it 0 as soon as the other is
# set. Source: kernel documentation, admin-guide/sysctl/vm.rst.
EXCLUSIVE = (
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ("vm.overcommit_ratio", "vm.overcommit_kbytes"),
)
# Setting to the facts of what else it changes.
CHANGES_ALSO: Mapping[str, tuple[str, ...]] = {
    "kernel.watchdog": ("kernel/kernel.nmi_watchdog",),
    "vm.nr_hugepages": ("kernel/huge pages of *",),
    **{ratio: (f"kernel/{absolute}",) for ratio, absolute in EXCLUSIVE},
    **{absolute: (f"kernel/{ratio}",) for ratio, absolute in EXCLUSIVE},
}

RULES = (
    Rule(
        patterns=("vm.overcommit*", "vm.max_map_count", "vm.mmap_*", "vm.oom_*", "vm.panic_on_oom"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for memory that is asked for next",
        seconds=0.2,
        at_run_time=True,
    ),
    Rule(
        patterns=("vm.dirty*", "vm.laptop_mode"),
        timing=EffectTiming.BUILDS_UP,
        reason="acts on the dirty pages of all programs, which gather and are written back over tens of seconds",
        shares=(Shared.DIRTY_PAGES,),
        at_run_time=True,
    ),
    Rule(
        patterns=("vm.nr_hugepages*", "vm.nr_overcommit_hugepages", "vm.hugetlb*"),
        timing=EffectTiming.BUILDS_UP,
        reason="makes a pool of huge pages, which a server maps when it starts, of memory that all programs lack then",
        shares=(Shared.PAGE_CACHE, Shared.MEMORY),
    ),
    Rule(
        patterns=("vm.swappiness",),
        timing=EffectTiming.BUILDS_UP,
        reason="acts on the memory of all programs, by what is reclaimed and swapped out over minutes",
        shares=(Shared.PAGE_CACHE, Shared.MEMORY),
        at_run_time=True,
        in_group=True,
    ),
    Rule(
        patterns=("vm.*",),
        timing=EffectTiming.BUILDS_UP,
        reason="acts on the memory of all programs, by what is reclaimed, swapped out or kept over minutes",
        shares=(Shared.PAGE_CACHE, Shared.MEMORY),
        at_run_time=True,
    ),
    Rule(
        patterns=("kernel.numa_balancing*",),
        timing=EffectTiming.BUILDS_UP,
        reason="moves pages between nodes over minutes",
        shares=(Shared.MEMORY,),
    ),
    Rule(
        patterns=("kernel.sched*", "kernel.timer_migration", "kernel.watchdog*", "kernel.nmi_watchdog", "kernel.perf*"),
        timing=EffectTiming.AT_ONCE,
        reason="holds from the scheduler's next decision on",
        seconds=0.2,
        at_run_time=True,
    ),
    Rule(
        patterns=("kernel.sem", "kernel.shm*", "kernel.msg*", "kernel.*max*", "fs.*"),
        timing=EffectTiming.AT_ONCE,
        reason="is a limit, or holds for what is made next",
        seconds=0.2,
    ),
    Rule(
        patterns=("net.*",),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next packet or connection",
        seconds=0.2,
    ),
    Rule(
        patterns=("*",),
        timing=EffectTiming.BUILDS_UP,
        reason="is not known to pgtrial, and all programs share it",
        shares=(Shared.MEMORY,),
    ),
)


# What an experiment may vary: what bears on the speed of a server, its memory, its disks and its connections. The rest
# guards the machine or runs it, and each new kernel has more of that.
VARIED = (
    "vm/*",
    "kernel/sched*",
    "kernel/numa_balancing*",
    "kernel/sem",
    "kernel/shm*",
    "kernel/msg*",
    "kernel/timer_migration",
    "kernel/*watchdog*",
    "kernel/perf_cpu_time_max_percent",
    "kernel/perf_event_max_sample_rate",
    "kernel/task_delayacct",
    "fs/aio-max-nr",
    "fs/pipe-max-size",
    "fs/xfs/*",
    "dev/raid/speed_limit_*",
    "net/core/*",
    "net/ipv4/tcp_*",
    "net/ipv4/udp_*",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/neigh/*",
    "net/unix/max_dgram_qlen",
    "sunrpc/*_slot_table_entries",
)


def _idle_without_swap(outlook: Outlook) -> str:
    return "the machine has no swap space" if outlook.swap == 0 else ""


# Writers are slowed down from half-way between the two limits on, and stopped at the upper one (mm/page-writeback.c).
ACTS = (
    Acts(
        patterns=("vm.swappiness",),
        code="swap",
        metrics=("vmstat.si", "vmstat.so"),
        least=1024.0**2,
        # By group only what is out is known, not what goes out; a group that pgtrial makes begins with nothing.
        in_group=OfGroup(value="cgroup.swappiness", metrics=("cgroup.swapped", "cgroup.si")),
        idle=_idle_without_swap,
    ),
    Acts(patterns=("vm.vfs_cache_pressure",), code="slabs", metrics=("reclaim.slabs",), least=1.0),
    Acts(
        patterns=("vm.dirty_ratio", "vm.dirty_bytes"),
        code="throttling",
        metrics=("dirty.share",),
        least=0.5,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
        code="background-writing",
        metrics=("dirty.background_share",),
        least=0.95,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("vm.dirty_expire_centisecs", "vm.dirty_writeback_centisecs"),
        code="write-back",
        metrics=("dirty.writeback",),
        least=1024.0**2,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("vm.min_free_kbytes", "vm.watermark_*", "vm.extfrag_threshold"),
        code="reclaim",
        metrics=("reclaim.kswapd", "reclaim.direct"),
        least=1.0,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSetting:
    """Settings that are refused, all or only with a value ``below`` one, and the full sentence why."""

    pattern: str
    reason: str
    below: int | None = None
    hint: str = ""


_ACTS = "Writing to it makes the kernel do something at once; it holds no value that could be put back."
_ONE_WAY = "The kernel does not let it be put back before the next reboot."
_COUNTS = "The kernel itself changes it, so that nobody can say what to put back."
_NETWORK = "It changes other settings of the network, addresses or routes as well, which could not be put back."
_SECRET = "It is a secret, which must not be written to the journal of changes."

_STARTS = "It names a program that the kernel starts as root, or by which the machine is recovered."
_PROTECTS = "It protects the users of the machine from each other."
_BREAKS = "With a wrong value no program can be started any more, not even to put it back."
_ENDS = "It decides whether the machine goes down."

_NOT_VARIED = RefusedSetting(
    pattern="*",
    reason="It is not among the settings of the kernel that an experiment may vary (docs/knobs.md has the list).",
    hint="If all arms are to have it, set it yourself before.",
)
REFUSALS = (
    *(
        RefusedSetting(pattern=pattern, reason=reason)
        for reason, patterns in (
            (_STARTS, ("kernel/core_pattern", "kernel/core_pipe_limit", "kernel/modprobe", "kernel/hotplug")),
            (_STARTS, ("kernel/poweroff_cmd", "kernel/ctrl-alt-del", "kernel/sysrq")),
            (_BREAKS, ("kernel/pid_max", "kernel/threads-max", "fs/file-max", "fs/nr_open", "vm/mmap_min_addr")),
            (_BREAKS, ("user/max_*",)),
            (_ENDS, ("kernel/panic*", "kernel/*_panic", "kernel/*_panic_*", "vm/panic_on_oom", "fs/xfs/panic_mask")),
            (_PROTECTS, ("fs/suid_dumpable", "fs/protected_*", "kernel/kptr_restrict", "kernel/dmesg_restrict")),
            (_PROTECTS, ("kernel/perf_event_paranoid", "kernel/unprivileged_*", "kernel/yama/*", "kernel/keys/*")),
            (_PROTECTS, ("vm/unprivileged_userfaultfd", "net/core/bpf_jit_harden", "kernel/io_uring_group")),
            (_PROTECTS, ("kernel/apparmor*", "kernel/sysctl_writes_strict", "kernel/oops_all_cpu_backtrace")),
            (_PROTECTS, ("kernel/randomize_va_space", "kernel/io_uring_disabled", "kernel/split_lock_mitigate")),
            (_PROTECTS, ("vm/mmap_rnd_*", "vm/legacy_va_layout", "vm/hugetlb_shm_group", "net/core/bpf_*")),
            (_PROTECTS, ("net/core/tstamp_allow_data", "net/core/xfrm_*", "net/ipv4/tcp_syncookies")),
            (_PROTECTS, ("net/ipv4/tcp_rfc1337", "net/ipv4/tcp_challenge_ack_limit")),
            (_PROTECTS, ("net/ipv4/tcp_allowed_congestion_control",)),
        )
        for pattern in patterns
    ),
    RefusedSetting(
        pattern="vm/drop_caches", reason=_ACTS, hint='cache = "cold" in [design] empties the caches before runs.'
    ),
    RefusedSetting(pattern="vm/compact_memory", reason=_ACTS),
    RefusedSetting(pattern="vm/stat_refresh", reason=_ACTS),
    RefusedSetting(pattern="net/ipv[46]/route/flush", reason=_ACTS),
    RefusedSetting(pattern="fs/xfs/stats_clear", reason=_ACTS),
    RefusedSetting(pattern="fs/binfmt_misc/*", reason=_ACTS),
    RefusedSetting(
        pattern="kernel/shm_rmid_forced",
        reason="It destroys shared memory that no program has attached, which could not be put back.",
    ),
    RefusedSetting(pattern="vm/max_map_count", below=65530, reason=_BREAKS),
    RefusedSetting(pattern="kernel/hung_task_detect_count", reason=_COUNTS),
    RefusedSetting(pattern="kernel/ns_last_pid", reason=_COUNTS),
    RefusedSetting(pattern="kernel/*_next_id", reason=_COUNTS),
    RefusedSetting(pattern="kernel/modules_disabled", reason=_ONE_WAY),
    RefusedSetting(pattern="kernel/kexec_load_disabled", reason=_ONE_WAY),
    RefusedSetting(pattern="kernel/kexec_load_limit_*", reason=_ONE_WAY),
    RefusedSetting(pattern="kernel/usermodehelper/*", reason=_ONE_WAY),
    RefusedSetting(pattern="kernel/tainted", reason=_ONE_WAY),
    RefusedSetting(pattern="vm/memfd_noexec", reason=f"{_ONE_WAY[:-1]}, on kernels before 6.6."),
    RefusedSetting(pattern="net/ipv4/ip_forward", reason=_NETWORK),
    RefusedSetting(pattern="net/ipv4/conf/all/forwarding", reason=_NETWORK),
    RefusedSetting(pattern="net/ipv6/conf/*/forwarding", reason=_NETWORK),
    RefusedSetting(pattern="net/ipv6/conf/*/disable_ipv6", reason=_NETWORK),
    RefusedSetting(pattern="net/ipv6/conf/*/addr_gen_mode", reason=_NETWORK),
    RefusedSetting(pattern="net/ipv6/conf/*/stable_secret", reason=_SECRET),
    RefusedSetting(pattern="net/ipv4/tcp_fastopen_key", reason=_SECRET),
)

# Setting the first also changes the others, so they are put back with it, and after it. kernel.watchdog switches both
# watchdogs; the congestion control in use is always among those that are allowed to all users.
TOGETHER = (
    ("kernel/watchdog", "kernel/nmi_watchdog", "kernel/soft_watchdog"),
    ("net/ipv4/tcp_congestion_control", "net/ipv4/tcp_allowed_congestion_control"),
)

# What to say when the kernel does not make the value what was asked for.
HINTS = {"vm/nr_hugepages": "The kernel finds no more free memory in such large pieces; after a reboot it may."}


def find_refusal(name: str, value: str) -> RefusedSetting | None:
    """Why a setting (or this value of it) is not set; None when an experiment may vary it."""
    for refusal in REFUSALS:
        if fnmatchcase(name, refusal.pattern) and (refusal.below is None or _is_below(value, refusal.below)):
            return refusal
    return None if any(fnmatchcase(name, pattern) for pattern in VARIED) else _NOT_VARIED


def _is_below(value: str, least: int) -> bool:
    try:
        return int(value, 0) < least  # as the kernel reads it: 0x10 too
    except ValueError:
        return True
