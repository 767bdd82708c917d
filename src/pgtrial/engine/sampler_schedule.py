"""When to read: an absolute schedule, so that lateness does not add up."""

import math
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Ticks:
    """Ticks at ``start`` + k · ``interval`` of any clock; ``skipped`` counts those that could not be taken in time."""

    start: float
    interval: float
    next: int = 0
    taken: int = 0
    skipped: int = 0

    @property
    def deadline(self) -> float:
        return self.start + self.next * self.interval

    def take(self, now: float) -> bool:
        """Whether a tick is to be read now; it is skipped if it is late by more than half an interval."""
        if now < self.deadline:
            return False
        due = max(self.next, math.floor((now - self.start) / self.interval))
        in_time = now - (self.start + due * self.interval) <= self.interval / 2
        self.skipped += due - self.next + (not in_time)
        self.taken += in_time
        self.next = due + 1
        return in_time
