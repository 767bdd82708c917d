"""The journal of host changes: written before each change, so that every change can be undone."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from pgtrial.errors import StoreError
from pgtrial.hosts.processes import ProcessId
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.safe_text import parse_json
from pgtrial.store.journal_file import (
    FILE,
    has_seals,
    journal_error,
    lock_restoring,
    open_journal,
    state_directory,
)
from pgtrial.store.journal_values import complete, forget_unneeded, is_broken, seal, shorten

Found = TypeVar("Found")
_OVER = tuple(outcome for outcome in Outcome if outcome is not Outcome.FAILED)
_LONGEST_DAMAGE = 300  # characters of what cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """An entry with its owner, the pgtrial that made the change, and the outcome of undoing it; ``outcome`` and
    ``ended`` are None until then.
    """

    entry: JournalEntry
    owner: ProcessId
    outcome: Outcome | None
    text: str
    ended: float | None  # seconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """An open journal; what a method writes is whole, and durable when it returns. All raise StoreError."""

    path: Path
    db: sqlite3.Connection

    @classmethod
    def open(cls, *, write: bool) -> Self:
        """Open this machine's journal, see ``state_directory``; to write, it is made where it is missing."""
        path = state_directory() / FILE
        return cls(path=path, db=open_journal(path, write=write))

    def close(self) -> None:
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def restoring(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock that prevents a second restore."""
        return lock_restoring(self.path.parent)

    # -- writing ---------------------------------------------------------------------------------------------

    def begin(
        self, change: Change, *, host: str, boot_id: str, folder: str, run: int | None, owner: ProcessId, t: float
    ) -> JournalEntry:
        """Record a change before it is made."""
        columns = {
            "t": t,
            "host": host,
            "boot_id": boot_id,
            "folder": folder,
            "run": run,
            "knob": change.knob,
            "name": change.name,
            "old_text": change.old_text,
            "new_text": change.new_text,
            "owner_pid": owner.pid,
            "owner_start_ticks": owner.start_ticks,
            "owner_boot_id": owner.boot_id,
        }
        with self._access("write") as db:
            columns |= {"old": json.dumps(shorten(db, change.old)), "new": json.dumps(shorten(db, change.new))}
            names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
            row = db.execute(f"INSERT INTO entry ({names}) VALUES ({values})", columns).lastrowid
            assert row is not None  # a row was inserted
            seal(db, row)
        return JournalEntry(id=row, t=t, host=host, boot_id=boot_id, folder=folder, run=run, change=change, got=None)

    def confirm(self, entry: JournalEntry, got: Mapping[str, str]) -> JournalEntry:
        """Record that the change was made, with the values read back, or how far it has come; returns the updated
        entry.
        """
        self._update_sealed(entry, "got = ?", _json(got))
        return replace(entry, got=got)

    def leave_open(self, entry: JournalEntry) -> JournalEntry:
        """Record that what is in force is no longer known, but only what was before; returns the updated entry."""
        self._update_sealed(entry, "got = NULL")
        return replace(entry, got=None)

    def end(self, entry: JournalEntry, undone: Undone, *, t: float) -> None:
        """Record the outcome of undoing; a failed entry stays open."""
        with self._access("write") as db:
            self._update(db, entry, "outcome = ?, text = ?, ended = ?", undone.outcome, undone.text, t)
        if undone.outcome in _OVER:
            # It reads all entries, so it fails where one of them is on a damaged page. What is kept only takes room.
            with contextlib.suppress(sqlite3.DatabaseError), self.db as db:
                forget_unneeded(db, _OVER)

    # -- reading ---------------------------------------------------------------------------------------------

    def open_entries(self, *, host: str | None = None) -> tuple[JournalRecord, ...]:
        """Entries still to be undone, newest first: all, or those of a host."""
        return self._records(
            f"WHERE (outcome IS NULL OR outcome NOT IN ({', '.join('?' * len(_OVER))})) AND host = coalesce(?, host)"
            " ORDER BY id DESC",
            *_OVER,
            host,
        )

    def history(self, limit: int) -> tuple[JournalRecord, ...]:
        """The last entries, newest first, whatever their outcome."""
        return self._records("ORDER BY id DESC LIMIT ?", limit)[:limit]

    def _records(self, condition: str, *values: object) -> tuple[JournalRecord, ...]:
        with self._access("read") as db:
            sealed = has_seals(db)
            try:
                rows = db.execute(f"SELECT * FROM entry {condition}", values)
                return tuple(_record(db, dict(row), sealed=sealed) for row in rows)
            except sqlite3.DatabaseError as err:
                if getattr(err, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                    raise
                return tuple(_record(db, row, sealed=sealed) for row in _readable(db, condition, *values))

    def _update_sealed(self, entry: JournalEntry, assignments: str, *values: object) -> None:
        with self._access("write") as db:
            self._update(db, entry, assignments, *values)
            seal(db, entry.id)

    def _update(self, db: sqlite3.Connection, entry: JournalEntry, assignments: str, *values: object) -> None:
        count = db.execute(f"UPDATE entry SET {assignments} WHERE id = ?", (*values, entry.id)).rowcount
        if count != 1:
            raise StoreError(f'the journal of host changes "{self.path}" has lost entry {entry.id}')

    @contextlib.contextmanager
    def _access(self, action: str) -> Iterator[sqlite3.Connection]:
        try:
            with self.db:
                yield self.db
        except sqlite3.Error as err:
            raise journal_error(f"{action} to" if action == "write" else action, self.path, err) from err


def _readable(db: sqlite3.Connection, condition: str, *values: object) -> Iterator[dict[str, Any]]:
    """Rows one by one, newest first, where a page of the file is damaged; of what cannot be read only the number."""
    (last,) = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    for number in range(last, 0, -1):
        one = f"SELECT * FROM (SELECT * FROM entry WHERE id = ?) {condition}"
        try:
            rows = db.execute(one, (number, *values)).fetchall()
        except sqlite3.DatabaseError:
            rows = [{"id": number}]
        yield from map(dict, rows)


def _json(values: Mapping[str, str]) -> str:
    return json.dumps(dict(values))


def _record(db: sqlite3.Connection, row: Mapping[str, Any], *, sealed: bool) -> JournalRecord:
    """The record; one that is damaged keeps its bytes in the journal, and what of it can be read is for people."""
    damage: list[str] = []

    def or_else(found: object, kind: type[Found], name: str) -> Found:
        if isinstance(found, kind):
            return found
        damage.append(f"{name} = {row.get(name)!r}")
        return kind()

    def text(name: str) -> str:
        return or_else(row.get(name), str, name)

    def values(name: str) -> Mapping[str, str]:
        try:
            found = parse_json(row.get(name) or "")
        except (ValueError, TypeError):
            found = None
        return or_else(complete(db, found, is_open=row.get("outcome") not in _OVER), dict, name)

    change = Change(
        knob=text("knob"),
        name=text("name"),
        old=values("old"),
        new=values("new"),
        old_text=text("old_text"),
        new_text=text("new_text"),
    )
    owner = ProcessId(
        pid=or_else(row.get("owner_pid"), int, "owner_pid"),
        start_ticks=or_else(row.get("owner_start_ticks"), int, "owner_start_ticks"),
        boot_id=text("owner_boot_id"),
    )
    outcome = row.get("outcome")
    if outcome is not None and outcome not in tuple(Outcome):
        damage.append(f"outcome = {outcome!r}")
        outcome = Outcome.FAILED
    if not isinstance(row.get("id"), int):
        raise sqlite3.DatabaseError("its entries have no numbers")
    entry = JournalEntry(
        id=row["id"],
        t=or_else(row.get("t"), float, "t"),
        host=text("host"),
        boot_id=text("boot_id"),
        folder=text("folder"),
        run=None if row.get("run") is None else or_else(row.get("run"), int, "run"),
        change=change,
        got=None if row.get("got") is None else values("got"),
    )
    if sealed and not damage and is_broken(row):
        damage.append("it is not as it was written")
    return JournalRecord(
        entry=replace(entry, damage=", ".join(damage)[:_LONGEST_DAMAGE]),
        owner=owner,
        outcome=None if outcome is None else Outcome(outcome),
        text=text("text"),
        ended=row.get("ended") if isinstance(row.get("ended"), float) else None,
    )
