"""The load on a server: pgbench."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pgtrial.design.levels import level_of, part_of
from pgtrial.engine.loads.machines import LoadMachine
from pgtrial.engine.target.base import RunningServer, way_to_log_in
from pgtrial.errors import HostCommandError, SettingError, TargetError, WorkloadError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.hosts.base import Account, Host
from pgtrial.knobs.pgbouncer import PGBOUNCER, pool_size
from pgtrial.knobs.workload import (
    CLIENTS,
    CONNECT,
    EACH_TRANSACTION,
    PAUSES,
    PROTOCOL,
    SCRIPTS,
    VARIABLES,
    WORKLOAD,
    own_clients,
)
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.postgres.connect import connect, execute, fetch, set_own
from pgtrial.postgres.settings import Setting
from pgtrial.store.transactions import LevelLog, LoadLog
from pgtrial.workloads.base import Generator, Output, derive_seed
from pgtrial.workloads.pgbench import OUTPUT, find_errors, plan_generators, script_option, scripts_of
from pgtrial.workloads.scenarios import Scenario, at_scale, of_arm

_OWN_CONNECTIONS = 4  # the sampler's three, and one of our own; all of them are a superuser's

_READ_ONLY = (
    'The database is read-only for this experiment. Try it on a copy: "pgtrial copy" makes one. To let it write here, '
    "write writes = true in [target] and run with --allow-writes; nothing has been measured."
)
_TABLES = (SCRIPTS, VARIABLES)
_DROP = "/proc/sys/vm/drop_caches"
_PREWARM = """
    SELECT pg_catalog.quote_ident(n.nspname)
    FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_prewarm'
"""
# Small relations first: they are read often, and what no longer fits into shared_buffers pushes out what came before.
_RELATIONS = """
    SELECT c.oid FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm', 'i', 't') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    ORDER BY pg_catalog.pg_relation_size(c.oid) DESC
