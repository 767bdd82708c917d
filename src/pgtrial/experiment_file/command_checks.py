"""Checks of a load by a program of the user's choice: what it needs, and what only another kind of load can have."""

import re
from collections.abc import Iterator
from pathlib import Path as FilePath

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Found
from pgtrial.experiment_file.workload_checks import check_file
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.nearest import hint_name

# What stands for a fact in a word of the command: "{clients}".
PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
PLACEHOLDERS = ("clients", "rate", "seconds", "seed", "host", "port", "user", "database")
_NOT_OF_COMMANDS = ("mix", "scenario", "share", "latency_limit", "protocol", "threads", "max_tries")
_ONLY_OF_COMMANDS = ("command", "files", "results")
_SYSBENCH = "sysbench"


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
    if workload.results == _SYSBENCH:
        yield from _check_sysbench(experiment)


def _check_sysbench(experiment: Experiment) -> Iterator[Found]:
    workload = experiment.workload
    if len(workload.command) == 1 or (workload.command[1:2] and workload.command[1].startswith("-")):
        message = "the command of sysbench names no script behind the program"
        yield ("workload", "command"), message, 'Write it first: ["sysbench", "oltp_read_write", "--tables=4"].'
    if workload.rate is not None:
        message = "sysbench does not say when a request was due, so it cannot have a rate"
        yield ("workload", "rate"), message, 'Use clients alone, or a load of kind = "pgbench".'
