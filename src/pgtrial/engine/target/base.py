"""The interface of a target: what the engine asks of the server under test, whatever its kind."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgtrial.design.plan import Plan
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import Observer, Preparing
from pgtrial.experiment_file.arms import FILESYSTEM
from pgtrial.experiment_file.places import expand_home
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.hosts.base import Account, Host
from pgtrial.knobs import HOST_KNOBS
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.filesystem import Filesystem
from pgtrial.knobs.standby import STANDBY, settings_of
from pgtrial.model.arm import Arm, Tables, Variant
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.connect import execute_script
from pgtrial.postgres.entrance import Entrance
from pgtrial.postgres.pooler import RunningPooler
from pgtrial.postgres.programs import Programs, may_execute, reachable_programs
from pgtrial.postgres.settings import Setting
from pgtrial.postgres.work_directory import prepare_directory
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.state import State

DATABASE = "pgtrial"  # of the load, in a cluster of our own
ARM = "PGTRIAL_ARM"  # in the environment of a load whose server tells not whose it is
# What alter_database does, and wanted_settings of the libraries.
IN_DATABASE = frozenset({("extensions", "preload"), ("extensions", "create"), ("sql", "apply"), ("sql", "undo")})
_LOOKS, _BETWEEN = 10, 0.05  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """An arm's running server, with all its settings verified.

    ``environment`` is how pgbench reaches the load's ``database``, ``conninfo`` how pgtrial reaches any, and
    ``control`` one that is not the load's, so that statements of pgtrial do not count there. ``version_num`` is
    server_version_num. ``directories`` hold the data and the WAL, ``groups`` are its control groups; both are of the
    server's host, and empty where they cannot be known.

    A load on files has no server: then ``directories`` has the one of the files, ``control`` is "", and nothing is to
    be asked of it.

    ``confirmed`` has knob and key of everything that is as declared: made and read back, part of how the cluster was
    made, or done without an error. ``environment`` leads to the ``pooler`` in front of it, if there is one; all else
    goes to the server itself.
    """

    settings: Mapping[str, Setting]
    changes: tuple[JournalEntry, ...]
    version: str
    version_num: int
    database: str
    control: str
    conninfo: Callable[[str], str]
    environment: Mapping[str, str]
    directories: tuple[str, ...]
    groups: tuple[str, ...]
    confirmed: frozenset[tuple[str, str]]
    on_host: bool = True  # it runs on the target's host; else nothing is known of its machine
    altered: bool = False  # the arm's SQL has changed the data
    has_own_counters: bool = True  # what the server counts is this arm's alone
    is_foreign: bool = False  # the database was there before, and nothing is to be made in it unasked
    may_checkpoint: bool = True
    pooler: RunningPooler | None = None
    entrance: Entrance | None = None  # for the load of other machines
    process: int | None = None  # the first one of a server that was there before, if it is found on the host

    @property
    def is_there(self) -> bool:
        """Whether there is a server to ask."""
        return self.control != ""


class Target(Protocol):
    """``client`` are the programs whose pgbench drives the load, the same for all arms; None for a load on files.
    ``caveats`` hold for all runs.

    Whatever a method raises, ``stop`` and ``remove`` may be called after it, more than once.
    """

    @property
    def host(self) -> Host: ...
    @property
    def client(self) -> Programs | None: ...
    @property
    def caveats(self) -> Sequence[CaveatFinding]: ...

    def facts(self) -> Mapping[str, str]:
        """Facts of its servers for the fingerprint of the experiment, "group/name" to value; all arms together."""

    async def restore(self, arm: Arm) -> None:
        """Restore the arm's data to their state before the first run."""

    async def start(self, arm: Arm, *, run: int | None) -> RunningServer:
        """Apply the arm's knobs, journaled, and start its server. Raises SettingError, TargetError."""

    def go_on(self) -> None:
        """Begin another run of the arm on the server that is up: its log is what follows the last copy."""

    async def find_lost(self) -> str:
        """Which of the running arm's changes of the host no longer holds, in a sentence; "" if all do."""

    def has_died(self) -> bool:
        """Whether the server has ended without being stopped."""

    async def keep_log(self, destination: Path) -> None:
        """Copy the server's log since its start, or since the run goes on, if it can be read."""

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        """Stop the server, undo what ``start`` changed and return the outcomes. Raises RestoreError.

        ``immediate`` skips the shutdown checkpoint, for data that will not be used again.
        """

    async def remove(self) -> None:
        """Remove everything that belongs to the experiment from the host. Raises RestoreError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What it takes to prepare a target and its data; no arm is started yet.

    ``scripts`` is where the files of the experiment are, ``here`` where the load generator runs, and ``base`` where
    data may lie instead of what the file says. ``may_run`` allows programs that only the file names, and those that
    data to load start; ``may_change`` allows settings of a whole server to be changed. ``caller`` are libpq's variables
    as pgtrial found them.
    """

    plan: Plan
    scripts: Path
    state: State
    belongings: Belongings
    host: Host
    here: Host
    changes: HostChanges
    base: Path | None
    may_run: bool
    may_change: bool
    caller: Mapping[str, str]
    tell: Observer

    def place_of(self, variant: Variant) -> Path:
        """Where the directory of a variant is made.

        Its own directory is part of the experiment; --work-directory only moves data without a fixed place.
        """
        is_fixed = variant.data and variant.data != self.plan.experiment.target.directory
        wanted = self.base if self.base is not None and not is_fixed else variant.data or "/var/tmp"
        return expand_home(Path(wanted)).absolute()

    async def make_filesystem(self, variant: Variant, *, token: str) -> tuple[Path, tuple[JournalEntry, ...]]:
        """Make the file system of a variant that has one of its own, in an image file in its place, for the whole
        experiment: where it is mounted, and the changes of the host. Raises SettingError.
        """
        context = KnobContext(host=self.host, token=token, directory=str(self.place_of(variant)))
        wanted = dict(variant.filesystem)
        self.tell(Preparing(step=f"making a file system, {wanted['type']}"))
        made = await self.changes.make(context, {FILESYSTEM: wanted}, run=None)
        return Path(Filesystem().mount_point(context, wanted)), made


