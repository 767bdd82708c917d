"""Prepare the throw-away target: find programs and places, load the data once, take a snapshot of each cluster."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pgtrial.design.data_size import cluster_size
from pgtrial.design.plan import Plan
from pgtrial.design.variants import may_count_statements
from pgtrial.engine.events import Preparing
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.leftovers import end_all_strays
from pgtrial.engine.target.base import DATABASE, Preparation
from pgtrial.engine.target.loading import Loader
from pgtrial.engine.target.throwaway import ThrowawayTarget
from pgtrial.errors import PreflightError
from pgtrial.findings.caveat import caveat
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.local import server_account
from pgtrial.knobs.filesystem_image import find_caveats
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.standby import STANDBY
from pgtrial.model.arm import Variant
from pgtrial.postgres.connect import create_database, execute
from pgtrial.postgres.programs import Programs, find_programs, has_library, prefer_one_kind, reachable_programs
from pgtrial.postgres.snapshot import Snapshot
from pgtrial.postgres.throwaway import COUNTING_SETTINGS, STATEMENTS, ThrowawayCluster
from pgtrial.postgres.work_directory import (
    check_access,
    prepare_directories,
    prepare_directory,
    remove_directories,
)
from pgtrial.store.belongings import Made
from pgtrial.store.state import State
from pgtrial.units import format_bytes

_ROOM = 150 * 1024**2  # bytes beside the data: for a new cluster, its log, and as much WAL as it has at least
_MOST_WAL = 2 * 1024**3  # bytes of the WAL of loading that a cluster keeps, to write it again: half of max_wal_size

# For loading only: the data are written out as a whole before the snapshot is taken, and a crash starts over.
_LOADING: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
}
# Limits that the experiment's settings may have are meant for its load.
_LIMITS = ("statement_timeout", "transaction_timeout", "lock_timeout", "idle_session_timeout")


async def prepare_throwaway(task: Preparation) -> ThrowawayTarget:
    """Make each variant's cluster, load the data once, and keep the snapshot; what an interrupted pgtrial prepared is
    used again. The clusters are stopped, and their data are those of the snapshot.

    Raises PreflightError before anything is touched, TargetError and HostCommandError after; whatever was made then is
    removed.
    """
    plan, state, host = task.plan, task.state, task.host
    experiment = plan.experiment
    variants = dict.fromkeys(arm.variant for arm in plan.arms)
    versions = dict.fromkeys(variant.postgres for variant in variants)
    by_version = {wanted: find_programs(wanted, host=host, may_run=task.may_run) for wanted in versions}
    by_version = prefer_one_kind(by_version, host=host)
    programs = {variant: by_version[variant.postgres] for variant in variants}
    _check_versions(state, programs.values())
    target = ThrowawayTarget(
        experiment=experiment,
        host=host,
        account=server_account(host.ops),
        changes=task.changes,
        token=secrets.token_hex(4),
        client=_find_client(host, programs.values()),
        counting=_counting(plan, state, host, programs.values()),
        caveats=() if host.name == LOCAL or experiment.load is not None else (caveat("load-through-ssh"),),
    )
    made = task.belongings.directories(host.name)
    try:
        for variant, found in programs.items():
            kept = [each.path for each in made if each.variant == variant.key]
            await _VariantData(target=target, task=task, variant=variant, programs=found).make(kept)
    except BaseException:
        await target.remove()
        raise
    end_all_strays(str(task.belongings.folder), host)  # of the set-up
    if host.name == LOCAL:  # those that the account may execute
        target.client = max((cluster.programs for cluster in target.clusters.values()), key=lambda found: found.major)
    return target


def _counting(plan: Plan, state: State, host: Host, programs: Iterable[Programs]) -> Mapping[str, str]:
    """Settings by which statements are counted: in all arms, or in none; in an experiment that goes on as it began."""
    wanted = may_count_statements(plan.experiment, plan.arms)
    for settings in state.settings().values():
        wanted = wanted and STATEMENTS in settings.get("shared_preload_libraries", ("", ""))[0]
    return COUNTING_SETTINGS if wanted and all(has_library(host.ops, each, STATEMENTS) for each in programs) else {}


def version_text(programs: Iterable[Programs]) -> str:
    """The server versions of an experiment: "18.4", or "16.14, 18.4"."""
    return ", ".join(dict.fromkeys(found.version for found in programs))


def _find_client(host: Host, programs: Iterable[Programs]) -> Programs:
    """Whose pgbench drives the load of all arms: the newest of the servers', or the first found on this machine."""
    if host.name == LOCAL:
        return max(programs, key=lambda found: found.major)
    return find_programs(None)


