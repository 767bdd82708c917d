"""Checks of a load by a program of the user's choice: what it needs, and what only another kind of load can have."""

import re
from collections.abc import Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.arms import all_declared
from pgtrial.experiment_file.connection import is_socket, read_connection
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Found, Path
from pgtrial.experiment_file.result_formats import FORMATS, ResultFormat
from pgtrial.experiment_file.workload_checks import check_file
from pgtrial.experiment_file.workload_table import COMMAND, WorkloadTable
from pgtrial.knobs.workload import CLIENTS, WORKLOAD, read_command
from pgtrial.knobs.workload import COMMAND as COMMAND_KEY
from pgtrial.nearest import hint_name

# What stands for a fact in a word of the command: "{clients}".
PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
PLACEHOLDERS = ("clients", "rate", "seconds", "seed", "host", "port", "user", "database")
_NOT_OF_COMMANDS = ("mix", "scenario", "share", "latency_limit", "protocol", "threads", "max_tries")
_ONLY_OF_COMMANDS = ("command", "files", "results")
_CLIENTS = re.compile(r"\{clients\}|PGTRIAL_CLIENTS")
# Whatever starts it: env, nice, a shell, python -m.
_REPLAY = re.compile(r"""(?<![^\s/;&|("'])pgtrial["']?(?:\s+-\S+(?:\s+[^-\s]\S*)?)*?\s+["']?replay(?![^\s;&|)"'])""")
SYSBENCH, _BENCHBASE, _PGREPLAY = "sysbench", "benchbase", "pgreplay"
RATE_OF_SYSBENCH = "a rate of sysbench's own is not seen: how late an event was begun is in no latency"
CONFIGURATION_OF_BENCHBASE = ".xml"
_TELL = (
    'Have a script of files read PGTRIAL_CLIENTS, or write "-e", "PGTRIAL_CLIENTS={clients}" behind "run" in the '
    "command."
)
USE_PORT = 'Name a host and a port in connection: "host=127.0.0.1 port=5432".'
_OTHER_SPEED = 'How fast the log is sent is up to the command: "--speed" of "pgtrial replay", "-s" of pgreplay.'


