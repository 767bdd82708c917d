"""One run: restore the data, start with the arm's settings, warm up, measure each load level, collect."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.engine.collect import (
    InvalidRunError,
    check_run,
    clock_offset,
    collect,
    discard_raw,
    keep_server_log,
    make_raw_folders,
)
from pgtrial.engine.events import LoadProgress, Observer, PhaseStarted
from pgtrial.engine.fingerprint import read_machine
from pgtrial.engine.load import LoadOutcome, run_generators
from pgtrial.engine.plan import Plan
from pgtrial.engine.sampling import Sampler, SamplerConfig, SamplerReport
from pgtrial.engine.target import DATABASE, Target
from pgtrial.knobs import postgresql
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow
from pgtrial.postgres.connect import execute, fetch
from pgtrial.postgres.settings import Setting
from pgtrial.spec.experiment import WarmupTable
from pgtrial.stats.steady import is_steady, steady_window
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
    logs: list[LevelLog] = field(default_factory=list, init=False)
    outcomes: list[tuple[LoadLevel, LoadOutcome]] = field(default_factory=list, init=False)

    async def execute(self) -> float | None:
        """Do it all. Returns mean tps over the levels. Raises InvalidRunError; TargetError and the like from below."""
        spool, log_folder = make_raw_folders(self.folder)
        cluster, offset = self.target.cluster, clock_offset()
        try:
            if self.restore:
                with self._phase(PhaseName.RESTORE):
                    await self.target.snapshot.restore()
            self.state.add_fingerprint(read_machine(), run=self.run.id)
            with self._phase(PhaseName.START):
                settings = await self.target.start(self.arm)
                self._record_settings(settings)
            report = await self._load(spool, log_folder)
            with self._phase(PhaseName.STOP):
                died = cluster.has_died()
                # Data that the next run goes on with must not need recovery: it would be part of that run alone.
                await cluster.stop(immediate=self.plan.restore == "each-run")
            with self._phase(PhaseName.COLLECT):
                ingested = await asyncio.to_thread(collect, self.folder, self.logs)
            if died:
                raise InvalidRunError("the server died")
            check_run(self.outcomes, self.logs, sampler=report, ingested=ingested, clock_step=clock_offset() - offset)
        finally:
            await cluster.stop(immediate=True)
            keep_server_log(cluster.log, self.folder)
            discard_raw(self.folder)
        return ingested.counted / self.plan.measured_time

    def _record_settings(self, settings: Mapping[str, Setting]) -> None:
        now = time.time()
        for name, value in self.arm.settings:
            before = self.plan.baseline.get(name.lower())
            self.state.add_setting_change(
                now,
                run=self.run.id,
                knob=postgresql.NAME,
                name=name,
                old=before.shown if before else None,
                new=value,
            )
        self.state.add_settings(self.run.id, [(s.name, s.shown, s.source) for s in settings.values()])

    async def _load(self, spool: Path, log_folder: Path) -> SamplerReport:
        """Warm up, checkpoint and measure, with the sampler beside it."""
        cluster = self.target.cluster
        sampler = Sampler(self.target.host)
        await sampler.start(
            SamplerConfig(
                conninfo=cluster.conninfo(),  # not the load's database: the sampler's transactions would count there
                database=DATABASE,
                version_num=self.target.programs.major * 10000,
                data_directories=(str(cluster.data), str(cluster.data / "pg_wal")),
                spool=str(spool),
            )
        )
        try:
            if warmup_cap(self.plan.workload) > 0:
                await self._warm_up()
            with self._phase(PhaseName.CHECKPOINT):
                await execute(cluster.conninfo(), "CHECKPOINT")
            for level in self.plan.levels:
                await self._measure(level, log_folder)
        finally:
            report = await sampler.stop()
        for caveat in report.caveats:
            self.state.add_caveat(caveat, run=self.run.id)
        return report

    async def _warm_up(self) -> None:
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
            outcome = await self._run(level, seconds=math.ceil(cap), log_directory=None, on_second=on_second)
            self._check_outcome("warm-up", outcome)
            await self._end_sessions()
        if until_steady and not is_steady(series, window=window):
            self.state.add_event(time.time(), "warmup-capped", run=self.run.id, seconds=cap, tps=series)

    async def _measure(self, level: LoadLevel, log_folder: Path) -> None:
        workload = self.plan.workload
        guard, duration = guard_time(level), workload.duration

        def on_second(tps: float, latency: float | None) -> bool:
            self.tell(LoadProgress(tps=tps, latency=latency))
            return False

        self.tell(PhaseStarted(name=PhaseName.MEASURE, level=level, length=guard + duration))
        outcome = await self._run(
            level, seconds=math.ceil(guard + duration), log_directory=str(log_folder), on_second=on_second
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
        await self._end_sessions()

    def _check_outcome(self, label: str, outcome: LoadOutcome) -> None:
        if outcome.errors:
            died = "the server died: " if self.target.cluster.has_died() else ""
            raise InvalidRunError(f"{label}: {died}{outcome.errors[0]}")
        if self.target.cluster.has_died():
            raise InvalidRunError(f"{label}: the server died")

    async def _run(
        self, level: LoadLevel, *, seconds: int, log_directory: str | None, on_second: OnSecond
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
            self.target.host,
            self.target.programs.path("pgbench"),
            generators,
            environment=self.target.cluster.environment(DATABASE),
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

    async def _end_sessions(self) -> None:
        """Wait until the load's sessions are gone; end those that go on with a query nobody waits for any more."""
        begun = time.monotonic()
        while (await fetch(self.target.cluster.conninfo(), _SESSIONS, [time.monotonic() > begun + _POLITE]))[0][0]:
            if time.monotonic() > begun + _PATIENCE:
                raise InvalidRunError(f"sessions of the load are still there {_PATIENCE:g} s after its end")
            await asyncio.sleep(0.02)

    @contextmanager
    def _phase(self, name: PhaseName, *, length: float | None = None) -> Iterator[None]:
        self.tell(PhaseStarted(name=name, length=length))
        start = time.time()
        yield
        self.state.add_phase(self.run.id, Phase(name=name, start=start, end=time.time()))
