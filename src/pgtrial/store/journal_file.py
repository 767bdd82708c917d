"""The file of the journal of host changes, one per machine and user: locate, create and open it."""

import contextlib
import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.store.journal_values import COLUMN, seal
from pgtrial.store.journal_values import SCHEMA as LONG_VALUES
from pgtrial.store.own_place import find_changeable
from pgtrial.store.sqlite import connect, connect_to_read

VARIABLE = "PGTRIAL_STATE_DIRECTORY"
FILE = "journal.sqlite"
LOCK = "restore.lock"
FORMAT = 3  # 1 had no seals, 2 long values in its entries
_SEALED_FORMAT = 2  # from which on all entries have their seals

_SCHEMA = Path(__file__).with_name("journal.sql")
_NO_WRITING = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)
_HINTS = {
    sqlite3.SQLITE_FULL: "Free some space on its disk.",
    sqlite3.SQLITE_BUSY: "Another pgtrial has been writing to it for long; try again.",
    sqlite3.SQLITE_READONLY: f"Make it writable, or name another directory with {VARIABLE}.",
    sqlite3.SQLITE_CANTOPEN: f"Make its directory writable, or name another one with {VARIABLE}.",
    sqlite3.SQLITE_NOTADB: "Find out what wrote to it. It lists what pgtrial has changed and not put back yet.",
    sqlite3.SQLITE_CORRUPT: "Find out what wrote to it. It lists what pgtrial has changed and not put back yet.",
}


def state_directory() -> Path:
    """The directory of the journal, which need not exist. Raises StoreError if it cannot be determined."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_absolute():  # else a restore from elsewhere would find nothing to do
            raise StoreError(f'{VARIABLE} is not an absolute path: "{named}"')
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/pgtrial")
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        # A relative path in the variable is to be ignored (XDG Base Directory Specification).
        return (base if base.is_absolute() else Path.home() / ".local" / "state") / "pgtrial"
    except RuntimeError as err:
        raise StoreError(
            "there is no place for the journal of host changes: the user has no home directory",
            hint=f"Name a directory with {VARIABLE}.",
        ) from err


def open_journal(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection to the journal. If it is missing, writers create it and readers get an empty one."""
    try:
        if write:
            make_private(path.parent)
            if not path.exists():
                _create(path)
        elif not path.exists():
            return _empty()
        check_owner(path.parent)
        check_owner(path)
        db = connect(path, mode="rw") if write else connect_to_read(path)
        _return_rows(db)
        try:
            _check_format(db, path)
            if write and _format(db) < FORMAT:
                _upgrade_or_bear(db)
        except BaseException:
            db.close()
            raise
    except (OSError, sqlite3.Error) as err:
        raise journal_error("open", path, err) from err
    return db


@contextlib.contextmanager
def lock_restoring(directory: Path) -> Iterator[None]:
    """Prevent a second restore. The kernel releases the lock whatever happens to this process."""
    path = directory / LOCK
    try:
        # It was made with the journal: hosts can be restored although the disk is full or can only be read.
        file = path.open("a+b" if os.access(path.parent, os.W_OK) else "rb")
    except OSError as err:
        raise journal_error("lock", path, err) from err
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                'another "pgtrial restore" is running', hint="Wait until it ends, and read its output."
            ) from None
        yield


