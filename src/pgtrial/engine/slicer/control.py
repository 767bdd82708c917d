"""Measure the runs of a block that share its time: plan the slices, start the slicer, keep what each arm did."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.design.methods import MethodChoice, plan_steps, turn_seed, warmup_steps
from pgtrial.design.slices import Step, split_cpus
from pgtrial.engine.collect import InvalidRunError, check_presence
from pgtrial.engine.folder import make_shared_spool
from pgtrial.engine.host_facts import read_facts
from pgtrial.engine.measure import MACHINE, Measurement, RunGroup
from pgtrial.engine.sampler.control import (
    SamplerConfig,
    find_disks,
    find_server,
    remote_reader,
)
from pgtrial.engine.slicer.task import Task, Twin, take_turns
from pgtrial.engine.target.base import ARM, RunningServer, TurnTaking
from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Host, HostProcess
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.tracing import Tracing
from pgtrial.model.run import LoadLevel, PhaseName, Slice

SPARE = 600  # s that the generators would run beyond their slices: they are told when to end


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """How the arms of a block share its time: one at a time, or with ``cpu_sets``, one per arm, all at once."""

    choice: MethodChoice
    cpu_sets: tuple[tuple[int, ...], ...] = ()


def plan_slices(choice: MethodChoice, *, arms: int, host: Host) -> SlicePlan | None:
    """None where there are no servers that share a block's time.

    Raises PreflightError when this machine has too few CPUs for a duet that was planned on another one.
    """
    if choice.method in ("blocks", "switchback"):
        return None
    cpu_sets = split_cpus(read_facts(host).cores, arms) if choice.method == "duet" else ()
    if cpu_sets is None:
        raise PreflightError(f"a duet of {arms} arms needs at least {arms} CPUs, but this machine has fewer")
    return SlicePlan(choice=choice, cpu_sets=cpu_sets)


@dataclass(slots=True, kw_only=True)
class SlicedMeasurement(Measurement):
    """Measures the runs of a block that share its time: the slicer decides which servers and loads run when.

    Each server has a sampler, which is frozen with it; one more reads the machine.
    """

    freezes = True
    twins: TurnTaking
    slice_plan: SlicePlan

    def _sampler_configs(self, clock_offset: float) -> Mapping[str, SamplerConfig]:
        members, ops = self.group.members, self.group.host.ops
        self.shared_spool, machine = machine_config(self.group, clock_offset=clock_offset)
        return {MACHINE: machine} | {
            name: SamplerConfig(
                conninfo=member.server.control,
                database=member.server.database,
                version_num=member.server.version_num,
                machine=False,
                spool=str(member.spool),
                load_sessions=self.group.context.beginning_of_names(name),
                **_own_sources(ops, member.server),
            )
            for name, member in members.items()
        }

    async def _warm_up(self) -> None:
        """Always for the longest time allowed: slices are too short to tell whether an arm is steady."""
        block, members = self.group.block, sorted(self.group.members)
        seed = turn_seed(self.group.context.seed, block, "warm-up")
        cap = warmup_cap(self.group.context.workload)
        steps = warmup_steps(self.slice_plan.choice, members, seconds=cap, seed=seed, block=block)
        with self.group.record.phase(PhaseName.WARMUP, length=_total_length(steps)):
            await self._play("warm-up", self.group.context.levels[0], steps, logged=False)

    async def _measure(self, level: LoadLevel) -> None:
        record, steps = self.group.record, self._steps(level)
        length = _total_length(steps)

        def share(arm: str) -> float:
            return _total_length([step for step in steps if arm in step.arms]) / length

        record.measuring(level, guard_time(level) + length)
        async with self._counting(level, seconds=length, share=share):
            slices = await self._play(level.label, level, steps, logged=True)
        self._add_slices(level, slices)

    def _steps(self, level: LoadLevel) -> tuple[Step, ...]:
        context, block = self.group.context, self.group.block
        return plan_steps(
            self.slice_plan.choice,
            sorted(self.group.members),
            seconds=context.workload.duration,
            seed=turn_seed(context.seed, block, level.index),
            block=block,
        )

    async def _play(
        self, label: str, level: LoadLevel, steps: Sequence[Step], *, logged: bool
    ) -> dict[str, tuple[Slice, ...]]:
        """Run a level's load on all arms by the steps; return the slices of each arm."""
        generators = self._generators(level, seconds=guard_time(level) + _total_length(steps) + SPARE, logged=logged)
        slices: dict[str, tuple[Slice, ...]] = {}

        async def conduct(processes: Sequence[HostProcess]) -> None:
            await asyncio.sleep(guard_time(level))  # the sessions connect while all servers are at work
            pids = [
                (owner, generator.results is not None, process.pid)
                for (owner, generator), process in zip(generators, processes, strict=True)
            ]
            backends = await self._find_backends()
            task = Task(
                twins={
                    name: Twin(
                        server=self.twins.server_pid(name),
                        others=(
                            *(pid for owner, is_program, pid in pids if owner == name and not is_program),
                            self._sampler_pid(name),
                            *_pooler_pid(self.group.members[name].server),
                        ),
                        backends=backends.get(name, ()),
                        programs=tuple(pid for owner, is_program, pid in pids if owner == name and is_program),
                    )
                    for name in self.group.members
                },
                steps=steps,
                cpu_sets=self.slice_plan.cpu_sets,
                values=self.twins.values,
            )
            slices.update(await take_turns(self.group.context.client_host, task, level=level.index))

        outcome = await self._run_load(label, generators, conduct=conduct)
        if not slices:
            raise InvalidRunError(f"{label}: the load ended early")
        whole = min(own[0].started for own in slices.values()), max(own[-1].ended for own in slices.values())
        program = self.group.context.load.output.program
        check_presence(label, outcome, window=whole, program=program, takes_turns=True)
        if logged:
            for name, own in slices.items():
                window = (own[0].counted, own[-1].ended)
                self._keep(name, level, generators, outcome, window=window, slices=own)
        return slices

    async def _find_backends(self) -> Mapping[str, tuple[int, ...]]:
        """Those of each arm's load, where arms have CPUs of their own and one server."""
        if not self.slice_plan.cpu_sets:
            return {}
        context = self.group.context
        return {name: await self.twins.backends(context.beginning_of_names(name)) for name in self.group.members}

    def _sampler_pid(self, name: str) -> int:
        pid = self.samplers[name].pid
        assert pid is not None  # it was started
        return pid


