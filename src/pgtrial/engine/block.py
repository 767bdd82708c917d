"""One block whose arms share its time: all servers up, in turns or each on CPUs of its own."""

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.design.duration import guard_time, warmup_cap
from pgtrial.design.methods import turn_seed
from pgtrial.design.slices import Step, shuffled
from pgtrial.engine.collect import (
    InvalidRunError,
    check_run,
    clock_offset,
    collect,
    discard_raw,
    make_raw_folders,
    make_shared_spool,
)
from pgtrial.engine.load import LoadOutcome, run_generators
from pgtrial.engine.plan import Plan
from pgtrial.engine.record import Record
from pgtrial.engine.sampler.control import Disks, Sampler, SamplerConfig, SamplerReport, find_disks, find_server
from pgtrial.engine.sessions import end_sessions
from pgtrial.engine.slicer.control import Task, Twin, take_turns
from pgtrial.engine.target.base import RunningServer, is_ending
from pgtrial.engine.target.twins import Twins
from pgtrial.engine.together import together
from pgtrial.engine.turns import Turns, total_length
from pgtrial.hosts.base import HostProcess
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, Slice
from pgtrial.postgres.connect import execute
from pgtrial.store import layout
from pgtrial.store.transactions import IngestReport, LevelLog, LoadLog
from pgtrial.workloads.base import Generator

_SPARE = 600  # s that the generators would run beyond their slices: they are told when to end


