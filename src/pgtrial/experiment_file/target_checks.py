"""Checks of the target: what goes with a throw-away cluster, and what with a server that is there."""

import re
from collections.abc import Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import all_declared
from pgtrial.experiment_file.connection import is_elsewhere
from pgtrial.experiment_file.escapes import readings
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.knob_checks import check_version
from pgtrial.experiment_file.places import expand_home
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Scope
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD

_ONLY_SERVER = ("connection", "database", "copy_of", "restart", "writes", "settings")
_COPY = (
    'Try it on a copy: "pgtrial copy" makes one. To change this database instead, write writes = true in [target] and '
    "run with --allow-writes."
)
_SWITCHES = ("default_transaction_read_only", "transaction_read_only")
# What gives a session the right to write, comments between the words included.
_SWITCH = re.compile(r"transaction_read_only|\bread(?:\s|/\*.*?\*/|--[^\n]*\n)+write\b", re.IGNORECASE | re.DOTALL)


def check_target(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    target = experiment.target
    if target.kind != "server":
        for key in _ONLY_SERVER:
            if key in target.model_fields_set:
                message = f'"{key}" has no meaning with kind = "{target.kind}"'
                yield ("target", key), message, 'Remove it, or set kind = "server".'
    elif target.directory is not None:
        message = '"directory" has no meaning with kind = "server"'
        yield ("target", "directory"), message, "The data of an existing server stay where they are. Remove it."
    if target.kind != "throwaway" and "count_statements" in target.model_fields_set:
        message = f'"count_statements" has no meaning with kind = "{target.kind}"'
        yield ("target", "count_statements"), message, "Only into a server that pgtrial makes it loads a library."
    if target.directory is not None and target.kind != "server":
        directory = expand_home(FilePath(target.directory))
        if not directory.is_absolute():
            yield ("target", "directory"), f'directory "{target.directory}" is not an absolute path', ""
    if target.postgres is not None:
        yield from check_version(("target", "postgres"), target.postgres)
        if target.server.postgres is not None:
            message = "the server's programs are given twice"
            yield ("target", "server", "postgres"), message, "Remove it, or postgres in [target]."


def check_knobs_of_server(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """Knobs that an existing server cannot have, and those that would change the wrong machine."""
    target = experiment.target
    if target.kind != "server":
        return
    elsewhere = target.host is None and is_elsewhere(target.connection)
    for given in all_declared(experiment):
        knob = KNOBS.get(given.knob)
        if knob is None:
            continue  # which check_factors tells
        if reason := knob.not_on_server:
            message = f'knob "{given.knob}" cannot be set on an existing server'
            hint = f'{reason[0].upper()}{reason[1:]}. Remove it, or use kind = "throwaway".'
            yield given.place_of_knob, message, hint
        elif given.key in knob.restart_keys and given.value and not target.restart:
            message = f'"{given.key}" needs a restart of the server, and [target] has no command for it'
            hint = 'Add restart = ["systemctl", "restart", "postgresql"] to [target], with the command for your server.'
            yield given.place_of_knob if given.is_level else given.path, message, hint
        elif knob.scope is Scope.HOST and elsewhere:
            message = f'knob "{given.knob}" would change this machine, not the one of the server'
            yield given.place_of_knob, message, 'Name the server\'s machine in [target]: host = "ssh://user@host".'


def check_database(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    """An existing database, its data, and when they are put back."""
    target, dataset, design = experiment.target, experiment.dataset, experiment.design
    named = target.kind == "server" and target.database is not None
    if dataset.kind == "existing" and not named:
        message = 'kind = "existing" needs a database that is there'
        hint = 'Name it in [target]: kind = "server" and database = "…".'
        yield ("dataset", "kind"), message, hint
    if named and dataset.kind != "existing":
        path: Path = ("dataset", "kind") if "kind" in dataset.model_fields_set else ("target", "database")
        message = f'nothing is made in an existing database, so kind = "{dataset.kind}" of [dataset] has no meaning'
        hint = 'Write kind = "existing" in [dataset], or remove database in [target]: one is then made and dropped.'
        yield path, message, hint
    if named and "restore" in design.model_fields_set and design.restore != "never":
        message = f'an existing database is not put back, so restore = "{design.restore}" has no meaning'
        yield ("design", "restore"), message, 'Write restore = "never", or remove it.'
    if target.kind == "server" and target.writes and target.database is None:
        message = 'a database of pgtrial\'s own can always be written to, so "writes" has no meaning'
        yield ("target", "writes"), message, "Remove it, or name an existing database with database."
    if target.kind == "server" and target.copy_of is not None and target.copy_of == target.database:
        message = f'database "{target.database}" cannot be a copy of itself'
        yield ("target", "copy_of"), message, "Name the original, or remove it."
    if target.kind == "server" and target.copy_of is not None and target.database is None:
        message = 'a database of pgtrial\'s own is a copy of none, so "copy_of" has no meaning'
        yield ("target", "copy_of"), message, "Remove it, or name an existing database with database."


def check_writes(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """What would change an existing database that the file does not let it change."""
    target, workload = experiment.target, experiment.workload
    if target.kind != "server" or target.database is None or target.writes:
        return
    for given in all_declared(experiment):
        knob = KNOBS.get(given.knob)
        if knob is not None and given.key in knob.writing_keys and given.value:
            message = f'it changes the database "{target.database}", which is read-only'
            yield given.path, message, _COPY
        elif given.key.lower() in _SWITCHES:
            message = f'it decides whether sessions may write, and the database "{target.database}" is read-only'
            yield given.path, message, _COPY
        elif given.knob == WORKLOAD and given.key.startswith(SCRIPTS) and (switch := _find_switch(folder, given.value)):
            yield given.path, switch, _COPY
    if workload.kind == COMMAND and target.settings != "role":
        # What makes sessions read-only is PGOPTIONS then, which libpq reads and a program may leave out.
        message = f'nothing keeps a program from writing to the database "{target.database}", which is read-only'
        hint = f'Write settings = "role" in [target]: its sessions are read-only unless they say otherwise. {_COPY}'
        yield ("workload", "command"), message, hint
    if workload.mix is not None and workload.mix != "select-only":
        message = f'mix "{workload.mix}" writes to the database "{target.database}", which is read-only'
        yield ("workload", "mix"), message, _COPY
    for index, scenario in enumerate(workload.scenario):
        path: Path = ("workload", "scenario", index)
        if scenario.builtin not in (None, "select-only"):
            message = f'"{scenario.builtin}" writes to the database "{target.database}", which is read-only'
            yield (*path, "builtin"), message, _COPY
        if scenario.file is not None and (switch := _find_switch(folder, scenario.file)):
            yield (*path, "file"), switch, _COPY


def _find_switch(folder: FilePath | None, name: str) -> str:
    """What in a script gives its sessions the right to write, also where its characters are escaped; "" if nothing."""
    if folder is None:
        return ""
    try:
        texts, _ = readings((folder / name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):  # which another check tells
        return ""
    match = next(filter(None, map(_SWITCH.search, texts)), None)
    return f'"{" ".join(match[0].split())}" would let the script write to a read-only database' if match else ""
