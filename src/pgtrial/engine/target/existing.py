"""An existing server as the target, with a database made by pgtrial or one that is left as found."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.plan import Plan
from pgtrial.design.variants import host_knobs
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.sampler.control import find_server
from pgtrial.engine.target.base import IN_DATABASE, RunningServer, alter_database, undo_sql, wanted_settings
from pgtrial.errors import PreflightError, TargetError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import own_groups
from pgtrial.knobs.base import KnobContext
from pgtrial.model.arm import Arm
from pgtrial.model.caveat import Caveat, Severity
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.connect import execute, execute_script
from pgtrial.postgres.existing.database import (
    check_may_create,
    compare_inventories,
    data_database,
    read_inventory,
    run_database,
)
from pgtrial.postgres.existing.knobs import ServerDatabase, ServerSettings
from pgtrial.postgres.existing.log import LogMark, keep_since, mark_log
from pgtrial.postgres.existing.log_place import log_caveats
from pgtrial.postgres.existing.rights import Rights, probe_rights
from pgtrial.postgres.existing.server import ExistingServer, open_server
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.postgres.settings import read_settings
from pgtrial.store.state import State
from pgtrial.workloads.pgbench import initialize_argv
from pgtrial.workloads.scenarios import setup_sql


@dataclass(slots=True, kw_only=True)
class ServerTarget:
    """A server that keeps running; ``database`` is the load's, made anew from ``prepared`` ("": it was there before).

    ``inventory`` is what was in a database that was there before.
    """

    experiment: Experiment
    host: Host
    here: Host
    server: ExistingServer
    rights: Rights
    client: Programs
    changes: HostChanges
    token: str
    database: str
    prepared: str
    caveats: Sequence[Caveat]
    inventory: frozenset[str] = frozenset()
    made: list[JournalEntry] = field(default_factory=list, init=False)  # the prepared database
    copied: Sequence[JournalEntry] = field(default=(), init=False)  # the load's database
    running: Arm | None = field(default=None, init=False)
    changed: Sequence[JournalEntry] = field(default=(), init=False)  # for the arm that runs
    log_mark: LogMark | None = field(default=None, init=False)  # the end of the server's log when the arm was started

    def facts(self) -> Mapping[str, str]:
        facts = self.server.facts
        return {
            VERSION_FACT: facts.version,
            "PostgreSQL/found by": "the connection string",
            "PostgreSQL/place": self.server.control.address.place,
            "PostgreSQL/pgbench": self.client.version,
            **({"storage/data directory": facts.data_directory} if facts.data_directory else {}),
        }

    async def restore(self, arm: Arm) -> None:
        if not self.prepared:
            return
        await self.changes.undo(self.copied)
        self.copied = await self._create(self.database, template=self.prepared)

    async def _create(self, name: str, *, template: str) -> tuple[JournalEntry, ...]:
        wanted = {ServerDatabase.name: {"name": name, "template": template}}
        return await self.changes.make(self._context(), wanted, run=None)

    def _context(self, settings: Mapping[str, str] | None = None) -> KnobContext:
        directories = self.server.directories
        return KnobContext(
            host=self.host,
            token=self.token,
            directory=directories[0] if directories else "/",
            data=directories[0] if directories else None,
            wal=directories[-1] if directories else None,
            settings=settings or {},
        )

    async def start(self, arm: Arm, *, run: int | None) -> RunningServer:
        if self.prepared and not self.copied:
            await self.restore(arm)
        settings = wanted_settings(arm)
        self.running = arm
        wanted = {ServerSettings.name: settings, **host_knobs(arm)}
        self.changed = await self.changes.make(self._context(settings), wanted, run=run)
        conninfo = self.server.conninfo
        altered = await alter_database(arm, conninfo(self.database))
        self.log_mark = await mark_log(self.server)
        facts = self.server.facts
        return RunningServer(
            settings=await read_settings(conninfo(self.database), also=settings),
            changes=tuple(self.changed),
            version=facts.version,
            version_num=facts.version_num,
            database=self.database,
            control=conninfo(),
            conninfo=conninfo,
            environment=self.server.environment(self.database),
            directories=self.server.directories,
            groups=self._groups(),
            confirmed=IN_DATABASE | self.changes.confirmed(wanted),
            on_host=facts.local,
            altered=altered,
            may_checkpoint=self.rights.checkpoint and not facts.in_recovery,
        )

    def _groups(self) -> tuple[str, ...]:
        """Control groups of the server's own, as a service has: one with pgtrial in it tells of the load as well."""
        with suppress(OSError):
            process = find_server(self.host.ops, self.server.directories)
            return () if process is None else own_groups(self.host.ops, process)
        return ()

    async def find_lost(self) -> str:
        return await self.changes.find_lost(self.changed)

    def has_died(self) -> bool:
        return False  # it has no process of ours; the load and the sampler notice

    async def keep_log(self, destination: Path) -> None:
        """Copy the log since the arm was started; the server goes on writing to it."""
        mark, self.log_mark = self.log_mark, None
        if mark is not None:
            # A server that is gone makes the run invalid by itself.
            with suppress(TargetError):
                await keep_since(self.server, mark, destination)

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        if self.running is None:
            return ()
        try:
            if not self.prepared or not immediate:
                await undo_sql(self.running, self.server.conninfo(self.database))
        finally:
            undone = await self.changes.undo(self.changed)
            self.running, self.changed = None, ()
        return undone

    async def remove(self) -> None:
        try:
            await self.stop(immediate=True)
        finally:
            await self.changes.undo(self.copied)
            await self.changes.undo(self.made)
            self.copied, self.made = (), []
        if not self.prepared:
            left = compare_inventories(self.inventory, await read_inventory(self.server, self.database))
            if left:
                raise TargetError(f'database "{self.database}" is not as it was found', detail=left)


