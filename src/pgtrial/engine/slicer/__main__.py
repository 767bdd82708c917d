"""The slicer: a separate process that runs one arm at a time, or pins each to its CPUs, by a fixed sequence.

``python -m pgtrial.engine.slicer`` takes what it has to do as one line of JSON on standard input (see ``Task`` in
task.py), and says one line of JSON for each step when that is over:

    {"step": 0, "started": t, "counted": t, "ended": t}

Whatever happens, at its end all arms are at work again: after the last step, when standard input closes, after SIGTERM,
and at the death of its parent. It is no part of pgtrial itself so that kill -9 of that one cannot leave a server that
stands still. It imports little and waits in the kernel, and goes before the load where it may: its turn must not wait.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pgtrial.engine.slicer.freeze import freeze, pin, thaw
from pgtrial.hosts.operations import family

_PR_SET_PDEATHSIG = 1


class DismissedError(Exception):
    """The engine has closed the pipe or asked the slicer to end."""


class Slicer:
    """``twins`` maps an arm to the pids of its server, of its load and sampler, of ``programs`` that load it and may
    start others, and of ``backends``: these are pinned with the others, and never stand still.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self._twins: dict[str, dict[str, Any]] = task["twins"]
        self._values: dict[str, list[list[str]]] = task["values"]
        self._cpu_sets: list[list[int]] = task["cpu_sets"]
        self._all_cpus = os.sched_getaffinity(0)
        self._stopped: dict[str, list[int]] = {}
        self._wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)

    def run(self, steps: Sequence[tuple[list[str], float, float]]) -> None:
        """Do all steps: (arms, length, guard). Raises DismissedError, OSError."""
        for number, (arms, length, guard) in enumerate(steps):
            for arm, twin in self._twins.items():
                if arm not in arms and arm not in self._stopped:
                    self._stopped[arm] = freeze(twin["server"], twin["others"], twin["programs"])
            self._turn(arms)
            started = time.time()
            for arm in arms:
                thaw(self._stopped.pop(arm, ()))
            self._wait(length)
            ended = time.time()
            step = {"step": number, "started": started, "counted": started + guard, "ended": ended}
            os.write(1, json.dumps(step).encode() + b"\n")

    def _turn(self, arms: Sequence[str]) -> None:
        """Set the kernel values and CPUs that the arms need. Raises OSError, also when a server has ended."""
        for arm in arms:
            if (server := self._twins[arm]["server"]) is not None:
                os.kill(server, 0)
            for path, value in self._values.get(arm, ()):
                with open(path, "w", encoding="ascii") as file:
                    file.write(f"{value}\n")
        for arm, cpus in zip(arms, self._cpu_sets, strict=False):
            pin(_members(self._twins[arm]), cpus)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([0, self._wake], [], [], left)[0]:
                raise DismissedError

    def release(self) -> None:
        """All arms are at work again, on all CPUs."""
        for stopped in self._stopped.values():
            thaw(stopped)
        for twin in self._twins.values() if self._cpu_sets else ():
            pin(_members(twin), self._all_cpus)


def _members(twin: dict[str, Any]) -> list[int]:
    own = [] if twin["server"] is None else family(twin["server"])
    return [*own, *twin["others"], *twin["programs"], *twin["backends"]]


def _go_before_others() -> None:
    """Be woken at once although the load wants every CPU; it sleeps nearly all the time. Without the right to, wait."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def main() -> int:
    """Run the slicer; 1 when it cannot do a step, with the reason on standard error."""
    task: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    slicer = Slicer(task)
    gc.disable()
    _go_before_others()
    try:
        if os.getppid() == task["parent"]:
            slicer.run(task["steps"])
    except DismissedError:
        return 0
    except OSError as err:
        print(f"{err.strerror}: {err.filename or 'a server'}", file=sys.stderr)
        return 1
    finally:
        slicer.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
