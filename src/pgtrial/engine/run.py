"""One run: restore the data, start with the arm's settings, warm up, measure each load level, collect."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.engine.collect import (
    InvalidRunError,
    check_run,
    clock_offset,
    collect,
    discard_raw,
    make_raw_folders,
)
from pgtrial.engine.events import LoadProgress, Observer
from pgtrial.engine.load import LoadOutcome, run_generators
from pgtrial.engine.pages.watch import PageWatch
from pgtrial.engine.plan import Plan
from pgtrial.engine.record import Record
from pgtrial.engine.sampler.control import (
    HostClock,
    Sampler,
    SamplerConfig,
    SamplerReport,
    find_disks,
    find_server,
    remote_reader,
)
from pgtrial.engine.sessions import end_sessions
from pgtrial.engine.target.base import RunningServer, Target, is_ending
from pgtrial.experiment_file.experiment import WarmupTable
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.clock import measure_offset
from pgtrial.model.arm import Arm
from pgtrial.model.run import AFTER, BEFORE, UNDER_LOAD, LoadLevel, Phase, PhaseName, RunRow
from pgtrial.postgres.connect import execute
from pgtrial.stats.steady import is_steady, steady_window
from pgtrial.store import layout
from pgtrial.store.transactions import LoadLog

OnSecond = Callable[[float, float | None], bool]


@dataclass(slots=True, kw_only=True)
class RunExecution:
    """One attempt at a slot, in order; ``execute`` may be called once."""

    plan: Plan
    target: Target
    record: Record
    folder: Path  # of this run
    arm: Arm
    run: RunRow
    restore: bool
    tell: Observer
    clock: HostClock | None = field(default=None, init=False)  # of the server's machine
    logs: list[LoadLog] = field(default_factory=list, init=False)
    outcomes: list[tuple[LoadLevel, LoadOutcome]] = field(default_factory=list, init=False)
    pages: PageWatch = field(init=False)

    def __post_init__(self) -> None:
        self.pages = PageWatch(is_on=self.plan.watches_pages, host=self.target.host, record=self.record)

    async def execute(self) -> float | None:
        """Do it all. Returns mean tps over the levels. Raises InvalidRunError; TargetError and the like from below."""
        spool, log_folder = make_raw_folders(self.folder)
        target, load, offsets = self.target, self.plan.load, self._clock_offsets()
        try:
            if self.restore:
                with self.record.phase(PhaseName.RESTORE):
                    await target.restore(self.arm)
            if self.arm.cache == "cold":
                with self.record.phase(PhaseName.CACHE):
                    await load.make_cold(self.arm)
            self.pages.note(BEFORE)
            with self.record.phase(PhaseName.START):
                server = await target.start(self.arm, run=self.run.id)
            if self.arm.cache == "warm":
                with self.record.phase(PhaseName.CACHE):
                    await load.make_warm(self.arm, server)
            await self.record.add_server(self.run, self.arm, server)
            before = self.record.add_machine(target.host, server.directories)
            report = await self._load(server, spool, log_folder)
            other_pages = self.pages.note(UNDER_LOAD, server=server)
            self.record.add_machine(target.host, server.directories, since=before)
            lost = await target.find_lost()
            step = max((now - then for now, then in zip(self._clock_offsets(), offsets, strict=True)), key=abs)
            with self.record.phase(PhaseName.STOP):
                died = target.has_died()
                await target.keep_log(self.folder / layout.SERVER_LOG)
                # Data that the next run goes on with must not need recovery: it would be part of that run alone.
                await self._stop(immediate=self.plan.restore == "each-run")
            self.pages.note(AFTER)
            with self.record.phase(PhaseName.COLLECT):
                ingested = await asyncio.to_thread(collect, self.folder, self.logs, clock=self.clock)
            if died:
                raise InvalidRunError("the server died")
            if lost or other_pages:
                raise InvalidRunError(lost or other_pages)
            check_run(
                self.outcomes,
                self.logs,
                sampler=report,
                ingested=ingested,
                clock_step=step,
                program=load.output.program,
            )
        finally:
            try:
                await target.keep_log(self.folder / layout.SERVER_LOG)
            finally:
                await self._stop(immediate=True)
                discard_raw(self.folder)
        return ingested.counted / self.plan.measured_time

    def _clock_offsets(self) -> tuple[float, float]:
        """Of the load generator's machine and of the server's, which may be one."""
        return clock_offset(self.plan.client_host.ops), clock_offset(self.target.host.ops)

    async def _stop(self, *, immediate: bool) -> None:
        """Stop the server and put the host back."""
        self.record.add_restored(await self.target.stop(immediate=immediate))

    async def _load(self, server: RunningServer, spool: Path, log_folder: Path) -> SamplerReport:
        """Warm up, checkpoint and measure, with the sampler beside it."""
        host = self.target.host
        sampler, begun, ahead = Sampler(self.plan.client_host), time.time(), measure_offset(host)
        await sampler.start(
            SamplerConfig(
                conninfo=server.control,
                database=server.database,
                version_num=server.version_num,
                disks=find_disks(host.ops, server.directories),
                machine=server.on_host,
                groups=tuple(server.groups),
                spool=str(spool),
                remote=remote_reader(host, clock_offset=ahead.offset),
                server_pid=find_server(host.ops, server.directories),
                load_conninfo=server.conninfo(server.database),
            )
        )
        try:
            if warmup_cap(self.plan.workload) > 0:
                await self._warm_up(server)
            if server.may_checkpoint:
                with self.record.phase(PhaseName.CHECKPOINT):
                    await execute(server.control, "CHECKPOINT")
            for level in self.plan.levels:
                await self._measure(server, level, log_folder)
        finally:
            then = measure_offset(host)
            self.clock = HostClock(
                t_before=begun, offset_before=ahead.offset, t_after=time.time(), offset_after=then.offset
            )
            report = await sampler.stop(clock=self.clock)
        if host.name != LOCAL:
            self.record.add_event("clock", ahead=[ahead.offset, then.offset], error=[ahead.error, then.error])
        self.record.add_caveats(report.caveats)
        return report

    async def _warm_up(self, server: RunningServer) -> None:
        """Run the first level's load until it is steady, or for the longest time allowed."""
        workload, level = self.plan.workload, self.plan.levels[0]
        cap = warmup_cap(workload)
        until_steady = workload.warmup == "auto" or isinstance(workload.warmup, WarmupTable)
        window = steady_window(workload.duration)
        series: list[float] = []

        def on_second(tps: float, latency: float | None) -> bool:
            series.append(tps)
            self.tell(LoadProgress(tps=tps, latency=latency))
            return until_steady and is_steady(series, window=window)

        with self.record.phase(PhaseName.WARMUP, length=cap):
            outcome = await self._run(server, level, seconds=math.ceil(cap), log_directory=None, on_second=on_second)
            await self._check_outcome("warm-up", outcome)
            await end_sessions(server)
        if until_steady and not is_steady(series, window=window):
            self.record.add_event("warmup-capped", seconds=cap, tps=series)

    async def _measure(self, server: RunningServer, level: LoadLevel, log_folder: Path) -> None:
        workload = self.plan.workload
        guard, duration = guard_time(level), workload.duration

        def on_second(tps: float, latency: float | None) -> bool:
            self.tell(LoadProgress(tps=tps, latency=latency))
            return False

        self.record.measuring(level, guard + duration)
        async with self.pages.counting(server, level, guard=guard, duration=duration):
            outcome = await self._run(
                server, level, seconds=math.ceil(guard + duration), log_directory=str(log_folder), on_second=on_second
            )
        start = outcome.started + guard
        self.record.add_phase(Phase(name=PhaseName.MEASURE, start=start, end=start + duration, level=level.index))
        self.outcomes.append((level, outcome))
        await self._check_outcome(level.label, outcome)
        if outcome.all_started > start:
            raise InvalidRunError(
                f"{level.label}: the load generators needed {outcome.all_started - outcome.started:.1f} s to start"
            )
        await end_sessions(server)

    async def _check_outcome(self, label: str, outcome: LoadOutcome) -> None:
        if outcome.errors:
            died = "the server died: " if await is_ending(self.target.has_died) else ""
            raise InvalidRunError(f"{label}: {died}{outcome.errors[0]}")
        if self.target.has_died():
            raise InvalidRunError(f"{label}: the server died")

    async def _run(
        self, server: RunningServer, level: LoadLevel, *, seconds: int, log_directory: str | None, on_second: OnSecond
    ) -> LoadOutcome:
        load = self.plan.load
        generators = load.generators(
            self.arm, server, level, block=self.run.slot.block, seconds=seconds, log_directory=log_directory
        )
        outcome = await run_generators(
            self.plan.client_host,
            load.program,
            generators,
            environment=server.environment,
            output=load.output,
            on_second=on_second,
        )
        if log_directory is not None:
            start = outcome.started + guard_time(level)
            window = (start, start + self.plan.workload.duration)
            self.logs += load.logs(level, generators, window=window)
        return outcome
