"""Copy the files of a run, and the folder's state.sqlite, without secrets, hosts and statements."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import tzinfo
from functools import cache
from pathlib import Path
from typing import Any

from pgtrial.analysis.validity.runs import LOAD_SAID
from pgtrial.errors import StoreError
from pgtrial.export.redaction import Names, PrivateNames, Redaction, parse_tree, strings, with_strings
from pgtrial.knobs import is_sql
from pgtrial.model.load_sessions import LOAD
from pgtrial.safe_files import new_file
from pgtrial.safe_text import parse_json, sql_name
from pgtrial.store import layout, parquet
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import LogEventKind, read_fact, split_duration
from pgtrial.store.server_log.stored import keep_entries, read_lines, read_log, write_log
from pgtrial.store.sqlite import connect_to_read

# The files that hold texts from elsewhere, with the order of their rows.
COLUMN_FILES = {
    layout.SAMPLES: "metric, object, t, value",
    layout.WAITS: "ALL",
    layout.STATEMENTS: "ALL",
}
# Columns of PostgreSQL's and pgtrial's own words, and what the load's sessions call themselves.
_WORD_COLUMNS = {"metric", "backend_type", "state", "wait_type", "wait_event", "queryid"}
# Metrics whose objects are relations, alone or before the name of a phase.
_OF_RELATIONS = ("pg_buffercache.", "relations.", "pg_stat_progress_")
_TABLE = re.compile(r'(?P<before> table "(?:[^".]*\.){0,2})(?P<name>[^"]*)"')
_PERSONAL = ("user", "remote_host", "remote_port")  # nothing is concluded from them
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
# Expression that says what the texts of a row are the values of.
_KEYS = {"block_host": "'host'", "fingerprint": "name", "meta": "key", "setting": "name", "setting_change": "name"}
# Of meta, all that is not read as a word or a number.
_META = "key NOT IN ('format', 'pgtrial_version', 'created') AND (key = 'method_reason' OR key NOT LIKE 'method%')"


def learn_columns(path: Path, known: PrivateNames) -> None:
    """What the texts of a file give away. Raises StoreError."""
    for column in _text_columns(path):
        for text in parquet.distinct_rows(path, [column]):
            known.learn(text[0])


def redact_columns(path: Path, to: Path, names: Names) -> None:
    """Write the file anew without what ``names`` takes out. Raises StoreError."""
    with parquet.session(threads=1) as db:
        replaced = []
        for place, column in enumerate(_text_columns(path)):
            keys = ["metric", column] if column == "object" else [column]
            change = _change(column, names)
            rows = [(*row, change(*row)) for row in parquet.distinct_rows(path, keys)]
            table = f"instead_{place}"
            columns = ", ".join(f"unnest(?::VARCHAR[]) AS {name}" for name in (*_keys(keys), "instead"))
            db.execute(f"CREATE TEMP TABLE {table} AS SELECT {columns}", _lists(rows, len(keys) + 1))
            joined = " AND ".join(
                f"f.{sql_name(key)} = {table}.{name}" for key, name in zip(keys, _keys(keys), strict=True)
            )
            replaced.append((column, table, joined))
        joins = " ".join(f"LEFT JOIN {table} ON {joined}" for _, table, joined in replaced)
        values = ", ".join(f"{table}.instead AS {sql_name(column)}" for column, table, _ in replaced)
        replace = f" REPLACE ({values})" if replaced else ""
        query = f"SELECT f.* EXCLUDE (filename){replace} FROM {parquet.source(db, [path])} AS f {joins}"
        parquet.write_query(db, f"SELECT * FROM ({query}) ORDER BY {COLUMN_FILES[path.name]}", to)


def _change(column: str, names: Names) -> Callable[..., str]:
    """What becomes of a text, given behind its metric where it is what a metric is about."""
    if column == "query":
        return names.query
    if column == "object":
        return lambda metric, text: _object(metric, text, names)
    return lambda text: text if text.startswith(LOAD) else names.clean(text)


def _object(metric: str, text: str, names: Names) -> str:
    """Only relations have names that users give; all else is of the machine and of PostgreSQL."""
    if not str(metric).startswith(_OF_RELATIONS):
        return text
    relation, slash, phase = text.partition("/")
    return f"{names.relation(relation)}{slash}{phase}"


def _keys(columns: list[str]) -> list[str]:
    return [f"key_{number}" for number in range(len(columns))]


def _lists(rows: list[tuple[str, ...]], width: int) -> list[list[str]]:
    return [[row[place] for row in rows] for place in range(width)]


def _text_columns(path: Path) -> list[str]:
    return [name for name in parquet.text_columns(path) if name not in _WORD_COLUMNS]


def learn_log(path: Path, known: PrivateNames) -> None:
    """Secrets and hosts that the log gives away."""
    for found in _lines(path):
        for key, text in strings(found):
            known.learn(text, key)


def redact_log(path: Path, to: Path, names: Names, zone: tzinfo | None) -> None:
    """Write a log without what ``names`` takes out. Without queries, only entries are kept from which something is
    concluded, as from the log of a server that others use too. ``zone`` is log_timezone.
    """
    if Redaction.QUERIES in names.known.kinds:
        entries = keep_entries(read_log(path, zone), since=float("-inf"))
        write_log((_without_queries(entry, names) for entry in entries), to)
        return
    is_hidden = Redaction.HOSTS in names.known.kinds
    try:
        with new_file(to) as file:
            for found in _lines(path):
                kept = {key: value for key, value in found.items() if not (is_hidden and key in _PERSONAL)}
                line = json.dumps(with_strings(kept, names.clean), ensure_ascii=False) + "\n"
                file.write(line.encode(errors="replace"))
    except OSError as err:
        raise StoreError(f'cannot write "{to}": {err.strerror}') from err


def _without_queries(entry: LogEntry, names: Names) -> LogEntry:
    """The entry with names in place of its statement and of the tables that it names."""
    fact, message = read_fact(entry), entry.message
    if fact is not None and fact.kind is LogEventKind.SLOW_STATEMENT and (parts := split_duration(message)):
        message = names.clean(parts[0]) + names.query(parts[1])
    elif fact is not None and fact.kind in (LogEventKind.AUTOVACUUM, LogEventKind.AUTOANALYZE):
        # What follows the first line may name indexes, as the table's own name stands in them.
        head, *lines = message.split("\n")
        head = _TABLE.sub(lambda match: f'{match["before"]}{names.relation(match["name"])}"', head)
        message = "\n".join([head, *(line for line in lines if '"' not in line)])
    return replace(
        entry,
        message=names.clean(message),
        statement=names.query(entry.statement),
        database=names.clean(entry.database),
        application=names.clean(entry.application),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines; other lines are skipped, as every reader of the log does."""
    try:
        for line in read_lines(path):
            try:
                found = parse_json(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err


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


def learn_state(path: Path, known: PrivateNames) -> None:
    """What a copy of the state gives away. Raises StoreError."""
    with _opened(path) as db:
        for (knobs,) in db.execute("SELECT knobs FROM arm"):
            for knob, key, value in json.loads(knobs):
                if is_sql(knob, key):
                    known.learn_query(value)
        for table, column, key in _columns(db):
            for name, text in db.execute(f"SELECT DISTINCT {key}, {column} FROM {table} WHERE {column} IS NOT NULL"):
                if not isinstance(name, str) or not isinstance(text, str):
                    raise StoreError(f"cannot redact the folder's {layout.STATE}: {table}.{column} is no text")
                for inner, each in _strings(text, name):
                    known.learn(each, inner)


def redact_state(path: Path, names: Names, *, is_of_program: bool) -> None:
    """Take out of a copy of the state what ``names`` takes out; ``is_of_program``: the load was one of the user's
    choice, and why a run does not count may be in its words. Raises StoreError.
    """

    @cache
    def clean(text: str, key: str) -> str:
        found = parse_tree(text)
        if found is None:
            return names.clean(text, key)
        return json.dumps(with_strings(found, names.clean))

    def clean_knobs(text: str) -> str:
        knobs = json.loads(text)
        return json.dumps([[knob, key, _knob_value(names, knob, key, value)] for knob, key, value in knobs])

    def clean_said(text: str) -> str:
        found = parse_json(text)
        return json.dumps({**found, "text": names.query(str(found.get("text", "")))})

    def clean_change(text: str, knob: str, key: str) -> str:
        return _knob_value(names, knob, key, text)

    with _opened(path) as db:
        db.create_function("clean", 2, clean, deterministic=True)
        db.create_function("clean_knobs", 1, clean_knobs, deterministic=True)
        db.create_function("clean_change", 3, clean_change, deterministic=True)
        db.create_function("clean_said", 1, clean_said, deterministic=True)
        # The copy's plan is made of its experiment.toml, which has the same experiment.
        db.execute("DELETE FROM meta WHERE key IN ('plan', 'contents')")
        db.execute("UPDATE arm SET knobs = clean_knobs(knobs)")
        db.execute("UPDATE setting_change SET new_value = clean_change(new_value, knob, name)")
        db.execute(
            "UPDATE setting_change SET old_value = clean_change(old_value, knob, name) WHERE old_value IS NOT NULL"
        )
        # What a program of the user's choice said may be of any form: rows, parameters, statements.
        db.execute("UPDATE event SET data = clean_said(data) WHERE kind = ?", (LOAD_SAID,))
        if is_of_program:
            db.create_function("query", 1, names.query, deterministic=True)
            db.execute("UPDATE run SET reason = query(reason)")
        for table, column, key in _columns(db):
            if (table, column) != ("arm", "knobs") and table != "setting_change":
                facts = _META if table == "meta" else "true"
                db.execute(
                    f"UPDATE {table} SET {column} = clean({column}, {key}) WHERE {column} IS NOT NULL AND {facts}"
                )
        db.commit()
        db.execute("VACUUM")


def _knob_value(names: Names, knob: str, key: str, value: str) -> str:
    return names.query(value) if is_sql(knob, key) else names.clean(value, key)


def _strings(text: str, key: str) -> Iterator[tuple[str, str]]:
    found = parse_tree(text)
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
        raise StoreError(f"cannot redact the folder's {layout.STATE}: {err}") from err
    finally:
        db.close()
