"""Checks of what arms set beside PostgreSQL's settings: names, what goes together, what contradicts each other."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.given import Effective, Given, all_given, effective_arms
from pgtrial.experiment_file.places import is_directory
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.restore import effective_restore
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Exclusive, Needs
from pgtrial.knobs.postgresql import POSTGRESQL

_MINOR_VERSION = re.compile(r"(\d+)\.[\d.]+")


def check_names(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Names of kernel settings, and versions of the server."""
    found: list[Found] = []
    for given in all_given(experiment):
        knob = KNOBS.get(given.knob)
        if knob is not None and (wrong := knob.find_wrong_key(given.key)) is not None:
            # A factor has its setting's name once, however many levels.
            found.append((given.path[:2] if given.path[0] == "factors" else given.path, *wrong))
        elif (given.knob, given.key) == ("server", "postgres"):
            found += check_version(given.path, given.value)
    yield from dict.fromkeys(found)


def check_version(path: Path, text: str) -> Iterator[Found]:
    match = _MINOR_VERSION.fullmatch(text)
    if match is not None:
        hint = f'Give the major version, "{match[1]}", or a directory with the server\'s programs.'
        yield path, f'"{text}" is not a major version', hint


def check_directories(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """Whether the places of data and WAL are there; that they are absolute is a matter of their kind of value."""
    target = experiment.target
    if target.directory is not None and target.storage.data is not None:
        message = "the directory of the data is given twice"
        yield ("target", "storage", "data"), message, "Remove it, or directory in [target]."
    if folder is None or target.host is not None:
        return
    for given in all_given(experiment):
        if given.knob == "storage" and given.value.startswith("/") and not is_directory(FilePath(given.value)):
            yield given.path, f'directory "{given.value}" does not exist', "Create it first."


def check_completeness(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What needs a second value."""
    arms = tuple(effective_arms(experiment).values())
    found: list[Found] = []
    for name, knob in KNOBS.items():
        for needs in knob.needs:
            for given in _unmet(arms, name, needs):
                found.append((given.path, needs.message.format(value=given.value), needs.hint))
    yield from dict.fromkeys(found)


def _unmet(arms: Iterable[Effective], knob: str, needs: Needs) -> Iterator[Given]:
    """Values of a key without what it needs: in an arm, or in all arms that have it from one place."""
    having = [arm for arm in arms if (knob, needs.key) in arm]
    met = {arm[knob, needs.key].path for arm in having if _meets(arm, knob, needs)}
    for arm in having:
        if not _meets(arm, knob, needs) and (needs.in_each_arm or arm[knob, needs.key].path not in met):
            yield arm[knob, needs.key]


def _meets(arm: Effective, knob: str, needs: Needs) -> bool:
    if needs.other:
        return (knob, needs.other) in arm
    return any(name == knob and key != needs.key for name, key in arm)


def check_conflicts(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What an arm sets in two ways."""
    found: list[Found] = []
    for arm in effective_arms(experiment).values():
        settings = {key.lower(): given for (knob, key), given in arm.items() if knob == POSTGRESQL}
        for name, knob in KNOBS.items():
            for own in knob.own_settings:
                table = arm.get((name, own.key))
                for setting in own.settings:
                    if table is not None and setting in settings:
                        message = f'setting "{setting}" and knob "{name}" exclude each other'
                        found.append((later(table, settings[setting]), message, own.hint))
            for pair in knob.exclusive:
                both = [arm[name, key] for key in pair.keys if (name, key) in arm]
                if len(both) == 2 and not _has_zero(pair, both):
                    found.append((later(*both), pair.message, pair.hint))
    yield from dict.fromkeys(found)


def _has_zero(pair: Exclusive, both: Iterable[Given]) -> bool:
    return pair.unless_zero and any(given.value.strip() == "0" for given in both)


def check_undo(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """SQL whose effect would reach runs of other arms, or stay in a database that is left as found."""
    arms = effective_arms(experiment).values()
    existing = experiment.target.database is not None
    applied = {arm["sql", "apply"].value if ("sql", "apply") in arm else "" for arm in arms}
    if effective_restore(experiment) == "each-run" or not (existing or len(applied) > 1):
        return
    reason = "the database is left as found" if existing else "the data are not put back before each run"
    found: list[Found] = []
    for arm in arms:
        apply = arm.get(("sql", "apply"))
        if apply is None or not apply.value or ("sql", "undo") in arm:
            continue
        in_factor = apply.path[0] == "factors"
        advice = "Use [arms.NAME.sql] tables with apply and undo" if in_factor else "Add undo beside apply"
        other = "." if existing else ', or restore = "each-run" to [design].'
        found.append((apply.path, f"nothing undoes the SQL, and {reason}", advice + other))
    yield from dict.fromkeys(found)


def later(*given: Given) -> Path:
    """Where the one stands that is nearer to the arm."""
    return max((one.path for one in given), key=lambda path: ("target", "arms", "factors").index(str(path[0])))
