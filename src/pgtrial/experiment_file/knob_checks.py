"""Checks of what arms set beside PostgreSQL's settings, disk classes included: names, what goes together, what
contradicts each other.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.arm_statements import find_unsafe
from pgtrial.experiment_file.arms import Declared, Values, all_declared, arm_values
from pgtrial.experiment_file.code_patterns import COMMENT
from pgtrial.experiment_file.disk_tables import DISK, LIMITS, STORAGE, DiskTable
from pgtrial.experiment_file.experiment import SCALED, Experiment
from pgtrial.experiment_file.migrations import HINT, PSQL_HINT, explain_both_halves, explain_psql
from pgtrial.experiment_file.places import expand_home, is_directory
from pgtrial.experiment_file.position import Found, Path
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Exclusive, Needs
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.nearest import hint_name

_MINOR_VERSION = re.compile(r"(\d+)\.[\d.]+")
_OF_SESSION = re.compile(r"\s*(?:(?:re)?set\b(?!\s+constraints\b)|$)", re.IGNORECASE)
_DISK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")


def check_names(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Names of kernel settings, and versions of the server."""
    for declared in all_declared(experiment):
        knob = KNOBS.get(declared.knob)
        wrong = knob and (knob.find_wrong_key(declared.key) or knob.find_refused(declared.key, declared.value))
        if wrong:
            # A factor has its setting's name once, however many levels.
            yield declared.path[:2] if declared.is_level else declared.path, *wrong
        elif (declared.knob, declared.key) == ("server", "postgres"):
            yield from check_version(declared.path, declared.value)


def check_version(path: Path, text: str) -> Iterator[Found]:
    match = _MINOR_VERSION.fullmatch(text)
    if match is not None:
        hint = f'Give the major version, "{match[1]}", or a directory with the server\'s programs.'
        yield path, f'"{text}" is not a major version', hint


