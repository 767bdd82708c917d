"""Checks of the workload and the dataset: scenarios, shares, load levels, files."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.places import expand_home
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.workload_table import COMMAND, MIX_SCENARIOS, TPCC, RampTable, ScenarioTable
from pgtrial.knobs.fio import FIO
from pgtrial.knobs.values import MOST_CLIENTS
from pgtrial.nearest import hint_name
from pgtrial.units import format_bytes

LARGEST = 16 << 20  # bytes of a script, or of a file that a command needs


def scenario_names(experiment: Experiment) -> tuple[str, ...]:
    """Names of the scenarios, () when there is neither a mix nor a scenario."""
    return experiment.workload.scenario_names


def check_scenarios(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    workload = experiment.workload
    if workload.kind in (FIO, COMMAND):
        return  # file_checks.py and command_checks.py say what they have in place of scenarios
    if workload.mix is not None and workload.scenario:
        yield ("workload", "mix"), "a mix and own scenarios exclude each other", "Remove one of the two."
    if workload.mix is None and not workload.scenario:
        message = "the workload has neither a mix nor a scenario"
        yield ("workload",), message, 'Give mix = "oltp", or [[workload.scenario]] tables.'
    seen: set[str] = set()
    for index, scenario in enumerate(workload.scenario):
        path: Path = ("workload", "scenario", index)
        if scenario.name.lower() in seen:
            yield (*path, "name"), f'scenario name "{scenario.name}" appears twice', ""
        seen.add(scenario.name.lower())
        yield from _check_scenario(path, scenario, folder)


def _check_scenario(path: Path, scenario: ScenarioTable, folder: FilePath | None) -> Iterator[Found]:
    if scenario.file is None and scenario.builtin is None:
        yield path, f'scenario "{scenario.name}" has no script', 'Give file = "….sql" or builtin = "select-only".'
    if scenario.file is not None and scenario.builtin is not None:
        yield (*path, "builtin"), f'scenario "{scenario.name}" has both a file and a built-in script', "Remove one."
    if scenario.share is not None and scenario.sessions is not None:
        message = f'scenario "{scenario.name}" has both a share and a constant number of sessions'
        yield (*path, "sessions"), message, "Remove one of the two."
    if scenario.file is not None:
        yield from check_file((*path, "file"), scenario.file, folder)


def check_file(path: Path, name: str, folder: FilePath | None) -> Iterator[Found]:
    """What is wrong with a file that is named at ``path`` of the experiment file."""
    if folder is None:
        return
    file = folder / name
    try:
        state = file.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of a name with a zero byte
        yield path, f'file "{file}" does not exist', hint_name(file.name, _scripts_in(file.parent))
        return
    except OSError as err:
        yield path, f'file "{file}" cannot be read: {err.strerror}', ""
        return
    if not stat.S_ISREG(state.st_mode):
        yield path, f'"{file}" is not a file', ""
    elif not os.access(file, os.R_OK):
        yield path, f'file "{file}" cannot be read', "Check its permissions."
    elif state.st_size == 0:
        yield path, f'file "{file}" is empty', ""
    elif state.st_size > LARGEST:
        hint = "Data belong in dataset.load. What a command reads can be named in it with its whole path."
        yield path, f'file "{file}" has more than {format_bytes(LARGEST)}', hint


def _scripts_in(folder: FilePath) -> list[str]:
    return [name for name in _names_in(folder) if name.endswith(".sql")]


def _names_in(folder: FilePath) -> list[str]:
    try:
        return [other.name for other in folder.iterdir()]
    except (OSError, ValueError):
        return []


def check_shares(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    workload = experiment.workload
    shared = [scenario for scenario in workload.scenario if scenario.sessions is None]
    if workload.scenario and not shared:
        message = "every scenario has a constant number of sessions, so the load levels change nothing"
        yield ("workload", "scenario"), message, "Give at least one scenario a share."
    if workload.mix == TPCC and workload.share != "transactions":
        message = f'the shares of mix "{TPCC}" are of transactions, not of sessions'
        yield ("workload", "share"), message, 'Write share = "transactions", or remove it.'
        return
    if workload.share == "transactions":
        for index, scenario in enumerate(workload.scenario):
            if scenario.sessions is not None:
                message = 'a constant number of sessions has no meaning with share = "transactions"'
                yield ("workload", "scenario", index, "sessions"), message, 'Use share = "sessions".'
        return
    count = len(shared) if workload.scenario else len(scenario_names(experiment))
    for path, clients in _declared_clients(experiment):
        if clients < count:
            message = f"{clients:g} clients are too few for {count} scenarios"
            hint = 'Every scenario has clients of its own; share = "transactions" lets all clients run all scenarios.'
            yield path, message, hint


def _declared_clients(experiment: Experiment) -> Iterator[tuple[Path, float]]:
    """The numbers of clients in the file, each with its path; of a ramp its ends."""
    clients = experiment.workload.clients
    if isinstance(clients, RampTable):
        yield ("workload", "clients", "from"), round(clients.start)
        yield ("workload", "clients", "to"), round(clients.stop)
    elif isinstance(clients, tuple):
        yield from ((("workload", "clients", index), level) for index, level in enumerate(clients))
    else:
        yield ("workload", "clients"), clients


def check_levels(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    workload = experiment.workload
    counts: dict[str, int] = {}
    for key, levels in (("clients", workload.clients), ("rate", workload.rate)):
        if isinstance(levels, RampTable):
            counts[key] = len(workload.client_levels if key == "clients" else set(levels.expand()))
            if key == "clients" and max(levels.start, levels.stop) > MOST_CLIENTS:
                yield ("workload", key), f"the ramp reaches more than {MOST_CLIENTS} clients", ""
            if levels.start == levels.stop:
                yield ("workload", key), f'the ramp of "{key}" begins and ends at {levels.start:g}', ""
        elif isinstance(levels, tuple):
            counts[key] = len(levels)
    if min(counts.values(), default=1) > 1 and len(set(counts.values())) > 1:
        message = f"clients has {counts['clients']} levels, rate has {counts['rate']}; they must match"
        hint = "Give lists of the same length, or a single number for one of the two."
        yield ("workload", "rate"), message, hint
    for key, levels in (("clients", workload.clients), ("rate", workload.rate)):
        if isinstance(levels, tuple) and len(counts) == 1:
            for index, level in enumerate(levels):
                if level in levels[:index]:
                    yield ("workload", key, index), f"load level {level:g} appears twice", ""


def check_times(experiment: Experiment, _: FilePath | None) -> Iterator[Found]:
    workload = experiment.workload
    if workload.duration < 1 or workload.duration != int(workload.duration):
        message = "the duration has to be a whole number of seconds"
        yield ("workload", "duration"), message, "The load is counted per second."
    if workload.latency_limit is not None and workload.latency_limit < 1e-6:
        yield ("workload", "latency_limit"), "the latency limit is below 1us, the resolution of pgbench", ""


def check_dataset(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    dataset, workload = experiment.dataset, experiment.workload
    if workload.kind == FIO:
        return
    if dataset.kind == "existing":
        yield from _check_existing(experiment)
        return
    if dataset.setup is not None:
        yield from check_file(("dataset", "setup"), dataset.setup, folder)
    if dataset.load:
        yield from _check_load(experiment, folder)
    if dataset.kind != "sql":
        yield from _check_tables(experiment)
        return
    if dataset.setup is None and not dataset.load:
        message = 'kind = "sql" needs data to load or a set-up file'
        hint = 'Add load = "….dump" to [dataset], for data of pg_dump or psql, or setup = "….sql", which makes tables.'
        yield ("dataset",), message, hint
    if workload.mix is not None:
        needed, whose = (TPCC, "its own") if workload.mix == TPCC else ("pgbench", "pgbench's")
        message = f'mix "{workload.mix}" needs {whose} tables, which kind = "sql" does not make'
        yield ("workload", "mix"), message, f'Give [[workload.scenario]] tables, or kind = "{needed}" in [dataset].'
    for index, scenario in enumerate(workload.scenario):
        if scenario.builtin is not None:
            message = f'"{scenario.builtin}" needs pgbench\'s tables, which kind = "sql" does not make'
            yield ("workload", "scenario", index, "builtin"), message, 'Use a file, or kind = "pgbench" in [dataset].'
    for key in ("scale", "foreign_keys"):
        if key in dataset.model_fields_set:
            yield ("dataset", key), f'"{key}" has no meaning with kind = "sql"', "Remove it."


def _check_tables(experiment: Experiment) -> Iterator[Found]:
    """The tables that pgtrial makes are those that the load needs."""
    dataset, workload = experiment.dataset, experiment.workload
    if (workload.mix == TPCC) != (dataset.kind == TPCC) and workload.mix is not None:
        needed = TPCC if workload.mix == TPCC else "pgbench"
        message = f'mix "{workload.mix}" needs tables that kind = "{dataset.kind}" does not make'
        yield ("workload", "mix"), message, f'Write kind = "{needed}" in [dataset], or choose another mix.'
    for index, scenario in enumerate(workload.scenario):
        if scenario.builtin is not None and dataset.kind == TPCC:
            message = f'"{scenario.builtin}" needs pgbench\'s tables, which kind = "{TPCC}" does not make'
            yield ("workload", "scenario", index, "builtin"), message, 'Use a file, or kind = "pgbench" in [dataset].'


def _check_load(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    dataset, target = experiment.dataset, experiment.target
    if dataset.kind != "sql":
        message = f'"load" has no meaning with kind = "{dataset.kind}"'
        yield ("dataset", "load"), message, 'Write kind = "sql" in [dataset], and load everything that is needed.'
    if target.host is not None:
        message = "data are not loaded into servers of another machine that is reached over ssh"
        yield ("dataset", "load"), message, "Run pgtrial there."
    for name in dataset.load:
        if folder is not None and not (folder / expand_home(FilePath(name))).exists():
            place = folder / expand_home(FilePath(name))
            yield ("dataset", "load"), f'"{place}" does not exist', hint_name(place.name, _names_in(place.parent))


def _check_existing(experiment: Experiment) -> Iterator[Found]:
    dataset, mix = experiment.dataset, experiment.workload.mix
    for key in ("foreign_keys", "setup", "load"):
        if key in dataset.model_fields_set:
            yield (
                ("dataset", key),
                f'"{key}" has no meaning with kind = "existing"',
                "Nothing is made there. Remove it.",
            )
    if mix == TPCC:
        message = f'mix "{mix}" needs tables that pgtrial has made, and this database was there before'
        hint = "Remove kind in [dataset] and database in [target]: one is then made and dropped."
        yield ("workload", "mix"), message, hint
        return
    # pgbench's own scripts find the scale in the tables by themselves.
    if mix is not None and MIX_SCENARIOS[mix] != (mix,) and "scale" not in dataset.model_fields_set:
        message = f'mix "{mix}" needs the scale of pgbench\'s tables in the existing database'
        yield ("workload", "mix"), message, "Add scale to [dataset]: the number of rows in pgbench_branches."
