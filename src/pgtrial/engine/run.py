"""One run: restore the data, start with the arm's settings, warm up, measure each load level, collect."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.arms import POSTGRESQL
from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.engine.cache_state import make_cold, make_warm
from pgtrial.engine.collect import (
    InvalidRunError,
    check_run,
    clock_offset,
    collect,
    discard_raw,
    make_raw_folders,
)
from pgtrial.engine.events import LoadProgress, Observer, PhaseStarted
from pgtrial.engine.fingerprint.read import Machine, read_machine
from pgtrial.engine.fingerprint.server import read_server
from pgtrial.engine.load import LoadOutcome, run_generators
from pgtrial.engine.plan import Plan
from pgtrial.engine.sampler.control import HostClock, Sampler, SamplerConfig, SamplerReport, find_disks, remote_reader
from pgtrial.engine.target.base import RunningServer, Target
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.clock import measure_offset
from pgtrial.model.arm import Arm
from pgtrial.model.caveat import Caveat, Severity
from pgtrial.model.change import Outcome, Undone
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow
from pgtrial.postgres.connect import execute, fetch
from pgtrial.spec.experiment import WarmupTable
from pgtrial.stats.steady import is_steady, steady_window
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.store.transactions import LevelLog
from pgtrial.workloads.pgbench import plan_generators

_POLITE = 1.0  # s for the load's sessions to end by themselves after the load has
_PATIENCE = 10.0  # s for them to end at all
_SESSIONS = """
    SELECT count(CASE WHEN %s THEN pg_terminate_backend(pid) ELSE true END)
    FROM pg_catalog.pg_stat_activity WHERE application_name LIKE 'pgtrial/%%'