class Servers(Protocol):
    """The servers of a group of runs, by arm name.

    Whatever a method raises, ``stop`` may be called after it, more than once.
    """

    @property
    def host(self) -> Host: ...

    async def restore(self) -> None:
        """Restore the data of all arms to their state before the first run."""

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        """Start the arms' servers in ``order``; ``runs`` has the runs' numbers. Raises SettingError, TargetError.

        Each starts while the host has the arm's own settings.
        """

    def settle(self) -> None:
        """Put the host back into the state after the last server's start, which is what the journal records."""

    async def find_lost(self, name: str) -> str:
        """Which of an arm's changes of the host no longer holds, in a sentence; "" if all do."""

    def has_died(self, name: str) -> bool:
        """Whether a server has ended without being stopped."""

    async def keep_log(self, name: str, destination: Path) -> None:
        """Copy a server's log since its start, if it can be read."""

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        """Stop all servers, undo the changes of the host and return the outcomes. Raises RestoreError.

        ``immediate`` skips the shutdown checkpoint, for data that will not be used again.
        """


class Board(Servers, Protocol):
    """One server for all arms of a block, which is switched back and forth between their settings while it runs."""

    async def switch(self, name: str) -> None:
        """Give the server an arm's settings, each read back. Raises SettingError, OSError."""

    async def switch_back(self) -> None:
        """Give the server the control's settings, with which blocks begin and end. Raises SettingError, OSError."""

    def find_drift(self, name: str) -> str:
        """Which of an arm's values of the kernel is not in force, in a clause; "" if all are."""


class TurnTaking(Servers, Protocol):
    """Servers whose arms take turns. ``values`` maps an arm to (file of the kernel, value), set before its turn."""

    @property
    def values(self) -> Mapping[str, Sequence[tuple[str, str]]]: ...

    def server_pid(self, name: str) -> int | None:
        """First process of the server that is an arm's own, and stands still between its turns, if there is one."""

    async def backends(self, beginning: str) -> tuple[int, ...]:
        """Processes of a server of all arms that serve the sessions whose names have this ``beginning``.

        Raises TargetError where there are none. () where each arm has a server.
        """

    def exchange(self, block: int, *, seed: int) -> None:
        """Let no arm have the same copy of the data in every block, where each has one and none is put back."""

    async def remove(self) -> None:
        """Leave nothing of the arms on the host. Raises RestoreError."""


