"""The scenarios of an experiment: the script of each, the set-up SQL they need, and the extensions it creates.

The predefined mixes are pgbench scripts in ``mixes/``, one folder per mix and one file per scenario.
"""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.migrations import HINT, explain_both_halves
from pgtrial.experiment_file.workload_checks import LARGEST
from pgtrial.experiment_file.workload_table import COMMAND, MIX_SCENARIOS, TPCC, ScenarioTable
from pgtrial.knobs.fio import FIO
from pgtrial.knobs.workload import PAUSES, SCRIPTS, VARIABLES, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.safe_files import open_file
from pgtrial.units import format_bytes
from pgtrial.workloads.data_files import data_files, explain_no_sql
from pgtrial.workloads.meta_commands import stretch_pauses
from pgtrial.workloads.psql_script import extensions_in

_MIXES = Path(__file__).with_name("mixes")
_READS_AND_WRITES = {"read": 0.7, "insert": 0.2, "update": 0.1}
# Of TPC-C all but new-order are the least that clause 5.2.3 of its specification allows, and new-order is the rest.
MIX_SHARES = {
    "oltp": _READS_AND_WRITES,
    "olap": _READS_AND_WRITES,
    TPCC: {"new-order": 0.45, "payment": 0.43, "order-status": 0.04, "delivery": 0.04, "stock-level": 0.04},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One SQL script of the workload: its text, or the name of one of pgbench's own.

    ``share`` is relative to the other scenarios' shares; ``sessions`` is a constant number instead. ``variables`` are
    pgbench variables (name, value) that are defined before the script begins.
    """

    name: str
    script: str | None = None
    builtin: str | None = None
    share: float | None = None
    sessions: int | None = None
    variables: tuple[tuple[str, str], ...] = ()


def scenarios_of(experiment: Experiment, folder: Path) -> tuple[Scenario, ...]:
    """Scenarios of the mix, or the file's own; ``folder`` is where the file's relative paths begin.

    Raises SpecError with every script that cannot be read.
    """
    workload = experiment.workload
    if workload.kind in (FIO, COMMAND):
        return ()  # a load on files has jobs instead, and what a program does is up to it
    # pgbench finds the scale in the tables for its own scripts only; for others ":scale" would be 1.
    dataset = experiment.dataset
    variables = (("scale", str(dataset.scale)),) if dataset.kind != "sql" else ()
    if workload.scenario:
        return _own(workload.scenario, folder, variables)
    if workload.mix is None:
        raise SpecError("the workload has neither a mix nor a scenario")
    if workload.mix in MIX_SHARES:
        return tuple(
            Scenario(
                name=name,
                script=(_MIXES / workload.mix / f"{name}.sql").read_text(encoding="utf-8"),
                share=MIX_SHARES[workload.mix][name],
                variables=variables,
            )
            for name in MIX_SCENARIOS[workload.mix]
        )
    return (Scenario(name=workload.mix, builtin=workload.mix, share=1.0),)


def read_arm_scripts(arms: Iterable[Arm], folder: Path) -> dict[str, dict[str, str]]:
    """The texts of the scripts that arms have in place of those of the scenarios: by arm, and by scenario.

    Raises SpecError with every one that cannot be read.
    """
    texts: dict[str, dict[str, str]] = {}
    problems = []
    for arm in arms:
        for key, file in arm.knobs.get(WORKLOAD, {}).items():
            if key.startswith(SCRIPTS):
                text, problem = read_script(file, folder, path=arm.origin(WORKLOAD, key))
                texts.setdefault(arm.name, {})[key.removeprefix(SCRIPTS)] = text
                problems += [problem] if problem is not None else []
    if problems:
        raise SpecError(problems[0].message, problems=tuple(dict.fromkeys(problems)))
    return texts


def of_arm(scenarios: Collection[Scenario], arm: Arm, scripts: Mapping[str, str]) -> tuple[Scenario, ...]:
    """The scenarios as an arm has them, whose own ``scripts`` are by scenario: with these, its variables and pauses."""
    table = arm.knobs.get(WORKLOAD, {})
    variables = {key.removeprefix(VARIABLES): value for key, value in table.items() if key.startswith(VARIABLES)}
    texts = {one.name: scripts.get(one.name, one.script) for one in scenarios}
    if PAUSES in table:
        texts = {name: text and stretch_pauses(text, float(table[PAUSES])) for name, text in texts.items()}
    return tuple(
        replace(
            one,
            script=texts[one.name],
            builtin=None if one.name in scripts else one.builtin,
            variables=tuple({**dict(one.variables), **variables}.items()),
        )
        for one in scenarios
    )


def at_scale(scenarios: Iterable[Scenario], scale: int | None) -> tuple[Scenario, ...]:
    """The same scenarios on tables of another scale than the file's [dataset] has; None: as they are."""
    if scale is None:
        return tuple(scenarios)
    return tuple(
        replace(one, variables=tuple((name, str(scale) if name == "scale" else value) for name, value in one.variables))
        for one in scenarios
    )


def setup_sql(experiment: Experiment, folder: Path) -> tuple[tuple[str, str], ...]:
    """(name, SQL) of what is run once after the tables are made: the file's own set-up first, then the mix's.

    Raises SpecError if the file's set-up cannot be read or is for psql.
    """
    scripts = []
    setup, mix = experiment.dataset.setup, experiment.workload.mix
    if setup is not None:
        if kind := explain_no_sql(folder / setup):
            message = f'"{setup}" is {kind}, and a set-up file has plain SQL only'
            hint = f'Load it by psql or pg_restore: load = "{setup}" in [dataset], with kind = "sql".'
            raise SpecError(message, problems=(SpecProblem(path="dataset.setup", message=message, hint=hint),))
        text, problem = read_script(setup, folder, path="dataset.setup")
        if problem is None and (wrong := explain_both_halves(text)):
            problem = SpecProblem(path="dataset.setup", message=f'cannot execute "{setup}": {wrong}', hint=HINT)
        if problem is not None:
            raise SpecError(problem.message, problems=(problem,))
        scripts.append((setup, text))
    if mix in MIX_SHARES and mix != TPCC:  # whose tables are made as it needs them
        scripts.append((f"the set-up of mix {mix}", (_MIXES / "setup.sql").read_text(encoding="utf-8")))
    return tuple(scripts)


def scripts_of(experiment: Experiment, folder: Path) -> dict[str, str]:
    """The SQL that the file brings, by name of its file: the set-up and the scenarios, not those of the mixes.

    Raises SpecError if one cannot be read.
    """
    setup = () if experiment.dataset.setup is None else setup_sql(experiment, folder)[:1]
    return dict((*setup, *scripts_of_scenarios(experiment, folder)))


def scripts_of_scenarios(experiment: Experiment, folder: Path) -> Iterator[tuple[str, str]]:
    """(file, SQL) of the scenarios that have a file. Raises SpecError if one cannot be read."""
    tables = experiment.workload.scenario
    for table, scenario in zip(tables, scenarios_of(experiment, folder) if tables else (), strict=True):
        if table.file is not None and scenario.script is not None:
            yield table.file, scenario.script


def _own(
    tables: tuple[ScenarioTable, ...], folder: Path, variables: tuple[tuple[str, str], ...]
) -> tuple[Scenario, ...]:
    scenarios, problems = [], []
    for index, table in enumerate(tables):
        script = None
        if table.file is not None:
            script, problem = read_script(table.file, folder, path=f"workload.scenario.{index}.file")
            if problem is not None:
                problems.append(problem)
        scenarios.append(
            Scenario(
                name=table.name,
                script=script,
                builtin=table.builtin,
                share=1.0 if table.share is None and table.sessions is None else table.share,
                sessions=table.sessions,
                variables=variables if table.builtin is None else (),
            )
        )
    if problems:
        raise SpecError(problems[0].message, problems=tuple(problems))
    return tuple(scenarios)


def read_script(file: str, folder: Path, *, path: str) -> tuple[str, SpecProblem | None]:
    """The text of a script, or what is wrong with it, which stands at ``path`` in the experiment file."""
    try:
        with open_file(folder / file, follow=True) as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            too_large = f"it has more than {format_bytes(LARGEST)}; data belong in dataset.load"
            return "", SpecProblem(path=path, message=f'cannot read "{folder / file}": {too_large}')
        with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig") as text:
            return text.read(), None
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "it is not UTF-8 text"
        return "", SpecProblem(path=path, message=f'cannot read "{folder / file}": {reason}')


def find_extensions(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> Mapping[str, str]:
    """Where each is created, by its name: a file's name, or a key of the experiment file.

    ``folder`` is where relative names begin. Raises SpecError if a file cannot be read.
    """
    found: dict[str, str] = {}
    for file in data_files(experiment, folder):
        found |= dict.fromkeys(sorted(file.extensions - found.keys()), file.name)
    if experiment.dataset.setup is not None:
        name, text = setup_sql(experiment, folder)[0]
        found |= dict.fromkeys(sorted(extensions_in(text) - found.keys()), name)
    for arm in arms:
        created = {name for name in arm.knobs.get("extensions", {}).get("create", "").split(", ") if name}
        in_sql = extensions_in(arm.knobs.get("sql", {}).get("apply", ""))
        found |= dict.fromkeys(sorted(created - found.keys()), arm.origin("extensions", "create"))
        found |= dict.fromkeys(sorted(in_sql - found.keys()), arm.origin("sql", "apply"))
    return found


def say_lacking(lacking: Mapping[str, str]) -> str:
    """ "has no extension "hypopg", which setup.sql creates": of those that ``find_extensions`` has found."""
    listed = ", ".join(f'"{name}", which {where} creates' for name, where in lacking.items())
    return f"has no extension {listed}"
