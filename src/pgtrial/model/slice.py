"""A stretch of an interleaved or paired run: what lets runs of one block share its time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A stretch of a run during which its arm was at work; times in seconds since the epoch.

    ``number`` is the position in the block's sequence of slices, from 0, over all arms. ``level`` is the load level's
    index. Transactions that end in [``counted``, ``ended``) count; what is before ``counted`` is guard time. Between
    the end of one slice and the start of the arm's next one its server and its load stood still, unless the next one
    starts where this one ends.
    """

    level: int
    number: int
    started: float
    counted: float
    ended: float

    @property
    def seconds(self) -> float:
        """Counted time."""
        return self.ended - self.counted
