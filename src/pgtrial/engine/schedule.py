"""Run the slots of the schedule one by one or a block at a time; repeat invalid runs, decide when to restore data."""

import asyncio
import errno
import logging
import os
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from pgtrial.analysis.effects.stopping import decide_stop
from pgtrial.design.duration import estimate_run
from pgtrial.design.plan import Plan, due_slots
from pgtrial.design.variants import stays_as_prepared
from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.events import BlockJudged, Observer, RunEnded, RunStarted
from pgtrial.engine.folder import note_begun
from pgtrial.engine.guardrails import Guard
from pgtrial.engine.hooks import Hooks
from pgtrial.engine.measure import Measurement, Member, RunGroup, WholeMeasurement
from pgtrial.engine.pages import PageWatch
from pgtrial.engine.record import RunContext, RunRecorder
from pgtrial.engine.run import Execution
from pgtrial.engine.slicer.control import SlicedMeasurement, SlicePlan
from pgtrial.engine.switchback import SwitchedMeasurement
from pgtrial.engine.target.base import Board, RunningServer, Servers, SingleServer, Target, TurnTaking
from pgtrial.errors import LostHostError, PgTrialError, RestoreError, TargetError, WorkloadError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.message import say
from pgtrial.model.arm import Arm
from pgtrial.model.run import RunRow, RunState, Slot
from pgtrial.safe_files import make_directory, write_file
from pgtrial.safe_text import shell_word
from pgtrial.store import layout
from pgtrial.store.belongings import Belongings
from pgtrial.store.state import STOPPED, State
from pgtrial.units import format_duration

_log = logging.getLogger(__name__)
_LEAST_ROOM = 16 << 20  # bytes free: a server with less cannot make another file of WAL


