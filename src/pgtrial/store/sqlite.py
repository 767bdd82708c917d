"""Connections to a result folder's SQLite database."""

import os
import sqlite3
from pathlib import Path


def connect(path: Path, *, mode: str, durable: bool = True) -> sqlite3.Connection:
    """A connection in SQLite's ``mode``: "ro", "rw", or "rwc", which makes the file. Raises sqlite3.Error.

    Each transaction waits until it is on disk, unless it need not be ``durable``.
    """
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=10)
    if mode in ("rw", "rwc"):
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        db.execute("PRAGMA foreign_keys = ON")
    return db


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that sees what a pgtrial at work writes; also in a folder that cannot be written.

    To read a database with a write-ahead log, SQLite itself has to write beside it; what it makes there goes again only
    when the last connection that may write is closed, so this one may, but does not. Where nobody may write, a folder
    that was closed in order is one file.
    """
    if os.access(path.parent, os.W_OK):
        db = connect(path, mode="rw")
        db.execute("PRAGMA query_only = ON")
        return db
    return connect(path, mode="ro" if path.with_name(f"{path.name}-wal").exists() else "ro&immutable=1")
