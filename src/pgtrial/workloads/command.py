"""Call a program of the user's choice that loads a server and tells of its requests, as docs/command.md says."""

import re
from collections.abc import Mapping
from pathlib import Path

from pgtrial.errors import SpecError, WorkloadError
from pgtrial.experiment_file.command_checks import PLACEHOLDER
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import COMMAND, WorkloadTable
from pgtrial.model.load_sessions import LOAD, NAME
from pgtrial.model.run import LoadLevel
from pgtrial.workloads import sysbench
from pgtrial.workloads.base import Generator, Output, Results, Summary, derive_seed
from pgtrial.workloads.scenarios import read_script

# What the environment calls what the command may have in braces.
_OF_SERVER = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "database": "PGDATABASE"}
_LARGEST_SEED = 2**31 - 1  # that every program takes

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
    for index, file in enumerate(experiment.workload.files):
        text, problem = read_script(file, folder, path=f"workload.files[{index}]")
        found[Path(file).name] = text
        problems += [problem] if problem is not None else []
    if problems:
        raise SpecError(problems[0].message, problems=tuple(problems))
    return found


def program_of(workload: WorkloadTable) -> Path:
    return Path(workload.command[0])


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
    is_sysbench = workload.results == sysbench.NAME
    words = sysbench.arrange(workload.command) if is_sysbench else workload.command
    return Generator(
        argv_tail=tuple(_fill(word, facts) for word in words[1:]),
        environment={
            NAME: f"{LOAD}{COMMAND}",
            "PGTRIAL_CLIENTS": facts["clients"],
            "PGTRIAL_RATE": facts["rate"],
            "PGTRIAL_SECONDS": facts["seconds"],
            "PGTRIAL_SEED": facts["seed"],
            **(sysbench.environment(workload.command) if is_sysbench else {}),
        },
        scenario_names=(COMMAND,),
        clients=level.clients,
        directory=directory,
        log_prefix=None,
        scripts={**files, **(sysbench.scripts() if is_sysbench else {})},
        results=Results(
            seconds=seconds,
            record=None if record is None else str(record),
            translate=sysbench.translate if is_sysbench else lambda line: line,
            needs_lag=level.rate is not None,
        ),
    )


def _fill(word: str, facts: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        if match[1] not in facts:
            raise WorkloadError(
                f'the command asks for "{match[0]}", which the connection does not say',
                hint="Write it in connection of [target], or let the program take it from libpq.",
            )
        return facts[match[1]]

    return PLACEHOLDER.sub(fill, word)