@dataclass(slots=True, kw_only=True)
class BlockExecution:
    """One attempt at a block; ``execute`` may be called once. ``runs`` and ``folders`` are by the arm's name."""

    plan: Plan
    twins: Twins
    turns: Turns
    record: Record
    runs: Mapping[str, RunRow]
    folders: Mapping[str, Path]
    block: int
    restore: bool
    servers: dict[str, RunningServer] = field(default_factory=dict, init=False)
    samplers: dict[str, Sampler] = field(default_factory=dict, init=False)
    log_folders: dict[str, Path] = field(default_factory=dict, init=False)
    logs: dict[str, list[LoadLog]] = field(default_factory=dict, init=False)
    outcomes: dict[str, list[tuple[LoadLevel, LoadOutcome]]] = field(default_factory=dict, init=False)

    async def execute(self) -> dict[str, float]:
        """Do it all: mean tps of each arm over the levels. Raises InvalidRunError when one of the runs cannot count,
        which makes all of them invalid; TargetError and the like from below.
        """
        spools = {name: make_raw_folders(folder) for name, folder in self.folders.items()}
        self.log_folders = {name: logs for name, (_, logs) in spools.items()}
        shared = make_shared_spool(next(iter(self.folders.values())))
        order = shuffled(list(self.runs), random.Random(f"{self.plan.seed}/{self.block}"))
        offset = clock_offset(self.plan.client_host.ops)
        try:
            if self.restore:
                with self.record.phase(PhaseName.RESTORE):
                    await self.twins.restore()
            with self.record.phase(PhaseName.START):
                self.servers = await self.twins.start(order, {name: run.id for name, run in self.runs.items()})
            load, arms = self.plan.load, self.twins.arms
            if any(arms[name].cache == "warm" for name in self.servers):
                with self.record.phase(PhaseName.CACHE):
                    for name, server in self.servers.items():
                        await load.make_warm(arms[name], server)
            for name, run in self.runs.items():
                await self.record.add_server(run, self.twins.arms[name], self.servers[name])
            directories = tuple(path for server in self.servers.values() for path in server.directories)
            before = self.record.add_machine(self.twins.host, directories)
            reports = await self._load({name: spool for name, (spool, _) in spools.items()}, shared, directories)
            self.record.add_machine(self.twins.host, directories, since=before)
            self.twins.settle()
            lost = [await self.twins.find_lost(name) for name in self.runs]
            step = clock_offset(self.plan.client_host.ops) - offset
            with self.record.phase(PhaseName.STOP):
                died = [name for name in self.runs if self.twins.has_died(name)]
                await self._stop(immediate=self.plan.restore != "never")
            with self.record.phase(PhaseName.COLLECT):
                ingested = await asyncio.to_thread(self._collect, shared)
            if died:
                raise InvalidRunError(f'the server of arm "{died[0]}" died')
            for sentence in filter(None, lost):
                raise InvalidRunError(sentence)
            for name in self.runs:
                self._check(name, reports, ingested[name], step)
        finally:
            try:
                await self._stop(immediate=True)
            finally:
                for folder in self.folders.values():
                    discard_raw(folder)
        return {name: report.counted / self._counted_seconds(name) for name, report in ingested.items()}

    async def _load(
        self, spools: Mapping[str, Path], shared: Path, directories: tuple[str, ...]
    ) -> list[SamplerReport]:
        """Warm up, checkpoint and measure; a sampler beside each server, which stands still with it, and one for the
        machine. The report on the machine comes first.
        """
        some, disks = next(iter(self.servers.values())), find_disks(self.twins.host.ops, directories)
        self.samplers = {name: Sampler(self.plan.client_host) for name in self.servers}
        machine = Sampler(self.plan.client_host)
        configs = [(machine, self._config(some, shared, disks=disks))]
        configs += [(self.samplers[name], self._config(one, spools[name])) for name, one in self.servers.items()]
        started: list[Sampler] = []

        async def start(sampler: Sampler, config: SamplerConfig) -> None:
            await sampler.start(config)
            started.append(sampler)

        try:
            await together(*(start(sampler, config) for sampler, config in configs))
            if (seconds := warmup_cap(self.plan.workload)) > 0:
                steps = self._steps(seconds, "warm-up")
                with self.record.phase(PhaseName.WARMUP, length=total_length(steps)):
                    await self._play(self.plan.levels[0], steps, measured=False)
            with self.record.phase(PhaseName.CHECKPOINT):
                for server in self.servers.values():
                    await execute(server.control, "CHECKPOINT")
            for level in self.plan.levels:
                steps = self._steps(self.plan.workload.duration, str(level.index))
                self.record.measuring(level, guard_time(level) + total_length(steps))
                slices = await self._play(level, steps, measured=True)
                every = [one for found in slices.values() for one in found]
                self.record.add_phase(
                    Phase(
                        name=PhaseName.MEASURE,
                        start=min(one.started for one in every),
                        end=max(one.ended for one in every),
                        level=level.index,
                    )
                )
                for name, found in slices.items():
                    self.record.state.add_slices(self.runs[name].id, found)
        finally:
            reports = {sampler: await sampler.stop() for sampler in started}
        self.record.add_caveats(reports[machine].caveats)
        return [reports[sampler] for sampler, _ in configs]

    def _config(self, server: RunningServer, spool: Path, *, disks: Disks | None = None) -> SamplerConfig:
        """Of the sampler of a server, or with ``disks`` of that of the machine."""
        return SamplerConfig(
            conninfo="" if disks else server.control,
            database=server.database,
            version_num=server.version_num,
            disks=disks or Disks(),
            machine=disks is not None,
            groups=tuple(group for one in self.servers.values() for group in one.groups) if disks else (),
            spool=str(spool),
            server_pid=None if disks else find_server(self.twins.host.ops, server.directories),
            # The load of an arm is known by where it goes.
            generators=None if disks else f"PGHOST={server.environment['PGHOST']}",
            load_conninfo="" if disks else server.conninfo(server.database),
        )

    def _steps(self, seconds: float, what: str) -> tuple[Step, ...]:
        seed = turn_seed(self.plan.seed, self.block, what)
        return self.turns.steps(sorted(self.runs), seconds=seconds, seed=seed, block=self.block)

    async def _play(self, level: LoadLevel, steps: Sequence[Step], *, measured: bool) -> dict[str, tuple[Slice, ...]]:
        """The load of a level on all arms, by the steps; the slices of each arm."""
        generators: list[tuple[str, Generator]] = [
            (name, replace(one, environment={**server.environment, **one.environment}))
            for name, server in self.servers.items()
            for one in self.plan.load.generators(
                self.twins.arms[name],
                server,
                level,
                block=self.block,
                seconds=math.ceil(guard_time(level) + total_length(steps)) + _SPARE,
                log_directory=str(self.log_folders[name]) if measured else None,
            )
        ]
        slices: dict[str, tuple[Slice, ...]] = {}

        async def conduct(processes: Sequence[HostProcess]) -> None:
            await asyncio.sleep(guard_time(level))  # the sessions connect while all servers are at work
            pids = [(name, process.pid) for (name, _), process in zip(generators, processes, strict=True)]
            task = Task(
                twins={
                    name: Twin(
                        server=self.twins.server_pid(name),
                        others=(*(pid for owner, pid in pids if owner == name), self._sampler_pid(name)),
                    )
                    for name in self.servers
                },
                steps=steps,
                cpu_sets=self.turns.cpu_sets,
                values=self.twins.values,
            )
            slices.update(await take_turns(self.plan.client_host, task, level=level.index))

        outcome = await run_generators(
            self.plan.client_host,
            self.plan.load.program,
            [generator for _, generator in generators],
            environment={},
            output=self.plan.load.output,
            conduct=conduct,
        )
        label = level.label if measured else "warm-up"
        await self._check_outcome(label, outcome)
        if not slices:
            raise InvalidRunError(f"{label}: the load ended before its time")
        for server in self.servers.values():
            await end_sessions(server)
        if measured:
            for name in self.servers:
                self._keep(name, level, generators, outcome, slices[name])
        return slices

    def _keep(
        self,
        name: str,
        level: LoadLevel,
        generators: Sequence[tuple[str, Generator]],
        outcome: LoadOutcome,
        slices: tuple[Slice, ...],
    ) -> None:
        """Remember what an arm's generators have left, for collecting and checking."""
        own = [i for i, (owner, _) in enumerate(generators) if owner == name]
        self.outcomes.setdefault(name, []).append(
            (level, replace(outcome, summaries=tuple(outcome.summaries[i] for i in own)))
        )
        window = (slices[0].counted, slices[-1].ended)
        chosen = [generators[i][1] for i in own]
        self.logs.setdefault(name, []).extend(self.plan.load.logs(level, chosen, window=window, slices=slices))

    def _sampler_pid(self, name: str) -> int:
        pid = self.samplers[name].pid
        assert pid is not None  # it was started
        return pid

    async def _check_outcome(self, label: str, outcome: LoadOutcome) -> None:
        def died() -> list[str]:
            return [name for name in self.servers if self.twins.has_died(name)]

        if outcome.errors:
            await is_ending(lambda: bool(died()))
        if gone := died():
            said = f": {outcome.errors[0]}" if outcome.errors else ""
            raise InvalidRunError(f'{label}: the server of arm "{gone[0]}" died{said}')
        if outcome.errors:
            raise InvalidRunError(f"{label}: {outcome.errors[0]}")

    def _collect(self, shared: Path) -> dict[str, IngestReport]:
        return {
            name: collect(folder, self.logs[name], clock=None, shared=shared) for name, folder in self.folders.items()
        }

    def _check(self, name: str, reports: Sequence[SamplerReport], ingested: IngestReport, clock_step: float) -> None:
        """Raise InvalidRunError for whatever makes the numbers of an arm untrue.

        What its own sampler did not read while it stood still is no gap; what that of the machine did not read is one.
        """
        own = reports[1 + list(self.servers).index(name)]
        both = replace(reports[0], errors=(*reports[0].errors, *own.errors))
        check_run(self.outcomes[name], self.logs[name], sampler=both, ingested=ingested, clock_step=clock_step)

    def _counted_seconds(self, name: str) -> float:
        logs = [log for log in self.logs[name] if isinstance(log, LevelLog)]  # all that have slices
        return math.fsum(one.seconds for log in logs for one in log.slices) / max(1, len(logs) // len(self.plan.levels))

    async def _stop(self, *, immediate: bool) -> None:
        try:
            for name, folder in self.folders.items():
                await self.twins.keep_log(name, folder / layout.SERVER_LOG)
        finally:
            self.record.add_restored(await self.twins.stop(immediate=immediate))