"""


@dataclass(slots=True, kw_only=True)
class PgbenchLoad:
    """``account`` is whom pgbench runs as, ``clients`` the largest number of sessions.

    ``here`` is where pgbench runs, unless it does on ``machines``, ``there`` the host of the server.
    ``scales`` are those of pgbench's tables, by arm,
    where arms differ in them, ``own_scripts`` the scripts that arms have of their own, by arm and scenario.
    """

    program: Path
    account: Account | None
    workload: WorkloadTable
    scenarios: tuple[Scenario, ...]
    seed: int
    here: Host
    there: Host
    scales: Mapping[str, int] = field(default_factory=dict)
    own_scripts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    machines: tuple[LoadMachine, ...] = ()
    tried: set[tuple[object, ...]] = field(default_factory=set, init=False)  # server versions, and what was tried there

    @property
    def output(self) -> Output:
        return OUTPUT

    def scripts(self, arm: Arm) -> Mapping[str, str]:
        return {each.name: each.script for each in self._scenarios(arm) if each.script is not None}

    def does(self, arm: Arm) -> frozenset[tuple[str, str]]:
        table = arm.knobs.get(WORKLOAD, {})
        return frozenset(
            (WORKLOAD, key) for key in table if key.startswith(_TABLES) or key in (PROTOCOL, CONNECT, CLIENTS, PAUSES)
        )

    def facts(self) -> Mapping[str, str]:
        # pgbench of this machine is one of PostgreSQL's programs, and told with them.
        return {
            f"load generator/{machine.host.name}": f"pgbench {machine.programs.version}, {machine.cpus} CPUs"
            for machine in self.machines
        }

    async def try_out(self, arm: Arm, server: RunningServer) -> None:
        """Run each scenario once on each server version, as the arm has it."""
        own = own_clients(arm.knobs.get(WORKLOAD, {}))
        check_connections(arm, server.settings, clients=self.workload.most_sessions(own))
        for scenario in self._scenarios(arm):
            what = (server.version, pooling(arm), self._workload(arm).protocol, scenario)
            if what not in self.tried:
                self.tried.add(what)
                await self._try_scenario(scenario, server, arm)
                for machine in self.machines:
                    await self._try_on(machine, scenario, server, arm)

    def _scenarios(self, arm: Arm) -> tuple[Scenario, ...]:
        scenarios = at_scale(self.scenarios, self.scales.get(arm.name))
        return of_arm(scenarios, arm, self.own_scripts.get(arm.name, {}))

    def _workload(self, arm: Arm) -> WorkloadTable:
        protocol = arm.knobs.get(WORKLOAD, {}).get(PROTOCOL)
        return self.workload if protocol is None else self.workload.model_copy(update={"protocol": protocol})

    async def _try_scenario(self, scenario: Scenario, server: RunningServer, arm: Arm) -> None:
        with tempfile.TemporaryDirectory(prefix="pgtrial-trial-") as name:
            put_scripts(self.here, Path(name), scripts_of([scenario]), account=self.account)
            if self.account is not None:  # last: from then on the account may put a link in its place
                os.chown(name, self.account.uid, self.account.gid, follow_symlinks=False)
            try:
                await self.here.run(
                    [self.program, *self._one_transaction(scenario, arm)],
                    account=self.account,
                    directory=Path(name),
                    environment=server.environment,
                )
            except HostCommandError as err:
                raise WorkloadError(
                    f'scenario "{scenario.name}" fails: {_telling(err.detail)}', hint=self._how_to_mend(err.detail)
                ) from err

    async def _try_on(self, machine: LoadMachine, scenario: Scenario, server: RunningServer, arm: Arm) -> None:
        """The same from a machine from which the load comes: what fails now is its way to the server."""
        assert server.entrance is not None  # there is one for them
        put_scripts(machine.host, machine.directory, scripts_of([scenario]), account=machine.account)
        try:
            await machine.host.run(
                [machine.pgbench, *self._one_transaction(scenario, arm)],
                account=machine.account,
                directory=machine.directory,
                environment={**server.entrance.environment(machine.address, machine.directory), "LC_ALL": "C"},
            )
        except HostCommandError as err:
            raise WorkloadError(
                f'scenario "{scenario.name}" fails on "{machine.host.name}": {_telling(err.detail)}',
                hint=f"It comes from {machine.source}, and has to reach TCP port {server.entrance.port} of "
                f"{machine.address}: look at firewalls, and at server in [load].",
            ) from err

    def _one_transaction(self, scenario: Scenario, arm: Arm) -> list[str]:
        variables = [f"--define={name}={value}" for name, value in scenario.variables]
        protocol = f"--protocol={self._workload(arm).protocol}"
        return ["-n", "-c", "1", "-t", "1", protocol, *variables, f"{script_option(scenario)}@1"]

    def _how_to_mend(self, said: str) -> str:
        if self.account is not None and "connection to server" in said:
            return way_to_log_in(self.account)
        if "in a read-only transaction" in said:
            return _READ_ONLY
        if "permission denied" in said:
            return "Give the load's role the right, or leave the statement out; nothing has been measured."
        return "Fix the script; nothing has been measured."

    async def make_cold(self, arm: Arm) -> None:
        await drop_page_cache(self.there)

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        await prewarm(server)

    def generators(
        self,
        arm: Arm,
        server: RunningServer,
        level: LoadLevel,
        *,
        block: int,
        seconds: int,
        directory: Path,
        logged: bool,
    ) -> tuple[Generator, ...]:
        seed, whole = self.seed + block, level_of(arm, level)
        plan = partial(
            plan_generators,
            self._scenarios(arm),
            workload=self._workload(arm),
            seconds=seconds,
            logged=logged,
            reconnects=arm.knobs.get(WORKLOAD, {}).get(CONNECT) == EACH_TRANSACTION,
        )
        if not self.machines:
            own = seed if logged else -seed
            cpus = len(os.sched_getaffinity(0))
            return plan(whole, program=self.program, cpus=cpus, directory=str(directory), seed=own)
        assert server.entrance is not None  # there is one for them
        found: list[Generator] = []
        for number, machine in enumerate(self.machines):
            own = derive_seed(seed, number, "machine")  # each has random numbers of its own
            part = part_of(whole, number, of=len(self.machines))
            environment = server.entrance.environment(machine.address, machine.directory)
            found += [
                replace(each, machine=number, environment={**each.environment, **environment})
                for each in plan(
                    part,
                    program=machine.pgbench,
                    cpus=machine.cpus,
                    directory=str(machine.directory),
                    seed=own if logged else -own,
                )
            ]
        return tuple(found)

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LoadLog]:
        prefixes = [Path(each.directory) / each.log_prefix for each in generators if each.log_prefix is not None]
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
                reduced=generator.reduced,
            )
            for generator, prefix in zip(generators, prefixes, strict=True)
        ]


def pooling(arm: Arm) -> frozenset[tuple[str, str]]:
    """What an arm has between load and server: what works without it need not work with it."""
    return frozenset(arm.knobs.get(PGBOUNCER, {}).items())


def check_connections(arm: Arm, settings: Mapping[str, Setting], *, clients: int) -> None:
    """Raise SettingError where a server does not allow the load as many sessions as it has clients, or its pooler."""
    allowed = int(settings["max_connections"].value)
    if (table := arm.knobs.get(PGBOUNCER)) is not None:
        size = pool_size(table)
        if size + _OWN_CONNECTIONS > allowed:
            raise SettingError(
                f'arm "{arm.name}": max_connections is {allowed}, {size + _OWN_CONNECTIONS} are needed',
                detail=f"The pool has up to {size} sessions; pgtrial itself needs {_OWN_CONNECTIONS} connections.",
                hint="Set a smaller pool_size, or a larger max_connections in [target.postgresql].",
            )
        return
    needed = clients + _OWN_CONNECTIONS
    if needed > allowed:
        raise SettingError(
            f'arm "{arm.name}": max_connections is {allowed}, {needed} are needed',
            detail=f"The workload has up to {clients} clients; pgtrial itself needs {_OWN_CONNECTIONS} connections.",
            hint=f"Set max_connections = {max(100, needed)} in [target.postgresql], or use fewer clients.",
        )


def put_scripts(
    host: Host, directory: Path, scripts: Mapping[str, str], *, account: Account | None, mode: int = 0o600
) -> None:
    """Put scripts (text by name) where the load is started. Raises HostCommandError."""
    owner = None if account is None else (account.uid, account.gid)
    for name, text in scripts.items():
        try:
            host.ops.put(str(directory / name), text, owner=owner, mode=mode)
        except OSError as err:
            raise HostCommandError(f'cannot write "{directory / name}": {err.strerror}') from err


def _telling(output: str) -> str:
    """The part of pgbench's output that names the cause."""
    return "; ".join(find_errors(output)) or output or "pgbench printed nothing"


