"""Fingerprint names that measurement writes and inference uses in computations."""

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
