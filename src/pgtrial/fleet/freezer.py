"""A worker on the very host that is measured stands still meanwhile: it has nothing to do, and would wake up for it.

Its scheduler hears nothing of it until then, and its connection stays. Who asks it something, as to end, is answered:
where bytes wait for it, it goes on for a while. It also does where who has started it is gone, as it would end if it
could; and the first process of a container never stands still. Whoever dies, it goes on: a shell that waits for the end
of a pipe sees to that.
"""

import contextlib
import os
import re
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import longest_measurement
from pgtrial.design.plan import Plan
from pgtrial.engine.events import Event, PhaseStarted, RunEnded, StopRequested
from pgtrial.model.run import PhaseName

# What is late adds up over the slices of a level, and after it its sessions end, for which they have 10 s.
_LATE = 1.05
_AFTER_LEVEL = 15.0  # s
# s between two looks at what it is asked, each of which takes up to 10 ms of a CPU; so long it has for an answer.
_LOOK = 5.0
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_QUEUES, _INODE = 4, 9  # of the words of a line of /proc/PID/net/tcp
_FIRST = 1  # process of a container, which the kernel lets nobody in it stop
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
    awake: float = field(default=0.0, init=False)  # s while a run was measured, for who asked it or was gone
    _is_measured: bool = field(default=False, init=False)
    _sockets: frozenset[str] = field(default=frozenset(), init=False)  # inodes
    _parent: int | None = field(default=None, init=False)
    _keeper: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)  # of what stands above
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    _looking: threading.Thread | None = field(default=None, init=False)

    def __enter__(self) -> "Freezer":
        command = ["sh", "-c", 'read -r _; kill -CONT "$0"', str(self.worker)]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._parent = _parent_of(self.worker)
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._looking is not None:
            self._looking.join()
        self._thaw()
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            self._keeper.wait()

    def take_awake(self) -> float:
        """Seconds since this was asked last; none where it was once, for what was on its way as it was stopped."""
        with self._lock:
            awake, self.awake = self.awake, 0.0
        return awake if awake > _LOOK else 0.0

    def tell(self, event: Event) -> None:
        if not isinstance(event, PhaseStarted | RunEnded | StopRequested):
            return  # of which there are many, and the lock may be kept for some milliseconds
        with self._lock:
            match event:
                case PhaseStarted(name=PhaseName.MEASURE):
                    if not self._is_measured:  # else it may be at an answer
                        self._is_measured = True
                        self._freeze()
                case _:
                    self._is_measured = False
                    self._thaw()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            with self._lock:
                if not self._is_measured:
                    continue
                if not self.is_frozen:
                    self._freeze()
                elif _parent_of(self.worker) != self._parent or _have_bytes(self.worker, self._sockets):
                    self._thaw()
                self.awake += 0.0 if self.is_frozen else _LOOK

    def _freeze(self) -> None:
        if self.worker != _FIRST and _parent_of(self.worker) == self._parent:
            self._send(signal.SIGSTOP)
            self._sockets = _sockets_of(self.worker)  # it opens no other until it goes on
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


def _sockets_of(pid: int) -> frozenset[str]:
    """Inodes of the sockets that a process has open; none where that may not be seen."""
    found = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if match := _SOCKET.fullmatch(str(link.readlink())):
                    found.add(match[1])
    return frozenset(found)


def _have_bytes(pid: int, sockets: frozenset[str]) -> bool:
    """Whether what a process has not read yet waits at its TCP sockets, or somebody to be let in."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # a line may be cut
            for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[_INODE] in sockets and int(words[_QUEUES].partition(":")[2], 16):
                    return True
    return False