async def drop_page_cache(host: Host) -> None:
    """Write back dirty pages and drop the host's whole page cache, which affects everybody on the host.

    Raises SettingError without root. Source: Documentation/admin-guide/sysctl/vm.rst, drop_caches.
    """
    await host.run(["sync"])
    try:
        host.ops.write(_DROP, "3")
    except OSError as err:
        raise SettingError(
            f"cannot drop the page cache: {err.strerror}", hint='cache = "cold" in [design] needs root on the host.'
        ) from err


async def prewarm(server: RunningServer) -> None:
    """Read all relations of the load's database into shared_buffers, as far as they fit, the small ones last.

    Raises TargetError if the server does not have the extension pg_prewarm, or a database that was there before.
    """
    conninfo = server.conninfo(server.database)
    hint = 'cache = "warm" in [design] needs the extension pg_prewarm (package postgresql-contrib).'
    if not server.is_foreign:
        try:
            await execute(conninfo, "CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        except TargetError as err:
            raise TargetError(f"cannot fill the cache: {err.message}", hint=hint) from err
    found = await fetch(conninfo, _PREWARM)
    if not found:
        raise TargetError("cannot fill the cache: the database does not have the extension pg_prewarm", hint=hint)
    ((schema,),) = found
    async with connect(conninfo) as connection:
        await set_own(connection, {"statement_timeout": "0"})
        for (oid,) in await (await connection.execute(_RELATIONS)).fetchall():
            await connection.execute(f"SELECT {schema}.pg_prewarm(%s::oid::regclass)".encode(), [oid])