def _check_versions(state: State, programs: Iterable[Programs]) -> None:
    """Runs of two versions in one arm could not be compared."""
    now = version_text(programs)
    before = state.fingerprints().get(None, {}).get(VERSION_FACT, now)
    if before != now:
        places = ", ".join(f'"{found.directory}"' for found in programs)
        raise PreflightError(
            f"the experiment was started with PostgreSQL {before}, but {now} is in {places}",
            hint="Put the programs of the earlier version first in PATH, or start a new experiment.",
        )


@dataclass(slots=True, kw_only=True)
class _VariantData:
    """The cluster of one variant, with its data."""

    target: ThrowawayTarget
    task: Preparation
    variant: Variant
    programs: Programs

    async def make(self, kept: Iterable[Path]) -> None:
        for left in kept:
            if not self.target.host.ops.is_own_directory(str(left)):
                continue  # it is gone; what has its name is somebody else's
            cluster = self._cluster(left, _socket_of(self.target.host, left))
            snapshot = Snapshot(host=self.target.host, cluster=cluster)
            if snapshot.is_complete() and self.target.host.ops.is_directory(str(cluster.socket_directory)):
                self.task.tell(Preparing(step="using the data that the interrupted attempt prepared"))
                self.target.clusters[self.variant.key] = cluster
                await self._make_reachable(cluster)
                self._make_standby(cluster)
                await snapshot.restore()
                return
            remove_directories(self.target.host, *cluster.directories)
        cluster = await self._make_cluster()
        self.target.clusters[self.variant.key] = cluster
        await self._make_reachable(cluster)
        self._make_standby(cluster)
        await self._load(cluster)

    @property
    def _data_size(self) -> float:
        return cluster_size(self.task.plan.experiment.dataset.kind, self.variant.scale)

    @property
    def _has_standby(self) -> bool:
        return any(STANDBY in arm.knobs and arm.variant == self.variant for arm in self.task.plan.arms)

    def _make_standby(self, cluster: ThrowawayCluster) -> None:
        """A place for the standby of those arms that have one, beside the cluster. Raises PreflightError."""
        if not self._has_standby:
            return
        host, place, name = self.target.host, cluster.directory.parent, f"pgtrial-{secrets.token_hex(4)}"
        for made in (place / name, Path("/tmp") / name):
            self.task.belongings.add_directory(Made(path=made, host=host.name))
        directory, socket_directory = prepare_directories(host, place, name, self.target.account)
        self.target.standbys[self.variant.key] = ThrowawayCluster(
            host=host,
            programs=cluster.programs,
            directory=directory,
            socket_directory=socket_directory,
            account=self.target.account,
        )

    async def _make_cluster(self) -> ThrowawayCluster:
        host, name = self.target.host, f"pgtrial-{secrets.token_hex(4)}"
        place = self.task.place_of(self.variant)
        if self.variant.filesystem:
            place, made = await self.task.make_filesystem(self.variant, token=self.target.token)
            self.target.made += made
            self.target.caveats = (*self.target.caveats, *find_caveats(made))
        _check_space(host, place, self._data_size, copies=2 + self._has_standby)
        wal = Path(self.variant.wal) / name if self.variant.wal else None
        # Recorded before it exists: an unrecorded directory could never be removed.
        self.task.belongings.add_directory(Made(path=place / name, host=host.name, variant=self.variant.key))
        for directory in filter(None, (Path("/tmp") / name, wal)):
            self.task.belongings.add_directory(Made(path=directory, host=host.name))
        work, socket_directory = prepare_directories(host, place, name, self.target.account)
        try:
            self._check_space_for_twins(work)
            if wal is not None:
                prepare_directory(host, wal, self.target.account)
        except PreflightError:
            remove_directories(host, work, socket_directory)  # the target does not know of them yet
            raise
        return self._cluster(work, socket_directory)

    def _check_space_for_twins(self, work: Path) -> None:
        """Arms that share the time of a block have a copy of the data each, on storage that they may share."""
        if self.task.plan.method.method in ("blocks", "switchback") or _shares_blocks(self.target.host, work):
            return
        place = (self.variant.data, self.variant.filesystem)
        variants = [arm.variant for arm in self.task.plan.arms]
        beside = sum((variant.data, variant.filesystem) == place for variant in variants)
        _check_space(self.target.host, work.parent, self._data_size, copies=2 + beside)

    def _cluster(self, work: Path, socket_directory: Path) -> ThrowawayCluster:
        return ThrowawayCluster(
            host=self.target.host,
            programs=self.programs,
            directory=work,
            socket_directory=socket_directory,
            account=self.target.account,
            wal_directory=Path(self.variant.wal) / work.name if self.variant.wal else None,
        )

    async def _make_reachable(self, cluster: ThrowawayCluster) -> None:
        """Let the server's user reach what it needs."""
        host, account = self.target.host, self.target.account
        await check_access(host, cluster.directory, account)
        cluster.programs = await reachable_programs(host, self.programs, work=cluster.directory, account=account)

    async def _load(self, cluster: ThrowawayCluster) -> None:
        experiment = self.task.plan.experiment
        settings = experiment.target.texts().get(POSTGRESQL, {})
        self.task.tell(Preparing(step=f"making a cluster with PostgreSQL {self.programs.version}"))
        await cluster.initdb(checksums=self.variant.checksums)
        unlimited = {name: "0" for name in _LIMITS if name in settings}
        cluster.write_settings({**settings, **_LOADING, **unlimited})
        await cluster.start()
        if self.target.counting:
            # Not in the load's database, whose objects are the experiment's.
            await execute(cluster.conninfo(), f"CREATE EXTENSION {STATEMENTS}")
        loader = Loader(
            host=self.target.host,
            programs=cluster.programs,
            conninfo=cluster.conninfo(DATABASE),
            environment=cluster.host_environment(DATABASE),
            is_own=True,
            copies=cluster.directory.parent,
            account=self.target.account,
            belongings=self.task.belongings,
            may_run=self.task.may_run,
            tell=self.task.tell,
        )
        create = partial(create_database, cluster.conninfo(), DATABASE)
        other_collation = await loader.make_data(
            experiment, self.task.scripts, self.task.state, scale=self.variant.scale, create=create
        )
        if other_collation is not None:
            self.task.state.add_caveat(other_collation)
        await cluster.stop()
        await Snapshot(host=self.target.host, cluster=cluster).take()


def _socket_of(host: Host, work: Path) -> Path:
    inside = work / "s"
    return inside if host.ops.is_directory(str(inside)) else Path("/tmp") / work.name


def _shares_blocks(host: Host, work: Path) -> bool:
    """Whether a copy of a file in the work directory takes no space of its own: then all copies of the data do not."""
    original, copy = str(work / "original"), str(work / "copy")
    try:
        host.ops.put(original, "x" * 65536)  # a small file could lie in what describes it
        host.ops.output(["cp", "--reflink=always", original, copy])
    except OSError:
        return False
    finally:
        host.ops.remove(original)
        host.ops.remove(copy)
    return True


def _check_space(host: Host, base: Path, size: float, *, copies: int = 2) -> None:
    """The data, and the WAL that loading them leaves, are there twice, as the snapshot and as the run's own."""
    place = base
    while not host.ops.exists(str(place)):
        place = place.parent
    needed = copies * (size + max(_ROOM, min(size, _MOST_WAL)))
    _, free = host.ops.space(str(place))
    if free < needed:
        raise PreflightError(
            f'not enough space in "{base}": {format_bytes(free)} free, about {format_bytes(needed)} needed',
            hint="Choose another location with directory in [target] or --work-directory, or a smaller scale.",
        )
