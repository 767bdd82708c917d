"""Measure how far a host's clock is ahead of ours, and convert its times."""

import time
from dataclasses import dataclass

from pgtrial.hosts.base import LOCAL, Host


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """Seconds that the host's clock is ahead of ours; the true value lies within ``error`` seconds of ``offset``."""

    offset: float
    error: float


def measure_offset(host: Host, *, rounds: int = 10) -> ClockOffset:
    """Offset by the round trip that took least time, as the host's answer lies somewhere within it.

    Source: Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989; RFC 5905 (NTP), section 10.
    """
    if host.name == LOCAL:
        return ClockOffset(offset=0.0, error=0.0)
    measured = []
    for _ in range(rounds):
        before, begun = time.time(), time.monotonic()
        there, _ = host.ops.clock()
        taken = time.monotonic() - begun  # of a clock that nobody sets meanwhile
        measured.append(ClockOffset(offset=there - (before + taken / 2), error=taken / 2))
    return min(measured, key=lambda each: each.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """How far a host's clock was ahead of ours (seconds) at two times of ours (seconds since the epoch).

    Between the two, and beyond, the offset is taken as a straight line. A converted time is wrong

    - by at most the larger error of the two offsets, each of which is at most half the round trip that it was measured
      with, if the two clocks run at constant rates;
    - by at most r · (t_after - t_before) / 2 more, if their relative rate stays within ± r of its mean. A change of
      temperature makes r about 1e-6, which is 0.3 ms in ten minutes; ntpd slewing a clock makes it up to 5e-4, which
      is 150 ms. A clock that is set in between makes an error up to the step.
    """

    t_before: float
    offset_before: float
    t_after: float
    offset_after: float

    @classmethod
    def constant(cls, offset: float) -> "HostClock":
        """A clock that was measured only once."""
        return cls(t_before=0.0, offset_before=offset, t_after=0.0, offset_after=offset)

    def ours(self, t: float) -> float:
        """The time by our clock when the host's shows ``t``."""
        # t = x + offset(x), solved for x.
        return self.t_before + (t - self.offset_before - self.t_before) / (1 + self._drift)

    @property
    def _drift(self) -> float:
        length = self.t_after - self.t_before
        return (self.offset_after - self.offset_before) / length if length > 0 else 0.0
