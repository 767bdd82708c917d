"""state.sqlite without secrets, hosts and statements, and without what concerns only the machine it was made on."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.store import layout
from pgtrial.store.redact.known import Known
from pgtrial.store.redact.names import Names
from pgtrial.store.redact.tree import parse_json, strings, with_strings
from pgtrial.store.sqlite import connect_to_read

# Processes to end and directories to remove, of the machine on which the experiment ran: not of a copy elsewhere.
_OF_THE_MACHINE = {"process", "work_directory"}
# Columns that hold words of pgtrial, or names by which rows refer to each other. All other texts are redacted.
_WORDS = {
    "arm": {"name", "role"},
    "caveat": {"code", "severity"},
    "event": {"kind"},
    "fingerprint": {"moment", "name"},
    "meta": {"key"},
    "phase": {"name"},
    "run": {"state"},
    "setting": {"name", "source"},
    "setting_change": {"knob", "name"},
    "slot": {"arm"},
}
# Column that says what the texts of a row are the values of.
_KEYS = {"fingerprint": "name", "meta": "key", "setting": "name", "setting_change": "name"}
# Of meta, all that is not read as a word or a number.
_META = "key NOT IN ('format', 'pgtrial_version', 'created') AND (key = 'method_reason' OR key NOT LIKE 'method%')"
_SQL = "sql"  # the knob whose values are statements


def copy_state(folder: Path, to: Path) -> None:
    """A copy of the folder's state in one file, with what is still in the write-ahead log. Raises StoreError."""
    try:
        source = connect_to_read(folder / layout.STATE)
        target = sqlite3.connect(to)
        try:
            source.backup(target)
            for table in sorted(_OF_THE_MACHINE & _tables(target)):
                target.execute(f"DELETE FROM {table}")
            target.commit()
            target.execute("PRAGMA journal_mode = DELETE")
            target.execute("VACUUM")  # so that nothing of what was removed is left in free pages
        finally:
            source.close()
            target.close()
    except sqlite3.Error as err:
        raise StoreError(f'cannot copy "{folder / layout.STATE}": {err}') from err


def learn_state(path: Path, known: Known) -> None:
    """What a copy of the state gives away. Raises StoreError."""
    with _opened(path) as db:
        for (knobs,) in db.execute("SELECT knobs FROM arm"):
            for knob, _, value in json.loads(knobs):
                if knob == _SQL:
                    known.learn_query(value)
        for table, column, key in _columns(db):
            for name, text in db.execute(f"SELECT DISTINCT {key}, {column} FROM {table} WHERE {column} IS NOT NULL"):
                for inner, each in _strings(text, name):
                    known.learn(each, inner)


def redact_state(path: Path, names: Names) -> None:
    """Take out of a copy of the state what ``names`` takes out. Raises StoreError."""

    @cache
    def clean(text: str, key: str) -> str:
        found = parse_json(text)
        if found is None:
            return names.clean(text, key)
        return json.dumps(with_strings(found, names.clean))

    def clean_knobs(text: str) -> str:
        knobs = json.loads(text)
        return json.dumps([[knob, key, _knob_value(names, knob, key, value)] for knob, key, value in knobs])

    def clean_change(text: str, knob: str, key: str) -> str:
        return _knob_value(names, knob, key, text)

    with _opened(path) as db:
        db.create_function("clean", 2, clean, deterministic=True)
        db.create_function("clean_knobs", 1, clean_knobs, deterministic=True)
        db.create_function("clean_change", 3, clean_change, deterministic=True)
        # The copy's plan is made of its experiment.toml, which has the same experiment.
        db.execute("DELETE FROM meta WHERE key = 'plan'")
        db.execute("UPDATE arm SET knobs = clean_knobs(knobs)")
        db.execute("UPDATE setting_change SET new_value = clean_change(new_value, knob, name)")
        db.execute(
            "UPDATE setting_change SET old_value = clean_change(old_value, knob, name) WHERE old_value IS NOT NULL"
        )
        for table, column, key in _columns(db):
            if (table, column) != ("arm", "knobs") and table != "setting_change":
                facts = _META if table == "meta" else "true"
                db.execute(
                    f"UPDATE {table} SET {column} = clean({column}, {key}) WHERE {column} IS NOT NULL AND {facts}"
                )
        db.commit()
        db.execute("VACUUM")


def _knob_value(names: Names, knob: str, key: str, value: str) -> str:
    return names.query(value) if knob == _SQL else names.clean(value, key)


def _strings(text: str, key: str) -> Iterator[tuple[str, str]]:
    found = parse_json(text)
    return iter([(key, text)]) if found is None else strings(found)


def _columns(db: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """(table, column, expression for the key) of every column of free texts."""
    for table in sorted(_tables(db)):
        for _, column, kind, *_ in db.execute(f"PRAGMA table_info({table})").fetchall():
            if kind == "TEXT" and column not in _WORDS.get(table, ()):
                yield table, column, _KEYS.get(table, "''")


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(path)
    try:
        yield db
    except (sqlite3.Error, ValueError) as err:
        raise StoreError(f"cannot take anything out of the folder's {layout.STATE}: {err}") from err
    finally:
        db.close()
