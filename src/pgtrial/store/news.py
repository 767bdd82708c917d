"""What is new in the state of a host's folder: read where its engine writes, and added to a copy of that state.

Rows are appended, and what happened is not edited: so what is new is behind the last run that the copy has. What it
takes to send it does not depend on how much was done before.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pgtrial.errors import StoreError
from pgtrial.store import layout
from pgtrial.store.rows import NEWER, OF_WHOLE, RUN_TABLES, columns_of
from pgtrial.store.sqlite import connect, connect_to_read

Value = str | int | float | None
_MOST_RUNS = 20  # that are told of at once: some 1 MB


class NewRun(NamedTuple):
    """A row of the table ``run``."""

    id: int
    slot: int
    attempt: int
    state: str
    started: float
    ended: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How far a copy has come: when its original was ``created``, the ``last`` run as (id, slot, started), and by table
    how many rows are of no run.
    """

    created: str
    last: tuple[int, int, float] | None = None
    whole: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is behind a mark. ``is_other``: nothing, as the mark is of another state than the one that was ``created``
    then; ``has_more``: not all that there is.
    """

    created: str
    is_other: bool = False
    has_more: bool = False
    told: Mapping[str, str]
    runs: tuple[NewRun, ...] = ()
    rows: Mapping[str, NewRows]

    def mark(self, before: Mark) -> Mark:
        """How far a copy has come that was at the mark ``before``, with this."""
        last = before.last
        if self.runs:
            last = (self.runs[-1].id, self.runs[-1].slot, self.runs[-1].started)
        new = {table: sum(row[:1] == (None,) for row in found.rows) for table, found in self.rows.items()}
        return replace(before, last=last, whole={name: n + new.get(name, 0) for name, n in before.whole.items()})


def nothing_of(created: str) -> Mark:
    """The mark of a copy that has no run, and of what was ``created`` then."""
    return Mark(created=created, whole=dict.fromkeys(OF_WHOLE, 0))


def find_mark(copy: Path) -> Mark:
    """How far a copy has come. Raises StoreError."""
    try:
        with contextlib.closing(connect_to_read(copy / layout.STATE)) as db:
            last = db.execute("SELECT id, slot, started FROM run ORDER BY id DESC LIMIT 1").fetchone()
            whole = {
                table: db.execute(f"SELECT count(*) FROM {table} WHERE run IS NULL").fetchone()[0] for table in OF_WHOLE
            }
            return Mark(created=_created(db), last=last, whole=whole)
    except sqlite3.Error as err:
        raise StoreError(f'cannot read "{copy / layout.STATE}": {err}') from err


def read_news(folder: Path, mark: Mark, *, told: Sequence[str]) -> News:
    """What is behind a ``mark``, and what the record tells under the keys ``told``. Raises sqlite3.Error."""
    with contextlib.closing(connect_to_read(folder / layout.STATE)) as db:
        db.execute("BEGIN")  # all of it as of one moment
        created = _created(db)
        is_known = "SELECT 1 FROM run WHERE (id, slot, started) = (?, ?, ?)"
        if mark.created != created or (mark.last and db.execute(is_known, mark.last).fetchone() is None):
            return News(created=created, is_other=True, told={}, rows={})
        after = mark.last[0] if mark.last else 0
        query = f"SELECT {', '.join(NewRun._fields)} FROM run WHERE id > ? ORDER BY id LIMIT ?"
        found = [NewRun(*row) for row in db.execute(query, (after, _MOST_RUNS + 1))]
        runs = tuple(found[:_MOST_RUNS])
        until = runs[-1].id if runs else after
        meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
        return News(
            created=created,
            has_more=len(found) > len(runs),
            told={key: meta[key] for key in told if key in meta},
            runs=runs,
            rows={table: _new_rows(db, table, after, until, mark.whole.get(table)) for table in RUN_TABLES},
        )


def _new_rows(db: sqlite3.Connection, table: str, after: int, until: int, known: int | None) -> NewRows:
    """Rows of the runs behind ``after``; of those of no run all but so many as are ``known``."""
    columns = ("run", *(name for name in columns_of(table) if name in _columns(db, table)))
    names = ", ".join(columns)
    rows = db.execute(f"SELECT {names} FROM {table} WHERE run > ? AND run <= ?", (after, until)).fetchall()
    if known is not None:
        query = f"SELECT {names} FROM {table} WHERE run IS NULL ORDER BY rowid LIMIT -1 OFFSET ?"
        rows += db.execute(query, (known,)).fetchall()
    return NewRows(columns=columns, rows=tuple(rows))


def add_news(copy: Path, news: Sequence[News], *, is_other: bool, check: Callable[[sqlite3.Connection], None]) -> None:
    """Add what was read to a copy, in one transaction; in the place of what it has, if that ``is_other``. It stays only
    if ``check`` raises nothing.

    Raises ValueError where it does not fit together, and StoreError where it cannot be written.
    """
    try:
        with contextlib.closing(connect(copy / layout.STATE, mode="rw")) as db, db:
            db.execute("BEGIN IMMEDIATE")
            for table in (*RUN_TABLES, "run") if is_other else ():
                db.execute(f"DELETE FROM {table}")
            for each in news:
                _add(db, each)
            check(db)
    except (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, OverflowError) as err:
        raise ValueError(str(err)) from err
    except sqlite3.Error as err:
        raise StoreError(f'cannot write "{copy / layout.STATE}": {err}') from err


def _add(db: sqlite3.Connection, news: News) -> None:
    told = {**news.told, "created": news.created}
    db.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", told.items())
    places = ", ".join("?" * len(NewRun._fields))
    db.executemany(f"INSERT INTO run ({', '.join(NewRun._fields)}) VALUES ({places})", news.runs)
    for table, found in news.rows.items():
        if (newer := NEWER.get(table)) in found.columns and newer not in _columns(db, table):
            db.execute(f"ALTER TABLE {table} ADD COLUMN {newer} TEXT")
        places = ", ".join("?" * len(found.columns))
        db.executemany(f"INSERT INTO {table} ({', '.join(found.columns)}) VALUES ({places})", found.rows)


def _created(db: sqlite3.Connection) -> str:
    return next((str(value) for (value,) in db.execute("SELECT value FROM meta WHERE key = 'created'")), "")


def _columns(db: sqlite3.Connection, table: str) -> frozenset[str]:
    """Those that it has: folders of older versions lack some."""
    return frozenset(name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,)))
