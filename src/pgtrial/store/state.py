"""state.sqlite: the schedule, the state of each run, events, settings, fingerprints."""

import contextlib
import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.findings.caveat import CaveatFinding, caveat_in_words, read_noted, said_of
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.arm import Arm, Role, Tables
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import HOST_NAME, LoadLevel, Phase, PhaseName, RunRow, RunState, Slice, Slot
from pgtrial.store import layout
from pgtrial.store.own_place import is_own
from pgtrial.store.rows import (
    BLOCK_HOST,
    ArmRow,
    AttemptRow,
    BlockHostRow,
    CaveatRow,
    ChangeRow,
    EventRow,
    FactRow,
    LevelRow,
    MetaRow,
    OldCaveatRow,
    PhaseRow,
    Row,
    SettingRow,
    SliceRow,
    SlotRow,
    damaged,
    read_rows,
)
from pgtrial.store.sqlite import connect, connect_to_read
from pgtrial.units import read_count

LONGEST = 31 * 86400  # s, of a phase or slice, or of all that was measured
STOPPED = "stopped"  # key of the record: why the experiment ended before its last block
SETTLED = "settled"  # key of the record: of each arm, in their order, the last block; 0 where it is not decided
# Not in the schema of all folders: those of one host have no such table.
_HOSTS_SCHEMA = f"""CREATE TABLE IF NOT EXISTS {BLOCK_HOST} (
    block INTEGER PRIMARY KEY,               -- of slot; all its runs are made on one host
    host  TEXT NOT NULL
) STRICT"""
_SAID = "said"  # column of caveat that folders of older versions do not have
# Whoever takes in block by block looks at the rows of one run again and again, beside those of thousands.
_INDEXED = ("phase", "event", "setting_change", "fingerprint", "caveat")
_SCHEMA = Path(__file__).with_name("schema.sql")


