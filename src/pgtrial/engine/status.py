"""Report the progress of an experiment, and clean up after a pgtrial that was killed."""

import contextlib
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from pgtrial.engine.folder import discard_raw, is_locked, lock_folder
from pgtrial.errors import StoreError
from pgtrial.hosts.processes import ProcessId, end, find_marked, find_server_children, identify, is_alive
from pgtrial.model.run import RunState
from pgtrial.store import layout
from pgtrial.store.state import STOPPED, State

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
                    hint="Wait until that pgtrial ends, then copy the folder again.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """``state`` is running, complete (also where the rule for stopping ended it) or interrupted; ``blocks`` are
    complete; ``arms`` has one line per arm.
    """

    name: str
    state: str
    slots: int
    done: int
    blocks: int
    invalid: int
    current: str
    processes_ended: int
    arms: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def read_status(folder: Path) -> Status:
    """Read a result folder's state; if no pgtrial is at work there, first end what a killed one left behind."""
    State.open(folder).close()  # a folder that is none is said so before anything is touched
    running, ended = is_locked(folder), 0
    if not running:
        with contextlib.suppress(StoreError), lock_folder(folder):
            ended = sweep(folder)
    return _describe(folder, running=running, ended=ended)


def peek_status(folder: Path) -> Status:
    """Read a result folder's state and touch nothing, also what a killed pgtrial left behind. Raises StoreError."""
    return _describe(folder, running=is_locked(folder), ended=0)


def _describe(folder: Path, *, running: bool, ended: int) -> Status:
    with contextlib.closing(State.open(folder)) as state:
        slots, runs, arms, meta = state.slots(), state.runs(), state.declared_arms(), state.meta()
    done = [run for run in runs if run.state is RunState.DONE]
    complete = STOPPED in meta or len({run.slot.number for run in done}) == len(slots)
    now = next((run for run in runs if run.state is RunState.RUNNING), None)
    per_arm = Counter(run.slot.arm for run in done)
    planned = Counter(slot.arm for slot in slots)
    return Status(
        name=folder.resolve().name,
        state="running" if running else "complete" if complete else "interrupted",
        slots=len(slots),
        done=len(done),
        blocks=sum(count == len(arms) for count in Counter(run.slot.block for run in done).values()),
        invalid=sum(run.state in (RunState.INVALID, RunState.INTERRUPTED) for run in runs),
        current=f"run {now.slot.number}, block {now.slot.block}, arm {now.slot.arm}" if now and running else "",
        processes_ended=ended,
        arms=tuple(f"{name}: {per_arm[name]} of {planned[name]} runs" for name, _, _ in arms),
    )