def check_storage(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    target = experiment.target
    if target.directory is not None and target.storage.data is not None:
        message = "the directory of the data is given twice"
        yield ("target", "storage", "data"), message, "Remove it, or directory in [target]."


def check_directories(experiment: Experiment) -> Iterator[Found]:
    """Whether the places of data and WAL are on this machine; that they are absolute is said elsewhere."""
    for path, place in _places(experiment):
        directory = expand_home(FilePath(place))
        if directory.is_absolute() and not is_directory(directory):
            yield path, f'directory "{place}" does not exist', "Create it first."


def _places(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    target = experiment.target
    if target.directory is not None and target.kind != "server":
        yield ("target", "directory"), target.directory
    for declared in all_declared(experiment):
        if declared.knob == "storage" and declared.value.startswith("/"):
            yield declared.path, declared.value
    for name, disk in experiment.disks.items():
        for key, place in (("data", disk.data), ("wal", disk.wal)):
            if place is not None and place.startswith("/"):
                yield ("disks", name, key), place


def check_completeness(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What needs a second value."""
    arms = tuple(arm_values(experiment).values())
    for name, knob in KNOBS.items():
        for needs in knob.needs:
            for declared in _unmet(arms, name, needs):
                yield declared.path, needs.message.format(value=declared.value), needs.hint


def _unmet(arms: Iterable[Values], knob: str, needs: Needs) -> Iterator[Declared]:
    """Values of a key without what it needs: in an arm, or in all arms that have it from one place."""
    having = [arm for arm in arms if (knob, needs.key) in arm]
    met = {arm[knob, needs.key].path for arm in having if _meets(arm, knob, needs)}
    for arm in having:
        if not _meets(arm, knob, needs) and (needs.in_each_arm or arm[knob, needs.key].path not in met):
            yield arm[knob, needs.key]


def _meets(arm: Values, knob: str, needs: Needs) -> bool:
    if needs.other:
        return (knob, needs.other) in arm
    return any(name == knob and key != needs.key for name, key in arm)


def check_conflicts(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What an arm sets in two ways."""
    for arm in arm_values(experiment).values():
        settings = {key.lower(): declared for (knob, key), declared in arm.items() if knob == POSTGRESQL}
        for name, knob in KNOBS.items():
            for own in knob.own_settings:
                table = arm.get((name, own.key))
                for setting in own.settings:
                    if table is not None and setting in settings:
                        message = f'setting "{setting}" and knob "{name}" exclude each other'
                        yield later(table, settings[setting]), message, own.hint
            for pair in knob.exclusive:
                both = [arm[name, key] for key in pair.keys if (name, key) in arm]
                if len(both) == 2 and not _has_zero(pair, both):
                    yield later(*both), pair.message, pair.hint


def _has_zero(pair: Exclusive, both: Iterable[Declared]) -> bool:
    return pair.unless_zero and any(given.value.strip() == "0" for given in both)


def check_undo(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """SQL whose effect would reach runs of other arms, or stay in a database that is left as found."""
    arms = arm_values(experiment).values()
    existing = experiment.target.database is not None
    applied = {arm["sql", "apply"].value if ("sql", "apply") in arm else "" for arm in arms}
    if experiment.restore == "each-run" or not (existing or len(applied) > 1):
        return
    reason = "the database is there before and after" if existing else "the data are not put back before each run"
    for arm in arms:
        apply = arm.get(("sql", "apply"))
        if apply is None or not apply.value or ("sql", "undo") in arm:
            continue
        in_factor = apply.is_level
        advice = "Use [arms.NAME.sql] tables with apply and undo" if in_factor else "Add undo beside apply"
        other = "." if existing else ', or restore = "each-run" to [design].'
        yield apply.path, f"nothing undoes the SQL, and {reason}", advice + other


def check_undo_of_database(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """SQL in an existing database whose undo would drop what was there before."""
    if experiment.target.database is None:
        return
    for arm in arm_values(experiment).values():
        apply, undo = arm.get(("sql", "apply")), arm.get(("sql", "undo"))
        if apply is not None:
            unsafe = next(find_unsafe(apply.value, "" if undo is None else undo.value), None)
            if unsafe is not None:
                yield apply.path, *unsafe


def check_sql(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """SQL that only sets something in its own session, which no session of the load has, that undoes itself, that is
    for psql, and none at all.
    """
    for given in all_declared(experiment):
        if given.knob == "sql" and (message := explain_psql(str(given.value))):
            yield given.path, message, PSQL_HINT
            continue
        if (given.knob, given.key) != ("sql", "apply"):
            continue
        text = COMMENT.sub(" ", str(given.value))
        # Pieces of a text with a semicolon in it are none that set something, so that is not refused.
        if given.path[0] == "arms" and not text.strip(" \t\n\r;"):
            message = "it has no statement, so the arm would be the same without it"
            yield given.path, message, "Write the statements, or remove it."
        elif text.strip() and all(map(_OF_SESSION.match, text.split(";"))):
            message = "it only sets something in its own session, which ends before the load begins"
            hint = "Use [arms.NAME.postgresql], whose settings the load's sessions get, or ALTER DATABASE … SET."
            yield given.path, message, hint
        elif message := explain_both_halves(str(given.value)):
            yield given.path, message, HINT


def later(*declared: Declared) -> Path:
    """Where the one stands that is nearer to the arm."""
    return max((one.path for one in declared), key=lambda path: ("target", "arms", "factors").index(str(path[0])))


def check_disks(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What each class says."""
    for name, disk in experiment.disks.items():
        path: Path = ("disks", name)
        if not _DISK_NAME.fullmatch(name):
            hint = "Use letters, digits and any of _ . -, beginning with a letter or digit, at most 41 characters."
            yield path, f'invalid name of a disk class: "{name}"', hint
        yield from _check_disk(path, disk)


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
    for declared in all_declared(experiment):
        if (declared.knob, declared.key) == (STORAGE, DISK) and declared.value not in experiment.disks:
            hint = hint_name(declared.value, experiment.disks, what="Disk classes are")
            hint = hint or f"Declare it in a table [disks.{declared.value}]."
            yield declared.path, f'disk class "{declared.value}" does not exist', hint
    for arm in arm_values(experiment).values():
        chosen = arm.get((STORAGE, DISK))
        if chosen is not None and chosen.value in experiment.disks:
            yield from _conflicts(chosen, experiment.disks[chosen.value], list(arm.values()))


def _conflicts(chosen: Declared, disk: DiskTable, arm: list[Declared]) -> Iterator[Found]:
    for declared in arm:
        is_place = declared.knob == STORAGE and declared.key in ("data", "wal")
        # A limit of memory or of CPUs goes with any disk.
        is_emulation = declared.knob == "filesystem" or (declared.knob == "cgroup" and declared.key in LIMITS)
        if is_place or (is_emulation and disk.is_emulated):
            message = f'disk class "{chosen.value}" and "{declared.key}" of knob "{declared.knob}" exclude each other'
            yield later(chosen, declared), message, f"Put it into [disks.{chosen.value}], or remove one of the two."


def check_scales(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """The size of the data can be varied where pgtrial makes them at a scale."""
    kind = experiment.dataset.kind
    if kind in SCALED:
        return
    for declared in all_declared(experiment):
        if declared.knob == "dataset":
            message = f'knob "dataset" has no meaning with kind = "{kind}" in [dataset]'
            yield declared.place_of_knob, message, "It sets the scale of tables that pgtrial makes. Remove it."
