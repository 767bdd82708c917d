"""The schedule's slots, one after the other: repeat what was invalid, decide when the data are restored."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import estimate_run
from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.events import Observer, RunEnded, RunStarted
from pgtrial.engine.plan import Plan
from pgtrial.engine.run import RunExecution
from pgtrial.engine.target.base import Target
from pgtrial.errors import PgTrialError, TargetError, WorkloadError
from pgtrial.model.arm import Arm
from pgtrial.model.run import RunState, Slot
from pgtrial.spec.experiment import Experiment
from pgtrial.spec.load import LoadedExperiment
from pgtrial.store import layout
from pgtrial.store.state import State


@dataclass(slots=True, kw_only=True)
class Schedule:
    """What the runs share; ``slots`` is the number of all, also those already done."""

    loaded: LoadedExperiment
    folder: Path
    state: State
    target: Target
    plan: Plan
    arms: Mapping[str, Arm]
    slots: int
    tell: Observer
    restored_block: int | None = field(default=None, init=False)

    async def run(self, pending: Sequence[Slot]) -> None:
        """Do all pending slots. Raises PgTrialError when one of them cannot be done."""
        for position, slot in enumerate(pending):
            await self._run_slot(slot, left=len(pending) - position)

    @property
    def _experiment(self) -> Experiment:
        return self.loaded.experiment

    async def _run_slot(self, slot: Slot, *, left: int) -> None:
        """Try a slot until a run is valid. Raises WorkloadError when the allowed repeats are used up."""
        attempts = 1 + self._experiment.design.repeats
        reason = ""
        for _ in range(attempts):
            reason = await self._attempt(slot, left=left)
            if not reason:
                return
        where = f'run {slot.number} (arm "{slot.arm}", block {slot.block})'
        raise WorkloadError(
            f"{where} was invalid {attempts} times: {reason}" if attempts > 1 else f"{where} was invalid: {reason}",
            hint=f'Finished runs are kept. When the cause is mended, go on with "pgtrial resume {self.folder}".',
        )

    async def _attempt(self, slot: Slot, *, left: int) -> str:
        """One run; the reason why it is invalid, "" if it is not."""
        started = time.time()
        row = self.state.begin_run(slot, started)
        self.tell(
            RunStarted(slot=slot, slots=self.slots, attempt=row.attempt, remaining=left * self._seconds_per_run())
        )
        execution = RunExecution(
            plan=self.plan,
            target=self.target,
            state=self.state,
            folder=layout.run_folder(self.folder, row.folder),
            arm=self.arms[slot.arm],
            run=row,
            restore=self._needs_restore(slot),
            tell=self.tell,
        )
        outcome, reason, tps = RunState.INTERRUPTED, "stopped on request", None
        try:
            tps = await execution.execute()
            outcome, reason = RunState.DONE, ""
        except InvalidRunError as err:
            outcome, reason = RunState.INVALID, str(err)
        except (TargetError, WorkloadError) as err:
            outcome, reason = RunState.INVALID, _reason(err)
        except PgTrialError as err:
            outcome, reason = RunState.INVALID, _reason(err)
            raise
        finally:
            ended = time.time()
            if outcome is not RunState.DONE:
                self.restored_block = None  # whatever state the data are in, the next run does not inherit it
            self.state.end_run(row.id, outcome, ended, reason)
            self.tell(
                RunEnded(
                    slot=slot,
                    state=outcome,
                    reason=reason,
                    seconds=ended - started,
                    not_load=ended - started - self.plan.measured_time,
                    tps=tps,
                )
            )
        return reason

    def _needs_restore(self, slot: Slot) -> bool:
        """By the file's rule; the first run after a start, a failure or a resume always starts from the snapshot."""
        is_first = self.restored_block is None
        match self.plan.restore:
            case "each-run":
                needed = True
            case "each-block":
                needed = is_first or self.restored_block != slot.block
            case "never":
                needed = is_first
        self.restored_block = slot.block
        return needed

    def _seconds_per_run(self) -> float:
        """From the runs so far, else from the plan."""
        lengths = [
            run.ended - run.started
            for run in self.state.runs()
            if run.state is RunState.DONE and run.started is not None and run.ended is not None
        ]
        if lengths:
            return sum(lengths) / len(lengths)
        return estimate_run(self._experiment).total


def _reason(err: PgTrialError) -> str:
    """In one line: the message, and what the server or a program said."""
    return ": ".join(part for part in (err.message, " ".join(err.detail.split())) if part)
