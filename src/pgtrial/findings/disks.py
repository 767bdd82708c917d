"""What the samples say about the disk of each arm, as data: a part of the causes."""

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
