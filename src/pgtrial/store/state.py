"""state.sqlite: the schedule, the state of each run, events, settings, fingerprints."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.arm import Arm, Role, Tables
from pgtrial.model.caveat import Caveat, Severity
from pgtrial.model.fingerprint import Moment
from pgtrial.model.run import LoadLevel, Phase, PhaseName, RunRow, RunState, Slice, Slot
from pgtrial.store import layout
from pgtrial.store.sqlite import connect, connect_to_read

STOPPED = "stopped"  # key of the record: why the experiment ended before its last block
_SCHEMA = Path(__file__).with_name("schema.sql")


class State:
    """An open state.sqlite; every method is one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def create(cls, folder: Path, *, durable: bool = True) -> "State":
        """Create a database in an existing folder; see connect for ``durable``."""
        try:
            db = connect(folder / layout.STATE, mode="rwc", durable=durable)
            db.executescript(_SCHEMA.read_text(encoding="utf-8").format(format=layout.FORMAT))
        except sqlite3.Error as err:
            raise StoreError(f'cannot create "{folder / layout.STATE}": {err}') from err
        return cls(db)

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
        try:
            db = connect(path, mode="rw") if write else connect_to_read(path)
            found = db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        except sqlite3.Error as err:
            raise StoreError(f'cannot read "{path}": {err}') from err
        if found is None or int(found[0]) > layout.FORMAT:
            written = "an unknown format" if found is None else f"format {found[0]}"
            db.close()
            raise StoreError(
                f'result folder "{folder}" has {written}, this pgtrial reads up to format {layout.FORMAT}',
                hint="Use the pgtrial version that made it, or a newer one.",
            )
        return cls(db)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._db:
                yield self._db
        except sqlite3.Error as err:
            raise StoreError(f"cannot write the result folder's state: {err}") from err

    # -- the experiment as a whole ---------------------------------------------------------------------------

    def set_meta(self, **values: str) -> None:
        with self._write() as db:
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())

    def meta(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT key, value FROM meta").fetchall())

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
        rows = self._db.execute("SELECT name, role, settings, knobs FROM arm ORDER BY position").fetchall()
        return tuple((name, Role(role), _declared(settings, knobs)) for name, role, settings, knobs in rows)

    def levels(self) -> tuple[LoadLevel, ...]:
        rows = self._db.execute("SELECT level, clients, rate FROM load_level ORDER BY level").fetchall()
        return tuple(LoadLevel(index=index, clients=clients, rate=rate) for index, clients, rate in rows)

    def slots(self) -> tuple[Slot, ...]:
        rows = self._db.execute("SELECT number, block, position, arm FROM slot ORDER BY number").fetchall()
        return tuple(Slot(number=n, block=b, position=p, arm=a) for n, b, p, a in rows)

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

    def end_run(self, run: int, state: RunState, t: float, reason: str = "") -> None:
        self.end_runs([run], state, t, reason)

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

    def _slices(self) -> dict[int, list[Slice]]:
        """By run, in order of time."""
        found: dict[int, list[Slice]] = {}
        for run, level, number, started, counted, ended in self._db.execute("SELECT * FROM slice ORDER BY started"):
            found.setdefault(run, []).append(
                Slice(level=level, number=number, started=started, counted=counted, ended=ended)
            )
        return found

    def runs(self) -> tuple[RunRow, ...]:
        """Every attempt in order."""
        slots = {slot.number: slot for slot in self.slots()}
        slices = self._slices()
        phases: dict[int, list[Phase]] = {}
        for run, name, level, start, end in self._db.execute(
            "SELECT run, name, level, started, ended FROM phase ORDER BY started"
        ):
            phases.setdefault(run, []).append(Phase(name=PhaseName(name), start=start, end=end, level=level))
        return tuple(
            RunRow(
                id=row_id,
                slot=slots[slot],
                attempt=attempt,
                state=RunState(state),
                started=started,
                ended=ended,
                reason=reason,
                phases=tuple(phases.get(row_id, ())),
                slices=tuple(slices.get(row_id, ())),
            )
            for row_id, slot, attempt, state, started, ended, reason in self._db.execute(
                "SELECT id, slot, attempt, state, started, ended, reason FROM run ORDER BY id"
            )
        )

    # -- the record ------------------------------------------------------------------------------------------

    def add_event(self, t: float, kind: str, *, run: int | None = None, **data: object) -> None:
        with self._write() as db:
            db.execute("INSERT INTO event (t, run, kind, data) VALUES (?, ?, ?, ?)", (t, run, kind, json.dumps(data)))

    def events(self, *, run: int | None = None) -> tuple[tuple[float, str, dict[str, object]], ...]:
        """(time, kind, data) of all events, or of one run's."""
        where, values = ("WHERE run = ?", (run,)) if run is not None else ("", ())
        rows = self._db.execute(f"SELECT t, kind, data FROM event {where} ORDER BY id", values).fetchall()
        return tuple((t, kind, json.loads(data)) for t, kind, data in rows)

    def add_settings(self, run: int, settings: Iterable[tuple[str, str, str]]) -> None:
        """(name, value as shown, source) of every setting read back in a run."""
        with self._write() as db:
            db.executemany("INSERT INTO setting VALUES (?, ?, ?, ?)", [(run, *row) for row in settings])

    def settings(self) -> dict[int, dict[str, tuple[str, str]]]:
        """Map of run to setting to (value, source)."""
        result: dict[int, dict[str, tuple[str, str]]] = {}
        for run, name, value, source in self._db.execute("SELECT run, name, value, source FROM setting"):
            result.setdefault(run, {})[name] = (value, source)
        return result

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

    def fingerprints(self, moment: Moment = Moment.BEFORE) -> dict[int | None, dict[str, str]]:
        """Map of run (None: the whole experiment) to fact to value."""
        result: dict[int | None, dict[str, str]] = {}
        for run, name, value in self._db.execute(
            "SELECT run, name, value FROM fingerprint WHERE moment IS NULL OR moment = ?", (moment,)
        ):
            result.setdefault(run, {})[name] = value
        return result

    def add_caveat(self, caveat: Caveat, *, run: int | None = None) -> None:
        with self._write() as db:
            db.execute(
                "INSERT INTO caveat VALUES (?, ?, ?, ?, ?)",
                (run, caveat.code, caveat.severity, caveat.text, caveat.hint),
            )

    def caveats(self) -> tuple[tuple[int | None, Caveat], ...]:
        rows = self._db.execute("SELECT run, code, severity, text, hint FROM caveat").fetchall()
        return tuple(
            (run, Caveat(code=code, severity=Severity(severity), text=text, hint=hint))
            for run, code, severity, text, hint in rows
        )

    # -- what must be ended or removed -----------------------------------------------------------------------

    def add_process(self, *, pid: int, start_ticks: int, boot_id: str, role: str, t: float) -> None:
        # Of use in this boot only, so it need not survive a power cut: the load must not wait for a disk that is busy.
        self._db.execute("PRAGMA synchronous = OFF")
        try:
            with self._write() as db:
                db.execute(
                    "INSERT OR REPLACE INTO process VALUES (?, ?, ?, ?, ?)", (pid, start_ticks, boot_id, role, t)
                )
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def processes(self) -> tuple[tuple[int, int, str, str], ...]:
        """(pid, start ticks, boot id, role) of everything that was ever started."""
        return tuple(self._db.execute("SELECT pid, start_ticks, boot_id, role FROM process ORDER BY started"))

    def add_work_directory(self, path: Path, *, variant: str = "") -> None:
        """Remember a directory; ``variant`` says whose data it holds."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO work_directory VALUES (?, ?)", (str(path), variant))

    def work_directories(self) -> tuple[Path, ...]:
        return tuple(Path(path) for (path,) in self._db.execute("SELECT path FROM work_directory ORDER BY rowid"))

    def work_directories_by_variant(self) -> dict[str, tuple[Path, ...]]:
        """Variant to the directories that were made for its data."""
        found: dict[str, tuple[Path, ...]] = {}
        for path, variant in self._db.execute("SELECT path, variant FROM work_directory ORDER BY rowid"):
            if variant:
                found[variant] = (*found.get(variant, ()), Path(path))
        return found


def _triples(tables: Tables) -> list[tuple[str, str, str]]:
    return [(knob, name, value) for knob, table in tables.items() for name, value in table.items()]


def _declared(settings: str, knobs: str) -> Tables:
    tables: dict[str, dict[str, str]] = {POSTGRESQL: json.loads(settings)}
    for knob, name, value in json.loads(knobs):
        tables.setdefault(knob, {})[name] = value
    return tables
