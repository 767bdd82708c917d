"""Dump an existing database to a file beside which nothing stays of a dump that is not whole."""

from collections.abc import Mapping
from pathlib import Path

from pgtrial.errors import HostCommandError, PgTrialError, PreflightError, TargetError
from pgtrial.knobs.base import KnobContext
from pgtrial.model.change import DUMP, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.safe_files import check_new_path, hidden_name, is_hidden_name, new_path, remove_path

_OPTIONS = ("--format=custom", "--no-owner", "--no-privileges")


def plan_dump(to: Path, database: str) -> Change:
    """What makes file ``to`` a dump of a database: in a directory beside it, whose name is chosen now.

    Raises PreflightError.
    """
    directory = hidden_name(to)
    try:
        check_new_path(to, directory)
    except OSError as err:
        raise _refuse_place(PreflightError, to, err) from err
    return Change(
        knob=DUMP,
        name=f'"{to}"',
        old={},
        new={"path": str(to), "directory": directory, "database": database},
        old_text="none",
        new_text=f'a dump of database "{database}"',
    )


async def apply_dump(server: ExistingServer, context: KnobContext, change: Change) -> Mapping[str, str]:
    """Have pg_dump write it. Raises TargetError; then nothing is left."""
    assert context.programs is not None
    database, pg_dump = change.new["database"], context.programs.path("pg_dump")
    environment = server.environment(database)
    try:
        with new_path(Path(change.new["path"]), change.new["directory"]) as part:
            got = {"inode": str(part.parent.stat().st_ino)}
            context.note(got)
            part.touch(mode=0o600)  # pg_dump keeps it: the data are for their owner alone
            options = (*_OPTIONS, f"--dbname={environment['PGDATABASE']}", f"--file={part}")
            await context.host.run([pg_dump, *options], environment=environment)
    except HostCommandError as err:
        said = err.detail or err.message
        raise TargetError(
            f'cannot dump database "{database}": {said}',
            hint="A dump needs SELECT on all tables and sequences: GRANT SELECT ON ALL TABLES IN SCHEMA …, and "
            "GRANT SELECT ON ALL SEQUENCES IN SCHEMA …, for each schema."
            if "permission denied" in said
            else "",
        ) from err
    except OSError as err:
        raise _refuse_place(TargetError, Path(change.new["path"]), err) from err
    return got


def undo_dump(entry: JournalEntry) -> Undone:
    """Remove the directory in which a dump was being written; one that became whole is no longer in it.

    Without an inode in the journal nothing was written yet: then nothing keeps the entry open. Raises OSError.
    """
    new, got = entry.change.new, entry.got or {}
    path, name = Path(new["path"]), new["directory"]
    if not is_hidden_name(name, path):
        return Undone(outcome=Outcome.FAILED, text=f'"{name}" is not a name that pgtrial gives to a directory.')
    directory, inode = path.with_name(name), int(got["inode"]) if "inode" in got else None
    try:
        if remove_path(path, name, inode=inode):
            return Undone(outcome=Outcome.RESTORED)
    except BlockingIOError:
        text = f'"{directory}" is in use by a pgtrial of another container or machine, which writes the dump.'
        return Undone(outcome=Outcome.FAILED, text=text)
    except OSError as err:
        if inode is not None:
            raise
        text = f'"{directory}" is left as it is: {err.strerror}.'
    else:
        text = f'"{directory}" is not the directory that pgtrial made; it is left as it is.'
    return Undone(outcome=Outcome.CHANGED, text=text)


def _refuse_place(kind: type[PgTrialError], path: Path, err: OSError) -> PgTrialError:
    return kind(f'cannot write "{path}": {err.strerror}')
