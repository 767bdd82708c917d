"""Checks of arms, factors and their settings against each other."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import MOST_COMBINATIONS, count_combinations, find_fault
from pgtrial.experiment_file.experiment import PLACEBO, Experiment, FactorTable
from pgtrial.experiment_file.fields import keys_at
from pgtrial.experiment_file.position import Found, Path, format_path
from pgtrial.knobs import KNOBS
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.nearest import hint_name

_ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=+,-]{0,62}")

# Settings by which pgtrial finds, reaches and reads the cluster it made; with another value it would lose it.
OWNED: Mapping[str, str] = {
    "data_directory": "pgtrial makes the cluster's directory and removes it",
    "config_file": "pgtrial writes the cluster's configuration",
    "hba_file": "pgtrial writes the cluster's configuration",
    "ident_file": "pgtrial writes the cluster's configuration",
    "external_pid_file": "pgtrial keeps track of the server's process",
    "unix_socket_directories": "the cluster is reached through a socket in a private directory",
    "unix_socket_group": "the cluster is reached through a socket in a private directory",
    "unix_socket_permissions": "the cluster is reached through a socket in a private directory",
    "listen_addresses": "the cluster listens only on a socket in a private directory",
    "port": "the cluster listens only on a socket in a private directory",
    "cluster_name": "pgtrial marks its servers with it",
    "logging_collector": "pgtrial reads the server's log",
    "log_destination": "pgtrial reads the server's log",
    "log_directory": "pgtrial reads the server's log",
    "log_filename": "pgtrial reads the server's log",
    "log_file_mode": "pgtrial reads the server's log",
    "log_rotation_age": "pgtrial reads the server's log",
    "log_rotation_size": "pgtrial reads the server's log",
    "log_timezone": "pgtrial reads the server's log",
    "lc_messages": "pgtrial reads the server's log",
}
_FILES = "the server would start with other files than its own"
_REACHED = "nobody would reach the server any more where it is expected"
# Of an existing server pgtrial owns nothing, but these would take it away from everybody.
OWNED_BY_SERVER: Mapping[str, str] = {
    "data_directory": _FILES,
    "config_file": _FILES,
    "hba_file": _FILES,
    "ident_file": _FILES,
    "listen_addresses": _REACHED,
    "port": _REACHED,
    "unix_socket_directories": _REACHED,
    "unix_socket_group": _REACHED,
    "unix_socket_permissions": _REACHED,
}
# A setting of PostgreSQL may have any such name, and would be taken and do nothing.
_OF_KERNEL = re.compile(r"(?:vm|kernel|fs|net)\..+")


def check_arms_or_factors(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    arms, factors, design = experiment.arms, experiment.factors, experiment.design
    if arms and factors:
        yield ("factors",), "arms and factors exclude each other", "Write either [arms.<name>] or [factors.<name>]."
    elif not factors and len(arms) < (1 if design.placebo or design.soak else 2):
        message = f"an experiment needs at least two arms, got {len(arms)}"
        hint = (
            "Add another [arms.<name>.postgresql] table, or placebo = true in [design] to compare an arm with itself."
        )
        yield ("arms",), message, hint
    elif count_combinations(factors) > MOST_COMBINATIONS:
        message = f"the factors make {count_combinations(factors)} combinations, more than {MOST_COMBINATIONS}"
        yield ("factors",), message, "Give fewer factors or levels."


def check_arm_names(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    seen: dict[str, str] = {}
    for name in experiment.arms:
        path: Path = ("arms", name)
        if not _ARM_NAME.fullmatch(name):
            hint = "Use letters, digits and any of _ . = + , - (it becomes a folder's name), at most 63 characters."
            yield path, f'invalid name of an arm: "{name}"', hint
        if name.lower() in seen:
            message = f'arms "{seen[name.lower()]}" and "{name}" differ only in case'
            yield path, message, "Choose names that can be told apart on every file system."
        seen.setdefault(name.lower(), name)
        if experiment.design.placebo and name.lower() == PLACEBO:
            message = f'arm "{name}" has the name that placebo = true gives to the copy of the control'
            yield path, message, "Rename the arm."


def check_factors(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    varied: dict[tuple[str, str], str] = {}
    for name, factor in experiment.factors.items():
        setting = factor.setting or name
        path: Path = ("factors", name)
        what = (factor.knob, setting.lower() if factor.knob == POSTGRESQL else setting)
        if what in varied:
            message = f'factors "{varied[what]}" and "{name}" both vary "{setting}"'
            yield path, message, "Give all its levels in one factor."
        varied.setdefault(what, name)
        for index, level in enumerate(factor.levels):
            if level in factor.levels[:index]:
                yield (*path, "levels", index), f'level "{level}" of factor "{name}" appears twice', ""


def check_factor_knobs(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    for name, factor in experiment.factors.items():
        if factor.knob not in KNOBS:
            message = f'knob "{factor.knob}" does not exist'
            yield ("factors", name, "knob"), message, hint_name(factor.knob, KNOBS, what="Knobs are")
        else:
            yield from _check_levels(name, factor)


def _check_levels(name: str, factor: FactorTable) -> Iterator[Found]:
    setting = factor.setting or name
    path: Path = ("factors", name)
    place = path if factor.setting is None else (*path, "setting")
    keys = keys_at(("arms", name, factor.knob))
    if keys and setting not in keys:
        message = f'knob "{factor.knob}" has no setting "{setting}"'
        yield place, message, hint_name(setting, keys, what="It has")
    elif hint := KNOBS[factor.knob].unvaried_keys.get(setting):
        yield place, f'"{setting}" of knob "{factor.knob}" cannot be a factor', hint
    else:
        for index, level in enumerate(factor.levels):
            fault = find_fault(factor.knob, setting, level)
            if fault is not None:
                yield (*path, "levels", index), *fault


def check_settings(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    tables: list[tuple[Path, Iterable[str]]] = [(("target",), experiment.target.postgresql)]
    tables += [(("arms", name), arm.postgresql) for name, arm in experiment.arms.items()]
    for table, settings in tables:
        seen: set[str] = set()
        for name in settings:
            path: Path = (*table, POSTGRESQL, name)
            if name.lower() in seen:
                yield path, f'setting "{name}" appears twice in one table, in different case', ""
            seen.add(name.lower())
            yield from _check_owned(experiment, path, name)
            yield from _check_of_kernel(path, name, f"It belongs in [{format_path((*table, 'sysctl'))}].")
            yield from _check_of_knob(path, name, table)
    for name, factor in experiment.factors.items():
        if factor.knob == POSTGRESQL:
            path = ("factors", name) if factor.setting is None else ("factors", name, "setting")
            yield from _check_owned(experiment, path, factor.setting or name)
            yield from _check_of_kernel(path, factor.setting or name, 'Add knob = "sysctl" to the factor.')
            yield from _check_of_knob(path, factor.setting or name)


def _check_owned(experiment: Experiment, path: Path, name: str) -> Iterator[Found]:
    existing = experiment.target.kind == "server"
    reason = (OWNED_BY_SERVER if existing else OWNED).get(name.lower())
    if reason is not None:
        message = f'setting "{name}" cannot be set {"on an existing server" if existing else "in a throw-away cluster"}'
        yield path, message, f"{reason[0].upper()}{reason[1:]}. Remove it."


def _check_of_kernel(path: Path, name: str, remedy: str) -> Iterator[Found]:
    if _OF_KERNEL.fullmatch(name):
        yield path, f'"{name}" is a setting of the kernel, not of PostgreSQL', remedy


def _check_of_knob(path: Path, name: str, table: Path = ()) -> Iterator[Found]:
    """Of a table of settings there are those that a knob has; a factor is none of PostgreSQL's if it is named so."""
    knob, dot, setting = name.partition(".")
    if not dot or knob not in KNOBS or (table and setting not in keys_at(("arms", "", knob))):
        return
    message = f'"{name}" is a setting of knob "{knob}", not of PostgreSQL'
    hint = f'Write knob = "{knob}" and setting = "{setting}"; on the command line {knob}:{setting}.'
    yield path, message, f"It belongs in [{format_path((*table, knob))}]." if table else hint
