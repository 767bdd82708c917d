"""Measure a group of runs: start samplers, warm up, checkpoint, run each load level, stop samplers."""

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.engine.collect import InvalidRunError, check_presence
from pgtrial.engine.events import LoadProgress
from pgtrial.engine.leftovers import end_load
from pgtrial.engine.loads.generators import Conduct, LoadOutcome, OnSecond, run_generators
from pgtrial.engine.loads.machines import fetch_sums, find_apart, find_saturated, span
from pgtrial.engine.pages import PageWatch
from pgtrial.engine.record import RunContext, RunRecorder, record_plans
from pgtrial.engine.sampler.control import Sampler, SamplerConfig, SamplerReport, find_disks, find_server, remote_reader
from pgtrial.engine.target.base import RunningServer, Servers, is_ending, run_concurrently
from pgtrial.experiment_file.workload_table import WarmupTable
from pgtrial.hosts.base import LOCAL, Host, HostProcess
from pgtrial.hosts.clock import HostClock, measure_offset
from pgtrial.knobs.slowdown import library_of, require_generator_loaded
from pgtrial.knobs.tracing import Tracing
from pgtrial.model.arm import Arm
from pgtrial.model.load_sessions import NAME, name_on_server
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, Slice
from pgtrial.postgres.connect import execute, fetch
from pgtrial.safe_text import make_visible
from pgtrial.stats.steady import is_steady, steady_window
from pgtrial.store.transactions import HistogramLog, LevelLog, LoadLog
from pgtrial.units import format_duration
from pgtrial.workloads.base import Generator

MACHINE = ""  # in place of an arm's name: the sampler of the machine that the runs of a block share
_POLITE = 1.0  # s for the load's sessions to end by themselves after the load has
_PATIENCE = 10.0  # s for them to end at all
_SESSIONS = """
    SELECT count(CASE WHEN %s THEN pg_terminate_backend(pid) ELSE true END)
    FROM pg_catalog.pg_stat_activity
    WHERE pg_catalog.starts_with(application_name, %s)
    -- Those of a pooler stay, for the next client.
    AND NOT (%s AND state OPERATOR(pg_catalog.=) 'idle')
"""

OwnedGenerator = tuple[str, Generator]  # the arm's name comes first


