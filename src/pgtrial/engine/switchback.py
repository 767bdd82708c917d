"""Measure the runs of a block on one server with one load, which is switched back and forth between the arms."""

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgtrial.design.duration import guard_time
from pgtrial.design.methods import MethodChoice, plan_steps, turn_seed
from pgtrial.design.slices import Step
from pgtrial.engine.collect import InvalidRunError, check_presence
from pgtrial.engine.events import LoadProgress
from pgtrial.engine.folder import make_shared_spool
from pgtrial.engine.guardrails import LOOK, Guard, Turn
from pgtrial.engine.loads.generators import Conduct, LoadOutcome, OnSecond
from pgtrial.engine.measure import MACHINE, Member, OwnedGenerator, WholeMeasurement
from pgtrial.engine.sampler.control import SamplerConfig
from pgtrial.engine.slicer.control import SPARE
from pgtrial.engine.target.base import Board
from pgtrial.errors import PgTrialError
from pgtrial.hosts.base import HostProcess
from pgtrial.model.run import LoadLevel, Slice


class LateError(InvalidRunError):
    """A switch came too late for its block, which a busy machine is enough for."""


@dataclass(slots=True, kw_only=True)
class SwitchedMeasurement(WholeMeasurement):
    """The load and what is sampled are those of a single run; which arm's each moment is follows from the slices.

    At both ends of what counts of a slice everything is read as well, so that no reading is of two arms. A server that
    others use has a ``guard``.
    """

    board: Board
    choice: MethodChoice
    guard: Guard | None = None

    @property
    def _first(self) -> Member:
        """The run whose folder has what is of the whole block."""
        return next(iter(self.group.members.values()))

    def _sampler_configs(self, clock_offset: float) -> Mapping[str, SamplerConfig]:
        first = next(iter(self.group.members))
        self.shared_spool = make_shared_spool(self._first.folder)
        return {MACHINE: self._config(first, spool=self.shared_spool, clock_offset=clock_offset)}

    async def _record_plans(self, name: str) -> None:
        await self.board.switch(name)
        await super(SwitchedMeasurement, self)._record_plans(name)
        await self.board.switch_back()

    def _generators(self, level: LoadLevel, *, seconds: float, logged: bool) -> list[OwnedGenerator]:
        every = super(SwitchedMeasurement, self)._generators(level, seconds=seconds, logged=logged)
        first = every[0][0]
        return [(name, generator) for name, generator in every if name == first]

    async def _run_load(
        self,
        label: str,
        generators: Sequence[OwnedGenerator],
        *,
        on_second: OnSecond = lambda _tps, _latency: False,
        conduct: Conduct | None = None,
    ) -> LoadOutcome:
        """A load that fails on a server that others use ends it, as they are refused what the load is."""
        run = super(SwitchedMeasurement, self)._run_load
        if self.guard is not None and conduct is None:  # a warm-up
            conduct = self._look_on
        try:
            return await run(label, generators, on_second=on_second, conduct=conduct)
        except LateError:
            raise
        except (InvalidRunError, PgTrialError) as err:
            if self.guard is None:
                raise
            await self.guard.fail(err.line if isinstance(err, PgTrialError) else str(err))

    async def _look_on(self, _processes: Sequence[HostProcess]) -> None:
        """Until the load ends."""
        await self._wait_until(math.inf)

    async def _measure(self, level: LoadLevel) -> None:
        record, context, block = self.group.record, self.group.context, self.group.block
        steps = plan_steps(
            self.choice,
            sorted(self.group.members),
            seconds=context.workload.duration,
            seed=turn_seed(context.seed, block, level.index),
            block=block,
        )
        guard, length = guard_time(level), sum(step.length for step in steps)

        def on_second(tps: float, latency: float | None) -> bool:
            record.tell(LoadProgress(tps=tps, latency=latency))
            if self.guard is not None:
                self.guard.note_second(tps, time.time())
            return False

        slices: dict[str, tuple[Slice, ...]] = {}

        async def conduct(_processes: Sequence[HostProcess]) -> None:
            await self._wait_until(time.time() + guard)
            slices.update(await self._take_turns(steps, level))

        if self.guard is not None:
            await self.guard.begin(self._first.log_folder, level, time.time())
        record.measuring(level, guard + length)
        generators = self._generators(level, seconds=guard + length + SPARE, logged=True)
        outcome = await self._run_load(level.label, generators, on_second=on_second, conduct=conduct)
        if not slices:
            if self.guard is not None:
                await self.guard.fail(f"{level.label}: the load ended early")
            raise InvalidRunError(f"{level.label}: the load ended early")
        if self.guard is not None:
            await self.guard.end(time.time())
        whole = min(own[0].started for own in slices.values()), max(own[-1].ended for own in slices.values())
        check_presence(level.label, outcome, window=whole, program=context.load.output.program)
        for name, own in slices.items():
            self._keep(
                name,
                level,
                [(name, generator) for _, generator in generators],
                outcome,
                window=(own[0].counted, own[-1].ended),
                slices=own,
            )
        self._add_slices(level, slices)

    async def _take_turns(self, steps: Sequence[Step], level: LoadLevel) -> dict[str, tuple[Slice, ...]]:
        """Switch the server at each step; what is lost or comes late makes the block invalid."""
        found: dict[str, list[Slice]] = {}
        for number, step in enumerate(steps):
            (name,) = step.arms
            started = time.time()
            await self.board.switch(name)
            if self.guard is not None:
                self.guard.note_counted(started + step.guard)
            took = time.time() - started
            if took > step.guard:
                raise LateError(f"{level.label}: to switch to {name} took {took:.1f} s, longer than its washout")
            await self._wait_until(started + step.guard)
            await self.samplers[MACHINE].read_now()
            await self._wait_until(started + step.length)
            ended = await self.samplers[MACHINE].read_now()
            if lost := self.board.find_drift(name):
                raise InvalidRunError(f"{level.label}: {lost}")
            counted = started + step.guard
            found.setdefault(name, []).append(
                Slice(level=level.index, number=number, started=started, counted=counted, ended=ended)
            )
            if self.guard is not None:
                self.guard.note_turn(Turn(arm=name, counted=counted, ended=ended))
        await self.board.switch_back()
        return {name: tuple(own) for name, own in found.items()}

    async def _wait_until(self, moment: float) -> None:
        """Until a time in seconds since the epoch, with a look now and then at what others feel. Raises HarmError."""
        while self.guard is not None and (left := moment - time.time()) > 0:
            await asyncio.sleep(min(LOOK, left))
            if left > LOOK:
                await self.guard.look(time.time())
        await asyncio.sleep(max(0.0, moment - time.time()))
