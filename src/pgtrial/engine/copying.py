"""A copy of an existing database, to try on it what nobody would try on the original."""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgtrial.engine.changes import finish
from pgtrial.engine.restore import find_unrestored, owner_of, raise_failed, undo_entry
from pgtrial.engine.signals import until_signalled
from pgtrial.errors import HostCommandError, PreflightError, TargetError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import identify
from pgtrial.knobs.base import KnobContext, forget
from pgtrial.model.change import SERVER_COPY, Outcome, Undone
from pgtrial.postgres.existing.copies import Copied, read_settings
from pgtrial.postgres.existing.database import name_of_database
from pgtrial.postgres.existing.knobs import ServerCopy
from pgtrial.postgres.existing.server import open_server
from pgtrial.postgres.programs import find_programs
from pgtrial.safe_files import new_path
from pgtrial.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """``size`` in bytes, the server's ``major`` version, and ``settings`` of the database, which a dump has not."""

    size: int
    major: int
    settings: tuple[str, ...]


def copy_on_server(experiment: Experiment, name: str, caller: Mapping[str, str], output: Path) -> Copied:
    """Copy the experiment's database to ``name``, on its server, for the file ``output``. ``caller`` are libpq's
    variables.

    Nothing is left of a copy that does not become whole; where pgtrial is killed, it is in the journal. Raises
    ConnectError, PreflightError, TargetError, StoreError, and RestoreError where it could not be dropped.
    """
    return asyncio.run(until_signalled(_copy(experiment, name, caller, output)))


async def _copy(experiment: Experiment, name: str, caller: Mapping[str, str], output: Path) -> Copied:
    target = experiment.target
    assert target.database is not None  # the command asks for nothing else
    own = identify(os.getpid())
    assert own is not None  # it is this process
    async with open_host(target.host) as host:
        server = await open_server(host, target.connection, database=target.database, restart=(), caller=caller)
        knob, context = ServerCopy(server=server), KnobContext(host=host, token="", directory="/")
        with Journal.open(write=True) as journal:
            _refuse_unfinished(journal, name_of_database(server.control.address, name))
            (change,) = await knob.plan(context, {"name": name, "template": target.database})
            entry = journal.begin(
                change,
                host=host.name,
                boot_id=host.ops.boot_id(),
                folder=str(output.absolute()),
                run=None,
                owner=owner_of(own),
                t=time.time(),
            )
            try:
                got = await knob.apply(context, change)
            except BaseException:
                undone = await finish(undo_entry((knob,), host, entry, forget))
                journal.end(entry, undone, t=time.time())
                raise_failed([(entry, undone)])
                raise
            journal.end(entry, Undone(outcome=Outcome.CHANGED, text="It is whole, and its maker's."), t=time.time())
    return Copied.from_got(got)


def _refuse_unfinished(journal: Journal, name: str) -> None:
    """Raise PreflightError where somebody is at work on a copy of this name, or has left it unfinished."""
    found = find_unrestored(journal)
    for record in (*found.in_use, *found.left):
        change = record.entry.change
        if change.knob != SERVER_COPY or change.name != name:
            continue
        if record in found.in_use:
            raise PreflightError(
                f"{name} is being made by another pgtrial, process {record.owner.pid}",
                hint="Wait until it ends, or name another one with --as.",
            )
        raise PreflightError(
            f"{name} is {change.new_text} that was not finished",
            detail=f'A pgtrial that made it for "{record.entry.folder}" was killed.',
            hint='Run "pgtrial restore", which drops what there is of it, and copy again; or name another one with '
            "--as.",
        )


def dump(experiment: Experiment, to: Path, caller: Mapping[str, str]) -> Dumped:
    """Dump the experiment's database to a file of pg_dump's own format.

    Raises ConnectError, PreflightError, TargetError; a part of a dump is not left.
    """
    if to.exists():
        raise PreflightError(f'"{to}" already exists', hint="Name another file with --dump.")
    return asyncio.run(_dump(experiment, to, caller))


async def _dump(experiment: Experiment, to: Path, caller: Mapping[str, str]) -> Dumped:
    target = experiment.target
    assert target.database is not None  # as above
    here = LocalHost()
    async with open_host(target.host) as host:
        server = await open_server(host, target.connection, database=target.database, restart=(), caller=caller)
        programs = find_programs(target.postgres, may_run=False)
        if programs.major < server.facts.major:
            raise PreflightError(
                f"pg_dump {programs.version} cannot dump a server of PostgreSQL {server.facts.version}",
                hint=f"Install the programs of PostgreSQL {server.facts.major}, and write postgres = "
                f'"{server.facts.major}" in [target].',
            )
        settings = await read_settings(server, target.database)
        environment = server.environment(target.database)
        options = ("--format=custom", "--no-owner", "--no-privileges", f"--dbname={environment['PGDATABASE']}")
        try:
            with new_path(to) as part:
                part.touch(mode=0o600)  # pg_dump keeps it: the data are for their owner alone
                await here.run([programs.path("pg_dump"), *options, f"--file={part}"], environment=environment)
        except HostCommandError as err:
            said = err.detail or err.message
            raise TargetError(
                f'cannot dump database "{target.database}": {said}',
                hint="A dump needs SELECT on all tables and sequences: GRANT SELECT ON ALL TABLES IN SCHEMA …, and "
                "GRANT SELECT ON ALL SEQUENCES IN SCHEMA …, for each schema."
                if "permission denied" in said
                else "",
            ) from err
    return Dumped(size=to.stat().st_size, major=server.facts.major, settings=settings)
