"""A checksum of each entry of the journal: what is undone is what was written, not what became of it on a disk.

It protects from damage and not from people: whoever may write the journal may compute it.
"""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

COLUMN = "seal"
# All that says what is undone, where, and whose change it was; how undoing ended is added later.
_SEALED = (
    *("id", "t", "host", "boot_id", "folder", "run", "knob", "name", "old", "new", "old_text", "new_text", "got"),
    *("owner_pid", "owner_start_ticks", "owner_boot_id"),
)


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