def _pooler_pid(server: RunningServer) -> tuple[int, ...]:
    return () if server.pooler is None else (server.pooler.pid,)


class _OwnSources(TypedDict):
    views: bool
    server_pid: int | None
    generators: str
    load_conninfo: str
    console: str


def _own_sources(ops: Operations, server: RunningServer) -> _OwnSources:
    """What is to be read for one arm alone. Its load is known by where it goes, or else by the arm's name."""
    known_by = ARM if ARM in server.environment else "PGHOST"
    own = server.has_own_counters
    return _OwnSources(
        views=own,
        server_pid=find_server(ops, server.directories) if own else None,
        generators=f"{known_by}={server.environment[known_by]}",
        load_conninfo=server.conninfo(server.database) if own else "",
        console="" if server.pooler is None else server.pooler.console,
    )


def machine_config(group: RunGroup, *, clock_offset: float) -> tuple[Path, SamplerConfig]:
    """The spool and the configuration of the sampler of the machine that the runs of a block share."""
    members = group.members.values()
    first, spool = next(iter(members)), make_shared_spool(next(iter(members)).folder)
    disks = find_disks(group.host.ops, tuple(dict.fromkeys(group.directories)))
    return spool, SamplerConfig(
        conninfo="",
        database=first.server.database,
        version_num=first.server.version_num,
        traced=Tracing.name in first.arm.knobs,
        devices=disks.names,
        caveats=disks.caveats,
        groups=tuple(dict.fromkeys(each for member in members for each in member.server.groups)),
        spool=str(spool),
        remote=remote_reader(group.host, clock_offset=clock_offset),
        generators=None,
    )


def _total_length(steps: Sequence[Step]) -> float:
    return math.fsum(step.length for step in steps)
