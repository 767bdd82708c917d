"""Connections to SQLite databases of pgtrial's own, in folders that may come from anybody."""

import os
import sqlite3
import stat
from itertools import count
from pathlib import Path

from pgtrial.store.own_place import is_own

# A folder of 1,000 runs has some 100 MB.
LARGEST = 512 << 20  # bytes
_LONGEST_TEXT = 64 << 20  # bytes
# Steps of SQLite's machine for a connection to read, a few seconds of CPU time: 200 runs take 40,000, 48 runs of many
# slices 300,000 for 1.5 MB, and so the largest file 100 million. A clock would also count what others do meanwhile.
_MOST_STEPS = 100_000_000
_BETWEEN = 100_000  # steps between two looks at how many they are


_MOST_TABLES = 1000  # and indexes: looking at each takes some 0.1 ms, and pgtrial makes some twenty
_PLAIN = {"table": ("CREATE TABLE ",), "index": ("CREATE INDEX ", "CREATE UNIQUE INDEX ")}
_OWN_INDEX = "CREATE INDEX "  # one that SQLite made for a key has no text


def connect(path: Path, *, mode: str, durable: bool = True) -> sqlite3.Connection:
    """A connection in SQLite's ``mode``: "ro", "rw", or "rwc", which makes the file. Raises sqlite3.Error.

    Each transaction waits until it is on disk, unless it need not be ``durable``. A database is refused that has more
    than plain tables.
    """
    _check_files(path)
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=10)
    try:
        db.execute("PRAGMA trusted_schema = OFF")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        try:
            _check_schema(db)
        except UnicodeDecodeError as err:
            raise sqlite3.DatabaseError(f"its schema is no text: {err}") from err
        if mode in ("rw", "rwc"):
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            db.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        db.close()
        raise
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that sees what a pgtrial at work writes; also in a folder that cannot be written, or is not ours.

    To read a database with a write-ahead log, SQLite itself has to write beside it; what it makes there goes again only
    when the last connection that may write is closed, so this one may, but does not. Where others can lead it
    elsewhere, it writes nothing, and needs what the one that writes has made. A folder that was closed in order is one
    file. Who reads on and on is interrupted.
    """
    if os.access(path.parent, os.W_OK) and is_own(path):
        db = connect(path, mode="rw")
        db.execute("PRAGMA query_only = ON")
    else:
        has_log = os.path.lexists(path.with_name(f"{path.name}-wal"))
        db = connect(path, mode="ro&readonly_shm=1" if has_log else "ro&immutable=1")
    looks = count(1)
    db.set_progress_handler(lambda: next(looks) * _BETWEEN > _MOST_STEPS, _BETWEEN)
    return db


def _check_files(path: Path) -> None:
    """sqlite3.DatabaseError where the files of a database are not such as pgtrial leaves.

    SQLite follows links. And a rollback journal, which there is none of as pgtrial uses a write-ahead log, can name a
    file anywhere, which SQLite then deletes.
    """
    if os.path.lexists(path.with_name(f"{path.name}-journal")):
        raise sqlite3.DatabaseError(f"beside it is {path.name}-journal, which pgtrial did not write")
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        try:
            found = each.lstat()
        except FileNotFoundError:
            continue
        except OSError as err:
            raise sqlite3.DatabaseError(f"{each.name}: {err.strerror}") from err
        if not stat.S_ISREG(found.st_mode):
            raise sqlite3.DatabaseError(f"{each.name} is not a plain file")
        if found.st_size > LARGEST:
            raise sqlite3.DatabaseError(f"{each.name} is too large: {found.st_size} bytes")


def _check_schema(db: sqlite3.Connection) -> None:
    """sqlite3.DatabaseError where a database has more than plain tables: reading them runs what its author wrote."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_schema").fetchmany(_MOST_TABLES + 1)
    if len(rows) > _MOST_TABLES:
        raise sqlite3.DatabaseError(f"it has more than {_MOST_TABLES} tables and indexes")
    for kind, name, text in rows:
        # SQLite writes the beginning itself, so that anything else was written around it, as "CREATE\tVIRTUAL".
        if not str(text or _OWN_INDEX).startswith(_PLAIN.get(kind, ())):
            raise sqlite3.DatabaseError(f'it has a {kind} "{name}" that pgtrial did not make')
        computed = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 0"
        if db.execute(computed, (name,)).fetchone() is not None:
            raise sqlite3.DatabaseError(f'it has a computed column in table "{name}"')
