"""What the samples say about the disk of each arm, and about a load on files, as data: parts of the causes."""

from enum import StrEnum

from pgtrial.findings.message import MaybeMessage, Message, message
from pgtrial.findings.record import Estimate, Record

SAME_LIMIT = 0.05  # by which two rates may differ and be the same limit


class DiskStanding(StrEnum):
    """What the disk is to a load."""

    AT_LIMIT = "at a limit"  # a ceiling of requests or bytes per second
    SLOW = "slow"  # sessions wait for single requests, and more of them would get more
    NOT_LIMITING = "not what limits"
    UNKNOWN = "not known"


def rate_of(rate: float, of: str) -> Message:
    """A rate of a device, in 1/s or B/s, by what it counts: "reads", …, "read and written"."""
    return message(f"disk-rate.{of.replace(' ', '-')}", rate=rate)


class DiskCeiling(Record):
    """A rate of the device that may be held by a ceiling: the value, how steady, and against which limit.

    ``steadiness`` is the robust coefficient of variation of the seconds up there, ``free_steadiness`` what demand that
    runs free would have (Poisson). ``declared`` is the limit of the disk class or of the control group for this rate.
    """

    of: str  # "reads", "writes", "requests", "read", "written", "read and written"
    metric: str  # series of the timelines that it is of
    unit: str  # "1/s" or "B/s"
    value: Estimate
    pinned_share: float  # of the seconds, within 2 % of it
    steadiness: float | None  # None: most of the time there are no requests at all
    free_steadiness: float
    is_plateau: bool
    declared: float | None
    is_at_declared: bool  # within 5 % of it

    @property
    def rate(self) -> Message:
        """ "3.00 k reads per second", "23.4 MB read per second"."""
        return rate_of(self.value.value, self.of)

    @property
    def how_steady(self) -> Message:
        """How steady it is, against what nobody limits."""
        if self.steadiness is None:
            return message("disk-steadiness", share=self.pinned_share)
        return message(
            "disk-steadiness.compared", share=self.pinned_share, steady=self.steadiness, free=self.free_steadiness
        )


class DiskLoad(Record):
    """The disk of an arm at one load level; means over blocks, null where nothing is known."""

    load_level: int
    standing: DiskStanding
    ceiling: DiskCeiling | None
    throughput: Estimate | None  # transactions, 1/s
    reads: Estimate | None  # 1/s
    writes: Estimate | None
    read_bytes: Estimate | None  # B/s
    write_bytes: Estimate | None
    read_size: Estimate | None  # B
    write_size: Estimate | None
    read_latency: Estimate | None  # s, queue of the device included
    write_latency: Estimate | None
    queue: Estimate | None  # requests under way
    iowait: Estimate | None  # share of the machine's CPU time
    cpu_busy: Estimate | None  # the same: user and system time
    cpus: Estimate | None  # CPUs that the server uses
    text: Message  # one sentence


class ServerSize(Record):
    """How many CPUs of a server the disk can keep busy with this load.

    ``is_bound``: at least so many, because the disk was never at a limit. ``whole`` is a number of CPUs that one can
    have: rounded up.
    """

    cpus: Estimate
    whole: int
    load_level: int  # where it was read
    source: MaybeMessage  # what the CPUs in use were taken from
    is_bound: bool
    text: Message


class DiskUse(Record):
    """The disk of one arm. ``declared`` are its limits: "read_iops" and "write_iops" in 1/s, bytes in B/s."""

    arm: str
    device: str
    disk: str  # class that the file names; "" for none
    is_emulated: bool
    is_enforced: bool  # pgtrial itself holds the server to the declared limits
    declared: dict[str, float]
    levels: tuple[DiskLoad, ...]
    spread: float | None  # of the ceiling over the levels at a limit: (largest - smallest) / mean; None below two
    size: ServerSize | None
    text: MaybeMessage  # none: nothing that the disk limits, and a load whose limit is told elsewhere


# What they say about a load on files.


class FileLimit(StrEnum):
    """Where the speed of a load on files ends, from the fastest to the slowest."""

    MEMORY = "memory"  # requests are answered from the page cache, or only fill it
    BACKGROUND = "background threshold"  # the kernel writes beside the load, and nobody waits for it
    THROTTLE = "throttle"  # writers are made to sleep until as much is written as they write
    DEVICE = "device"  # requests wait for the device itself
    UNDETERMINED = "undetermined"


class FileFact(Record):
    """A number that speaks for the limit; ``threshold`` is what it was held against, null where there is none."""

    metric: str
    value: float
    unit: str
    threshold: float | None
    text: Message


class FileThresholds(Record):
    """The limits of dirty pages, in bytes, as they were while measuring: they are shares of the available memory.

    Each is (lowest, median, highest). ``free_run`` is half-way between the two: up to there no writer is slowed down.
    """

    background: tuple[float, float, float]
    limit: tuple[float, float, float]
    free_run: float


class FileUse(Record):
    """A load on files: one arm at one load level, means over blocks; what is not known is null.

    ``size`` is bytes of the arm's files, ``memory`` what could be had of memory. ``read_share`` is what the device read
    of what was read from the files, ``write_share`` what it wrote of what was written to them, more than 1 where it
    writes what came before, or the file system's own. ``device_requests`` are those of the device for one to a file,
    ``merged_share`` the ones of them that were put together with others before the device saw them.
    ``latency`` is null, too, where fio's latencies are without a part of a request: flushes, or its submission.
    """

    arm: str
    load_level: int
    limit: FileLimit
    text: Message  # a sentence or two
    bandwidth: Estimate | None  # B/s
    requests: Estimate | None  # 1/s
    latency: Estimate | None  # s
    size: float
    memory: float | None  # B
    read_share: Estimate | None
    write_share: Estimate | None
    device_requests: Estimate | None
    request_size: float | None  # B, of the device
    merged_share: float | None
    utilization: float | None  # share of the time in which the device had a request
    dirty: float | None  # B, median
    dirty_share: float | None  # share of the seconds above free_run
    thresholds: FileThresholds | None
    pauses: float | None  # 1/s, times a writer was made to sleep; null where they were not counted
    paused_share: float | None  # share of the writers' time
    direct_reclaim: float | None  # pages per second that processes looked at to free memory
    background_reclaim: float | None  # the same by the kernel's own thread
    facts: tuple[FileFact, ...]
