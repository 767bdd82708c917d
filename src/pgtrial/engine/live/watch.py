"""Watch an experiment while it runs: combine its events with what its raw files show, and draw the result."""

import contextlib
import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgtrial.analysis.effects.stopping import Estimator
from pgtrial.engine.events import EstimateUpdated, Event, PhaseStarted, RunEnded
from pgtrial.engine.live.follower import Follower
from pgtrial.engine.live.pace import Pulse
from pgtrial.engine.live.picture import LivePicture
from pgtrial.engine.live.view import LiveFile, LiveView
from pgtrial.errors import PgTrialError
from pgtrial.model.run import PhaseName, RunState
from pgtrial.store.plans import plan_of
from pgtrial.store.state import State

_log = logging.getLogger(__name__)

Draw = Callable[[LiveView], None]


class Watch:
    """An observer that keeps a picture of the experiment, and shows it about once a second while it is ``watching``.

    With a ``folder`` the picture has what its raw files tell, and the estimate after each block; and it lies there as
    live.json. ``draw`` is called from another thread.
    """

    def __init__(self, draw: Draw, *, folder: Path | None = None) -> None:
        self._draw = draw
        self._picture = LivePicture()
        self._lock = threading.Lock()  # of the picture: events come from the experiment and from the pulse
        self._unfollowed: deque[tuple[float, Event]] = deque()  # raw files are the pulse's; disks may take their time
        self._pulse = Pulse(self._beat)
        self._is_begun = False
        self._follower: Follower | None = None
        self._estimator: Estimator | None = None
        self._file: LiveFile | None = None
        self._arms = 0
        if folder is not None:
            self._open(folder)

    def __call__(self, event: Event) -> None:
        self._unfollowed.append((time.monotonic(), event))
        with self._lock:
            self._picture.see(event)
        if not self._is_begun:  # not before: another pgtrial may be at work in the folder
            self._is_begun = True
            self._pulse.start()
        if isinstance(event, PhaseStarted) and event.name is PhaseName.STOP:
            self._pulse.hurry()  # the load is over, and its raw files go: what they say is read now or never
        if isinstance(event, RunEnded) and event.state is RunState.DONE and event.slot.position == self._arms:
            self._estimate()

    def hurry(self) -> None:
        """Draw at once."""
        self._pulse.hurry()

    def view(self) -> LiveView:
        """The live view of this moment."""
        with self._lock:
            return self._picture.view()

    def stop(self) -> None:
        """Draw no more; live.json goes away."""
        if self._is_begun:
            self._pulse.stop()
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.remove()

    def _open(self, folder: Path) -> None:
        """What a result folder adds; nothing where it cannot be read, which the experiment itself will say."""
        with contextlib.suppress(PgTrialError, sqlite3.Error, KeyError, ValueError):
            with contextlib.closing(State.open(folder)) as state:
                plan = plan_of(state, folder)
                done = Counter(run.slot.arm for run in state.runs() if run.state is RunState.DONE)
            self._picture.introduce(plan.arms, done=done)
            self._arms = len(plan.arms)
            self._follower = Follower(folder=folder, choice=plan.method)
            self._estimator = Estimator(folder=folder, plan=plan)
            self._file = LiveFile(folder=folder)

    def _beat(self) -> None:
        found = self._follow()
        with self._lock:
            for event in found:
                self._picture.see(event)
            view = self._picture.view()
        if self._file is not None:
            self._file.write(view)
        self._draw(view)

    def _follow(self) -> Sequence[Event]:
        """Read what is new in the raw files."""
        waiting = [self._unfollowed.popleft() for _ in range(len(self._unfollowed))]
        if self._follower is None:
            return ()
        for t, event in waiting:
            self._follower.see(event, t)
        try:
            return self._follower.look(time.monotonic())
        except (ValueError, LookupError, TypeError) as err:
            _log.info("the raw files are not followed any more: %s", err)
            self._follower = None
            return ()

    def _estimate(self) -> None:
        """In the pause between two blocks, when there is no load that it could take time from."""
        if self._estimator is None:
            return
        try:
            estimate = self._estimator.estimate()
        except Exception as err:  # whatever it is, the experiment goes on, and its report will say it
            _log.info("no estimate so far: %s", err)
            return
        if estimate is not None:
            control, effect = estimate
            event = EstimateUpdated(
                arm=effect.arm,
                control=control,
                metric=effect.metric,
                ratio=effect.ratio,
                low=effect.low,
                high=effect.high,
                confidence=effect.confidence,
                margin=effect.margin,
                blocks=effect.blocks,
            )
            with self._lock:
                self._picture.see(event)


@contextmanager
def watching(draw: Draw, *, folder: Path | None = None) -> Iterator[Watch]:
    """A watch that ends with the block."""
    watch = Watch(draw, folder=folder)
    try:
        yield watch
    finally:
        watch.stop()
