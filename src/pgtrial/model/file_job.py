"""A job of a load on files, with everything that was left out filled in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob:
    """Processes that do the same with one file, which they share in equal parts.

    ``size`` of the file and ``block_size`` of a request are bytes; ``fsync`` is the number of writes after which a
    process calls it, 0 for never; ``depth`` the number of requests that a process has under way.
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

    @property
    def writes(self) -> bool:
        return self.pattern in {"write", "randwrite"}

    @property
    def hides_flushes(self) -> bool:
        """Whether its latencies are of writes that are done sooner than what was asked for: fsync is not in them."""
        return self.fsync > 0

    @property
    def hides_submission(self) -> bool:
        """Whether a request may be done before its latency begins: a buffered one, while the kernel takes it."""
        return self.engine != "psync" and not self.direct

    @property
    def is_sequential(self) -> bool:
        return self.pattern in {"read", "write"}
