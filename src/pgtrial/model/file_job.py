"""A job of a load on files, with all defaults filled in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob:
    """Processes that do the same to one file, which they divide into equal parts.

    ``size`` of the file and ``block_size`` of a request are in bytes; ``fsync`` is the number of writes between two
    calls of fsync, 0 for never; ``may_repeat``: random blocks may come again before all others have; ``once``: it ends
    when it is through the file; ``depth`` is the number of requests that a process keeps in flight.
    """

    name: str
    pattern: str  # read | write | randread | randwrite
    size: int
    block_size: int
    direct: bool
    fsync: int
    engine: str
    depth: int
    share: float
    may_repeat: bool = False
    once: bool = False

    @property
    def writes(self) -> bool:
        return self.pattern in {"write", "randwrite"}

    @property
    def hides_flushes(self) -> bool:
        """Whether its write latencies end before the data are durable, because they do not include fsync."""
        return self.fsync > 0

    @property
    def hides_submission(self) -> bool:
        """Whether a request may complete before its latency begins: a buffered one, during submission."""
        return self.engine != "psync" and not self.direct
