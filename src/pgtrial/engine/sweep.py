"""Clean up after a pgtrial that was killed."""

import contextlib
import os
from pathlib import Path

from pgtrial.engine.collect import discard_raw
from pgtrial.errors import StoreError
from pgtrial.hosts.processes import ProcessId, end, find_marked, find_server_children, identify, is_alive
from pgtrial.model.run import RunState
from pgtrial.store import layout
from pgtrial.store.state import State

OWN_ROLE = "pgtrial"  # of pgtrial itself among the processes that are written down


def mark_of(folder: Path) -> str:
    """What every process that is started for the folder carries in its environment."""
    return str(folder.resolve())


def sweep(folder: Path) -> int:
    """End what a killed pgtrial left running for this folder, mark its unfinished run; the number of processes ended.

    Needs the folder's lock. A snapshot that was prepared stays, for a resume. Raises StoreError if the folder is a copy
    of one in which a pgtrial is at work: what runs is then that one's.
    """
    with contextlib.closing(State.open(folder, write=True)) as state:
        own = identify(os.getpid())
        recorded = set()
        for pid, ticks, boot, role in state.processes():
            process = ProcessId(pid=pid, start_ticks=ticks, boot_id=boot)
            if process == own:
                continue
            if role == OWN_ROLE and is_alive(process):
                raise StoreError(
                    f'result folder "{folder}" is a copy of one that is in use by another pgtrial',
                    hint="Wait until that one has ended, and copy the folder then.",
                )
            recorded.add(process)
        ended = end({*recorded, *find_marked(mark_of(folder))})
        # A server's children end with its first process, unless that was killed as well while they were at work.
        ended += end(child for place in state.work_directories() for child in find_server_children(f"{place}/data"))
        for run in state.runs():
            if run.state is RunState.RUNNING:
                discard_raw(layout.run_folder(folder, run.folder))
        state.interrupt_running()
    return len(ended)