def check_command(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    workload = experiment.workload
    if workload.kind != COMMAND:
        for key in _ONLY_OF_COMMANDS:
            if key in workload.model_fields_set:
                hint = f'A load by a program has kind = "{COMMAND}" in [workload]. Remove it, or write that.'
                yield ("workload", key), f'"{key}" has no meaning with kind = "{workload.kind}"', hint
        return
    for key in _NOT_OF_COMMANDS:
        if key in workload.model_fields_set:
            hint = "What the load does is up to the program. Remove it."
            yield ("workload", key), f'"{key}" has no meaning with kind = "{COMMAND}"', hint
    if not workload.command:
        yield ("workload",), "the workload has no command", 'Give command = ["python3", "load.py"].'
    for index, word in enumerate(workload.command):
        for name in PLACEHOLDER.findall(word):
            if name not in PLACEHOLDERS:
                message = f'"{{{name}}}" in the command stands for nothing'
                yield ("workload", "command", index), message, hint_name(name, PLACEHOLDERS, what="There are")
    seen: set[str] = set()
    for index, file in enumerate(workload.files):
        name = FilePath(file).name
        if name.lower() in seen:
            message = f'two files are called "{name}", and all of them are put into one directory'
            yield ("workload", "files", index), message, "Rename one of them."
        seen.add(name.lower())
        yield from check_file(("workload", "files", index), file, folder)
    yield from _check_format(experiment)
    yield from _check_clients(experiment, folder)
    if replays(experiment) and not isinstance(workload.warmup, float | int):
        place: Path = ("workload", "warmup") if "warmup" in workload.model_fields_set else ("workload",)
        hint = "Write warmup = 0, or a time: what the log writes in that is written twice."
        yield place, "a replay has the throughput of its log, which need not get steady", hint


def _check_clients(experiment: Experiment, folder: FilePath | None) -> Iterator[Found]:
    """A program that has clients of its own makes the same load at each level, unless it is told how many there are."""
    workload = experiment.workload
    declared = [each for each in all_declared(experiment) if each.knob == WORKLOAD]
    places: list[Path] = [("workload", "clients")] if len(workload.client_levels) > 1 else []
    places += [each.path for each in declared if each.key == CLIENTS]
    if replays(experiment):
        for path in places:
            message = "a replay has the sessions of its log, and clients do not change them"
            yield path, message, f"Give the number of the log's sessions in [workload] alone. {_OTHER_SPEED}"
        return
    words = [word for _, command in commands_of(experiment) for word in command]
    if FORMATS[workload.results].keeps_clients or any(map(_CLIENTS.search, words)) or _read_clients(workload, folder):
        return
    unread = [word for word in workload.command[1:] if FilePath(word).is_absolute()]
    for path in places:
        message = f"{workload.results} has the clients of its script, and nothing tells it of these"
        yield path, message, f'"{unread[0]}" is not one of files, and is not looked into. {_TELL}' if unread else _TELL


def commands_of(experiment: Experiment) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """That of the load, and those of arms, with their places in the file."""
    yield ("workload", "command"), experiment.workload.command
    for each in all_declared(experiment):
        if (each.knob, each.key) == (WORKLOAD, COMMAND_KEY) and each.path[0] != "factors":  # a level is no list
            yield each.path, read_command(each.value)


def replays(experiment: Experiment) -> bool:
    """Whether a command sends the statements of a log, by pgreplay or by pgtrial itself."""
    return experiment.workload.results == _PGREPLAY or any(
        _REPLAY.search(" ".join(command)) for _, command in commands_of(experiment)
    )


def _read_clients(workload: WorkloadTable, folder: FilePath | None) -> bool:
    """Whether a file of the load asks how many clients there are; also of files that cannot be read, as is said of
    them elsewhere.
    """
    if folder is None:
        return bool(workload.files)
    for name in workload.files:
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            return True
        if "PGTRIAL_CLIENTS" in text:
            return True
    return False


def _check_format(experiment: Experiment) -> Iterator[Found]:
    """What the results of the command cannot tell, and what its program cannot do."""
    workload, target = experiment.workload, experiment.target
    known = FORMATS[workload.results]
    if workload.results == SYSBENCH:
        yield from _check_sysbench(experiment)
    if workload.results == _BENCHBASE:
        yield from _check_benchbase(experiment)
    if workload.rate is not None and replays(experiment):
        yield ("workload", "rate"), FORMATS[_PGREPLAY].no_rate, _OTHER_SPEED
    elif workload.rate is not None and known.no_rate:
        hint = 'Use clients alone, or a load of kind = "pgbench".'
        yield ("workload", "rate"), f"a load with these results cannot have a rate: {known.no_rate}", hint
    for index, claim in enumerate(experiment.hypothesis.claims):
        if reason := known.lacks(claim.metric):
            path: Path = ("hypothesis",) if index == 0 else ("hypothesis", "and", index - 1)
            yield (*path, "metric"), *_cannot_be_had(claim.metric, workload.results, reason)
    for index, criterion in enumerate(experiment.criteria):
        if reason := known.lacks(criterion.metric):
            yield ("criteria", index, "metric"), *_cannot_be_had(criterion.metric, workload.results, reason)
    if known.needs_port and target.kind != "server":
        message = f"{known.program} cannot reach a throw-away server, which has no port"
        yield ("workload", "results"), message, 'Use kind = "server" in [target], with a host and a port.'
    elif known.needs_port and is_socket(read_connection(target.connection).get("host", "")):
        yield ("target", "connection"), no_socket(known), USE_PORT


def no_socket(known: ResultFormat) -> str:
    return f"{known.program} cannot reach a server by a Unix socket, as the connection does"


def _cannot_be_had(metric: str, results: str, reason: str) -> tuple[str, str]:
    message = f'"{metric}" cannot be had from results = "{results}": {reason}'
    return message, "docs/command.md says what each generator tells."


def _check_sysbench(experiment: Experiment) -> Iterator[Found]:
    for path, command in commands_of(experiment):
        if len(command) == 1 or (command[1:2] and command[1].startswith("-")):
            message = "the command of sysbench names no script behind the program"
            yield path, message, 'Write it first: ["sysbench", "oltp_read_write", "--tables=4"].'
        if any(word == "--rate" or word.startswith("--rate=") for word in command):
            yield path, RATE_OF_SYSBENCH, 'Leave out --rate, or use a load of kind = "pgbench" with rate.'


def _check_benchbase(experiment: Experiment) -> Iterator[Found]:
    """A configuration that is none of files is not looked into, and its rate and its clients are not seen."""
    names = {FilePath(file).name for file in experiment.workload.files if file.endswith(CONFIGURATION_OF_BENCHBASE)}
    for path, command in commands_of(experiment):
        if command and not names.intersection(command):
            message = "the command names no configuration that is one of files: its rate would not be seen"
            yield path, message, 'Write files = "tpcc.xml", and "-c", "tpcc.xml" in the command.'