"""

OnSecond = Callable[[float, float | None], bool]


@dataclass(slots=True, kw_only=True)
class RunExecution:
    """One attempt at a slot, in order; ``execute`` may be called once."""

    plan: Plan
    target: Target
    state: State
    folder: Path  # of this run
    arm: Arm
    run: RunRow
    restore: bool
    tell: Observer
    server: RunningServer | None = field(default=None, init=False)
    clock: HostClock | None = field(default=None, init=False)  # of the server's machine
    logs: list[LevelLog] = field(default_factory=list, init=False)
    outcomes: list[tuple[LoadLevel, LoadOutcome]] = field(default_factory=list, init=False)

    async def execute(self) -> float | None:
        """Do it all. Returns mean tps over the levels. Raises InvalidRunError; TargetError and the like from below."""
        spool, log_folder = make_raw_folders(self.folder)
        target, offsets = self.target, self._clock_offsets()
        try:
            if self.restore:
                with self._phase(PhaseName.RESTORE):
                    await target.restore(self.arm)
            if self.plan.cache == "cold":
                with self._phase(PhaseName.CACHE):
                    await make_cold(target.host)
            with self._phase(PhaseName.START):
                server = self.server = await target.start(self.arm, run=self.run.id)
                self._record_changes(server)
            if self.plan.cache == "warm":
                with self._phase(PhaseName.CACHE):
                    await make_warm(server.conninfo(server.database))
            before = self._read_machine(server)
            self.state.add_fingerprint(await read_server(server.conninfo(server.database)), run=self.run.id)
            report = await self._load(server, spool, log_folder)
            self._read_machine(server, since=before)
            lost = await target.find_lost()
            step = max((now - then for now, then in zip(self._clock_offsets(), offsets, strict=True)), key=abs)
            with self._phase(PhaseName.STOP):
                died = target.has_died()
                await target.keep_log(self.folder / layout.SERVER_LOG)
                # Data that the next run goes on with must not need recovery: it would be part of that run alone.
                await self._stop(immediate=self.plan.restore == "each-run")
            with self._phase(PhaseName.COLLECT):
                ingested = await asyncio.to_thread(collect, self.folder, self.logs, clock=self.clock)
            if died:
                raise InvalidRunError("the server died")
            if lost:
                raise InvalidRunError(lost)
            check_run(self.outcomes, self.logs, sampler=report, ingested=ingested, clock_step=step)
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

    def _read_machine(self, server: RunningServer, *, since: Machine | None = None) -> Machine:
        """Record the state of the server's host, before the load or ``since`` then."""
        machine = read_machine(
            self.target.host.ops,
            directories=server.directories,
            mark=self.plan.mark,
            sysctls=self.plan.sysctls,
            since=since,
        )
        self.state.add_fingerprint(
            machine.facts, run=self.run.id, moment=Moment.BEFORE if since is None else Moment.AFTER
        )
        return machine

    async def _stop(self, *, immediate: bool) -> None:
        """Stop the server and put the host back; what somebody else has changed meanwhile stays, and is said."""
        for entry, undone in await self.target.stop(immediate=immediate):
            self.state.add_event(
                time.time(),
                "restored",
                run=self.run.id,
                knob=entry.change.knob,
                name=entry.change.name,
                outcome=undone.outcome,
                text=undone.text,
            )
            if undone.outcome is Outcome.CHANGED:
                self.state.add_caveat(_changed_meanwhile(undone), run=self.run.id)

    def _record_changes(self, server: RunningServer) -> None:
        now = time.time()
        for name, value in self.arm.settings:
            before = self.plan.baseline.get(name.lower())
            self.state.add_setting_change(
                now,
                run=self.run.id,
                knob=POSTGRESQL,
                name=name,
                old=before.shown if before else None,
                new=value,
            )
        for entry in server.changes:
            change = entry.change
            self.state.add_setting_change(
                entry.t, run=self.run.id, knob=change.knob, name=change.name, old=change.old_text, new=change.new_text
            )
        self.state.add_settings(self.run.id, [(s.name, s.shown, s.source) for s in server.settings.values()])

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
            )
        )
        try:
            if warmup_cap(self.plan.workload) > 0:
                await self._warm_up(server)
            if server.may_checkpoint:
                with self._phase(PhaseName.CHECKPOINT):
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
            self.state.add_event(
                time.time(),
                "clock",
                run=self.run.id,
                ahead=[ahead.offset, then.offset],
                error=[ahead.error, then.error],
            )
        for caveat in report.caveats:
            self.state.add_caveat(caveat, run=self.run.id)
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

        with self._phase(PhaseName.WARMUP, length=cap):
            outcome = await self._run(server, level, seconds=math.ceil(cap), log_directory=None, on_second=on_second)
            self._check_outcome("warm-up", outcome)
            await self._end_sessions(server)
        if until_steady and not is_steady(series, window=window):
            self.state.add_event(time.time(), "warmup-capped", run=self.run.id, seconds=cap, tps=series)

    async def _measure(self, server: RunningServer, level: LoadLevel, log_folder: Path) -> None:
        workload = self.plan.workload
        guard, duration = guard_time(level), workload.duration

        def on_second(tps: float, latency: float | None) -> bool:
            self.tell(LoadProgress(tps=tps, latency=latency))
            return False

        self.tell(PhaseStarted(name=PhaseName.MEASURE, level=level, length=guard + duration))
        outcome = await self._run(
            server, level, seconds=math.ceil(guard + duration), log_directory=str(log_folder), on_second=on_second
        )
        start = outcome.started + guard
        self.state.add_phase(
            self.run.id, Phase(name=PhaseName.MEASURE, start=start, end=start + duration, level=level.index)
        )
        self.outcomes.append((level, outcome))
        self._check_outcome(level.label, outcome)
        if outcome.all_started > start:
            raise InvalidRunError(
                f"{level.label}: the load generators needed {outcome.all_started - outcome.started:.1f} s to start"
            )
        await self._end_sessions(server)

    def _check_outcome(self, label: str, outcome: LoadOutcome) -> None:
        if outcome.errors:
            died = "the server died: " if self.target.has_died() else ""
            raise InvalidRunError(f"{label}: {died}{outcome.errors[0]}")
        if self.target.has_died():
            raise InvalidRunError(f"{label}: the server died")

    async def _run(
        self, server: RunningServer, level: LoadLevel, *, seconds: int, log_directory: str | None, on_second: OnSecond
    ) -> LoadOutcome:
        seed = self.plan.seed + self.run.slot.block
        generators = plan_generators(
            self.plan.scenarios,
            level,
            workload=self.plan.workload,
            seconds=seconds,
            cpus=len(os.sched_getaffinity(0)),
            script_directory=str(self.plan.scripts),
            log_directory=log_directory,
            # The arms of a block see the same random numbers, other blocks see others; and the warm-up too: it must not
            # touch the very rows that are measured next, and so put them into the cache.
            seed=seed if log_directory is not None else -seed,
        )
        outcome = await run_generators(
            self.plan.client_host,
            self.target.client.path("pgbench"),
            generators,
            environment=server.environment,
            on_second=on_second,
        )
        if log_directory is not None:
            start = outcome.started + guard_time(level)
            for generator in generators:
                assert generator.log_prefix is not None  # it was asked for
                prefix = Path(generator.log_prefix)
                self.logs.append(
                    LevelLog(
                        level=level.index,
                        scenarios=generator.scenario_names,
                        files=tuple(sorted(prefix.parent.glob(f"{prefix.name}.*"))),
                        window=(start, start + self.plan.workload.duration),
                        latency_limit=self.plan.workload.latency_limit,
                        has_rate=level.rate is not None,
                        max_tries=self.plan.workload.max_tries,
                    )
                )
        return outcome

    async def _end_sessions(self, server: RunningServer) -> None:
        """Wait until the load's sessions are gone; end those that go on with a query nobody waits for any more."""
        begun = time.monotonic()
        while (await fetch(server.control, _SESSIONS, [time.monotonic() > begun + _POLITE]))[0][0]:
            if time.monotonic() > begun + _PATIENCE:
                raise InvalidRunError(f"sessions of the load are still there {_PATIENCE:g} s after its end")
            await asyncio.sleep(0.02)

    @contextmanager
    def _phase(self, name: PhaseName, *, length: float | None = None) -> Iterator[None]:
        self.tell(PhaseStarted(name=name, length=length))
        start = time.time()
        yield
        self.state.add_phase(self.run.id, Phase(name=name, start=start, end=time.time()))


def _changed_meanwhile(undone: Undone) -> Caveat:
    return Caveat(
        code="changed-meanwhile",
        severity=Severity.WARNING,
        text=undone.text,
        hint="Somebody else works on this host; the run may have had the other value for a part of its time.",
    )
