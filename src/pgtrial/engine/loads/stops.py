"""Find out when a load generator was stopped by a signal, from its state as the kernel has it."""

import asyncio
import math
import time
from dataclasses import dataclass, field

from pgtrial.hosts.operations import Operations

LONGEST_SILENCE = 2.0  # s between two lines of progress, of which there is one each second
LOOK = 0.5  # s between two looks at whether it has been stopped


@dataclass(slots=True)
class Stops:
    """Finds the times in which a program, or one that it has started, was stopped by a signal; what it tells of its
    requests does not say why there are none. Both ends of such a time are looks that found it so.
    """

    pid: int
    ops: Operations = field(default_factory=Operations)  # of the machine on which it runs
    found: list[tuple[float, float]] = field(default_factory=list)
    _looked: float = -math.inf
    _since: float | None = None

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK:
            return
        self._looked = now
        if not self.ops.is_stopped(self.pid):
            self._since = None
            return
        until = time.time()
        if self._since is None:
            self._since = until
            return
        if self.found and self.found[-1][0] == self._since:
            self.found.pop()
        if until - self._since > LONGEST_SILENCE - LOOK:  # it may have begun just after the look before, and so ended
            self.found.append((self._since, until))


async def watch(stops: Stops) -> None:
    """Look until it is cancelled."""
    while True:
        stops.look()
        await asyncio.sleep(LOOK)
