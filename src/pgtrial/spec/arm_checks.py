"""Checks of arms, factors and their settings against each other."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath

from pgtrial.spec.experiment import PLACEBO, Experiment
from pgtrial.spec.factors import MOST_COMBINATIONS, count_combinations
from pgtrial.spec.nearest import hint_name
from pgtrial.spec.position import Found, Path

_ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=+,-]{0,62}")

# Settings by which pgtrial finds, reaches and reads the cluster it made; with another value it would lose it.
OWNED = {
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
}


def check_arms_or_factors(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    arms, factors = experiment.arms, experiment.factors
    if arms and factors:
        yield ("factors",), "arms and factors exclude each other", "Write either [arms.<name>] or [factors.<name>]."
    elif not factors and len(arms) < (1 if experiment.design.placebo else 2):
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


def check_inheritance(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    for name, arm in experiment.arms.items():
        if arm.inherit is None:
            continue
        path: Path = ("arms", name, "inherit")
        if arm.inherit not in experiment.arms:
            others = [other for other in experiment.arms if other != name]
            yield path, f'arm "{arm.inherit}" does not exist', hint_name(arm.inherit, others, what="Arms are")
            continue
        chain = [name]
        ancestor: str | None = arm.inherit
        while ancestor is not None and ancestor in experiment.arms and ancestor not in chain:
            chain.append(ancestor)
            ancestor = experiment.arms[ancestor].inherit
        if ancestor == name:
            circle = " → ".join([*chain, name])
            yield path, f'arm "{name}" inherits from itself', f"The chain is {circle}. Remove one link."


def check_factors(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    varied: dict[str, str] = {}
    for name, factor in experiment.factors.items():
        setting = factor.setting or name
        path: Path = ("factors", name)
        if setting.lower() in varied:
            message = f'factors "{varied[setting.lower()]}" and "{name}" both vary "{setting}"'
            yield path, message, "Give all its levels in one factor."
        varied.setdefault(setting.lower(), name)
        for index, level in enumerate(factor.levels):
            if level in factor.levels[:index]:
                yield (*path, "levels", index), f'level "{level}" of factor "{name}" appears twice', ""


def check_settings(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    tables: list[tuple[Path, Iterable[str]]] = [(("target", "postgresql"), experiment.target.postgresql)]
    tables += [(("arms", name, "postgresql"), arm.postgresql) for name, arm in experiment.arms.items()]
    for table, settings in tables:
        seen: set[str] = set()
        for name in settings:
            if name.lower() in seen:
                yield (*table, name), f'setting "{name}" appears twice in one table, in different case', ""
            seen.add(name.lower())
            yield from _check_owned((*table, name), name)
    for name, factor in experiment.factors.items():
        path: Path = ("factors", name) if factor.setting is None else ("factors", name, "setting")
        yield from _check_owned(path, factor.setting or name)


def _check_owned(path: Path, name: str) -> Iterator[Found]:
    reason = OWNED.get(name.lower())
    if reason is not None:
        message = f'setting "{name}" cannot be set in a throw-away cluster'
        yield path, message, f"{reason[0].upper()}{reason[1:]}. Remove it."
