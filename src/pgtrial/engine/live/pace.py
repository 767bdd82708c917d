"""How often something is done that must not be felt: so that it takes no more than a thousandth of one CPU."""

import logging
import math
import threading
import time
from collections.abc import Callable

SHARE = 0.001
INTERVAL = 1.0  # s; nobody reads faster, and nothing is told more often

_log = logging.getLogger(__name__)


def next_pause(cost: float, *, most: float = math.inf) -> float:
    """Seconds to wait after what took ``cost`` seconds of CPU time; at most ``most``."""
    return min(most, max(INTERVAL, cost / SHARE))


class Pulse:
    """Calls ``beat`` about once a second from a thread of its own, and at once after ``hurry``.

    A thread, because a terminal that takes no text for a while must not hold up the experiment. An error of ``beat``
    ends the pulse and nothing else.
    """

    def __init__(self, beat: Callable[[], None], *, clock: Callable[[], float] = time.thread_time) -> None:
        self._beat = beat
        self._clock = clock
        self._wake = threading.Event()
        self._done = False
        self._thread = threading.Thread(target=self._run, name="live view", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hurry(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """Returns when the last beat is over."""
        self._done = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done:
            before = self._clock()
            try:
                self._beat()
            except Exception:  # whatever is wrong with the sight of the experiment, the experiment goes on
                _log.warning("the live view has ended", exc_info=True)
                return
            self._wake.wait(next_pause(self._clock() - before))
            self._wake.clear()