class State:
    """An open state.sqlite; every method is one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self._path = path

    @classmethod
    def create(cls, folder: Path, *, durable: bool = True) -> "State":
        """Create a database in an existing folder; see connect for ``durable``."""
        try:
            db = connect(folder / layout.STATE, mode="rwc", durable=durable)
            db.executescript(_SCHEMA.read_text(encoding="utf-8").format(format=layout.FORMAT))
        except sqlite3.Error as err:
            raise StoreError(f'cannot create "{folder / layout.STATE}": {err}') from err
        return cls(db, folder / layout.STATE)

    @classmethod
    def open(cls, folder: Path, *, write: bool = False) -> "State":
        """Open an existing database. Raises StoreError if it is missing, unreadable, or of a newer format."""
        path = folder / layout.STATE
        try:
            is_there = path.is_file()
        except OSError as err:
            raise StoreError(f'cannot read "{folder}": {err.strerror}') from err
        if not is_there:
            raise StoreError(
                f'"{folder}" is not a result folder: it has no {layout.STATE}',
                hint='Name a folder that "pgtrial run" made, such as results/NAME-DATE.',
            )
        _refuse_links(folder)
        try:
            db = connect(path, mode="rw") if write else connect_to_read(path)
        except sqlite3.Error as err:
            if type(err) is sqlite3.DatabaseError:  # of the file, not of getting at it
                raise damaged(path, str(err)) from err
            hint = "" if is_own(path) else "Copy the folder into a directory of your own, and name the copy."
            raise StoreError(f'cannot read "{path}": {err}', hint=hint) from err
        state = cls(db, path)
        try:
            state._check_format()
        except BaseException:
            db.close()
            raise
        return state

    def _check_format(self) -> None:
        found = dict(self._rows(MetaRow, "WHERE key = 'format'")).get("format")
        if found is None:
            raise damaged(self._path, "it does not say its format")
        number = read_count(found)
        if number is None or number > layout.FORMAT:
            written = "an unknown format" if number is None else f"format {number}"
            raise StoreError(
                f'result folder "{self._path.parent}" has {written}, this pgtrial reads up to format {layout.FORMAT}',
                hint="Use the pgtrial version that made it, or a newer one.",
            )

    def _rows(self, kind: type[Row], rest: str = "", values: Sequence[object] = ()) -> list[Row]:
        return read_rows(self._db, kind, rest, values, path=self._path)

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._db:
                yield self._db
        except sqlite3.Error as err:
            raise StoreError(f"cannot write the result folder's state: {err}") from err

    def tables(self) -> frozenset[str]:
        """Names of those that it has: what is in none of today's schema came from another pgtrial."""
        try:
            rows = self._db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        except sqlite3.Error as err:
            raise damaged(self._path, str(err)) from err
        return frozenset(str(name) for (name,) in rows)

    # -- the experiment as a whole ---------------------------------------------------------------------------

    def set_meta(self, **values: str) -> None:
        with self._write() as db:
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def meta(self) -> dict[str, str]:
        return dict(self._rows(MetaRow))

    def settle(self, settled: Mapping[str, int], **meta: str) -> None:
        """Record the last block of each arm that is decided, and ``meta`` at the same time."""
        blocks = " ".join(str(settled.get(name, 0)) for name, _, _ in self.declared_arms())
        self.set_meta(**{SETTLED: blocks}, **meta)

    def settled(self) -> dict[str, int]:
        """The last block of each arm that is decided, by its name; {} without a rule for each arm."""
        text = self.meta().get(SETTLED)
        if text is None:
            return {}
        arms, last = self.declared_arms(), max((slot.block for slot in self.slots()), default=0)
        blocks = [read_count(each) for each in text.split()]
        found: dict[str, int] = {}
        for (name, role, _), block in zip(arms, blocks, strict=False):
            if block and role is Role.CANDIDATE and block <= last:
                found[name] = block
        if len(blocks) != len(arms) or len(found) != sum(block != 0 for block in blocks):
            raise damaged(self._path, f"table meta: {SETTLED} is {text[:40]!r}")
        return found

    def set_plan(self, arms: Sequence[Arm], levels: Sequence[LoadLevel], slots: Iterable[Slot]) -> None:
        """Record the schedule; the first arm is the control. Of the arms, what they declare; see ``write_plan``."""
        with self._write() as db:
            db.executemany(
                "INSERT INTO arm VALUES (?, ?, ?, ?, ?)",
                [
                    (i, arm.name, arm.role, json.dumps(arm.own_settings), json.dumps(_triples(arm.own_knobs)))
                    for i, arm in enumerate(arms)
                ],
            )
            db.executemany(
                "INSERT INTO load_level VALUES (?, ?, ?)", [(lv.index, lv.clients, lv.rate) for lv in levels]
            )
            db.executemany(
                "INSERT INTO slot VALUES (?, ?, ?, ?)",
                [(s.number, s.block, s.position, s.arm) for s in slots],
            )

    def declared_arms(self) -> tuple[tuple[str, Role, Tables], ...]:
        """Name and role of each arm, the control first, and what it declares; ``read_plan`` has the arms themselves."""
        rows = self._rows(ArmRow, "ORDER BY position")
        self._refuse_twice("arm", [row.name for row in rows])
        if [row.role for row in rows].count(Role.CONTROL) > 1:
            raise damaged(self._path, "table arm has several controls")
        return tuple((row.name, row.role, _declared(row.settings, row.knobs)) for row in rows)

    def levels(self) -> tuple[LoadLevel, ...]:
        rows = self._rows(LevelRow, "ORDER BY level")
        if [row.level for row in rows] != list(range(len(rows))):
            raise damaged(self._path, "table load_level: the levels do not count from 0")
        return tuple(LoadLevel(index=row.level, clients=row.clients, rate=row.rate) for row in rows)

    def index_runs(self) -> None:
        """Have the rows of one run be found without reading those of all others."""
        with self._write() as db:
            for table in _INDEXED:
                db.execute(f"CREATE INDEX IF NOT EXISTS {table}_of_run ON {table} (run)")

    def slots(self, *, block: int | None = None) -> tuple[Slot, ...]:
        """Those of the whole plan, or of one block."""
        where, values = ("", ()) if block is None else ("WHERE block = ? ", (block,))
        rows = self._rows(SlotRow, f"{where}ORDER BY number", values)
        self._refuse_twice("slot", [row.number for row in rows])
        return tuple(Slot(**row._asdict()) for row in rows)

    def assign_block(self, block: int, host: str) -> None:
        """Record on which host a block is run, in the place of an earlier one. StoreError: it is no host's name."""
        if not re.fullmatch(HOST_NAME, host):
            raise StoreError(
                f"{host[:80]!r} is not a name for a host",
                hint="Use letters, digits and any of . _ - (the first is a letter or a digit), at most 63 characters.",
            )
        with self._write() as db:
            db.execute(_HOSTS_SCHEMA)
            db.execute(f"INSERT OR REPLACE INTO {BLOCK_HOST} VALUES (?, ?)", (block, host))

    def block_hosts(self) -> dict[int, str]:
        """Host by block, in order of the blocks; empty where the experiment is not spread over hosts."""
        if BLOCK_HOST not in self.tables():
            return {}
        rows = self._rows(BlockHostRow, "ORDER BY block")
        self._refuse_twice(BLOCK_HOST, [row.block for row in rows])
        self._refuse_unknown(BLOCK_HOST, "block", (row.block for row in rows), {slot.block for slot in self.slots()})
        return {row.block: row.host for row in rows}

    def _refuse_twice(self, table: str, keys: Sequence[object]) -> None:
        if len(set(keys)) < len(keys):
            raise damaged(self._path, f"table {table} has a row twice")

    def _refuse_unknown(self, table: str, what: str, named: Iterable[int | str], known: Collection[int | str]) -> None:
        unknown = sorted(each for each in named if each not in known)
        if unknown:
            raise damaged(self._path, f"table {table} names {what} {unknown[0]}, which is not there")

    # -- runs ------------------------------------------------------------------------------------------------

    def begin_run(self, slot: Slot, t: float) -> RunRow:
        """Record that an attempt at a slot begins."""
        with self._write() as db:
            (attempt,) = db.execute(
                "SELECT coalesce(max(attempt), 0) + 1 FROM run WHERE slot = ?", (slot.number,)
            ).fetchone()
            row_id = db.execute(
                "INSERT INTO run (slot, attempt, state, started) VALUES (?, ?, ?, ?) RETURNING id",
                (slot.number, attempt, RunState.RUNNING, t),
            ).fetchone()[0]
        return RunRow(id=row_id, slot=slot, attempt=attempt, state=RunState.RUNNING, started=t, ended=None, reason="")

    def end_runs(self, runs: Sequence[int], state: RunState, t: float, reason: str = "") -> None:
        """End several runs in one transaction: after a crash either all of them have ended, or none."""
        with self._write() as db:
            db.executemany(
                "UPDATE run SET state = ?, ended = ?, reason = ? WHERE id = ?",
                [(state, t, reason, run) for run in runs],
            )

    def interrupt_running(self) -> int:
        """Mark runs that a killed pgtrial left behind as interrupted; returns their number."""
        with self._write() as db:
            return db.execute(
                "UPDATE run SET state = ?, reason = ? WHERE state = ?",
                (RunState.INTERRUPTED, "pgtrial ended during this run", RunState.RUNNING),
            ).rowcount

    def give_up_block(self, block: int, reason: str) -> None:
        """No run of a block counts any more, also of those that were done: the whole block is run again."""
        with self._write() as db:
            db.execute(
                "UPDATE run SET state = ?, reason = ? WHERE state IN (?, ?) "
                "AND slot IN (SELECT number FROM slot WHERE block = ?)",
                (RunState.INTERRUPTED, reason, RunState.RUNNING, RunState.DONE, block),
            )

    def add_phase(self, run: int, phase: Phase) -> None:
        with self._write() as db:
            db.execute(
                "INSERT INTO phase VALUES (?, ?, ?, ?, ?)",
                (run, phase.name, phase.level, phase.start, phase.end),
            )

    def add_slices(self, run: int, slices: Iterable[Slice]) -> None:
        with self._write() as db:
            db.executemany(
                "INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?)",
                [(run, s.level, s.number, s.started, s.counted, s.ended) for s in slices],
            )

    def _slices(self, where: str, values: Sequence[int]) -> dict[int, list[Slice]]:
        """By run, in order of time."""
        found: dict[int, list[Slice]] = {}
        for row in self._rows(SliceRow, f"{where} ORDER BY started", values):
            if not row.started <= row.counted <= row.ended <= row.started + LONGEST:
                raise damaged(self._path, f"table slice: number {row.number} of run {row.run} has impossible times")
            found.setdefault(row.run, []).append(
                Slice(level=row.level, number=row.number, started=row.started, counted=row.counted, ended=row.ended)
            )
        return found

    def _phases(self, where: str, values: Sequence[int]) -> dict[int, list[Phase]]:
        """By run, in order of time. A clock that was set back may end one before it began, but nothing measured."""
        found: dict[int, list[Phase]] = {}
        measured = 0.0
        for row in self._rows(PhaseRow, f"{where} ORDER BY started", values):
            phase = Phase(name=row.name, start=row.started, end=row.ended, level=row.level)
            length = phase.end - phase.start
            measured += length if phase.name is PhaseName.MEASURE else 0.0
            if abs(length) > LONGEST or measured > LONGEST or (phase.name is PhaseName.MEASURE and length <= 0):
                raise damaged(self._path, f'table phase: "{phase.name}" of run {row.run} lasts {length:g} s')
            found.setdefault(row.run, []).append(phase)
        return found

    def count_runs(self, state: RunState | None = None) -> int:
        """How many attempts there are, or are in a state."""
        where, values = ("", ()) if state is None else (" WHERE state = ?", (str(state),))
        try:
            (count,) = self._db.execute(f"SELECT count(*) FROM run{where}", values).fetchone()
        except sqlite3.Error as err:
            raise damaged(self._path, f"cannot read table run: {err}") from err
        return int(count)

    def begun_blocks(self) -> frozenset[int]:
        """Blocks of which there are runs, for which no run is read."""
        return self._blocks("SELECT DISTINCT block FROM slot WHERE number IN (SELECT slot FROM run)")

    def done_blocks(self, *, host: str | None = None) -> frozenset[int]:
        """Blocks of which every run is done, or those on a host, for which no run is read."""
        where, values = "", [str(RunState.DONE)]
        if host is not None:
            if BLOCK_HOST not in self.tables():
                return frozenset()
            where, values = f"WHERE block IN (SELECT block FROM {BLOCK_HOST} WHERE host = ?) ", [host, *values]
        done = "number IN (SELECT slot FROM run WHERE state = ?)"
        return self._blocks(f"SELECT block FROM slot {where}GROUP BY block HAVING min({done})", values)

    def _blocks(self, query: str, values: Sequence[str] = ()) -> frozenset[int]:
        try:
            found = self._db.execute(query, values).fetchall()
        except sqlite3.Error as err:
            raise damaged(self._path, str(err)) from err
        if not all(isinstance(block, int) for (block,) in found):
            raise damaged(self._path, "table slot has a block that is no number")
        return frozenset(block for (block,) in found)

    def runs(self, *, block: int | None = None) -> tuple[RunRow, ...]:
        """Every attempt in order, or those of one block, for which nothing else is read."""
        slots = {slot.number: slot for slot in self.slots(block=block)}
        where, of_run, values = "", "", tuple[int, ...]()
        if block is not None:
            where, values = f"WHERE slot IN ({', '.join('?' * len(slots))})", tuple(slots)
            of_run = f"WHERE run IN (SELECT id FROM run {where})"
        slices, phases = self._slices(of_run, values), self._phases(of_run, values)
        rows = self._rows(AttemptRow, f"{where} ORDER BY id", values)
        self._refuse_twice("run", [row.id for row in rows])
        self._refuse_twice("run", [(row.slot, row.attempt) for row in rows])
        known = {row.id for row in rows}
        self._refuse_unknown(
            "slot", "arm", (slot.arm for slot in slots.values()), {arm for arm, *_ in self.declared_arms()}
        )
        self._refuse_unknown("run", "slot", (row.slot for row in rows), slots)
        self._refuse_unknown("phase", "run", phases, known)
        self._refuse_unknown("slice", "run", slices, known)
        return tuple(
            RunRow(
                id=row.id,
                slot=slots[row.slot],
                attempt=row.attempt,
                state=row.state,
                started=row.started,
                ended=row.ended,
                reason=row.reason,
                phases=tuple(phases.get(row.id, ())),
                slices=tuple(slices.get(row.id, ())),
            )
            for row in rows
        )

    # -- the record ------------------------------------------------------------------------------------------

    def add_event(self, t: float, kind: str, *, run: int | None = None, **data: object) -> None:
        with self._write() as db:
            db.execute("INSERT INTO event (t, run, kind, data) VALUES (?, ?, ?, ?)", (t, run, kind, json.dumps(data)))

    def events(self, *, run: int | None = None) -> tuple[tuple[float, str, dict[str, object]], ...]:
        """(time, kind, data) of all events, or of one run's."""
        where, values = ("WHERE run = ?", (run,)) if run is not None else ("", ())
        rows = self._rows(EventRow, f"{where} ORDER BY id", values)
        return tuple((row.t, row.kind, json.loads(row.data)) for row in rows)

    def add_settings(self, run: int, settings: Iterable[tuple[str, str, str]]) -> None:
        """(name, value as shown, source) of every setting read back in a run."""
        with self._write() as db:
            db.executemany("INSERT INTO setting VALUES (?, ?, ?, ?)", [(run, *row) for row in settings])

    def settings(self) -> dict[int, dict[str, tuple[str, str]]]:
        """Map of run to setting to (value, source)."""
        result: dict[int, dict[str, tuple[str, str]]] = {}
        for run, name, value, source in self._rows(SettingRow):
            result.setdefault(run, {})[name] = (value, source)
        return result

    def refuse_damaged(self, runs: Sequence[int]) -> None:
        """Raise StoreError where what is recorded of ``runs``, or of the whole, cannot be read: who takes it elsewhere
        by SQL does not look at it.
        """
        where = f"WHERE run IN ({', '.join('?' * len(runs))}) OR run IS NULL"
        for kind in (EventRow, SettingRow, ChangeRow, FactRow, CaveatRow if self._has_said() else OldCaveatRow):
            self._rows(kind, where, runs)

    def add_setting_change(self, t: float, *, run: int, knob: str, name: str, old: str | None, new: str) -> None:
        with self._write() as db:
            db.execute(
                "INSERT INTO setting_change (t, run, knob, name, old_value, new_value) VALUES (?, ?, ?, ?, ?, ?)",
                (t, run, knob, name, old, new),
            )

    def add_fingerprint(
        self, facts: Mapping[str, str], *, run: int | None = None, moment: Moment = Moment.BEFORE
    ) -> None:
        """Add facts of a run at a moment, or of the whole experiment without a moment."""
        when = None if run is None else moment
        with self._write() as db:
            db.executemany(
                "INSERT INTO fingerprint (run, moment, name, value) VALUES (?, ?, ?, ?)",
                [(run, when, name, value) for name, value in facts.items()],
            )

    def fingerprints(
        self, moment: Moment = Moment.BEFORE, *, names: Sequence[str] | None = None, run: int | None = None
    ) -> dict[int | None, dict[str, str]]:
        """Map of run (None: the whole experiment) to fact to value; of ``names`` and of a ``run`` alone where they are
        given.
        """
        result: dict[int | None, dict[str, str]] = {}
        condition, values = "WHERE (moment IS NULL OR moment = ?)", [str(moment)]
        if run is not None:
            condition = f"{condition} AND run = {run:d}"
        if names is not None:
            condition, values = f"{condition} AND name IN ({', '.join('?' * len(names))})", [*values, *names]
        for of, _, name, value in self._rows(FactRow, condition, tuple(values)):
            result.setdefault(of, {})[name] = value
        return result

    def add_caveat(self, caveat: CaveatFinding, *, run: int | None = None) -> None:
        """With its sentences in English, for whoever reads the file by other means."""
        written = caveat.model_dump(mode="json")
        with self._write() as db:
            if not self._has_said():
                db.execute(f"ALTER TABLE caveat ADD COLUMN {_SAID} TEXT")
            db.execute(
                f"INSERT INTO caveat (run, code, severity, text, hint, {_SAID}) VALUES (?, ?, ?, ?, ?, ?)",
                (run, caveat.code, caveat.severity, written["text"], written["hint"], said_of(caveat)),
            )

    def caveats(self) -> tuple[tuple[int | None, CaveatFinding], ...]:
        """Each with its run. One that an older version noted in words is left out where this version noted it again."""
        if not self._has_said():
            return tuple((row.run, caveat_in_words(*row[1:])) for row in self._rows(OldCaveatRow))
        rows = self._rows(CaveatRow)
        again = {(row.run, row.code, row.text, row.hint) for row in rows if row.said is not None}
        return tuple(
            (row.run, read_noted(*row[1:]))
            for row in rows
            if row.said is not None or (row.run, row.code, row.text, row.hint) not in again
        )

    def _has_said(self) -> bool:
        """Whether caveats are more than sentences, as they were in folders of older versions."""
        try:
            columns = self._db.execute("SELECT name FROM pragma_table_info('caveat')").fetchall()
        except sqlite3.Error as err:
            raise damaged(self._path, str(err)) from err
        return (_SAID,) in [tuple(column) for column in columns]


