"""What the samples say about a load on files, as data: a part of the causes."""

from enum import StrEnum

from pgtrial.findings.message import Message
from pgtrial.findings.record import Estimate, Record


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
