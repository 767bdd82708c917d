"""Checks of disk classes, and of arms that are on one of them; and of the size of the data as something to vary."""

import re
from collections.abc import Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.disk_tables import DISK, LIMITS, STORAGE, DiskTable
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.given import Given, all_given, effective_arms
from pgtrial.experiment_file.knob_checks import later
from pgtrial.experiment_file.places import is_directory
from pgtrial.experiment_file.position import Found, Path
from pgtrial.nearest import hint_name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")


def check_disks(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """What each class says, and whether its places are there."""
    is_here = folder is not None and experiment.target.host is None
    for name, disk in experiment.disks.items():
        path: Path = ("disks", name)
        if not _NAME.fullmatch(name):
            hint = "Use letters, digits and any of _ . -, beginning with a letter or digit, at most 41 characters."
            yield path, f'invalid name of a disk class: "{name}"', hint
        yield from _check_disk(path, disk)
        for key, place in (("data", disk.data), ("wal", disk.wal)):
            if is_here and place is not None and not is_directory(FilePath(place)):
                yield (*path, key), f'directory "{place}" does not exist', "Create it first."


def _check_disk(path: Path, disk: DiskTable) -> Iterator[Found]:
    name = path[-1]
    if disk.size is None and disk.data is None:
        limited = " has limits, but" if disk.limits() else " has"
        hint = 'Add data = "/mnt/disk" for a disk that is there, or size = "4GB" to emulate one on a loop device.'
        yield path, f'disk class "{name}"{limited} neither a directory nor a size', hint
    elif disk.size is None:
        for key in ("type", "options"):
            if getattr(disk, key) is not None:
                message = f'"{key}" has no meaning for disk class "{name}", which is no emulation'
                yield (*path, key), message, 'Add size = "4GB" to emulate the disk, or remove it.'


def check_arms_on_disks(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Names of classes that do not exist, and what an arm sets beside its class that the class sets, too."""
    found: list[Found] = []
    for given in all_given(experiment):
        if (given.knob, given.key) == (STORAGE, DISK) and given.value not in experiment.disks:
            hint = hint_name(given.value, experiment.disks, what="Disk classes are")
            hint = hint or f"Declare it in a table [disks.{given.value}]."
            found.append((given.path, f'disk class "{given.value}" does not exist', hint))
    for arm in effective_arms(experiment).values():
        chosen = arm.get((STORAGE, DISK))
        if chosen is not None and chosen.value in experiment.disks:
            found += _conflicts(chosen, experiment.disks[chosen.value], list(arm.values()))
    yield from dict.fromkeys(found)


def _conflicts(chosen: Given, disk: DiskTable, arm: list[Given]) -> Iterator[Found]:
    for given in arm:
        is_place = given.knob == STORAGE and given.key in ("data", "wal")
        # A limit of memory or of CPUs goes with any disk.
        is_emulation = given.knob == "filesystem" or (given.knob == "cgroup" and given.key in LIMITS)
        if is_place or (is_emulation and disk.is_emulated):
            message = f'disk class "{chosen.value}" and "{given.key}" of knob "{given.knob}" exclude each other'
            yield later(chosen, given), message, f"Put it into [disks.{chosen.value}], or remove one of the two."


def check_scales(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """The size of the data can be varied where pgtrial makes pgbench's tables."""
    kind = experiment.dataset.kind
    if kind == "pgbench":
        return
    found: list[Found] = []
    for given in all_given(experiment):
        if given.knob == "dataset":
            message = f'knob "dataset" has no meaning with kind = "{kind}" in [dataset]'
            path: Path = ("factors", given.path[1], "knob") if given.path[0] == "factors" else given.path[:-1]
            found.append((path, message, "It sets the scale of pgbench's tables. Remove it."))
    yield from dict.fromkeys(found)
