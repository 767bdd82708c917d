"""The host itself as the target, for a load on files: a directory per place, and the host knobs of an arm."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgtrial.design.data_size import largest_files
from pgtrial.design.variants import host_knobs, made_with
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import Preparing
from pgtrial.engine.target.base import Preparation, RunningServer, groups_of
from pgtrial.errors import PreflightError
from pgtrial.experiment_file.arms import OF_JOBS
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.local import server_account
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.filesystem_image import find_caveats
from pgtrial.model.arm import Arm, Variant
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.work_directory import check_access, make_own, prepare_directory, remove_directories
from pgtrial.store.belongings import Made
from pgtrial.units import format_bytes
from pgtrial.workloads.fio import FioProgram, find_fio, layout_argv

_FILES = "files"  # the directory that fio owns, in one that it does not
_ROOM = 64 * 1024**2  # bytes beside the files, for the file system itself


@dataclass(slots=True, kw_only=True)
class HostTarget:
    """Files made for the experiment, by the key of their variant, of which the place and its file system count.

    ``made`` are the changes of the host that hold for the whole experiment. ``token`` is in the names of what is made.
    """

    host: Host
    account: Account | None  # whom fio runs as; None: as pgtrial
    fio: FioProgram
    changes: HostChanges
    token: str
    directories: dict[str, Path] = field(default_factory=dict)
    caveats: Sequence[CaveatFinding] = ()
    client: None = None
    made: list[JournalEntry] = field(default_factory=list)
    running: Arm | None = field(default=None, init=False)
    changed: Sequence[JournalEntry] = field(default=(), init=False)  # for the arm that runs

    def directory(self, arm: Arm) -> Path:
        return self.directories[arm.variant.key]

    def facts(self) -> Mapping[str, str]:
        return {"storage/data directory": ", ".join(map(str, self.directories.values()))}

    async def restore(self, arm: Arm) -> None:
        """The files keep their size and place; what other runs left to be written is written."""
        await self.host.run(["sync"])

    async def start(self, arm: Arm, *, run: int | None) -> RunningServer:
        knobs, directory = host_knobs(arm), str(self.directory(arm))
        context = KnobContext(host=self.host, token=self.token, directory=directory, data=directory)
        groups = groups_of(context, knobs)
        self.running = arm
        self.changed = await self.changes.make(replace(context, groups=groups), knobs, run=run)
        return RunningServer(
            settings={},
            changes=tuple(self.changed),
            version="",
            version_num=0,
            database="",
            control="",
            conninfo=lambda _database: "",
            environment={},
            directories=(directory,),
            groups=groups,
            confirmed=made_with(arm) | OF_JOBS | self.changes.confirmed(knobs),
            may_checkpoint=False,
        )

    async def find_lost(self) -> str:
        return await self.changes.find_lost(self.changed)

    def has_died(self) -> bool:
        return False  # there is nothing that could; the load notices what happens to the files

    def go_on(self) -> None:
        pass

    async def keep_log(self, destination: Path) -> None:
        pass

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        if self.running is None:
            return ()
        undone = await self.changes.undo(self.changed)
        self.running, self.changed = None, ()
        return undone

    async def remove(self) -> None:
        try:
            await self.stop(immediate=True)
        finally:
            remove_directories(self.host, *(files.parent for files in self.directories.values()))
            await self.changes.undo(self.made)
            self.made = []


async def prepare_host(task: Preparation) -> HostTarget:
    """Write the files of all jobs, in each place once and as large as the arm with the largest needs them.

    Raises PreflightError before anything is touched, TargetError after; whatever was made then is removed.
    """
    plan, host = task.plan, task.host
    target = HostTarget(
        host=host,
        account=server_account(host.ops),
        fio=find_fio(host),
        changes=task.changes,
        token=secrets.token_hex(4),
    )
    files = largest_files(plan.arms)
    # Files of an interrupted pgtrial are useless: they may be incomplete.
    remove_directories(host, *task.belongings.paths(host.name))
    try:
        for variant in dict.fromkeys(arm.variant for arm in plan.arms):
            directory = await _make_directory(target, task, variant, size=sum(files.values()))
            for name, size in files.items():
                task.tell(Preparing(step=f"writing the file of job {name}, {format_bytes(size)}"))
                await host.run(
                    [target.fio.path, *layout_argv(str(directory / name), size)],
                    account=target.account,
                    directory=Path("/"),
                )
    except BaseException:
        await target.remove()
        raise
    return target


async def _make_directory(target: HostTarget, task: Preparation, variant: Variant, *, size: int) -> Path:
    host, place, name = target.host, task.place_of(variant), f"pgtrial-{secrets.token_hex(4)}"
    if variant.filesystem:
        place, made = await task.make_filesystem(variant, token=target.token)
        target.made += made
        target.caveats = (*target.caveats, *find_caveats(made))
    _check_space(host, place, size)
    # Recorded before it exists: an unrecorded directory could never be removed.
    task.belongings.add_directory(Made(path=place / name, host=host.name, variant=variant.key))
    prepare_directory(host, place / name, target.account)
    files = target.directories[variant.key] = place / name / _FILES
    make_own(host, files, target.account)
    await check_access(host, files, target.account)
    return files


def _check_space(host: Host, place: Path, size: int) -> None:
    try:
        _, free = host.ops.space(str(place))
    except OSError as err:
        raise PreflightError(
            f'cannot use "{place}" for the files: {err.strerror or err}',
            hint="Choose another location with directory in [target] or --work-directory.",
        ) from err
    needed = size + _ROOM
    if free < needed:
        raise PreflightError(
            f'not enough space in "{place}": {format_bytes(free)} free, {format_bytes(needed)} needed',
            hint="Choose another location with directory in [target] or --work-directory, or smaller files.",
        )
