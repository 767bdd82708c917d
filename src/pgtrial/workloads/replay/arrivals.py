"""When a server's answers came, however late the event loop gets round to them."""

import os
import selectors
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from psycopg.abc import PQGen

_Value = TypeVar("_Value")

_SCHEDULER = "/proc/thread-self/schedstat"  # ns on a CPU, ns for which it waited for one, turns
_MOST_PRECISE = 900  # sessions: select() knows files up to number 1023
# The kernel lets select() end 0.1 % of its timeout late, which is more than a statement may be: what is waited for at
# once is so much less than the whole.
_MOST = 0.95
_SHORT = 0.02  # s


class Arrivals(selectors.BaseSelector):
    """Remembers of what is ready since when it may have been, on the clock of time.time().

    Where it had to be waited for, the first of it woke the thread, which then waited for a CPU as long as the kernel
    says. Else it has come since the loop looked last, and the earliest moment is taken: what was not seen while the
    loop was at work is the loop's own delay, and no server's.
    """

    def __init__(self, sessions: int) -> None:
        # The usual selector rounds up to whole milliseconds; this one has no room for thousands of sessions.
        self._selector = selectors.SelectSelector() if sessions < _MOST_PRECISE else selectors.EpollSelector()
        self._looked = self._begun = time.time()
        self._idle = 0.0
        self._since: dict[int, float] = {}
        self._scheduler: int | None = None
        with suppress(OSError):  # a kernel may not have it
            self._scheduler = os.open(_SCHEDULER, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def busy(self) -> float:
        """The share of the time in which the loop did not wait for anything but a CPU."""
        return 1 - self._idle / max(self._looked - self._begun, 1e-9)

    def begin(self) -> None:
        """What was before does not count for ``busy``."""
        self._begun, self._idle = time.time(), 0.0

    def take(self, file: int) -> float | None:
        """Since when it may have been ready when it was found so, None: it was not since the last call."""
        return self._since.pop(file, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready, since, begun = self._selector.select(0), self._looked, time.time()
        if not ready and (timeout is None or timeout > 0):
            delay = self._delay()
            ready = self._wait(timeout)
            since = max(begun, time.time() - (self._delay() - delay))
            self._idle += since - begun
        for key, _ in ready:
            self._since.setdefault(key.fd, since)
        self._looked = time.time()
        return ready

    def _wait(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > _SHORT:
            end = time.monotonic() + timeout
            if ready := self._selector.select(_MOST * timeout):
                return ready
            timeout = max(0.0, end - time.monotonic())
        return self._selector.select(timeout)

    def _delay(self) -> float:
        """Seconds for which this thread could have run, and had no CPU."""
        return 0.0 if self._scheduler is None else int(os.pread(self._scheduler, 100, 0).split()[1]) / 1e9

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._selector.get_map()

    def close(self) -> None:
        self._selector.close()
        if self._scheduler is not None:
            os.close(self._scheduler)
            self._scheduler = None


def timed(work: PQGen[_Value], socket: int, arrivals: Arrivals) -> PQGen[tuple[_Value, float]]:
    """What ``work`` returns, and for how many seconds it waited for the server: until an answer came, and not until
    somebody looked at it.
    """
    served = 0.0
    try:
        wait = next(work)
        while True:
            arrivals.take(socket)
            begun = time.time()
            ready = yield wait
            came = arrivals.take(socket) if ready else None
            served += max(0.0, (time.time() if came is None else came) - begun)
            wait = work.send(ready)
    except StopIteration as end:
        return end.value, served
