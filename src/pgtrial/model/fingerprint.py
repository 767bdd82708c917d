"""Fingerprint names that measurement writes and inference uses in computations; among them those that say what becomes
of flushes (fsync) that do not reach a disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Moment(StrEnum):
    """When the facts of a run were read: between its start and its load, or after its load."""

    BEFORE = "before"
    AFTER = "after"


# What changes by nature, and is judged by thresholds instead of compared: "now/name". Numbers in seconds and bytes.
NOW = "now"

CPU_ALL = "now/CPU time"  # of all CPUs since the boot, idle or not
CPU_TASKS = "now/CPU time used by processes"
CPU_STEAL = "now/CPU time stolen"
SWAPPED = "now/bytes swapped in and out"
THERMAL = "now/thermal throttling"  # events
OOM_KILLS = "now/processes killed for lack of memory"
QUOTA = "now/time throttled by CPU quota"
SWAP_USED = "now/swap used"
FREE = "now/free space for the data"
SIZE = "now/size of the data's file system"
WAL_FREE = "now/free space for the WAL"
WAL_SIZE = "now/size of the WAL's file system"
CLOCK_SYNCHRONIZED = "now/clock synchronized"  # yes | no

# Of the time between the two moments, so only after a run.
CPU_OTHERS = "now/CPU time of other programs"
CPU_OWN = "now/CPU time of server and load"
CPU_KERNEL = "now/CPU time of kernel threads"
OTHERS = "now/other programs"  # "restic 12 %, cron 1 %" of the CPU time


class Lost(StrEnum):
    """``MEMORY``: there is no disk; ``LEFT_OUT``: the file system does not pass them on; ``CACHE``: it passes on the
    data, and leaves them in the cache of the device.
    """

    MEMORY = "end in memory"
    LEFT_OUT = "are left out"
    CACHE = "end in the device's cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFlushes:
    """``by`` names what decides it: "tmpfs", "zram0", "overlay, fsync=volatile"."""

    lost: Lost
    by: str


def flush_facts(role: str, found: LostFlushes | None) -> dict[str, str]:
    """As the fingerprint has it for a role ("data" or "WAL"). Nothing where flushes are not known to be lost."""
    if found is None:
        return {}
    return {f"storage/{role} flushes": str(found.lost), f"storage/{role} flushes decided by": found.by}


def read_flushes(facts: Mapping[str, str], role: str) -> LostFlushes | None:
    """What ``flush_facts`` wrote; None also for what this pgtrial does not know."""
    text = facts.get(f"storage/{role} flushes")
    if text not in list(Lost):
        return None
    return LostFlushes(lost=Lost(text), by=facts.get(f"storage/{role} flushes decided by", ""))