@dataclass(slots=True, kw_only=True)
class Schedule:
    """What all runs share. ``planned`` also has the slots that are done. With a ``slice_plan`` the runs of a
    block share its time, on ``twins``; with a ``board`` they share it on one server.
    """

    planned: Plan
    folder: Path
    state: State
    target: Target
    context: RunContext
    arms: Mapping[str, Arm]
    tell: Observer
    hooks: Hooks | None = None
    slice_plan: SlicePlan | None = None
    twins: TurnTaking | None = None
    board: Board | None = None
    guard: Guard | None = None  # of a board whose server others use
    restored_block: int | None = field(default=None, init=False)
    left_up: RunningServer | None = field(default=None, init=False)  # by a window of a soak, for the next one
    error: PgTrialError | None = field(default=None, init=False)  # that made the last attempt invalid

    async def run(self, pending: Sequence[Slot]) -> None:
        """Run all pending slots, up to the block at which the rule for stopping ends the experiment.

        Raises PgTrialError when one of them cannot be done.
        """
        if await self._was_not_judged(pending) and await self.judge(pending[0].block - 1):
            return
        units, before = self._units(pending), 0
        while units := self._due(units):
            unit, *units = units
            block = unit[0].block
            if block != before:
                await self._call("before_block", unit[0])
            await self._run_unit(unit, left=len(unit) + sum(map(len, units)))
            before = block
            if not units or units[0][0].block != block:
                await self._call("after_block", unit[0])
                if await self.judge(block):
                    return

    async def _call(self, moment: str, *slots: Slot) -> None:
        """Run the hook of a moment for each slot. Raises TargetError."""
        if self.hooks is not None:
            for slot in slots:
                await self.hooks.run(moment, slot)

    async def _was_not_judged(self, pending: Sequence[Slot]) -> bool:
        """Whether a pgtrial was killed between the last run of a block and what its rule says of it."""
        block = pending[0].block - 1 if pending else 0
        if block < 1 or self._experiment.design.stop == "never":
            return False
        return all(kind != "judged" or data["block"] != block for _, kind, data in self.state.events())

    def _due(self, units: Sequence[tuple[Slot, ...]]) -> list[tuple[Slot, ...]]:
        """Without runs of arms that are decided."""
        return [unit for unit in units if due_slots(unit, self.planned.settled)]

    async def judge(self, block: int) -> bool:
        """Whether the experiment ends with this block, by its rule, which may also end single arms."""
        if self._experiment.design.stop == "never":
            return False
        decision = await asyncio.to_thread(decide_stop, self.folder, self.planned)
        text = say(decision.reason)
        stopped = {STOPPED: text} if decision.stop else {}
        if decision.settled:
            self.state.settle(decision.settled, **stopped)
            due = due_slots(self.planned.slots, decision.settled)
            self.planned = replace(self.planned, slots=due, settled=decision.settled)
        elif stopped:
            self.state.set_meta(**stopped)
        # Last: whoever resumes judges a block anew that has no such event.
        self.state.add_event(time.time(), "judged", block=block, stop=decision.stop, reason=text)
        if decision.forecast.blocks is not None:
            arms = len(self.arms) - len(decision.settled)
            left = decision.forecast.blocks * arms * self._seconds_per_run()
            text += f" (about {format_duration(round(left))})"
        self.tell(BlockJudged(block=block, text=f"{text}.", stop=decision.stop))
        return decision.stop

    def _units(self, pending: Sequence[Slot]) -> list[tuple[Slot, ...]]:
        """The slots of each execution: one, or all of a block whose runs share its time."""
        if not self._shares_blocks:
            return [(slot,) for slot in pending]
        return [tuple(slots) for _, slots in groupby(pending, key=lambda slot: slot.block)]

    @property
    def _shares_blocks(self) -> bool:
        """Whether the runs of a block share its time."""
        return self.slice_plan is not None or self.board is not None

    @property
    def _experiment(self) -> Experiment:
        return self.planned.experiment

    async def _run_unit(self, unit: Sequence[Slot], *, left: int) -> None:
        """Try until the runs are valid. Raises WorkloadError when the allowed repeats are used up."""
        attempts = 1 + self._experiment.design.repeats
        reason = ""
        for attempt in range(attempts):
            reason = await self._attempt(unit, left=left, is_last=attempt == attempts - 1)
            if not reason:
                return
            if self.guard is not None and self.guard.error is not None:  # and something else came on top of it
                raise self.guard.error
            if isinstance(self.error, LostHostError):
                break
        slot = unit[0]
        where = f'run {slot.number} (arm "{slot.arm}", block {slot.block})' if len(unit) == 1 else f"block {slot.block}"
        if isinstance(self.error, LostHostError):
            message = f"{where} was broken off: {reason}"
        else:
            times = f" {attempts} times" if attempts > 1 else ""
            message = f"{where} was invalid{times}: {reason}"
        raise WorkloadError(
            message,
            hint="Finished runs are kept. Fix the cause, then continue with "
            f'"pgtrial resume {shell_word(self.folder)}".',
        ) from self.error

    async def _execute_guarded(
        self, rows: Sequence[RunRow], *, most_disturbed: float | None
    ) -> Mapping[str, float | None]:
        """``execute``; where a server that others use was switched, what fails there ends it: it is not done again to
        a server that an arm may have brought down. Raises HarmError.
        """
        try:
            if self.guard is not None:
                await self.guard.survey()
            return await self.execute(rows, most_disturbed=most_disturbed)
        except (RestoreError, TargetError, WorkloadError) as err:
            if self.guard is None or not self.guard.board.has_switched:
                raise
            await self.guard.fail(err.line)

    async def _attempt(self, unit: Sequence[Slot], *, left: int, is_last: bool) -> str:
        """Run each slot once; return why the runs are invalid, or "". Others may disturb the last attempt."""
        started = time.time()
        rows = tuple(self.state.begin_run(slot, started) for slot in unit)
        self.tell(
            RunStarted(
                slot=unit[0],
                arms=tuple(slot.arm for slot in unit),
                slots=len(self.planned.slots),
                attempt=rows[0].attempt,
                remaining=left * self._seconds_per_run(),
            )
        )
        outcome, reason = RunState.INTERRUPTED, "stopped on request"
        self.error = None
        tps: Mapping[str, float | None] = {}
        try:
            note_begun(self.folder, self.state)
            try:
                await self._call("before_run", *unit)
                limit = None if is_last else self._experiment.design.disturbed
                tps = await self._execute_guarded(rows, most_disturbed=limit)
            finally:
                await self._call("after_run", *unit)
            outcome, reason = RunState.DONE, ""
        except InvalidRunError as err:
            outcome, reason = RunState.INVALID, self._with_full_disk(str(err))
        except LostHostError as err:  # which says nothing of the arm, as a failure of its own would
            outcome, reason, self.error = RunState.INTERRUPTED, err.line, err
        except (TargetError, WorkloadError) as err:
            outcome, reason, self.error = RunState.INVALID, self._with_full_disk(err.line), err
        except PgTrialError as err:
            outcome, reason = RunState.INVALID, err.line
            raise
        except Exception as err:
            # A bug in reading or understanding one run is no reason to lose the others.
            outcome, reason = RunState.INVALID, f"this is a bug in pgtrial: {type(err).__name__}: {err}"
            self._keep_traceback(rows[0], err)
        finally:
            ended = time.time()
            if outcome is not RunState.DONE:
                # Whatever state the data are in, the next run does not inherit it.
                self.restored_block, self.left_up = None, None
            self.state.end_runs([row.id for row in rows], outcome, ended, reason)
            seconds = (ended - started) / len(unit)
            for slot in unit:
                self.tell(
                    RunEnded(
                        slot=slot,
                        state=outcome,
                        reason=reason,
                        seconds=seconds,
                        not_load=seconds - self.context.measured_time,
                        tps=tps.get(slot.arm),
                    )
                )
        return reason

    def _with_full_disk(self, reason: str) -> str:
        """The reason, and that the disk of the data is full where it is: what fails for that mostly says something
        else, as the server's log has no room either.
        """
        words = os.strerror(errno.ENOSPC)
        if words in reason:
            return reason
        host = self.target.host
        for place in Belongings.of(self.folder).paths(host.name):
            with suppress(OSError, PgTrialError):
                _, free = host.ops.space(str(place))
                if free < _LEAST_ROOM:
                    return f'{reason}; the disk of "{place}" is full ({words})'
        return reason

    def _keep_traceback(self, row: RunRow, err: Exception) -> None:
        _log.error("%s is repeated after a bug in pgtrial; please report it", row.folder, exc_info=err)
        folder = layout.run_folder(self.folder, row.folder)
        with suppress(OSError):  # where nothing can be written, the reason in the state is what there is
            with suppress(FileExistsError):  # the bug came later than the run's first files
                make_directory(self.folder, *folder.parts[-2:])
            write_file(folder / layout.TRACEBACK, "".join(traceback.format_exception(err)))

    async def execute(self, rows: Sequence[RunRow], *, most_disturbed: float | None) -> Mapping[str, float | None]:
        """Do the runs of a unit; mean tps of each arm over the levels. Raises InvalidRunError and PgTrialError."""
        record = RunRecorder(context=self.context, state=self.state, runs=tuple(rows), tell=self.tell)
        servers: Servers
        if self.board is not None:
            servers = self.board
        elif self.twins is None:
            (row,) = rows
            arms = {row.slot.arm: self.arms[row.slot.arm]}
            servers = SingleServer(target=self.target, arms=arms, left_up=self.left_up)
        else:
            servers = self.twins
            if stays_as_prepared(self._experiment, self.planned.arms):
                self.twins.exchange(rows[0].slot.block, seed=self.planned.seed)
        group = RunGroup(
            context=self.context,
            servers=servers,
            record=record,
            members={row.slot.arm: self._member(row, record) for row in rows},
            block=rows[0].slot.block,
            goes_on=self.left_up is not None,
        )
        measurement: Measurement = WholeMeasurement(group=group)
        if self.slice_plan is not None and self.twins is not None:
            measurement = SlicedMeasurement(group=group, twins=self.twins, slice_plan=self.slice_plan)
        elif self.board is not None:
            measurement = SwitchedMeasurement(
                group=group, board=self.board, choice=self.planned.method, guard=self.guard
            )
        execution = Execution(
            group=group,
            measurement=measurement,
            restore=self._needs_restore(rows[0].slot),
            keeps_data=self.context.restore == "never"
            or (self.context.restore == "each-block" and not self._shares_blocks),
            most_disturbed=most_disturbed,
            stays=self._experiment.design.soak is not None and group.block < self.planned.blocks,
        )
        tps = await execution.execute()
        self.left_up = next(iter(group.members.values())).server if execution.stays else None
        return tps

    def _member(self, row: RunRow, record: RunRecorder) -> Member:
        own = replace(record, runs=(row,))
        return Member(
            run=row,
            arm=self.arms[row.slot.arm],
            folder=layout.run_folder(self.folder, row.folder),
            record=own,
            pages=PageWatch(is_on=self.context.watches_pages, host=self.target.host, record=own),
        )

    def _needs_restore(self, slot: Slot) -> bool:
        """Apply the file's rule; the first run after a start, a failure or a resume always restores the data.

        Those of a soak are restored when its server is started, and never after.
        """
        if self._experiment.design.soak is not None:
            return self.left_up is None
        is_first = self.restored_block is None
        match self.context.restore:
            case "each-run":
                needed = True
            case "each-block":
                needed = is_first or self.restored_block != slot.block
            case "never":
                needed = is_first
        self.restored_block = slot.block
        return needed

    def _seconds_per_run(self) -> float:
        """Estimate from the runs so far, else from the plan; runs that share a block's time have equal parts."""
        lengths = [
            run.ended - run.started
            for run in self.state.runs()
            if run.state is RunState.DONE and run.started is not None and run.ended is not None
        ]
        if lengths:
            return sum(lengths) / len(lengths) / (len(self.arms) if self._shares_blocks else 1)
        return estimate_run(self._experiment, self.planned.arms, self.planned.method).total
