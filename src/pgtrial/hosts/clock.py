"""How far the clock of a host is ahead of ours."""

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