@dataclass(slots=True, kw_only=True)
class SingleServer:
    """The one server of a target for all runs of a group: of one arm, or, in subclasses, of several that share it.

    ``left_up`` is the one that the window of a soak has left up for the next one.
    """

    target: Target
    arms: Mapping[str, Arm]
    left_up: RunningServer | None = None

    @property
    def host(self) -> Host:
        return self.target.host

    @property
    def first(self) -> str:
        """The arm whose data it has: the control, where there are several."""
        return next(iter(self.arms))

    async def restore(self) -> None:
        await self.target.restore(self.arms[self.first])

    async def start(self, order: Sequence[str], runs: Mapping[str, int]) -> dict[str, RunningServer]:
        (name,) = order
        if self.left_up is None:
            return {name: await self.target.start(self.arms[name], run=runs[name])}
        self.target.go_on()
        return {name: self.left_up}

    def settle(self) -> None:
        """There is one server, which was started last."""

    async def find_lost(self, name: str) -> str:
        return await self.target.find_lost()

    def has_died(self, name: str) -> bool:
        return self.target.has_died()

    async def keep_log(self, name: str, destination: Path) -> None:
        await self.target.keep_log(destination)

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        return await self.target.stop(immediate=immediate)


def wanted_settings(arm: Arm) -> dict[str, str]:
    """PostgreSQL settings of an arm: its own, the common ones, and those that go with its other knobs."""
    knobs, settings = arm.knobs, dict(arm.settings)
    for knob in HOST_KNOBS:
        if knob.name in knobs:
            settings |= knob.settings(knobs[knob.name])
    if preload := knobs.get("extensions", {}).get("preload"):
        settings["shared_preload_libraries"] = preload
    settings |= settings_of(knobs.get(STANDBY, {}))
    return settings


async def run_concurrently(*coroutines: Coroutine[object, object, None]) -> None:
    """Run concurrently; the first error cancels the rest, which is waited for, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def groups_of(context: KnobContext, knobs: Tables) -> tuple[str, ...]:
    """The control groups in which a server, or a load on files, is started with these knobs of the host."""
    chosen = [knob for knob in HOST_KNOBS if knob.name in knobs]
    return tuple(group for knob in chosen for group in knob.groups(context, knobs[knob.name]))


def find_unset(arm: Arm, server: RunningServer) -> tuple[str, ...]:
    """What an arm declares and nobody has set and confirmed: "sysctl.vm.swappiness = 1"."""
    unset = [
        f"{knob}.{key} = {value}"
        for knob, table in arm.knobs.items()
        for key, value in table.items()
        if (knob, key) not in server.confirmed
    ]
    read_back = {name.lower() for name in server.settings}
    return (*unset, *(f"{name} = {value}" for name, value in arm.settings.items() if name.lower() not in read_back))


async def is_ending(has_died: Callable[[], bool]) -> bool:
    """Whether a server has ended or is about to: the load notices before the server's process is gone."""
    for _ in range(_LOOKS):
        if has_died():
            return True
        await asyncio.sleep(_BETWEEN)
    return has_died()


def way_to_log_in(account: Account) -> str:
    """A hint where a program that runs as ``account`` cannot connect."""
    return (
        f'It runs as user "{account.name}", not as root: it needs a way to log in that does not depend on the user, or '
        "a pgtrial that an ordinary user runs."
    )


async def executable_client(
    client: Programs, account: Account | None, belongings: Belongings, *, here: Host
) -> Programs:
    """Programs that the account may execute: ``client``, or a copy that ``belongings`` know of."""
    if account is None or await may_execute(here, client, account):
        return client
    work = make_work_directory(belongings, here=here, account=account)
    return await reachable_programs(here, client, work=work, account=account)


def make_work_directory(belongings: Belongings, *, here: Host, account: Account | None) -> Path:
    """A new directory of the account's, which is removed with the experiment."""
    work = Path("/var/tmp") / f"pgtrial-{secrets.token_hex(4)}"
    belongings.add_directory(Made(path=work, host=here.name))
    prepare_directory(here, work, account)
    return work


async def alter_database(arm: Arm, conninfo: str) -> bool:
    """Create the arm's extensions and run its SQL; whether there was any. Raises TargetError that names it."""
    knobs = arm.knobs
    extensions = [name for name in knobs.get("extensions", {}).get("create", "").split(", ") if name]
    for name in extensions:
        statement = f'CREATE EXTENSION IF NOT EXISTS "{name}"'  # a name that the file's check let through
        await execute_script(conninfo, statement, name=arm.origin("extensions", "create"))
    script = knobs.get("sql", {}).get("apply", "")
    await execute_script(conninfo, script, name=arm.origin("sql", "apply"))
    return bool(extensions or script)


async def undo_sql(arm: Arm, conninfo: str) -> None:
    """Run the script that undoes the arm's SQL, if the file has one."""
    if script := arm.knobs.get("sql", {}).get("undo"):
        await execute_script(conninfo, script, name=arm.origin("sql", "undo"))
