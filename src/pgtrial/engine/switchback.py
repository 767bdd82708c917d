"""Measure the runs of a block on one server with one load, which is switched back and forth between the arms."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgtrial.design.duration import guard_time
from pgtrial.design.methods import MethodChoice, plan_steps, turn_seed
from pgtrial.design.slices import Step
from pgtrial.engine.collect import InvalidRunError, check_presence
from pgtrial.engine.events import LoadProgress
from pgtrial.engine.folder import make_shared_spool
from pgtrial.engine.measure import MACHINE, OwnedGenerator, WholeMeasurement
from pgtrial.engine.sampler.control import SamplerConfig
from pgtrial.engine.slicer.control import SPARE
from pgtrial.engine.target.switchboard import Switchboard
from pgtrial.hosts.base import HostProcess
from pgtrial.model.run import LoadLevel, Slice


@dataclass(slots=True, kw_only=True)
class SwitchedMeasurement(WholeMeasurement):
    """The load and what is sampled are those of a single run; which arm's each moment is follows from the slices.

    At both ends of what counts of a slice everything is read as well, so that no reading is of two arms.
    """

    board: Switchboard
    choice: MethodChoice

    def _sampler_configs(self, clock_offset: float) -> Mapping[str, SamplerConfig]:
        first = next(iter(self.group.members))
        self.shared_spool = make_shared_spool(self.group.members[first].folder)
        return {MACHINE: self._config(first, spool=self.shared_spool, clock_offset=clock_offset)}

    async def _record_plans(self, name: str) -> None:
        await self.board.switch(name)
        await super(SwitchedMeasurement, self)._record_plans(name)
        await self.board.switch_back()

    def _generators(self, level: LoadLevel, *, seconds: float, logged: bool) -> list[OwnedGenerator]:
        every = super(SwitchedMeasurement, self)._generators(level, seconds=seconds, logged=logged)
        first = every[0][0]
        return [(name, generator) for name, generator in every if name == first]

    async def _measure(self, level: LoadLevel) -> None:
        record, plan, block = self.group.record, self.group.plan, self.group.block
        steps = plan_steps(
            self.choice,
            sorted(self.group.members),
            seconds=plan.workload.duration,
            seed=turn_seed(plan.seed, block, level.index),
            block=block,
        )
        guard, length = guard_time(level), sum(step.length for step in steps)

        def on_second(tps: float, latency: float | None) -> bool:
            record.tell(LoadProgress(tps=tps, latency=latency))
            return False

        slices: dict[str, tuple[Slice, ...]] = {}

        async def conduct(_processes: Sequence[HostProcess]) -> None:
            await asyncio.sleep(guard)
            slices.update(await self._take_turns(steps, level))

        record.measuring(level, guard + length)
        generators = self._generators(level, seconds=guard + length + SPARE, logged=True)
        outcome = await self._run_load(level.label, generators, on_second=on_second, conduct=conduct)
        if not slices:
            raise InvalidRunError(f"{level.label}: the load ended early")
        whole = min(own[0].started for own in slices.values()), max(own[-1].ended for own in slices.values())
        check_presence(level.label, outcome, window=whole, program=plan.load.output.program)
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
            took = time.time() - started
            if took > step.guard:
                raise InvalidRunError(f"{level.label}: to switch to {name} took {took:.1f} s, longer than its washout")
            await _sleep_until(started + step.guard)
            await self.samplers[MACHINE].read_now()
            await _sleep_until(started + step.length)
            ended = await self.samplers[MACHINE].read_now()
            if lost := self.board.find_drift(name):
                raise InvalidRunError(f"{level.label}: {lost}")
            found.setdefault(name, []).append(
                Slice(level=level.index, number=number, started=started, counted=started + step.guard, ended=ended)
            )
        await self.board.switch_back()
        return {name: tuple(own) for name, own in found.items()}


async def _sleep_until(moment: float) -> None:
    """Until a time in seconds since the epoch."""
    await asyncio.sleep(max(0.0, moment - time.time()))
