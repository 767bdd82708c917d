"""Kernel settings that are not as others: those that cannot be put back, and those that change one another.

Names are paths below /proc/sys. Sources: the kernel's documentation, admin-guide/sysctl and networking/ip-sysctl; where
it is silent, the handlers in the kernel's own source.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Settings that are refused, all or only with a certain value, and the full sentence why."""

    pattern: str
    reason: str
    value: str | None = None
    hint: str = ""


_ACTS = "Writing to it makes the kernel do something at once; it holds no value that could be put back."
_ONE_WAY = "The kernel does not let it be put back before the next reboot."
_COUNTS = "The kernel itself changes it, so that nobody can say what to put back."
_NETWORK = "It changes other settings of the network, addresses or routes as well, which could not be put back."
_SECRET = "It is a secret, which must not be written to the journal of changes."

REFUSALS = (
    Refusal(pattern="vm/drop_caches", reason=_ACTS, hint='cache = "cold" in [design] empties the caches before runs.'),
    Refusal(pattern="vm/compact_memory", reason=_ACTS),
    Refusal(pattern="vm/stat_refresh", reason=_ACTS),
    Refusal(pattern="net/ipv[46]/route/flush", reason=_ACTS),
    Refusal(pattern="fs/xfs/stats_clear", reason=_ACTS),
    Refusal(pattern="fs/binfmt_misc/*", reason=_ACTS),
    Refusal(
        pattern="kernel/shm_rmid_forced",
        value="1",
        reason="It destroys shared memory that no program has attached, which could not be put back.",
    ),
    Refusal(pattern="kernel/hung_task_detect_count", reason=_COUNTS),
    Refusal(pattern="kernel/ns_last_pid", reason=_COUNTS),
    Refusal(pattern="kernel/*_next_id", reason=_COUNTS),
    Refusal(pattern="kernel/modules_disabled", value="1", reason=_ONE_WAY),
    Refusal(pattern="kernel/kexec_load_disabled", value="1", reason=_ONE_WAY),
    Refusal(pattern="kernel/kexec_load_limit_*", reason=_ONE_WAY),
    Refusal(pattern="kernel/yama/ptrace_scope", value="3", reason=_ONE_WAY),
    Refusal(
        pattern="kernel/unprivileged_bpf_disabled",
        value="1",
        reason=_ONE_WAY,
        hint="2 forbids the same, and can be put back.",
    ),
    Refusal(pattern="kernel/usermodehelper/*", reason=_ONE_WAY),
    Refusal(pattern="kernel/tainted", reason=_ONE_WAY),
    Refusal(pattern="vm/memfd_noexec", reason=f"{_ONE_WAY[:-1]}, on kernels before 6.6."),
    Refusal(pattern="net/ipv4/ip_forward", reason=_NETWORK),
    Refusal(pattern="net/ipv4/conf/all/forwarding", reason=_NETWORK),
    Refusal(pattern="net/ipv6/conf/*/forwarding", reason=_NETWORK),
    Refusal(pattern="net/ipv6/conf/*/disable_ipv6", reason=_NETWORK),
    Refusal(pattern="net/ipv6/conf/*/addr_gen_mode", reason=_NETWORK),
    Refusal(pattern="net/ipv6/conf/*/stable_secret", reason=_SECRET),
    Refusal(pattern="net/ipv4/tcp_fastopen_key", reason=_SECRET),
)

# Setting the first also changes the others, so they are put back with it, and after it. kernel.watchdog switches both
# watchdogs; the congestion control in use is always among those that are allowed to all users.
TOGETHER = (
    ("kernel/watchdog", "kernel/nmi_watchdog", "kernel/soft_watchdog"),
    ("net/ipv4/tcp_congestion_control", "net/ipv4/tcp_allowed_congestion_control"),
)

# What to say when the kernel does not make the value what was asked for.
HINTS = {"vm/nr_hugepages": "The kernel finds no more free memory in such large pieces; after a reboot it may."}


def find_refusal(name: str, value: str) -> Refusal | None:
    """Why a setting (or this value of it) is not set; None when it is as others."""
    for refusal in REFUSALS:
        if fnmatchcase(name, refusal.pattern) and refusal.value in (None, value.strip()):
            return refusal
    return None