async def prepare_server(
    plan: Plan,
    scripts: Path,
    state: State,
    *,
    host: Host,
    here: Host,
    changes: HostChanges,
    may_run: bool,
    caller: Mapping[str, str],
    tell: Observer,
) -> ServerTarget:
    """Reach the server and make its data, if they are to be pgtrial's own. ``may_run`` allows the pgbench of a
    directory that only the file names; ``caller`` are libpq's variables.

    Raises ConnectError, PreflightError, TargetError; what was made then is removed.
    """
    experiment = plan.experiment
    wanted = experiment.target
    tell(Preparing(step="looking at the server"))
    server = await open_server(host, wanted.connection, database=wanted.database, restart=wanted.restart, caller=caller)
    _check_version(state, server)
    names = {name for arm in plan.arms for name in wanted_settings(arm)}
    rights = await probe_rights(server, names)
    token = secrets.token_hex(4)
    target = ServerTarget(
        experiment=experiment,
        host=host,
        here=here,
        server=server,
        rights=rights,
        client=find_programs(wanted.postgres, may_run=may_run),
        changes=changes,
        token=token,
        database=wanted.database or run_database(token),
        prepared="" if wanted.database else data_database(token),
        caveats=(*rights.caveats(), *await log_caveats(server), *_own_caveats(server, here)),
    )
    changes.knobs = (
        ServerDatabase(server=server, caller=caller),
        ServerSettings(server=server, database=target.database, caller=caller),
        *changes.knobs,
    )
    if wanted.database is not None:
        target.inventory = await read_inventory(server, wanted.database)
        return target
    check_may_create(rights)
    try:
        await _load(target, scripts, tell)
    except BaseException:
        await target.remove()
        raise
    return target


def _check_version(state: State, server: ExistingServer) -> None:
    now = server.facts.version
    before = state.fingerprints().get(None, {}).get(VERSION_FACT, now)
    if before != now:
        raise PreflightError(
            f"the experiment was started with PostgreSQL {before}, but the server is now {now}",
            hint="Start a new experiment; runs of different versions cannot be compared.",
        )


def _own_caveats(server: ExistingServer, here: Host) -> Sequence[Caveat]:
    if not server.facts.local or server.host.name != here.name:
        return ()
    shared = Caveat(
        code="shared-server",
        severity=Severity.INFO,
        text="The server was there before the experiment, and whatever else it does is in the numbers.",
        hint="Keep other clients away meanwhile; blocks in random order take care of the rest.",
    )
    return (shared,)


async def _load(target: ServerTarget, scripts: Path, tell: Observer) -> None:
    """Make the database from which those of the load are copied."""
    experiment = target.experiment
    dataset, prepared = experiment.dataset, target.prepared
    target.made += await target._create(prepared, template="")
    if dataset.kind == "pgbench":
        tell(Preparing(step=f"loading pgbench tables, scale {dataset.scale}"))
        await target.here.run(
            initialize_argv(target.client.path("pgbench"), scale=dataset.scale, foreign_keys=dataset.foreign_keys),
            environment=target.server.environment(prepared),
        )
    conninfo = target.server.conninfo(prepared)
    for name, script in setup_sql(experiment, scripts):
        tell(Preparing(step=f"running {name}"))
        await execute_script(conninfo, script, name=name)
    tell(Preparing(step="vacuum, analyze"))
    await execute(conninfo, "VACUUM (ANALYZE)")
