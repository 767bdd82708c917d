"""Report the progress of an experiment, and clean up after a pgtrial that was killed."""

import contextlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from pgtrial.design.plan import due_slots
from pgtrial.engine.folder import is_locked
from pgtrial.engine.leftovers import mark_of
from pgtrial.engine.restore import describe, find_pending
from pgtrial.hosts.processes import find_marked
from pgtrial.model.run import RunState
from pgtrial.store import layout
from pgtrial.store.plans import read_plan
from pgtrial.store.proofs import find_proofs
from pgtrial.store.state import STOPPED, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """``state`` is running, complete (also where the rule for stopping ended it) or interrupted; ``blocks`` are
    complete; ``reason`` is why the last invalid attempt does not count, "" where none is; ``arms`` has one line per
    arm, ``pending`` one per change that has not been undone. ``processes`` of it still run although pgtrial does not:
    what a hook has left behind on purpose, or a keeper could not end (see keeper.py). It is not complete before what
    proves the limits of its arms is, which has one line per arm in ``proofs``.
    """

    name: str
    state: str
    slots: int
    done: int
    blocks: int
    invalid: int
    reason: str
    current: str
    arms: tuple[str, ...]
    pending: tuple[str, ...] = ()
    processes: int = 0
    proofs: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def read_status(folder: Path) -> Status:
    """Read a result folder's state and touch nothing, also what a killed pgtrial left behind. Raises StoreError."""
    running = is_locked(folder)
    proofs: dict[str, Status] = {}
    if (folder / layout.PROOFS).is_dir():  # the plan of others is not needed
        plan = read_plan(folder)
        proofs = {place.name: read_status(place) for place in find_proofs(folder, plan.experiment, plan.arms)}
    with contextlib.closing(State.open(folder)) as state:
        slots, runs, arms, meta = (
            due_slots(state.slots(), state.settled()),
            state.runs(),
            state.declared_arms(),
            state.meta(),
        )
    done = [run for run in runs if run.state is RunState.DONE]
    complete = STOPPED in meta or len({run.slot.number for run in done}) == len(slots)
    complete = complete and all(proof.state == "complete" for proof in proofs.values())
    now = next((run for run in runs if run.state is RunState.RUNNING), None)
    per_arm, due = Counter(run.slot.arm for run in done), Counter(slot.block for slot in slots)
    planned = Counter(slot.arm for slot in slots)
    return Status(
        name=folder.resolve().name,
        state="running" if running else "complete" if complete else "interrupted",
        slots=len(slots),
        done=len(done),
        blocks=sum(count == due[block] for block, count in Counter(run.slot.block for run in done).items()),
        invalid=sum(run.state in (RunState.INVALID, RunState.INTERRUPTED) for run in runs),
        reason=next((run.reason for run in reversed(runs) if run.state is RunState.INVALID), ""),
        current=f"run {now.slot.number}, block {now.slot.block}, arm {now.slot.arm}" if now and running else "",
        pending=(
            *(describe(entry) for entry in find_pending(folder)),
            *(text for proof in proofs.values() for text in proof.pending),
        ),
        processes=0
        if running
        else len(find_marked(mark_of(folder))) + sum(proof.processes for proof in proofs.values()),
        proofs=tuple(f"{arm}: {proof.done} of {proof.slots} runs" for arm, proof in proofs.items()),
        arms=tuple(f"{name}: {per_arm[name]} of {planned[name]} runs" for name, _, _ in arms),
    )