def journal_error(action: str, path: Path, err: OSError | sqlite3.Error) -> StoreError:
    """The StoreError for an error of the system or of SQLite."""
    if isinstance(err, OSError):
        text = err.strerror or str(err)
        is_full = err.errno in (errno.ENOSPC, errno.EDQUOT)
        code = sqlite3.SQLITE_FULL if is_full else sqlite3.SQLITE_CANTOPEN
    else:
        text = str(err)
        code = getattr(err, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the rest says more of the same
    return StoreError(f'cannot {action} the journal of host changes "{path}": {text}', hint=_HINTS.get(code, ""))


def make_state_directory(name: str = "") -> Path:
    """A directory in the state directory, or that itself, made where it is missing. Raises OSError and StoreError."""
    make_private(state_directory())
    directory = state_directory() / name
    make_private(directory)
    return directory


def make_private(directory: Path) -> None:
    """Make a directory that nobody else enters, with those above it, and on disk. Raises OSError and StoreError."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    _check_way(directory)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        _sync_directory(each.parent)
    check_owner(directory)


def _create(path: Path) -> None:
    """Make an empty journal, whole or not at all, and on disk when this returns; one that is there is kept."""
    part = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        part.unlink(missing_ok=True)
        with contextlib.closing(connect(part, mode="rwc")) as db:
            _fill(db)
        path.with_name(LOCK).touch(mode=0o600)
        with contextlib.suppress(FileExistsError):  # then another pgtrial was quicker
            os.link(part, path)
        _sync_directory(path.parent)
    finally:
        for suffix in ("", "-wal", "-shm"):
            part.with_name(part.name + suffix).unlink(missing_ok=True)


def has_seals(db: sqlite3.Connection) -> bool:
    """Whether each entry has its checksum, as all have in a journal that this version has written to."""
    return COLUMN in {row["name"] for row in db.execute("PRAGMA table_info(entry)")}


def _upgrade(db: sqlite3.Connection) -> None:
    """A journal of an older version. Of entries without seals there is no telling whether they are as written; long
    values of those that are there stay in them.
    """
    with db:
        db.execute("BEGIN IMMEDIATE")
        if not has_seals(db):  # no other pgtrial was quicker
            db.execute(f"ALTER TABLE entry ADD COLUMN {COLUMN} TEXT")
            for (number,) in db.execute("SELECT id FROM entry").fetchall():
                seal(db, number)
        db.execute(LONG_VALUES)
        db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (str(FORMAT),))


def _upgrade_or_bear(db: sqlite3.Connection) -> None:
    """Have a journal of an older version as this one writes it, or leave it where its disk is full or can only be read
    and what it lists can be undone as it is: that is not to wait for the disk.
    """
    try:
        _upgrade(db)
    except sqlite3.OperationalError as err:
        if _format(db) < _SEALED_FORMAT or err.sqlite_errorcode & 0xFF not in _NO_WRITING:
            raise


def _return_rows(db: sqlite3.Connection) -> None:
    db.row_factory = sqlite3.Row
    db.text_factory = lambda found: found.decode(errors="backslashreplace")


def _empty() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    _return_rows(db)
    _fill(db)
    return db


def _fill(db: sqlite3.Connection) -> None:
    db.executescript(_SCHEMA.read_text(encoding="utf-8").format(format=FORMAT, long_values=LONG_VALUES))


def _check_format(db: sqlite3.Connection, path: Path) -> None:
    found = _format(db)
    if not 0 < found <= FORMAT:
        written = f"format {found}" if found else "an unknown format"
        raise StoreError(
            f'the journal of host changes "{path}" has {written}, this pgtrial knows up to format {FORMAT}',
            hint="Use the newest pgtrial that has been used on this machine.",
        )


def _format(db: sqlite3.Connection) -> int:
    """0: unknown."""
    found = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    return int(found[0]) if found is not None and str(found[0]).isdecimal() else 0


def check_owner(path: Path) -> None:
    """StoreError unless only this user can write: what stands there is written to the kernel's files, or ended."""
    _check_way(path)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise StoreError(
            f'the journal of host changes is not safe: "{path}" belongs to another user',
            hint=f"Set {VARIABLE} to a directory of your own, or unset it.",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(
            f'the journal of host changes is not safe: other users can write to "{path}"',
            hint=f'Revoke that right: chmod go-w "{path}"',
        )


def _check_way(path: Path) -> None:
    """StoreError where a path, which need not be there, is reached through what somebody else may replace."""
    changeable = find_changeable(path)
    if changeable and changeable != str(path):  # of itself ``check_owner`` says more
        raise StoreError(
            f'the journal of host changes is not safe: others may change "{changeable}", where it lies',
            hint=f"Set {VARIABLE} to a directory that nobody else can replace, or unset it.",
        )


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