def has_runs(folder: Path) -> bool:
    """Whether a run of a result folder was ever begun. Raises StoreError."""
    with contextlib.closing(State.open(folder)) as state:
        return bool(state.runs())


def _refuse_links(folder: Path) -> None:
    """StoreError where what is read by its name in a result folder would be somewhere else.

    Of the files of a run those that read them see to it (``is_plain``).
    """
    with contextlib.suppress(OSError):  # who reads it says so
        for link in _links(folder):
            raise StoreError(
                f'"{link}" is a link, and pgtrial follows none in a result folder',
                hint="Put what it leads to in its place, if you know what that is.",
            )


def _links(folder: Path) -> Iterator[Path]:
    for place in (folder / layout.RUNS, folder / layout.FILES):
        if place.is_symlink():
            yield place
        elif place.is_dir():
            with os.scandir(place) as entries:  # which tells links without a look at each
                yield from (Path(entry) for entry in entries if entry.is_symlink())


def _triples(tables: Tables) -> list[tuple[str, str, str]]:
    return [(knob, name, value) for knob, table in tables.items() for name, value in table.items()]


def _declared(settings: str, knobs: str) -> Tables:
    tables: dict[str, dict[str, str]] = {POSTGRESQL: json.loads(settings)}
    for knob, name, value in json.loads(knobs):
        tables.setdefault(knob, {})[name] = value
    return tables