@dataclass(slots=True, kw_only=True)
class Member:
    """One run of a group, and what its load leaves."""

    run: RunRow
    arm: Arm
    folder: Path
    record: RunRecorder  # of this run alone
    pages: PageWatch
    spool: Path = field(init=False)
    log_folder: Path = field(init=False)
    server: RunningServer = field(init=False)
    logs: list[LoadLog] = field(default_factory=list, init=False)
    outcomes: list[tuple[LoadLevel, LoadOutcome]] = field(default_factory=list, init=False)
    counted_seconds: float = field(default=0.0, init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """Runs that have one lifecycle, by arm name: a single run, or all of a block.

    ``goes_on``: the server is up and was at work until just now, for the window of a soak before this one.
    """

    context: RunContext
    servers: Servers
    record: RunRecorder  # of all of them
    members: Mapping[str, Member]
    block: int
    goes_on: bool = False

    @property
    def host(self) -> Host:
        return self.servers.host

    @property
    def directories(self) -> tuple[str, ...]:
        """Directories of all servers."""
        return tuple(path for member in self.members.values() for path in member.server.directories)

    @property
    def foreign_process(self) -> int | None:
        """The first process of the server that was there before, which all arms share; None for those of our own."""
        return next((member.server.process for member in self.members.values()), None)

    def describe_dead(self) -> str:
        """Name a server that has ended without being stopped: "the server died"; "" if all are up."""
        for name in self.members:
            if self.servers.has_died(name):
                return "the server died" if len(self.members) == 1 else f'the server of arm "{name}" died'
        return ""


@dataclass(slots=True, kw_only=True)
class Measurement(ABC):
    """Measures a group whose servers are up. Subclasses configure the samplers and run the load of a level."""

    freezes: ClassVar[bool] = False  # an arm's clients while another has its turn
    group: RunGroup
    clock: HostClock | None = field(default=None, init=False)  # of the servers' machine
    shared_spool: Path | None = field(default=None, init=False)  # with the readings that are those of all runs
    samplers: dict[str, Sampler] = field(default_factory=dict, init=False)  # those that have started

    async def measure(self) -> dict[str, SamplerReport]:
        """Run all steps. Returns the samplers' reports by arm name or MACHINE. Raises InvalidRunError."""
        context, host = self.group.context, self.group.host
        begun, before = time.time(), measure_offset(host)
        try:
            await run_concurrently(*(self._start(*each) for each in self._sampler_configs(before.offset).items()))
            if not self.group.goes_on:
                if warmup_cap(context.workload) > 0:
                    await self._warm_up()
                await self._checkpoint()
            for level in context.levels:
                await self._measure(level)
        finally:
            try:
                after = measure_offset(host)
                self.clock = HostClock(
                    t_before=begun, offset_before=before.offset, t_after=time.time(), offset_after=after.offset
                )
            finally:
                reports = await self._stop_samplers()
        if host.name != LOCAL:
            self.group.record.add_event("clock", ahead=[before.offset, after.offset], error=[before.error, after.error])
        for name, report in reports.items():
            record = self.group.record if name == MACHINE else self.group.members[name].record
            record.add_caveats(report.caveats)
        for name in self.group.members:
            await self._record_plans(name)
        return reports

    @abstractmethod
    def _sampler_configs(self, clock_offset: float) -> Mapping[str, SamplerConfig]:
        """By the arm's name, or MACHINE. ``clock_offset``: seconds that the servers' machine is ahead of ours."""

    async def _record_plans(self, name: str) -> None:
        member = self.group.members[name]
        await record_plans(member.record, member.server, self.group.context.load.scripts(member.arm))

    @abstractmethod
    async def _warm_up(self) -> None: ...

    @abstractmethod
    async def _measure(self, level: LoadLevel) -> None: ...

    async def _start(self, name: str, config: SamplerConfig) -> None:
        sampler = Sampler(self.group.context.client_host)
        await sampler.start(config)
        self.samplers[name] = sampler

    async def _stop_samplers(self) -> dict[str, SamplerReport]:
        """Stop all samplers, even if one of them fails to stop."""
        reports: dict[str, SamplerReport] = {}

        async def stop(name: str, sampler: Sampler) -> None:
            reports[name] = await sampler.stop(clock=self.clock)

        async with AsyncExitStack() as stack:
            for name, sampler in self.samplers.items():
                stack.push_async_callback(stop, name, sampler)
        return reports

    async def _checkpoint(self) -> None:
        servers = [member.server for member in self.group.members.values() if member.server.may_checkpoint]
        if servers:
            with self.group.record.phase(PhaseName.CHECKPOINT):
                for server in servers:
                    await execute(server.control, "CHECKPOINT")

    def _generators(self, level: LoadLevel, *, seconds: float, logged: bool) -> list[OwnedGenerator]:
        return [
            (name, replace(generator, environment=self._environment(name, generator)))
            for name, member in self.group.members.items()
            for generator in self.group.context.load.generators(
                member.arm,
                member.server,
                level,
                block=self.group.block,
                seconds=math.ceil(seconds),
                directory=member.log_folder,
                logged=logged,
            )
        ]

    def _environment(self, arm: str, generator: Generator) -> dict[str, str]:
        """How a generator reaches its arm's server, and what its sessions are called there."""
        environment = {**self.group.members[arm].server.environment, **generator.environment}
        if NAME in environment:
            environment[NAME] = name_on_server(environment[NAME], self.group.context.beginning_of_names(arm))
        return environment

    async def _run_load(
        self,
        label: str,
        generators: Sequence[OwnedGenerator],
        *,
        on_second: OnSecond = lambda _tps, _latency: False,
        conduct: Conduct | None = None,
    ) -> LoadOutcome:
        """Run the generators, and wait until their sessions are gone. Raises InvalidRunError if the load has failed."""
        context = self.group.context

        async def look(processes: Sequence[HostProcess]) -> None:
            for (_, generator), process in zip(generators, processes, strict=True):
                if (library := library_of(generator.environment)) is not None:
                    await require_generator_loaded(context.client_host, library, partial(list, [process.pid]))

        outcome = await run_generators(
            context.client_host,
            [generator for _, generator in generators],
            environment={},
            account=context.load.account,
            machines=context.machines,
            output=context.load.output,
            on_second=on_second,
            on_started=look,
            conduct=conduct,
        )
        if outcome.errors:
            await is_ending(lambda: bool(self.group.describe_dead()))
        reasons = [*filter(None, [await self._find_dead(has_failed=bool(outcome.errors))]), *outcome.errors[:1]]
        if any(generator.results is not None for _, generator in generators) and (
            left := await end_load(context.mark, context.client_host)
        ):
            reasons.append(f"{context.load.output.program} left {left} of its processes running")
        if reasons:
            raise InvalidRunError(": ".join((label, *reasons)))
        for name, member in self.group.members.items():
            await end_sessions(member.server, context.beginning_of_names(name))
        return outcome

    async def _find_dead(self, *, has_failed: bool) -> str:
        """A server that has ended, or where the load has failed what stands between it and a server; "" if none."""
        if (dead := self.group.describe_dead()) or not has_failed:
            return dead
        lost = [await self.group.servers.find_lost(name) for name in self.group.members]
        return next(filter(None, lost), "")

    def _keep(
        self,
        name: str,
        level: LoadLevel,
        generators: Sequence[OwnedGenerator],
        outcome: LoadOutcome,
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> None:
        """Remember an arm's logs and summaries of a level, for collecting and checking."""
        member = self.group.members[name]
        own = [i for i, (owner, _) in enumerate(generators) if owner == name]
        kept = replace(outcome, summaries=tuple(outcome.summaries[i] for i in own))
        member.outcomes.append((level, kept))
        for said in (summary.said for summary in kept.summaries if summary.said):
            text = make_visible(said)
            self.group.record.state.add_event(time.time(), "load-said", run=member.run.id, level=level.index, text=text)
        logs = self.group.context.load.logs(level, [generators[i][1] for i in own], window=window, slices=slices)
        member.logs += [self._completed(log, outcome) for log in logs]
        member.counted_seconds += math.fsum(s.seconds for s in slices) if slices else window[1] - window[0]

    def _completed(self, log: LoadLog, outcome: LoadOutcome) -> LoadLog:
        """The log with what it does not know of itself."""
        if isinstance(log, LevelLog):
            return replace(log, frozen=self.freezes)
        if isinstance(log, HistogramLog) and outcome.work is not None:
            return replace(log, all_latencies=outcome.work.latencies)
        return log

    def _add_slices(self, level: LoadLevel, slices: Mapping[str, Sequence[Slice]]) -> None:
        """Record the slices of each arm, and the time over all of them as measured."""
        record, every = self.group.record, [piece for own in slices.values() for piece in own]
        start, end = min(piece.started for piece in every), max(piece.ended for piece in every)
        record.add_phase(Phase(name=PhaseName.MEASURE, start=start, end=end, level=level.index))
        for name, own in slices.items():
            record.state.add_slices(self.group.members[name].run.id, own)

    @asynccontextmanager
    async def _counting(
        self, level: LoadLevel, *, seconds: float, share: Callable[[str], float] = lambda _arm: 1.0
    ) -> AsyncIterator[None]:
        """Count the page translations of each server over a level; ``share`` of the time an arm's server is at work."""
        async with AsyncExitStack() as stack:
            for name, member in self.group.members.items():
                counting = member.pages.counting(
                    member.server, level, guard=guard_time(level), duration=seconds, share=share(name)
                )
                await stack.enter_async_context(counting)
            yield


@dataclass(slots=True, kw_only=True)
class WholeMeasurement(Measurement):
    """Measures a run that has the machine to itself: its load runs from start to end of each level."""

    @property
    def _only(self) -> tuple[str, Member]:
        (item,) = self.group.members.items()
        return item

    def _sampler_configs(self, clock_offset: float) -> Mapping[str, SamplerConfig]:
        name, member = self._only
        return {name: self._config(name, spool=member.spool, clock_offset=clock_offset)}

    def _config(self, name: str, *, spool: Path, clock_offset: float) -> SamplerConfig:
        """Of the server of a run, and of its machine."""
        host, member = self.group.host, self.group.members[name]
        server = member.server
        disks = find_disks(host.ops, server.directories)
        return SamplerConfig(
            conninfo=server.control,
            database=server.database,
            version_num=server.version_num,
            devices=disks.names,
            caveats=disks.caveats,
            machine=server.on_host,
            traced=Tracing.name in member.arm.knobs,
            groups=tuple(server.groups),
            spool=str(spool),
            remote=remote_reader(host, clock_offset=clock_offset),
            server_pid=find_server(host.ops, server.directories),
            load_conninfo=server.conninfo(server.database),
            load_sessions=self.group.context.beginning_of_names(name),
            console="" if server.pooler is None else server.pooler.console,
        )

    async def _warm_up(self) -> None:
        """Run the first level's load until it is steady, or for the longest time allowed."""
        context, record = self.group.context, self.group.record
        workload, level = context.workload, context.levels[0]
        cap = warmup_cap(workload)
        until_steady = workload.warmup == "auto" or isinstance(workload.warmup, WarmupTable)
        window = steady_window(workload.duration)
        series: list[float] = []

        def on_second(tps: float, latency: float | None) -> bool:
            series.append(tps)
            record.tell(LoadProgress(tps=tps, latency=latency))
            return until_steady and is_steady(series, window=window)

        with record.phase(PhaseName.WARMUP, length=cap):
            await self._run_load("warm-up", self._generators(level, seconds=cap, logged=False), on_second=on_second)
        if until_steady and not is_steady(series, window=window):
            record.add_event("warmup-capped", seconds=cap, tps=series)

    async def _measure(self, level: LoadLevel) -> None:
        record, (name, _) = self.group.record, self._only
        guard, duration = guard_time(level), self.group.context.workload.duration

        def on_second(tps: float, latency: float | None) -> bool:
            record.tell(LoadProgress(tps=tps, latency=latency))
            return False

        record.measuring(level, guard + duration)
        generators = self._generators(level, seconds=guard + duration, logged=True)
        async with self._counting(level, seconds=duration):
            outcome = await self._run_load(level.label, generators, on_second=on_second)
        if (work := outcome.work) is not None:
            if work.ended - work.started > guard + duration:
                raise InvalidRunError(f"{level.label}: the file was not done in {format_duration(duration)}")
            record.add_phase(Phase(name=PhaseName.MEASURE, start=work.started, end=work.ended, level=level.index))
            self._keep(name, level, generators, outcome, window=(work.started, work.ended))
            return
        start = outcome.started + guard
        record.add_phase(Phase(name=PhaseName.MEASURE, start=start, end=start + duration, level=level.index))
        if outcome.all_started > start:
            raise InvalidRunError(
                f"{level.label}: the load generators took {outcome.all_started - outcome.started:.1f} s to start"
            )
        window = start, start + duration
        check_presence(level.label, outcome, window=window, program=self.group.context.load.output.program)
        fetched = await self._fetched(level, generators, outcome, window=window)
        self._keep(name, level, fetched, outcome, window=window)

    async def _fetched(
        self,
        level: LoadLevel,
        generators: Sequence[OwnedGenerator],
        outcome: LoadOutcome,
        *,
        window: tuple[float, float],
    ) -> Sequence[OwnedGenerator]:
        """The generators with the sums of their logs here, where they ran on other machines; that is recorded."""
        if not outcome.machines:
            return generators
        record, (name, member) = self.group.record, self._only
        loads, (first, last) = outcome.machines, span(outcome.machines)
        facts = [
            {
                **load.facts(),
                "processed": sum(
                    summary.processed or 0
                    for (_, generator), summary in zip(generators, outcome.summaries, strict=True)
                    if generator.machine == number
                ),
            }
            for number, load in enumerate(loads)
        ]
        record.add_event("load-machines", level=level.index, skew=last - first, machines=facts)
        record.add_caveats([*find_saturated(loads), *find_apart(loads, level=level.label)])
        every = [generator for _, generator in generators]
        logs = self.group.context.load.logs(level, every, window=window)
        own = await fetch_sums(every, [log for log in logs if isinstance(log, LevelLog)], loads, member.log_folder)
        return [(name, generator) for generator in own]


async def end_sessions(server: RunningServer, beginning: str) -> None:
    """Wait until the load's sessions, whose names have this ``beginning``, have ended; terminate those that still run
    an abandoned query.

    Raises InvalidRunError when they stay. Without a server there are none.
    """
    if not server.is_there:
        return
    begun = time.monotonic()
    pooled = server.pooler is not None
    while (await fetch(server.control, _SESSIONS, [time.monotonic() > begun + _POLITE, beginning, pooled]))[0][0]:
        if time.monotonic() > begun + _PATIENCE:
            raise InvalidRunError(f"sessions of the load are still connected {_PATIENCE:g} s after its end")
        await asyncio.sleep(0.02)
