"""Result folders as older versions of pgtrial left them, made of those of today."""

import contextlib
import sqlite3
from pathlib import Path

from pgtrial.store import layout, parquet
from pgtrial.store.parquet import connect

WITH_PARTS = 9  # rules from which on transactions have a column of their parts inside the measured time
# Keys of the record by the rules that brought them.
_KEYS = {2: ("seed", "rules", "digest", "attempts_before"), 3: ("digest_rest", "contents"), 4: ("attempts_digest",)}
_OLD_TABLES = (
    "CREATE TABLE process (pid INTEGER, start_ticks INTEGER, boot_id TEXT, role TEXT, started REAL) STRICT",
    "CREATE TABLE work_directory (path TEXT PRIMARY KEY, variant TEXT NOT NULL) STRICT",
)


def change_record(folder: Path, *statements: str) -> None:
    """Execute SQL in the folder's state.sqlite."""
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db, db:
        for statement in statements:
            db.execute(statement)


def make_old(folder: Path, *, rules: int) -> Path:
    """Take out of a folder what its version did not have yet; the folder. The record is of the same claim."""
    gone = [key for since, keys in _KEYS.items() if since > rules for key in keys]
    change_record(folder, *(f"DELETE FROM meta WHERE key = '{key}'" for key in gone))
    if rules == 1:
        change_record(folder, *_OLD_TABLES)
    if rules < WITH_PARTS:
        _forget_parts(folder)
    return folder


def _forget_parts(folder: Path) -> None:
    with contextlib.closing(connect(threads=1)) as db:
        for path in sorted(folder.glob(f"{layout.RUNS}/*/{layout.TRANSACTIONS}")):
            older = path.with_suffix(".older")
            parquet.write_query(db, f"SELECT * EXCLUDE (inside) FROM read_parquet('{path}')", older)
            older.replace(path)
