"""How entries of the journal are kept: each with a seal, and its long values once.

The seal is a checksum: what is undone is what was written, not what became of it on a disk. It protects from damage and
not from people: whoever may write the journal may compute it.

A long value, as the catalogue of a database, is stored by its digest, and only while an entry that refers to it is to
be undone. An entry is written again with each step that is noted of it, so what does not change with it stands
elsewhere. The seal of an entry is over the digest, and the digest over the value.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

COLUMN = "seal"
# All that says what is undone, where, and whose change it was; how undoing ended is added later.
_SEALED = (
    *("id", "t", "host", "boot_id", "folder", "run", "knob", "name", "old", "new", "old_text", "new_text", "got"),
    *("owner_pid", "owner_start_ticks", "owner_boot_id"),
)
SHORT = 1000  # characters; longer values are stored by their digest
_DIGEST = "sha256"  # an object with this key stands in an entry in place of a long value
_LARGEST = 1 << 28  # bytes; more than a catalogue with a million objects has

SCHEMA = """
    CREATE TABLE IF NOT EXISTS long_value (
        digest  TEXT PRIMARY KEY,        -- SHA-256 of the value, in hexadecimal
        content BLOB NOT NULL            -- UTF-8, compressed by zlib
    ) STRICT
"""
_STORE = "INSERT OR IGNORE INTO long_value VALUES (?, ?)"
_FIND = "SELECT content FROM long_value WHERE digest = ?"
_FORGET = """
    DELETE FROM long_value WHERE NOT EXISTS (
        SELECT 1 FROM entry
        WHERE (outcome IS NULL OR outcome NOT IN ({outcomes})) AND (instr(old, digest) OR instr(new, digest)))
"""


def seal_of(row: Mapping[str, Any]) -> str:
    """SHA-256 of a row of the journal, in hexadecimal."""
    return hashlib.sha256(json.dumps([row.get(name) for name in _SEALED]).encode()).hexdigest()


def is_broken(row: Mapping[str, Any]) -> bool:
    """Whether a row, which has a seal, is not as it was written."""
    try:
        return row.get(COLUMN) != seal_of(row)
    except TypeError:  # bytes, where there were texts
        return True


def seal(db: sqlite3.Connection, number: int) -> None:
    """Write the seal of an entry as it is now, within the transaction that changed it."""
    row = db.execute("SELECT * FROM entry WHERE id = ?", (number,)).fetchone()
    if row is not None:
        db.execute(f"UPDATE entry SET {COLUMN} = ? WHERE id = ?", (seal_of(dict(row)), number))


def shorten(db: sqlite3.Connection, values: Mapping[str, str]) -> dict[str, object]:
    """The values as they stand in an entry, of which the long ones are stored."""
    return {name: value if len(value) <= SHORT else _store(db, value) for name, value in values.items()}


def _store(db: sqlite3.Connection, value: str) -> dict[str, str]:
    content = value.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()
    db.execute(_STORE, (digest, zlib.compress(content)))
    return {_DIGEST: digest}


def complete(db: sqlite3.Connection, found: object, *, is_open: bool) -> object:
    """What ``shorten`` was given, of what stands in an entry; None where that is damaged. An entry that is not open any
    more is without its long values.
    """
    if not isinstance(found, dict):
        return None
    values: dict[str, str] = {}
    for name, stands in found.items():
        if isinstance(stands, dict) and not is_open:
            continue
        value = _find(db, stands.get(_DIGEST)) if isinstance(stands, dict) else stands
        if not isinstance(value, str):
            return None
        values[name] = value
    return values


def _find(db: sqlite3.Connection, digest: object) -> str | None:
    try:
        row = db.execute(_FIND, (str(digest),)).fetchone()
        stream = zlib.decompressobj()
        content = stream.decompress(b"" if row is None else row[0], _LARGEST)
    except (sqlite3.DatabaseError, TypeError, zlib.error):
        return None
    if not stream.eof or hashlib.sha256(content).hexdigest() != digest:
        return None
    return content.decode("utf-8", "surrogatepass")


def forget_unneeded(db: sqlite3.Connection, outcomes: Sequence[str]) -> None:
    """Remove what only entries with these outcomes refer to, which are not open any more."""
    db.execute(_FORGET.format(outcomes=", ".join("?" * len(outcomes))), outcomes)
