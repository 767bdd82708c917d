"""The user's consent to what an experiment does: code that it executes, writes to an existing database, the host."""

from collections.abc import Sequence
from pathlib import Path

from pgtrial.errors import ConsentError
from pgtrial.experiment_file.code_uses import CodeUse, find_code_uses
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.postgres.connect import split_statements
from pgtrial.postgres.programs import is_known_directory
from pgtrial.workloads.data_files import data_files
from pgtrial.workloads.scenarios import read_arm_scripts, scripts_of


def uses_of(experiment: Experiment, arms: Sequence[Arm], folder: Path, *, is_here: bool = True) -> tuple[CodeUse, ...]:
    """What an experiment executes, whose scripts are in ``folder``; ``is_here`` as of a ``Place``. Raises SpecError if
    one cannot be read.
    """
    is_here = is_here and experiment.target.host is None
    loaded = tuple(use for file in data_files(experiment, folder) for use in file.uses)
    found = find_code_uses(
        experiment,
        arms,
        {**scripts_of(experiment, folder), **_scripts_of_arms(arms, folder)},
        # Of another machine nothing is known before it is asked.
        is_known=lambda directory: is_here and is_known_directory(directory),
    )
    return tuple(dict.fromkeys((*found, *loaded)))


def _scripts_of_arms(arms: Sequence[Arm], folder: Path) -> dict[str, str]:
    """The scripts that arms have of their own, by the names that the file gives them."""
    texts = read_arm_scripts(arms, folder)
    return {
        arm.knobs[WORKLOAD][f"{SCRIPTS}{scenario}"]: text
        for arm in arms
        for scenario, text in texts.get(arm.name, {}).items()
    }


def refuse_code(uses: Sequence[CodeUse]) -> ConsentError:
    """The error that names the code."""
    return ConsentError(
        "the experiment executes code of its own, which you have not allowed",
        detail="\n".join(f"{use.where}: {use.what}" for use in uses),
        hint="Read it, then add --allow-code. It gets the rights of the server's account where no others are named.",
    )


def writes_of(experiment: Experiment, arms: Sequence[Arm]) -> tuple[CodeUse, ...]:
    """What an experiment changes, or may change, on an existing server: in a database that its file lets it change, or
    by the statements of data that are loaded into one of its own.
    """
    target = experiment.target
    if target.kind == "server" and target.database is None:
        what = "its statements are executed on the server, with the rights of the role"
        return tuple(CodeUse(where=f"dataset.load, {name}", what=what) for name in experiment.dataset.load)
    if target.kind != "server" or not target.writes:
        return ()
    load = "its program" if experiment.workload.kind == COMMAND else "its scripts"
    found = [CodeUse(where="workload", what=f'{load} may write to database "{target.database}"')]
    for arm in arms:
        for key in ("apply", "undo"):
            script, where = arm.knobs.get("sql", {}).get(key, ""), arm.origin("sql", key)
            found += [CodeUse(where=where, what=" ".join(text.split())) for _, text in split_statements(script)]
        for name in filter(None, arm.knobs.get("extensions", {}).get("create", "").split(", ")):
            found.append(CodeUse(where=arm.origin("extensions", "create"), what=f"CREATE EXTENSION {name}"))
    return tuple(dict.fromkeys(found))


def refuse_writes(writes: Sequence[CodeUse], *, copy_of: str | None) -> ConsentError:
    """The error that names them. ``copy_of`` is what the database is a copy of, if the file says so."""
    better = (
        'Better try it on a copy ("pgtrial copy" makes one), or on a throw-away cluster. To change this server'
        if copy_of is None
        else f'By the file the database is a copy of "{copy_of}". To change it'
    )
    return ConsentError(
        "the experiment changes a server that is not its own, which you have not allowed",
        detail="\n".join(f"{use.where}: {use.what}" for use in writes),
        hint=f"{better}, add --allow-writes.",
    )


def refuse_host_changes(wanted: Sequence[str]) -> ConsentError:
    """The error that names what is set outside servers of pgtrial's own."""
    return ConsentError(
        "the experiment changes host settings, which you have not allowed",
        detail=f"It sets {'; '.join(wanted)}.",
        hint='Review every change with "pgtrial plan", then add --allow-host-changes.',
    )
