"""Checks of what arms set beside PostgreSQL's settings: names, what goes together, what contradicts each other."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.given import Effective, Given, all_given, effective_arms
from pgtrial.experiment_file.knob_tables import EXCLUSIVE_SYSCTLS, POSTGRESQL
from pgtrial.experiment_file.places import is_directory
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.restore import effective_restore

# As sysctl(8) writes it, in either of two ways: with dots, where a slash stands for a dot in the name of a network
# device, or as the path, which is for these names only, so that all others have one name.
_SYSCTL = re.compile(r"[^\s./]+\.[^\s./]+(?:[./][^\s./]+)*")
_SYSCTL_PATH = re.compile(r"[^\s./]+(?=/.*\.)(?:/[^\s./]+(?:\.[^\s./]+)*)+")
_EXCHANGED = str.maketrans("./", "/.")
_MINOR_VERSION = re.compile(r"(\d+)\.[\d.]+")

# What a knob sets by itself: (knob, key, PostgreSQL settings, advice).
_SET_BY_KNOB = (
    ("extensions", "preload", ("shared_preload_libraries",), "List all libraries in one of the two places."),
    ("huge_pages", "size", ("huge_pages", "huge_page_size"), "The table huge_pages sets it. Remove one of the two."),
)


def check_names(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Names of kernel settings, and versions of the server."""
    found: list[Found] = []
    for given in all_given(experiment):
        if given.knob == "sysctl" and not _is_sysctl(given.key):
            # A factor has its setting's name once, however many levels.
            path = given.path[:2] if given.path[0] == "factors" else given.path
            found.append((path, f'"{given.key}" is not a name of a kernel setting', _advise_sysctl(given.key)))
        elif (given.knob, given.key) == ("server", "postgres"):
            found += check_version(given.path, given.value)
    yield from dict.fromkeys(found)


def _is_sysctl(name: str) -> bool:
    return name.isprintable() and any(form.fullmatch(name) for form in (_SYSCTL, _SYSCTL_PATH))


def _advise_sysctl(name: str) -> str:
    dotted = name.strip("/").removeprefix("proc/sys/").translate(_EXCHANGED)
    if _is_sysctl(dotted):
        return f'Write it as sysctl does: "{dotted}".'
    return 'Write it as "sysctl -a" shows it: "vm.swappiness".'


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
    """What needs a second value, and what must not have one."""
    arms = tuple(effective_arms(experiment).values())
    found: list[Found] = []
    for arm in arms:
        kind = arm.get(("filesystem", "type"))
        if kind is not None and ("filesystem", "size") not in arm:
            message = f"the file system of type {kind.value} has no size"
            found.append((kind.path, message, 'Add size = "20GB": room for the data twice, and for the WAL.'))
        size, share = arm.get(("memory_pressure", "size")), arm.get(("memory_pressure", "share"))
        if size is not None and share is not None:
            message = "the memory that is taken away is given as a size and as a share"
            found.append((later(size, share), message, "Remove one of the two."))
    for given in _unused(arms, "filesystem", "size", lambda arm: ("filesystem", "type") in arm):
        found.append((given.path, "the file system has a size but no type", 'Add type = "ext4", "xfs" or "btrfs".'))
    for given in _unused(arms, "block_device", "device", _sets_queue):
        message = f'nothing is set for block device "{given.value}"'
        found.append((given.path, message, "Add what is to be set, such as read_ahead_kb, or remove it."))
    yield from dict.fromkeys(found)


def _sets_queue(arm: Effective) -> bool:
    return any(knob == "block_device" and key != "device" for knob, key in arm)


def _unused(arms: Iterable[Effective], knob: str, key: str, is_used: Callable[[Effective], bool]) -> Iterator[Given]:
    """Values that some arms have, and none of them uses."""
    having = [arm for arm in arms if (knob, key) in arm]
    used = {arm[knob, key].path for arm in having if is_used(arm)}
    yield from (arm[knob, key] for arm in having if arm[knob, key].path not in used)


def check_conflicts(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """What an arm sets in two ways."""
    found: list[Found] = []
    for arm in effective_arms(experiment).values():
        settings = {key.lower(): given for (knob, key), given in arm.items() if knob == POSTGRESQL}
        for knob, key, names, advice in _SET_BY_KNOB:
            table = arm.get((knob, key))
            for name in names:
                if table is not None and name in settings:
                    message = f'setting "{name}" and knob "{knob}" exclude each other'
                    found.append((later(table, settings[name]), message, advice))
        for one, other in EXCLUSIVE_SYSCTLS:
            pair = [arm["sysctl", name] for name in (one, other) if ("sysctl", name) in arm]
            if len(pair) == 2 and all(given.value.strip() != "0" for given in pair):
                message = f'"{one}" and "{other}" exclude each other'
                found.append((later(*pair), message, "The kernel sets one to 0 when the other is set. Remove one."))
    yield from dict.fromkeys(found)


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
