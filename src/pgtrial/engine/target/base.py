"""What the engine asks of the server that is tested, whatever kind of target it is."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgtrial.design.arms import effective_knobs, effective_settings
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.base import Host
from pgtrial.knobs import HOST_KNOBS
from pgtrial.model.arm import Arm
from pgtrial.model.caveat import Caveat
from pgtrial.model.change import JournalEntry, Undone
from pgtrial.postgres.connect import execute_script
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import Setting

DATABASE = "pgtrial"  # of the load, in a cluster of our own
# What alter_database does, and wanted_settings of the libraries.
IN_DATABASE = frozenset({("extensions", "preload"), ("extensions", "create"), ("sql", "apply"), ("sql", "undo")})
_LOOKS, _BETWEEN = 10, 0.05  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """An arm's server, up, with everything the arm sets verified.

    ``environment`` is how pgbench reaches the load's ``database``, ``conninfo`` how pgtrial reaches any, and
    ``control`` one that is not the load's, so that statements of pgtrial do not count there. ``version_num`` is
    server_version_num. ``directories`` hold the data and the WAL, ``groups`` are its control groups; both are of the
    server's host, and empty where they cannot be known.

    A load on files has no server: then ``directories`` has the one of the files, ``control`` is "", and nothing is to
    be asked of it.

    ``confirmed`` has knob and key of everything that is as declared: made and read back, part of how the cluster was
    made, or done without an error.
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
    may_checkpoint: bool = True

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
    def caveats(self) -> Sequence[Caveat]: ...

    def facts(self) -> Mapping[str, str]:
        """Facts of its servers for the fingerprint of the experiment, "group/name" to value; all arms together."""

    async def restore(self, arm: Arm) -> None:
        """Put the arm's data back to what they were before the first run."""

    async def start(self, arm: Arm, *, run: int | None) -> RunningServer:
        """Set all that the arm sets, journaled, and start its server. Raises SettingError, TargetError."""

    async def find_lost(self) -> str:
        """What the running arm has set on the host and does not hold any more, in a sentence; "" if all of it does."""

    def has_died(self) -> bool:
        """Whether the server is gone although nobody stopped it."""

    async def keep_log(self, destination: Path) -> None:
        """Copy what the server has written to its log since its start, if that can be read."""

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        """Stop the server and put back what ``start`` changed; what became of that. Raises RestoreError.

        ``immediate`` leaves data that need recovery: for data that are not used again.
        """

    async def remove(self) -> None:
        """Leave nothing of the experiment on the host. Raises RestoreError."""


def wanted_settings(experiment: Experiment, arm: Arm) -> dict[str, str]:
    """PostgreSQL settings of an arm: its own, the common ones, and those that go with its other knobs."""
    knobs = effective_knobs(experiment, arm)
    settings = effective_settings(experiment, arm)
    for knob in HOST_KNOBS:
        if knob.name in knobs:
            settings |= knob.settings(knobs[knob.name])
    if preload := knobs.get("extensions", {}).get("preload"):
        settings["shared_preload_libraries"] = preload
    return settings


def find_unset(experiment: Experiment, arm: Arm, server: RunningServer) -> tuple[str, ...]:
    """What an arm declares and nobody has set and confirmed: "sysctl.vm.swappiness = 1"."""
    knobs = effective_knobs(experiment, arm)
    unset = [
        f"{knob}.{key} = {value}"
        for knob, table in knobs.items()
        for key, value in table.items()
        if (knob, key) not in server.confirmed
    ]
    read_back = {name.lower() for name in server.settings}
    settings = effective_settings(experiment, arm)
    return (*unset, *(f"{name} = {value}" for name, value in settings.items() if name.lower() not in read_back))


async def is_ending(has_died: Callable[[], bool]) -> bool:
    """Whether a server is gone or about to be: its sessions hear of its end, and with them the load, before its process
    is over.
    """
    for _ in range(_LOOKS):
        if has_died():
            return True
        await asyncio.sleep(_BETWEEN)
    return has_died()


async def alter_database(experiment: Experiment, arm: Arm, conninfo: str) -> bool:
    """Create the arm's extensions and run its SQL; whether there was any. Raises TargetError that names it."""
    knobs = effective_knobs(experiment, arm)
    extensions = [name for name in knobs.get("extensions", {}).get("create", "").split(", ") if name]
    for name in extensions:
        statement = f'CREATE EXTENSION IF NOT EXISTS "{name}"'  # a name that the file's check let through
        await execute_script(conninfo, statement, name=f"arms.{arm.name}.extensions.create")
    script = knobs.get("sql", {}).get("apply", "")
    await execute_script(conninfo, script, name=f"arms.{arm.name}.sql.apply")
    return bool(extensions or script)


async def undo_sql(experiment: Experiment, arm: Arm, conninfo: str) -> None:
    """Run what undoes the arm's SQL, where the file has it."""
    if script := effective_knobs(experiment, arm).get("sql", {}).get("undo"):
        await execute_script(conninfo, script, name=f"arms.{arm.name}.sql.undo")
