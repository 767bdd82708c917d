"""The folders of the hosts of an experiment: each a result folder with the whole plan, in which a host runs its blocks.

They are in the state directory, where nobody else writes: a result folder may come from anybody, and has no say in
which hosts are gone to, or in what is taken for their results.
"""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

from pgtrial import __version__
from pgtrial.design.plan import Plan
from pgtrial.errors import StoreError
from pgtrial.fleet.fit import refuse_host
from pgtrial.fleet.hosts_file import MOST_HOSTS, Fleet, FleetHost
from pgtrial.model.run import IS_FLEET, RunState
from pgtrial.safe_files import make_directory, read_file, remove_tree, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store import layout
from pgtrial.store.belongings import Belongings
from pgtrial.store.journal_file import make_state_directory, state_directory
from pgtrial.store.plans import CONTENTS, LOADED, read_plan, write_plan
from pgtrial.store.state import State

DIRECTORY = "fleet"  # in the state directory
HOSTS = "hosts.json"
SCHEDULER = "scheduler"  # beside it: the address of the user's own
_LARGEST = 16 << 20  # bytes of a list of hosts, or of a file that is copied from the main folder
_MOST_COPIED = 1 << 30  # bytes


def fleet_directory(folder: Path) -> Path:
    """Where the folders of the hosts of a result folder are; it need not be there. By its place and inode, as all that
    belongs to it: a copy has none. Raises StoreError.
    """
    return state_directory() / DIRECTORY / Belongings.of(folder).path.stem


def keep_hosts(folder: Path, fleet: Fleet, *, scheduler: str | None = None) -> None:
    """Record on which hosts the experiment of a folder runs, for whoever resumes it, and the ``scheduler`` of the user
    whose workers offer them. Raises StoreError.
    """
    with contextlib.closing(State.open(folder, write=True)) as state:
        known = state.meta().get(IS_FLEET, "0")
        count = max(len(fleet.host), int(known) if known in map(str, range(MOST_HOSTS + 1)) else 0)
        state.set_meta(**{IS_FLEET: str(count)})
        state.index_runs()
    try:
        make_state_directory(DIRECTORY)
        directory = fleet_directory(folder)
        directory.mkdir(mode=0o700, exist_ok=True)
        write_file(directory / HOSTS, fleet.model_dump_json(exclude_none=True))
        if scheduler is None:
            (directory / SCHEDULER).unlink(missing_ok=True)
        else:
            write_file(directory / SCHEDULER, scheduler)
    except OSError as err:
        raise StoreError(f'cannot write "{state_directory() / DIRECTORY}": {err.strerror}') from err


def is_of_fleet(folder: Path) -> bool:
    """Whether a result folder says that its blocks went to several hosts. Raises StoreError."""
    with contextlib.closing(State.open(folder)) as state:
        return IS_FLEET in state.meta()


def has_blocks_left(folder: Path) -> bool:
    """Whether not every run of a result folder is done. Raises StoreError."""
    with contextlib.closing(State.open(folder)) as state:
        done = {run.slot.number for run in state.runs() if run.state is RunState.DONE}
        return any(slot.number not in done for slot in state.slots())


def kept_hosts(folder: Path) -> Fleet | None:
    """The hosts on record; None where this machine has none for the folder. Raises StoreError."""
    path = fleet_directory(folder) / HOSTS
    try:
        return Fleet.model_validate(parse_json(read_file(path, limit=_LARGEST)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise StoreError(f'"{path}" cannot be read: {err}', hint="Name the hosts with --fleet.") from err


def kept_scheduler(folder: Path) -> str | None:
    """The address of the user's scheduler on record, if the hosts are those of its workers. Raises StoreError."""
    path = fleet_directory(folder) / SCHEDULER
    try:
        return read_file(path, limit=_LARGEST).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise StoreError(f'"{path}" cannot be read: {err}', hint="Name the scheduler with --fleet.") from err


def host_folders(folder: Path) -> dict[str, Path]:
    """Those that there are, by the name of the host, also of hosts that are not on the list any more."""
    directory = fleet_directory(folder)
    if not directory.is_dir():
        return {}
    return {path.name: path for path in sorted(directory.iterdir()) if (path / layout.STATE).is_file()}


def host_folder(folder: Path, host: FleetHost) -> Path:
    """The folder of a host, made where it is missing, with the plan of the main ``folder`` for that host.

    Raises PreflightError where the plan is none for the host, and StoreError, also where what is there is of another
    address: its blocks are then another machine's.
    """
    place = fleet_directory(folder) / host.name
    if place.exists():
        known = read_plan(place).experiment.target.host
        if known != host.address:
            raise StoreError(
                f'host "{host.name}" was {known or "this machine"}, and is now {host.address or "this machine"}',
                hint="Give the other machine another name in the list of hosts.",
            )
        return place
    plan = read_plan(folder)
    refuse_host(plan, host)
    part = place.with_name(f".{host.name}")
    remove_tree(part.parent, part.name)
    try:
        part.mkdir(mode=0o700)
        _fill(part, folder, plan, host)
        part.rename(place)
    except OSError as err:
        raise StoreError(f'cannot make the folder of host "{host.name}": {err.strerror}') from err
    return place


def _fill(part: Path, folder: Path, plan: Plan, host: FleetHost) -> None:
    with contextlib.closing(State.open(folder)) as main:
        meta = main.meta()
    for path in _copied(folder):
        name = path.relative_to(folder)
        if len(name.parts) > 1:
            _make_all(part, name.parts[:-1])
        write_file(part / name, read_file(path, limit=_MOST_COPIED))
    (part / layout.FILES).mkdir(mode=0o700, exist_ok=True)
    experiment = plan.experiment
    # Nobody but the main folder sees enough to stop.
    target = experiment.target.model_copy(update={"host": host.address})
    design = experiment.design.model_copy(update={"stop": "never", "looks": None, "precision": None})
    own = experiment.model_copy(update={"target": target, "design": design})
    with contextlib.closing(State.create(part)) as state:
        state.index_runs()
        own_plan = replace(plan, experiment=own, attempts_before=None, attempts_since=None)
        write_plan(state, own_plan, json.loads(meta.get(CONTENTS, "{}")))
        state.set_meta(
            **{LOADED: meta.get(LOADED, "[]")},
            pgtrial_version=__version__,
            created=str(time.time()),
            calibration=meta.get("calibration", ""),
        )


def _make_all(root: Path, parts: tuple[str, ...]) -> None:
    for number in range(1, len(parts) + 1):
        with contextlib.suppress(FileExistsError):
            make_directory(root, *parts[:number])


def _copied(folder: Path) -> list[Path]:
    return [
        folder / layout.EXPERIMENT,
        *(path for path in sorted((folder / layout.FILES).rglob("*")) if path.is_file()),
    ]


def forget_hosts(folder: Path) -> None:
    """Remove the folders of the hosts, whose runs are all in the main folder, and the list."""
    directory = fleet_directory(folder)
    for place in host_folders(folder).values():
        with contextlib.suppress(StoreError):
            Belongings.of(place).forget()
    remove_tree(directory.parent, directory.name)
