"""The keeper: a process that ends what hooks and programs have started, as soon as pgtrial has been killed.

The kernel ends what pgtrial itself starts. It ends nothing that such a program has started in its turn: a hook's child
would be at work until somebody runs "pgtrial restore". ``python -m pgtrial.engine.keeper FOLDER`` waits until its
standard input ends. A pgtrial that ends in order ends the keeper before that.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pgtrial.engine.folder import is_locked
from pgtrial.engine.leftovers import mark_of
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.base import Host
from pgtrial.hosts.local import own_program
from pgtrial.hosts.processes import end, end_process, find_marked, forget_input

ROLE = "keeper"
_PR_SET_PDEATHSIG = 1
_ROUNDS = 5  # what is ended may have started more meanwhile
_CLOSING = 0.5  # s from one look at the lock to the next


def is_wanted(experiment: Experiment) -> bool:
    """Whether there are programs that may start others: of their own, hooks and programs that make the load."""
    return bool(experiment.hooks.programs()) or experiment.workload.kind == "command"


@asynccontextmanager
async def keeper(folder: Path, *, here: Host) -> AsyncIterator[None]:
    """Have a keeper beside what is done here."""
    command: list[str | Path] = [*own_program("pgtrial.engine.keeper"), folder.resolve()]
    process = await here.start(command, role=ROLE, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None  # it was asked for
        await process.stdout.readline()  # until it is ready, it would end with pgtrial
        yield
    finally:
        await end_process(process)  # before its input ends: what a hook has left behind on purpose stays
        await forget_input(process)


def main(folder: Path) -> None:
    # It was to end with pgtrial, as all that pgtrial starts; its work begins then.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, 0)
    print("ready", flush=True)
    os.read(0, 1)
    own = os.getpid()
    for _ in range(_ROUNDS):
        found = [process for process in find_marked(mark_of(folder)) if process.pid != own]
        if not found:
            return
        # Asked after the search: what a pgtrial has started that goes on in the folder is not among what was found. Of
        # the one that was killed the kernel closes our input and its lock one after the other.
        if is_locked(folder):
            time.sleep(_CLOSING)
            continue
        end(found, patience=1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
