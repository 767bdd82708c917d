"""Dump an existing database to a file beside which nothing stays of a dump that is not whole."""

import re
from collections.abc import Mapping
from pathlib import Path

from pgtrial.errors import HostCommandError, TargetError
from pgtrial.knobs.base import KnobContext
from pgtrial.model.change import DUMP, Change, JournalEntry, Outcome, Undone
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.safe_files import hidden_name, new_path, remove_path

_OPTIONS = ("--format=custom", "--no-owner", "--no-privileges")
_RANDOM = re.compile(r"-[0-9a-f]{16}")  # at the end of a ``hidden_name``


def plan_dump(to: Path, database: str) -> Change:
    """What makes file ``to`` a dump of a database: in a directory beside it, whose name is chosen now."""
    return Change(
        knob=DUMP,
        name=f'"{to}"',
        old={},
        new={"path": str(to), "directory": hidden_name(to), "database": database},
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
    return got


def undo_dump(entry: JournalEntry) -> Undone:
    """Remove the directory in which a dump was being written; one that became whole is no longer in it."""
    new, got = entry.change.new, entry.got or {}
    path, name = Path(new["path"]), new["directory"]
    if not _RANDOM.fullmatch(name.removeprefix(f".{path.name[:100]}")):
        return Undone(outcome=Outcome.FAILED, text=f'"{name}" is not a name that pgtrial gives to a directory.')
    inode = int(got["inode"]) if "inode" in got else None
    if remove_path(path, name, inode=inode):
        return Undone(outcome=Outcome.RESTORED)
    text = f'"{path.with_name(name)}" is not the directory that pgtrial made; it is left as it is.'
    return Undone(outcome=Outcome.CHANGED, text=text)
