"""The load on a server: pgbench."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.engine.cache_state import make_cold, make_warm
from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import HostCommandError, SettingError, WorkloadError
from pgtrial.experiment_file.experiment import WorkloadTable
from pgtrial.hosts.base import Host
from pgtrial.knobs.fio import Cache
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.postgres.settings import Setting
from pgtrial.store.transactions import LevelLog, LoadLog
from pgtrial.workloads.base import Generator, Output
from pgtrial.workloads.pgbench import OUTPUT, find_errors, plan_generators
from pgtrial.workloads.scenarios import Scenario, at_scale

_OWN_CONNECTIONS = 3  # the sampler's two, and one of our own; all of them are a superuser's


@dataclass(slots=True, kw_only=True)
class PgbenchLoad:
    """``scripts`` is the folder with the scenarios' scripts, ``clients`` the largest number of sessions.

    ``here`` is where pgbench runs, ``there`` the host of the server. ``scales`` are those of pgbench's tables, by arm,
    where arms differ in them.
    """

    program: Path
    workload: WorkloadTable
    scenarios: tuple[Scenario, ...]
    scripts: Path
    seed: int
    clients: int
    cache: Cache
    here: Host
    there: Host
    scales: Mapping[str, int] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set, init=False)  # server versions

    @property
    def output(self) -> Output:
        return OUTPUT

    def facts(self) -> Mapping[str, str]:
        return {}  # pgbench is one of PostgreSQL's programs, and told with them

    async def try_out(self, arm: Arm, server: RunningServer) -> None:
        """Run each scenario once on each server version."""
        self._check_connections(arm, server.settings)
        if server.version not in self.tried:
            self.tried.add(server.version)
            for scenario in self._scenarios(arm):
                await self._try_scenario(scenario, server)

    def _scenarios(self, arm: Arm) -> tuple[Scenario, ...]:
        return at_scale(self.scenarios, self.scales.get(arm.name))

    def _check_connections(self, arm: Arm, settings: Mapping[str, Setting]) -> None:
        allowed = int(settings["max_connections"].value)
        needed = self.clients + _OWN_CONNECTIONS
        if needed > allowed:
            raise SettingError(
                f'arm "{arm.name}": max_connections is {allowed}, {needed} are needed',
                detail=f"The workload has up to {self.clients} clients; pgtrial itself needs {_OWN_CONNECTIONS} "
                "connections.",
                hint=f"Set max_connections = {max(100, needed)} in [target.postgresql], or use fewer clients.",
            )

    async def _try_scenario(self, scenario: Scenario, server: RunningServer) -> None:
        variables = [f"--define={name}={value}" for name, value in scenario.variables]
        file = f"--file={self.scripts / f'{scenario.name}.sql'}@1"
        script = f"--builtin={scenario.builtin}" if scenario.builtin else file
        try:
            await self.here.run(
                [self.program, "-n", "-c", "1", "-t", "1", f"--protocol={self.workload.protocol}", *variables, script],
                environment=server.environment,
            )
        except HostCommandError as err:
            raise WorkloadError(
                f'scenario "{scenario.name}" fails: {_telling(err.detail)}',
                hint="Correct the script; nothing has been measured.",
            ) from err

    def cache_of(self, arm: Arm) -> Cache:
        return self.cache

    async def make_cold(self, arm: Arm) -> None:
        await make_cold(self.there)

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        await make_warm(server.conninfo(server.database))

    def generators(
        self,
        arm: Arm,
        server: RunningServer,
        level: LoadLevel,
        *,
        block: int,
        seconds: int,
        log_directory: str | None,
    ) -> tuple[Generator, ...]:
        seed = self.seed + block
        return plan_generators(
            self._scenarios(arm),
            level,
            workload=self.workload,
            seconds=seconds,
            cpus=len(os.sched_getaffinity(0)),
            script_directory=str(self.scripts),
            log_directory=log_directory,
            seed=seed if log_directory is not None else -seed,
        )

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LoadLog]:
        prefixes = [Path(generator.log_prefix) for generator in generators if generator.log_prefix is not None]
        return [
            LevelLog(
                level=level.index,
                scenarios=generator.scenario_names,
                files=tuple(sorted(prefix.parent.glob(f"{prefix.name}.*"))),
                window=window,
                latency_limit=self.workload.latency_limit,
                has_rate=level.rate is not None,
                max_tries=self.workload.max_tries,
                slices=slices,
            )
            for generator, prefix in zip(generators, prefixes, strict=True)
        ]


def _telling(output: str) -> str:
    """What says why, of pgbench's output."""
    return "; ".join(find_errors(output)) or output or "pgbench printed nothing"
