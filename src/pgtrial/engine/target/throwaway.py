"""The throw-away target: one cluster per variant, at most one of them running, and the host knobs of its arm."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.variants import host_knobs, made_with
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.target.base import (
    DATABASE,
    IN_DATABASE,
    RunningServer,
    alter_database,
    groups_of,
    undo_sql,
    wanted_settings,
)
from pgtrial.errors import SettingError
from pgtrial.experiment_file.command_checks import SYSBENCH
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.local import server_account
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.pgbouncer import PGBOUNCER
from pgtrial.knobs.slowdown import (
    SLOWDOWN,
    build_library,
    generator_environment,
    require_loaded,
    server_environment,
)
from pgtrial.knobs.standby import STANDBY
from pgtrial.knobs.workload import COMMAND, PROTOCOL, WORKLOAD, own_clients, read_command
from pgtrial.model.arm import Arm
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.entrance import Entrance
from pgtrial.postgres.pooler import Pooler, PoolerProgram, find_pooler, require_protocol, require_sysbench
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import Setting
from pgtrial.postgres.snapshot import Snapshot
from pgtrial.postgres.standby import StandbyServer
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import remove_until_gone

_NO_PAGES = "could not map anonymous shared memory"  # the server's words where huge pages are not enough
_TRIES, _PAUSE = 5, 0.5  # s


@dataclass(slots=True, kw_only=True)
class ThrowawayTarget:
    """Clusters made for the experiment, by the key of their variant.

    ``made`` are the changes of the host that hold for the whole experiment. ``token`` is in the names of what is made.
    ``counting`` are the settings, the same for all arms, of the library that counts statements; {} without it.
    ``taken_of`` are clusters whose snapshots are used, by the same key, where these clusters have none of their own.
    ``standbys`` are the places of standbys, by the same key, of those variants with arms that have one.
    """

    experiment: Experiment
    host: Host
    account: Account | None
    changes: HostChanges
    token: str
    client: Programs
    clusters: dict[str, ThrowawayCluster] = field(default_factory=dict)
    caveats: Sequence[CaveatFinding] = ()
    counting: Mapping[str, str] = field(default_factory=dict)
    made: list[JournalEntry] = field(default_factory=list)
    taken_of: Mapping[str, ThrowawayCluster] = field(default_factory=dict)
    standbys: dict[str, ThrowawayCluster] = field(default_factory=dict)
    running: Arm | None = field(default=None, init=False)
    changed: Sequence[JournalEntry] = field(default=(), init=False)  # for the arm that runs
    groups: tuple[str, ...] = field(default=(), init=False)  # in which the server of that arm is
    log_begin: int = field(default=0, init=False)  # bytes of its log that earlier runs have
    log_end: int = field(default=0, init=False)  # those that have been copied
    pooler: Pooler | None = field(default=None, init=False)  # of the arm that runs
    standby: StandbyServer | None = field(default=None, init=False)  # of the arm that runs

    def cluster(self, arm: Arm) -> ThrowawayCluster:
        return self.clusters[arm.variant.key]

    def let_in(self, entrance: Entrance | None) -> None:
        """Let the load of other machines in, from the next start on."""
        for cluster in self.clusters.values():
            cluster.entrance = entrance

    def facts(self) -> Mapping[str, str]:
        programs = [cluster.programs for cluster in self.clusters.values()]
        return {
            VERSION_FACT: ", ".join(dict.fromkeys(found.version for found in programs)),
            "PostgreSQL/programs": ", ".join(dict.fromkeys(str(found.directory) for found in programs)),
            "PostgreSQL/found by": ", ".join(dict.fromkeys(found.origin for found in programs)),
            "PostgreSQL/pgbench": self.client.version,
            "storage/data directory": ", ".join(str(cluster.directory) for cluster in self.clusters.values()),
        }

    async def restore(self, arm: Arm) -> None:
        key = arm.variant.key
        await Snapshot(host=self.host, cluster=self.clusters[key], taken_of=self.taken_of.get(key)).restore()

    async def start(self, arm: Arm, *, run: int | None) -> RunningServer:
        return await self.start_with(arm, host_knobs(arm), run=run)

    async def start_with(self, arm: Arm, knobs: Mapping[str, Mapping[str, str]], *, run: int | None) -> RunningServer:
        """As ``start``, but apply only ``knobs`` of the arm's host knobs."""
        cluster, wanted = self.cluster(arm), {**self.counting, **wanted_settings(arm)}
        cluster.write_settings(wanted)
        self.groups = groups_of(self.context(cluster, wanted), knobs)
        self.running, self.log_begin = arm, 0
        self.changed = await self.changes.make(self.context(cluster, wanted), knobs, run=run)
        await self._copy_standby(arm)
        slowed, of_server, of_generator = arm.knobs.get(SLOWDOWN, {}), {}, {}
        if slowed:
            library = await build_library(self.host, cluster.directory)
            of_server = server_environment(slowed, library)
            of_generator = generator_environment(slowed, library, self.host)
        await start_server(cluster, groups=self.groups, has_pool="huge_pages" in knobs, environment=of_server)
        if slowed:
            assert cluster.process is not None  # it was started
            require_loaded(self.host, cluster.process.pid, library)
        settings = await cluster.verify_settings(wanted, database=DATABASE)
        self._verify_place(cluster, settings)
        if self.standby is not None:
            await self.standby.start(wanted)  # first: commits may wait for it
        altered = await alter_database(arm, cluster.conninfo(DATABASE))
        through = await self._start_pooler(arm)
        return RunningServer(
            settings=settings,
            changes=tuple(self.changed),
            version=cluster.programs.version,
            version_num=cluster.programs.major * 10000,
            database=DATABASE,
            control=cluster.conninfo(),
            conninfo=cluster.conninfo,
            environment={**cluster.environment(DATABASE), **through, **of_generator},
            directories=(str(cluster.data), str(cluster.wal)),
            groups=self.groups,
            confirmed=made_with(arm)
            | IN_DATABASE
            | {(SLOWDOWN, key) for key in slowed}
            | {(STANDBY, key) for key in arm.knobs.get(STANDBY, {})}
            | {(PGBOUNCER, key) for key in arm.knobs.get(PGBOUNCER, {})}
            | self.changes.confirmed(knobs),
            altered=altered,
            pooler=None if self.pooler is None else self.pooler.running(),
            entrance=cluster.entrance,
        )

    async def _copy_standby(self, arm: Arm) -> None:
        """Make the data of the standby of an arm that has one, before its server changes those that are copied."""
        if STANDBY in arm.knobs:
            self.standby = StandbyServer(
                primary=self.cluster(arm), own=self.standbys[arm.variant.key], table=arm.knobs[STANDBY]
            )
            await self.standby.copy()

    async def _start_pooler(self, arm: Arm) -> Mapping[str, str]:
        """Start the arm's PgBouncer, if it has one; the variables that make the load go to it."""
        workload = self.experiment.workload
        program = await pooler_of(arm, workload, self.host)
        if program is None:
            return {}
        self.pooler = Pooler(
            program=program,
            cluster=self.cluster(arm),
            table=arm.knobs[PGBOUNCER],
            clients=workload.most_sessions(own_clients(arm.knobs.get(WORKLOAD, {}))),
        )
        await self.pooler.start()
        return self.pooler.environment()

    def _verify_place(self, cluster: ThrowawayCluster, settings: Mapping[str, Setting]) -> None:
        """Raise SettingError if the server is not the one with these programs and directories."""
        resolve = self.host.ops.resolve
        for what, wanted, got in (
            ("the server's version", cluster.programs.version, settings["server_version"].shown.split()[0]),
            ("data_directory", resolve(str(cluster.data)), resolve(settings["data_directory"].shown)),
            ("the directory of the WAL", resolve(str(cluster.wal)), resolve(str(cluster.data / "pg_wal"))),
        ):
            if got != wanted:
                raise SettingError(f"{what} is {got} after the start, expected {wanted}")

    def context(self, cluster: ThrowawayCluster, settings: Mapping[str, str]) -> KnobContext:
        return KnobContext(
            host=self.host,
            token=self.token,
            directory=str(cluster.directory),
            account=self.account,
            programs=cluster.programs,
            data=str(cluster.data),
            wal=str(cluster.wal),
            conf=str(cluster.conf),
            settings=settings,
            groups=self.groups,
        )

    async def find_lost(self) -> str:
        if self.pooler is not None and self.pooler.has_died():
            return "PgBouncer died"
        if self.standby is not None and (lost := await self.standby.find_lost()):
            return lost
        return await self.changes.find_lost(self.changed)

    def go_on(self) -> None:
        self.log_begin = self.log_end

    def has_died(self) -> bool:
        return self.running is not None and self.cluster(self.running).has_died()

    async def keep_log(self, destination: Path) -> None:
        if self.running is not None:
            copied = await self.cluster(self.running).keep_log(destination, since=self.log_begin)
            self.log_end = self.log_begin + copied

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        if self.running is None:
            return ()
        cluster = self.cluster(self.running)
        if not immediate and not cluster.has_died():
            await undo_sql(self.running, cluster.conninfo(DATABASE))
        if self.pooler is not None:
            await self.pooler.stop()
            self.pooler = None
        if self.standby is not None:
            await self.standby.stop()
            self.standby = None
        await cluster.stop(immediate=immediate)
        undone = await self.changes.undo(self.changed)
        self.running, self.changed, self.groups = None, (), ()
        return undone

    async def remove(self) -> None:
        try:
            await self.stop(immediate=True)
        finally:
            # Also when Ctrl-C comes just now; then the server has to be stopped once more.
            try:
                await self.stop(immediate=True)
            finally:
                await self._remove_all()

    async def _remove_all(self) -> None:
        for cluster in (*self.standbys.values(), *self.clusters.values()):
            await cluster.stop(immediate=True)
            await cluster.clear()  # of a server that was killed while it was started
            await remove_until_gone(self.host, *cluster.directories)
        await self.changes.undo(self.made)
        self.made = []


async def pooler_of(arm: Arm, workload: WorkloadTable, host: Host) -> PoolerProgram | None:
    """The PgBouncer there of an arm that has one. Raises SettingError if there is none, or not one for its load."""
    table = arm.knobs.get(PGBOUNCER)
    if table is None:
        return None
    program = await find_pooler(host, server_account(host.ops))
    load = arm.knobs.get(WORKLOAD, {})
    require_protocol(program, table, load.get(PROTOCOL, workload.protocol))
    if workload.results == SYSBENCH:
        require_sysbench(program, table, read_command(load[COMMAND]) if COMMAND in load else workload.command)
    return program


async def start_server(
    cluster: ThrowawayCluster, *, groups: Sequence[str], has_pool: bool, environment: Mapping[str, str] | None = None
) -> None:
    """Start the server, several times if a pool of huge pages was made for it and is not whole.

    With huge_pages = try, their default, other servers take pages of it; an initdb somewhere does so for a moment.
    """
    for left in reversed(range(_TRIES)):
        try:
            await cluster.start(groups=groups, environment=environment)
        except SettingError as err:
            if not (left and has_pool and _NO_PAGES in (err.detail or "")):
                raise
            await asyncio.sleep(_PAUSE)
        else:
            return
