"""The target of an experiment: a throw-away cluster with prepared data, and the snapshot that runs start from."""

import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgtrial.design.arms import common_settings
from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.fingerprint import VERSION_FACT
from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.local import server_account
from pgtrial.knobs import postgresql
from pgtrial.model.arm import Arm
from pgtrial.postgres.connect import execute, execute_script
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.postgres.reachable import reachable_programs
from pgtrial.postgres.settings import Setting
from pgtrial.postgres.snapshot import Snapshot
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import (
    check_access,
    prepare_directories,
    remove_directories,
    remove_until_gone,
)
from pgtrial.spec.experiment import DatasetTable
from pgtrial.spec.load import LoadedExperiment
from pgtrial.store.state import State
from pgtrial.units import format_bytes
from pgtrial.workloads.scenarios import setup_sql

DATABASE = "pgtrial"
_BYTES_PER_SCALE = 16e6  # tables and indexes of pgbench at scale 1
_BYTES_OF_CLUSTER = 200e6  # an empty cluster, its WAL and log

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A cluster with its snapshot; ``settings`` are the ones held constant in all arms."""

    host: Host
    cluster: ThrowawayCluster
    snapshot: Snapshot
    settings: Mapping[str, str]

    @property
    def programs(self) -> Programs:
        return self.cluster.programs

    async def start(self, arm: Arm) -> dict[str, Setting]:
        """Start the server with an arm's settings and read all of them back. Raises SettingError."""
        wanted = {**self.settings, **dict(arm.settings)}
        postgresql.apply(self.cluster, wanted)
        await self.cluster.start()
        return await postgresql.verify(self.cluster, wanted)

    async def remove(self) -> None:
        """End the server and remove everything that lies outside the result folder."""
        try:
            await self.cluster.stop(immediate=True)
        finally:
            # Also when Ctrl-C comes just now; then the server has to be stopped once more.
            await self.cluster.stop(immediate=True)
            await remove_until_gone(self.cluster.directory, self.cluster.socket_directory)


async def prepare_target(
    loaded: LoadedExperiment, state: State, *, host: Host, base: Path | None, tell: Observer
) -> Target:
    """Make the cluster, load the data once, and keep the snapshot; an interrupted pgtrial's snapshot is used again.

    The cluster is stopped, and its data are those of the snapshot.

    ``base`` is where the work directory is made, instead of the place the file names. Raises PreflightError before
    anything is touched, TargetError and HostCommandError after; whatever was made then is removed.
    """
    experiment = loaded.experiment
    account = server_account()
    programs = find_programs(experiment.target.postgres)
    _check_version(state, programs)
    settings = common_settings(experiment)
    for left in state.work_directories():
        target = _target(host, programs, left, _socket_of(left), settings)
        if target.snapshot.is_complete() and target.cluster.socket_directory.is_dir():
            tell(Preparing(step="using the data that the interrupted attempt prepared"))
            return await _finish(target, account, target.snapshot.restore)
        remove_directories(left)
    base = (base or Path(experiment.target.directory or "/var/tmp")).expanduser().absolute()
    _check_space(base, experiment.dataset)
    name = f"pgtrial-{secrets.token_hex(4)}"
    # Written down first: what is not made yet is easily removed, what is not known never.
    for directory in (base / name, Path("/tmp") / name):
        state.add_work_directory(directory)
    work, socket_directory = prepare_directories(base, name, account)
    target = _target(host, programs, work, socket_directory, settings)
    return await _finish(target, account, lambda: _load(target, loaded, tell))


async def _finish(target: Target, account: Account | None, prepare_data: Callable[[], Awaitable[None]]) -> Target:
    """Let the server's user reach what it needs, and prepare the data; leave nothing behind if that fails."""
    cluster = target.cluster
    try:
        await check_access(target.host, cluster.directory, account)
        cluster.programs = await reachable_programs(
            target.host, target.programs, work=cluster.directory, account=account
        )
        await prepare_data()
    except BaseException:
        await target.remove()
        raise
    return target


def _check_version(state: State, programs: Programs) -> None:
    """Runs of two versions in one experiment could not be compared."""
    before = state.fingerprints().get(None, {}).get(VERSION_FACT, programs.version)
    if before != programs.version:
        raise PreflightError(
            f'the experiment was begun with PostgreSQL {before}, but {programs.version} is in "{programs.directory}"',
            hint="Put the programs of the earlier version first in PATH, or begin a new experiment.",
        )


def _socket_of(work: Path) -> Path:
    inside = work / "s"
    return inside if inside.is_dir() else Path("/tmp") / work.name


def _target(host: Host, programs: Programs, work: Path, socket: Path, settings: Mapping[str, str]) -> Target:
    cluster = ThrowawayCluster(
        host=host, programs=programs, directory=work, socket_directory=socket, account=server_account()
    )
    return Target(
        host=host,
        cluster=cluster,
        snapshot=Snapshot(host=host, cluster=cluster),
        settings=settings,
    )


def _check_space(base: Path, dataset: DatasetTable) -> None:
    """The data are there twice, as the snapshot and as the run's own."""
    place = base
    while not place.exists():
        place = place.parent
    loaded = dataset.scale * _BYTES_PER_SCALE if dataset.kind == "pgbench" else 0
    needed = 2 * (loaded + _BYTES_OF_CLUSTER)
    free = shutil.disk_usage(place).free
    if free < needed:
        raise PreflightError(
            f'not enough space in "{base}": {format_bytes(free)} free, about {format_bytes(needed)} needed',
            hint="Choose another place with directory in [target] or --work-directory, or a smaller scale.",
        )


async def _load(target: Target, loaded: LoadedExperiment, tell: Observer) -> None:
    cluster, experiment = target.cluster, loaded.experiment
    tell(Preparing(step=f"making a cluster with PostgreSQL {target.programs.version}"))
    await cluster.initdb()
    unlimited = {name: "0" for name in _LIMITS if name in target.settings}
    cluster.write_settings({**target.settings, **_LOADING, **unlimited})
    await cluster.start()
    await execute(cluster.conninfo(), f"CREATE DATABASE {DATABASE}")
    dataset = experiment.dataset
    if dataset.kind == "pgbench":
        tell(Preparing(step=f"loading pgbench tables, scale {dataset.scale}"))
        await target.host.run(
            [
                target.programs.path("pgbench"),
                "--initialize",
                f"--init-steps=dtgvp{'f' if dataset.foreign_keys else ''}",
                f"--scale={dataset.scale}",
                "--quiet",
            ],
            environment=cluster.environment(DATABASE),
        )
    for name, script in setup_sql(experiment, loaded.folder):
        tell(Preparing(step=f"running {name}"))
        await execute_script(cluster.conninfo(DATABASE), script, name=name)
    tell(Preparing(step="vacuum, analyze, checkpoint"))
    await execute(cluster.conninfo(DATABASE), "VACUUM (ANALYZE)")
    await cluster.stop()
    await target.snapshot.take()
