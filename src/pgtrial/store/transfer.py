"""Take runs from one result folder into another: the rows in one transaction, once, whatever is repeated.

Each run carries a mark of where it came from. It is in the same transaction as its rows, so a run whose mark is there,
with the time at which it began, is there as a whole, and is not taken again.
"""

import contextlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.model.run import RunRow, RunState
from pgtrial.store import layout
from pgtrial.store.rows import RUN_TABLES, columns_of
from pgtrial.store.sqlite import connect

FROM_HOST = "from-host"  # kind of event: the mark of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A run to be taken: as it is in its own folder, which attempt at its slot it becomes, and its mark."""

    run: RunRow
    attempt: int
    mark: Mapping[str, str | int]

    @property
    def mark_text(self) -> str:
        """As it is recorded, and compared."""
        return json.dumps(self.mark, sort_keys=True)


def known_marks(events: Sequence[tuple[float, str, dict[str, object]]]) -> frozenset[str]:
    """The marks among the events of a folder."""
    return frozenset(json.dumps(data, sort_keys=True) for _, kind, data in events if kind == FROM_HOST)


def take_rows(source: Path, target: Path, runs: Sequence[Taken]) -> int:
    """Copy the rows of runs from one result folder to another, and what it tells of the whole where nothing is told
    yet; how many of them are new. Raises StoreError; then nothing is changed.
    """
    try:
        with (
            contextlib.closing(connect(source / layout.STATE, mode="rw")) as own,
            contextlib.closing(connect(target / layout.STATE, mode="rw")) as main,
        ):
            own.execute("PRAGMA query_only = ON")
            with main:
                main.execute("BEGIN IMMEDIATE")
                new = sum(_take(own, main, taken) for taken in runs)
                _take_whole(own, main)
            return new
    except sqlite3.Error as err:
        raise StoreError(f'cannot take the runs of "{source}" into "{target}": {err}') from err


def _take(own: sqlite3.Connection, main: sqlite3.Connection, taken: Taken) -> int:
    run = taken.run
    same = "SELECT id FROM run WHERE slot = ? AND started = ?"
    query = f"SELECT 1 FROM event WHERE run IN ({same}) AND kind = ? AND data = ?"
    if main.execute(query, (run.slot.number, run.started, FROM_HOST, taken.mark_text)).fetchone() is not None:
        return 0
    if run.state is RunState.DONE:
        is_done = main.execute("SELECT 1 FROM run WHERE slot = ? AND state = ?", (run.slot.number, RunState.DONE))
        if is_done.fetchone() is not None:
            raise StoreError(f"run {run.slot.number} is done already: it would count twice")
    (new,) = main.execute(
        "INSERT INTO run (slot, attempt, state, started, ended, reason) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        (run.slot.number, taken.attempt, run.state, run.started, run.ended, run.reason),
    ).fetchone()
    for table in RUN_TABLES:
        columns = _in_both(own, main, table)
        names = ", ".join(columns)
        order = "" if table in {"slice", "setting"} else " ORDER BY rowid"
        rows = own.execute(f"SELECT {names} FROM {table} WHERE run = ?{order}", (run.id,)).fetchall()
        places = ", ".join("?" * (len(columns) + 1))
        main.executemany(f"INSERT INTO {table} (run, {names}) VALUES ({places})", [(new, *row) for row in rows])
    main.execute(
        "INSERT INTO event (t, run, kind, data) VALUES (?, ?, ?, ?)",
        (run.ended or run.started or 0.0, new, FROM_HOST, taken.mark_text),
    )
    return 1


def _take_whole(own: sqlite3.Connection, main: sqlite3.Connection) -> None:
    """Facts of the whole are those of the first folder that tells them; caveats are told once."""
    if main.execute("SELECT 1 FROM fingerprint WHERE run IS NULL").fetchone() is None:
        facts = own.execute("SELECT moment, name, value FROM fingerprint WHERE run IS NULL").fetchall()
        main.executemany("INSERT INTO fingerprint (run, moment, name, value) VALUES (NULL, ?, ?, ?)", facts)
    columns = _in_both(own, main, "caveat")
    query = f"SELECT {', '.join(columns)} FROM caveat WHERE run IS NULL"
    known, found = set(main.execute(query).fetchall()), dict.fromkeys(own.execute(query).fetchall())
    if columns == columns_of("caveat"):  # an older version noted the same in words: ``said``, which is last, is NULL
        known |= {(*row[:-1], None) for row in (*known, *found) if row[-1] is not None}
    new = [row for row in found if row not in known]
    marks = ", ".join("?" * len(columns))
    main.executemany(f"INSERT INTO caveat (run, {', '.join(columns)}) VALUES (NULL, {marks})", new)


def _in_both(own: sqlite3.Connection, main: sqlite3.Connection, table: str) -> tuple[str, ...]:
    """Columns after ``run``: folders of older versions do not have all of them."""
    query = "SELECT name FROM pragma_table_info(?)"
    there = [{name for (name,) in db.execute(query, [table])} for db in (own, main)]
    return tuple(name for name in columns_of(table) if all(name in names for names in there))
