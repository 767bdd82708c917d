"""A worker on the very host that is measured stands still meanwhile: it has nothing to do, and would wake up for it.

Its scheduler hears nothing of it until then, and its connection stays. Whoever dies, it goes on: a shell that waits for
the end of a pipe sees to that.
"""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import longest_measurement
from pgtrial.design.plan import Plan
from pgtrial.engine.events import Event, LoadProgress, PhaseStarted, RunEnded, Stopping, TurnsProgress
from pgtrial.model.run import PhaseName

# What is late adds up over the slices of a level, and after it its sessions end, for which they have 10 s.
_LATE = 1.05
_AFTER_LEVEL = 15.0  # s
_PARENT = 1  # of the words of /proc/PID/stat behind the name


def longest_freeze(plan: Plan) -> float:
    """Seconds for which a worker stands still at most: over all load levels, between which it does not go on."""
    measured = longest_measurement(plan.experiment, plan.arms, plan.method)
    return measured * _LATE + _AFTER_LEVEL * len(plan.levels)


@dataclass(slots=True)
class Freezer:
    """Freezes the process ``worker`` while a run is measured, by what the engine ``tells``. Use it as a context."""

    worker: int
    is_frozen: bool = field(default=False, init=False)
    _parent: int | None = field(default=None, init=False)
    _keeper: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def __enter__(self) -> "Freezer":
        command = ["sh", "-c", 'read -r _; kill -CONT "$0"', str(self.worker)]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._parent = _parent_of(self.worker)
        return self

    def __exit__(self, *_: object) -> None:
        self._thaw()
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            self._keeper.wait()

    def tell(self, event: Event) -> None:
        match event:
            case PhaseStarted(name=PhaseName.MEASURE):
                self._freeze()
            case PhaseStarted() | RunEnded() | Stopping():
                self._thaw()
            case LoadProgress() | TurnsProgress() if self.is_frozen and _parent_of(self.worker) != self._parent:
                self._thaw()  # who started it is gone, and it would end if it could
            case _:
                pass

    def _freeze(self) -> None:
        if _parent_of(self.worker) == self._parent:
            self._send(signal.SIGSTOP)
            self.is_frozen = True

    def _thaw(self) -> None:
        if self.is_frozen:
            self._send(signal.SIGCONT)
            self.is_frozen = False

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.worker, number)


def _parent_of(pid: int) -> int | None:
    try:
        return int(
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[_PARENT]
        )
    except (OSError, IndexError, ValueError):
        return None
