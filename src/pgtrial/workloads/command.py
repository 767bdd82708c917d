"""Call a program of the user's choice that loads a server and tells of its requests, as docs/command.md says."""

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pgtrial.errors import SpecError, SpecProblem, WorkloadError
from pgtrial.experiment_file.command_checks import PLACEHOLDER, commands_of
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.result_formats import FORMATS
from pgtrial.experiment_file.workload_table import COMMAND, WorkloadTable
from pgtrial.model.load_sessions import LOAD, NAME
from pgtrial.model.run import LoadLevel
from pgtrial.safe_files import open_file
from pgtrial.store.command_line import LONGEST_INTERVAL, LONGEST_LINE, LONGEST_WHOLE, LineError
from pgtrial.workloads.adapters import BY_NAME
from pgtrial.workloads.adapters.base import Left
from pgtrial.workloads.base import Generator, Output, Results, Summary, derive_seed
from pgtrial.workloads.scenarios import read_script

# What the environment calls what the command may have in braces.
_OF_SERVER = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "database": "PGDATABASE"}
_LARGEST_SEED = 2**31 - 1  # that every program takes
_SPARE = 3  # s that one works longer that ends by itself: a load is left to work a little longer than is measured

# It tells of its progress by its results, and of what went wrong as it likes.
OUTPUT = Output(
    program="the command",
    progress="stdout",
    is_prompt=False,
    parse_progress=lambda _line: None,
    parse_summary=lambda _stdout, _stderr: Summary(processed=None),
    find_errors=lambda _stdout, _stderr: (),
)


def files_of(experiment: Experiment, folder: Path) -> dict[str, str]:
    """The text of each file that the program needs, by the name that it is to have; () for another kind of load.

    Raises SpecError with every file that cannot be read.
    """
    found, problems = {}, []
    adapter = BY_NAME[experiment.workload.results]
    words = [word for _, command in commands_of(experiment) for word in command]
    for index, file in enumerate(experiment.workload.files):
        text, problem = read_script(file, folder, path=f"workload.files[{index}]")
        found[Path(file).name] = text
        if problem is None and (said := adapter.objection(file, text, words)):
            problem = SpecProblem(path=f"workload.files[{index}]", message=f'"{file}": {said}')
        problems += [problem] if problem is not None else []
    if problems:
        raise SpecError(problems[0].message, problems=tuple(problems))
    return found


def plan_command(
    workload: WorkloadTable,
    level: LoadLevel,
    *,
    files: Mapping[str, str],
    environment: Mapping[str, str],
    seconds: float,
    directory: str,
    record: Path | None,
    seed: str,
) -> Generator:
    """The process that makes a load level, for ``seconds`` from its first result on, in ``directory``.

    ``environment`` is how libpq reaches the server. The same ``seed`` gives the program the same number again. Raises
    WorkloadError where the command asks for what the connection does not say.
    """
    number = derive_seed(0, level.index, seed) % _LARGEST_SEED + 1
    facts = {
        "clients": str(level.clients),
        "rate": "0" if level.rate is None else f"{level.rate:.10g}",
        "seconds": f"{seconds:g}",
        "seed": str(number),
        **{name: environment[variable] for name, variable in _OF_SERVER.items() if variable in environment},
    }
    adapter = BY_NAME[workload.results]
    if adapter.ends_itself:
        facts["seconds"] = str(math.ceil(seconds) + _SPARE)
    tells_at_end = adapter.ends_itself or FORMATS[workload.results].is_told_at_end
    program, *words = adapter.arrange(workload.command)
    filled = {name: _fill(text, facts) if adapter.fill(name) else text for name, text in files.items()}
    return Generator(
        program=program,
        argv_tail=tuple(_fill(word, facts) for word in words),
        environment={
            NAME: f"{LOAD}{COMMAND}",
            "PGTRIAL_CLIENTS": facts["clients"],
            "PGTRIAL_RATE": facts["rate"],
            "PGTRIAL_SECONDS": facts["seconds"],
            "PGTRIAL_SEED": facts["seed"],
            **adapter.environment(workload.command),
        },
        scenario_names=(COMMAND,),
        clients=level.clients,
        directory=directory,
        log_prefix=None,
        scripts={**filled, **adapter.adds()},
        results=Results(
            seconds=seconds,
            record=None if record is None else str(record),
            translate=adapter.translator(files),
            needs_lag=level.rate is not None,
            longest=LONGEST_WHOLE if tells_at_end else LONGEST_INTERVAL,
            good_ends=adapter.good_ends,
            ends_itself=adapter.ends_itself,
            begins_silently=adapter.begins_silently,
            tells_no_time=adapter.tells_no_time,
            errors_tell=adapter.errors_tell,
            is_noise=adapter.is_noise,
            left=None if adapter.left is None else partial(_read_left, Path(directory), adapter.left),
        ),
    )


def _read_left(directory: Path, left: Left) -> Iterator[str]:
    """The lines of the only file that a program has left below its directory. Raises LineError.

    The program may still change what is there, and is not followed through a link.
    """
    with contextlib.ExitStack() as stack:
        found: list[BinaryIO] = []
        try:
            for _, _, names, opened in os.fwalk(directory):
                for name in (each for each in names if each.endswith(left.suffix)):
                    if found:
                        raise LineError(f'there is more than one file "*{left.suffix}"')
                    found.append(stack.enter_context(open_file(Path(name), directory=opened)))
            if not found:
                raise LineError(f'there is no file "*{left.suffix}"')
            yield from left.read(_lines(found[0]))
        except OSError as err:
            raise LineError(f'the file "*{left.suffix}" cannot be read: {err.strerror}') from err


def _lines(file: BinaryIO) -> Iterator[str]:
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise LineError(f"a line has more than {LONGEST_LINE} bytes")
        yield line.decode("utf-8", "replace")


def _fill(word: str, facts: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        if match[1] not in facts:
            raise WorkloadError(
                f'the command asks for "{match[0]}", which the connection does not say',
                hint="Write it in connection of [target], or let the program take it from libpq.",
            )
        return facts[match[1]]

    return PLACEHOLDER.sub(fill, word)
