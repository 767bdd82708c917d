"""One run: restore the data, start with the arm's settings, warm up, measure each load level, collect."""

import asyncio
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.engine.events import LoadProgress, Observer, PhaseStarted
from pgtrial.engine.fingerprint import read_machine
from pgtrial.engine.load import LoadOutcome, run_generators
from pgtrial.engine.sampling import Sampler, SamplerConfig, SamplerReport, convert
from pgtrial.engine.target import DATABASE, Target
from pgtrial.knobs import postgresql
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow
from pgtrial.postgres.connect import execute, fetch
from pgtrial.postgres.settings import Setting
from pgtrial.spec.experiment import WarmupTable, WorkloadTable
from pgtrial.stats.steady import is_steady, steady_window
from pgtrial.store import layout
from pgtrial.store.state import State
from pgtrial.store.transactions import IngestReport, LevelLog, ingest
from pgtrial.workloads.pgbench import plan_generators
from pgtrial.workloads.scenarios import Scenario

SESSIONS_GONE_PATIENCE = 10.0  # s for the load's sessions to end after the load has

OnSecond = Callable[[float, float | None], bool]


class InvalidRunError(Exception):
    """The run happened but cannot count; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is the same for all runs."""

    workload: WorkloadTable
    scenarios: tuple[Scenario, ...]
    levels: tuple[LoadLevel, ...]
    scripts: Path  # folder with the scenarios' scripts
    seed: int
    baseline: Mapping[str, Setting]  # the control's settings, for the record of changes


def measured_time(plan_levels: Sequence[LoadLevel], workload: WorkloadTable) -> float:
    """Measured seconds of one run."""
    return len(plan_levels) * workload.duration


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
        self.folder.mkdir(parents=True)
        cluster = self.target.cluster
        try:
            if self.restore:
                with self._phase(PhaseName.RESTORE):
                    await self.target.snapshot.restore()
            self.state.add_fingerprint(read_machine(), run=self.run.id)
            with self._phase(PhaseName.START):
                settings = await self.target.start(self.arm)
                self._record_settings(settings)
            report = await self._load()
            with self._phase(PhaseName.STOP):
                died = cluster.has_died()
                await cluster.stop(immediate=self.restore)
            with self._phase(PhaseName.COLLECT):
                ingested = await asyncio.to_thread(self._collect)
            self._check(report, ingested, died=died)
        finally:
            await cluster.stop(immediate=True)
        return self._mean_tps(ingested)

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

    async def _load(self) -> SamplerReport:
        """Warm up, checkpoint and measure, with the sampler beside it."""
        cluster = self.target.cluster
        sampler = Sampler(self.target.host)
        (spool := self.folder / "spool").mkdir()
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
                await self._measure(level)
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
            if outcome.errors:
                raise InvalidRunError(f"warm-up: {outcome.errors[0]}")
            await self._wait_until_sessions_are_gone()
        if until_steady and not is_steady(series, window=window):
            self.state.add_event(time.time(), "warmup-capped", run=self.run.id, seconds=cap, tps=series)

    async def _measure(self, level: LoadLevel) -> None:
        workload = self.plan.workload
        guard, duration = guard_time(level), workload.duration
        logs = self.folder / "pgbench"
        logs.mkdir(exist_ok=True)

        def on_second(tps: float, latency: float | None) -> bool:
            self.tell(LoadProgress(tps=tps, latency=latency))
            return False

        self.tell(PhaseStarted(name=PhaseName.MEASURE, level=level, length=guard + duration))
        outcome = await self._run(
            level, seconds=math.ceil(guard + duration), log_directory=str(logs), on_second=on_second
        )
        start = outcome.started + guard
        self.state.add_phase(
            self.run.id, Phase(name=PhaseName.MEASURE, start=start, end=start + duration, level=level.index)
        )
        self.outcomes.append((level, outcome))
        if outcome.errors:
            raise InvalidRunError(f"{level.label}: {outcome.errors[0]}")
        if self.target.cluster.has_died():
            raise InvalidRunError(f"{level.label}: the server died")
        await self._wait_until_sessions_are_gone()

    async def _run(
        self, level: LoadLevel, *, seconds: int, log_directory: str | None, on_second: OnSecond
    ) -> LoadOutcome:
        generators = plan_generators(
            self.plan.scenarios,
            level,
            workload=self.plan.workload,
            seconds=seconds,
            cpus=len(os.sched_getaffinity(0)),
            script_directory=str(self.plan.scripts),
            log_directory=log_directory,
            # The arms of a block see the same random numbers, other blocks see others.
            seed=self.plan.seed + self.run.slot.block,
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

    async def _wait_until_sessions_are_gone(self) -> None:
        deadline = time.monotonic() + SESSIONS_GONE_PATIENCE
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgtrial/%%'"
        while (await fetch(self.target.cluster.conninfo(), query))[0][0]:
            if time.monotonic() > deadline:
                raise InvalidRunError(
                    f"sessions of the load are still there {SESSIONS_GONE_PATIENCE:g} s after its end"
                )
            await asyncio.sleep(0.02)

    def _collect(self) -> IngestReport:
        """Turn what the run left into the result folder's files, and remove what they were made from."""
        report = ingest(self.logs, self.folder / layout.TRANSACTIONS)
        convert(self.folder / "spool", self.folder)
        (self.folder / layout.SERVER_LOG).write_bytes(self.target.cluster.log.read_bytes())
        for log in self.logs:
            for path in log.files:
                path.unlink()
        (self.folder / "pgbench").rmdir()
        return report

    def _check(self, report: SamplerReport, ingested: IngestReport, *, died: bool) -> None:
        """Whatever makes the run's numbers untrue makes it invalid."""
        if died:
            raise InvalidRunError("the server died")
        if report.errors:
            raise InvalidRunError(f"sampler: {report.errors[0]}")
        windows = [log.window for log in self.logs]
        for gap in report.gaps:
            if any(gap.start < end and gap.end > start for start, end in windows):
                raise InvalidRunError(f"sampler: no sample of {gap.source} for {gap.end - gap.start:.1f} s")
        for level, outcome in self.outcomes:
            failed = sum(summary.failed or 0 for summary in outcome.summaries)
            if failed:
                raise InvalidRunError(f"{level.label}: {failed} transactions failed")
        told = 0
        for _, outcome in self.outcomes:
            for summary in outcome.summaries:
                if summary.processed is None:
                    raise InvalidRunError("pgbench ended without a summary")
                told += summary.processed + (summary.skipped or 0)
        logged = ingested.transactions
        if told != logged:
            raise InvalidRunError(f"pgbench did {told} transactions but its log has {logged}: is the disk full?")

    def _mean_tps(self, ingested: IngestReport) -> float | None:
        return ingested.counted / measured_time(self.plan.levels, self.plan.workload)

    @contextmanager
    def _phase(self, name: PhaseName, *, length: float | None = None) -> Iterator[None]:
        self.tell(PhaseStarted(name=name, length=length))
        start = time.time()
        yield
        self.state.add_phase(self.run.id, Phase(name=name, start=start, end=time.time()))
