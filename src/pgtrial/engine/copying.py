"""A copy of an existing database, to try on it what nobody would try on the original."""

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pgtrial.engine.restore import find_unrestored, raise_failed, undo_entry, undo_open
from pgtrial.engine.signals import undisturbed, until_signalled
from pgtrial.errors import PreflightError, RestoreError, StoreError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.connect import open_host
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import boot_id, identify
from pgtrial.knobs.base import HostKnob, KnobContext, forget
from pgtrial.model.change import DUMP, SERVER_COPY, JournalEntry, Outcome, Undone
from pgtrial.postgres.existing.copies import Copied
from pgtrial.postgres.existing.database import name_of_database
from pgtrial.postgres.existing.database_settings import read_settings
from pgtrial.postgres.existing.knobs import Dump, ServerCopy
from pgtrial.postgres.existing.server import open_server
from pgtrial.postgres.programs import find_programs
from pgtrial.store.journal import Journal, JournalRecord

_log = logging.getLogger(__name__)


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
    async with open_host(target.host) as host:
        server = await open_server(host, target.connection, database=target.database, restart=(), caller=caller)
        knob, context = ServerCopy(server=server), KnobContext(host=host, token="", directory="/")
        with Journal.open(write=True) as journal:
            _refuse_unfinished(journal, name_of_database(server.control.address, name))
            got = await _make(journal, knob, context, {"name": name, "template": target.database}, output)
    return Copied.from_got(got)


async def _make(
    journal: Journal, knob: HostKnob, context: KnobContext, wanted: Mapping[str, str], output: Path
) -> Mapping[str, str]:
    """Make what is its maker's as soon as it is whole, and till then in the journal, for the file ``output``."""
    own = identify(os.getpid())
    assert own is not None  # it is this process
    (change,) = await knob.plan(context, wanted)
    entry = journal.begin(
        change,
        host=context.host.name,
        boot_id=context.host.ops.boot_id(),
        folder=str(output.absolute()),
        run=None,
        owner=own,
        t=time.time(),
    )

    def note(got: Mapping[str, str]) -> None:
        nonlocal entry
        entry = journal.confirm(entry, got)

    try:
        got = await knob.apply(replace(context, note=note), change)
    except BaseException:
        undone = await undisturbed(undo_entry((knob,), context.host, entry, forget))
        journal.end(entry, undone, t=time.time())
        raise_failed([(entry, undone)])
        raise
    journal.end(entry, Undone(outcome=Outcome.CHANGED, text="It is whole, and its maker's."), t=time.time())
    return got


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


def dump(experiment: Experiment, to: Path, caller: Mapping[str, str], output: Path) -> Dumped:
    """Dump the experiment's database to a file of pg_dump's own format, for the file ``output``.

    Nothing is left of a dump that does not become whole; where pgtrial is killed, it is in the journal, and the next
    dump removes it. Raises ConnectError, PreflightError, TargetError, StoreError.
    """
    if os.path.lexists(to):
        raise PreflightError(f'"{to}" already exists', hint="Name another file with --dump.")
    return asyncio.run(until_signalled(_dump(experiment, to.absolute(), caller, output)))


async def _dump(experiment: Experiment, to: Path, caller: Mapping[str, str], output: Path) -> Dumped:
    target = experiment.target
    assert target.database is not None  # as above
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
        context = KnobContext(host=LocalHost(), token="", directory="/", programs=programs)
        with Journal.open(write=True) as journal:
            await _clear_dumps(journal)
            wanted = {"path": str(to), "database": target.database}
            await _make(journal, Dump(server=server), context, wanted, output)
    return Dumped(size=to.stat().st_size, major=server.facts.major, settings=settings)


async def _clear_dumps(journal: Journal) -> None:
    """Remove what is left of dumps whose pgtrial was killed, as far as that can be, and tell of it.

    Who is at work on another machine that shares the state directory seems to have ended as well: what another boot has
    in the journal is left to the user.
    """
    boot, is_due = boot_id(), False
    for record in find_unrestored(journal).left:
        entry = record.entry
        if entry.change.knob == DUMP and entry.boot_id == boot:
            is_due = True
        elif entry.change.knob == DUMP:
            _log.warning(
                "%s was begun on another machine, or before this one was started, and is not finished. Where that is "
                'over, "pgtrial restore" removes what is left of it.',
                _describe(entry),
            )
    if is_due:
        with suppress(RestoreError, StoreError):  # the journal still has it, or another "pgtrial restore" is at it
            await undo_open(
                journal,
                knobs=(Dump(),),
                host_of=open_host,
                tell=_tell_cleared,
                is_due=lambda entry: entry.change.knob == DUMP and entry.boot_id == boot,
            )


def _tell_cleared(record: JournalRecord, undone: Undone) -> None:
    if undone.outcome is Outcome.RESTORED:
        _log.warning("removed what a pgtrial that was killed had left of %s", _describe(record.entry))
    else:
        _log.warning("%s is not finished, and cannot be removed: %s", _describe(record.entry), undone.text)


def _describe(entry: JournalEntry) -> str:
    """ "a dump of database "shop" at "/backup/shop.dump" "."""
    return f"{entry.change.new_text} at {entry.change.name}"
