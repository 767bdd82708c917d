"""Mutants of a result folder: rows, files, Parquet columns, texts of JSON, and what stands in place of a file."""

import contextlib
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from pgtrial.analysis.analyze import analyze
from pgtrial.report.html import write_html
from pgtrial.store import layout
from pgtrial.store.findings_file import write_findings
from support.attack.trial import PRECIOUS
from support.attack.values import BINARY, TEXTS, any_value, mutate_bytes, mutate_text, mutate_tree
from support.folder import write_result_folder
from support.simulation import EXPERIMENT

NAME = "gift-20260101T000000Z"
_SPARSE = 400 << 20  # bytes of a file that takes no room
_MOST_OF_LOG = 60_000_000  # bytes
_LOG_LINE = {
    "timestamp": "2026-01-01 00:01:00.000 UTC",
    "pid": 4711,
    "error_severity": "LOG",
    "message": "checkpoint complete: wrote 10 buffers (0.1%); 0 WAL file(s) added, 0 removed, 1 recycled; "
    "write=0.010 s, sync=0.001 s, total=0.020 s; sync files=3, longest=0.001 s, average=0.001 s; distance=16384 kB",
    "backend_type": "checkpointer",
}
_COLUMNS = (
    "NULL",
    "'x'",
    "-1",
    "0",
    "1e308",
    "'nan'::DOUBLE",
    "'inf'::DOUBLE",
    "9223372036854775807",
    "[1]",
    "{'a': 1}",
)


def make_folder(place: Path, text: str = EXPERIMENT) -> Path:
    """A small result folder with everything that one has."""
    folder = write_result_folder(place / NAME, text=text.replace("blocks = 6", "blocks = 3"))
    for run in sorted((folder / layout.RUNS).iterdir()):
        lines = [json.dumps({**_LOG_LINE, "message": message}) for message in (_LOG_LINE["message"], "x")]
        (run / layout.SERVER_LOG).write_text("\n".join(lines) + "\n")
    (folder / layout.LOCK).touch()
    (folder / layout.LIVE).write_text("00000000 2\n{}\n")
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    findings = analyze(folder)
    write_findings(findings, folder)
    write_html(findings, folder / layout.REPORT)
    return folder


def mutate_folder(folder: Path, rng: random.Random) -> None:
    """Change a folder in one or several ways, most often in its database."""
    ways = (
        *(_rows, _rows, _rows, _rows, _json_in_rows, _json_in_rows, _schema),
        *(_bytes, _parquet, _parquet, _log, _place, _findings, _exchange, _meta, _told_twice),
    )
    chosen = [rng.choice(ways) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    # Last, what puts a pipe where a file was, which another way would wait for.
    for way in sorted(chosen, key=lambda way: way is _place):
        # What an earlier way has damaged may be no JSON any more, or have nothing left to choose from.
        damaged = (OSError, sqlite3.Error, duckdb.Error, ValueError, OverflowError, LookupError, RecursionError)
        with contextlib.suppress(*damaged):
            way(folder, rng)


def mutate_findings(folder: Path, rng: random.Random) -> None:
    """Change what was found, as somebody does who wants it told otherwise."""
    path = folder / layout.FINDINGS
    found = json.loads(path.read_text())
    for _ in range(rng.choice((1, 1, 2, 5))):
        found = mutate_tree(rng, found)
    path.write_text(json.dumps(found))


def tellings(rng: random.Random, folder: Path) -> Sequence[Sequence[str]]:
    """What tells of findings as they were written."""
    given, out = str(folder), str(folder.parent / "out")
    return rng.choice(
        (
            (("narrate", given), ("apply", given)),
            (("narrate", given, "--json"), ("suggest", given, "-o", out)),
            (("narrate", given, "--dossier", "-"), ("apply", given, "--arm", "off")),
            (("narrate", given, "--sources", "--format", "markdown"), ("predict", given, "--change", "flush=0.5")),
            (("compare", given, given),),
            (("export", given, "--format", "xlsx", "-o", f"{out}.xlsx"), ("status", given)),
            (("serve", str(folder.parent), "--port", "0"),),
        )
    )


def commands(rng: random.Random, folder: Path) -> Sequence[Sequence[str]]:
    """What somebody who was given the folder does with it."""
    given, out = str(folder), str(folder.parent / "out")
    if rng.random() < 0.5:  # then they are made anew, of the mutant
        with contextlib.suppress(OSError):
            (folder / layout.FINDINGS).unlink()
    return rng.choice(
        (
            (("report", given, "-o", f"{out}.html"),),
            (("report", given),),
            (("status", given),),
            (("status", given, "--json"),),
            (("export", given, "--format", "jsonl", "-o", out),),
            (("export", given, "--format", "xlsx", "-o", f"{out}.xlsx"),),
            (("export", given, "--bundle", "-o", f"{out}.zip"),),
            (("export", given, "--bundle", "--redact", "all", "-o", f"{out}.zip"),),
            (("compare", given, given),),
            (("narrate", given),),
            (("apply", given),),
            (("apply", given, "--arm", "off"),),
            (("suggest", given, "-o", out),),
            (("predict", given, "--change", "flush=0.5"),),
            (("serve", given, "--port", "0"),),
            (("report", given), ("serve", str(folder.parent), "--port", "0")),
        )
    )


def _loosened(db: sqlite3.Connection) -> None:
    """Take away what the tables demand of their values, as whoever forges one does."""
    db.execute("PRAGMA writable_schema = ON")
    db.execute(
        "UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '') WHERE type = 'table'"
    )
    db.execute("PRAGMA writable_schema = RESET")
    db.execute("PRAGMA ignore_check_constraints = ON")


@contextlib.contextmanager
def _database(folder: Path) -> Any:
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        _loosened(db)
        yield db
        db.commit()


def _pick(db: sqlite3.Connection, rng: random.Random) -> tuple[str, list[str], int]:
    """A table that has rows, its columns, and the number of one row."""
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'meta2'")]
    table = rng.choice([name for name in tables if db.execute(f'SELECT 1 FROM "{name}"').fetchone()])
    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    rows = [row for (row,) in db.execute(f'SELECT rowid FROM "{table}"')]
    return table, columns, rng.choice(rows)


def _stored(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value if not isinstance(value, int) or -(2**63) <= value < 2**63 else float(value)


def _rows(folder: Path, rng: random.Random) -> None:
    with _database(folder) as db:
        table, columns, row = _pick(db, rng)
        column = rng.choice(columns)
        way = rng.randrange(8)
        if way <= 4:
            value = rng.choice(BINARY) if rng.random() < 0.15 else _stored(any_value(rng))
            scope = "" if rng.random() < 0.15 else f"WHERE rowid = {row}"
            db.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? {scope}', (value,))
        elif way == 5:
            db.execute(f'DELETE FROM "{table}" {"" if rng.random() < 0.3 else f"WHERE rowid = {row}"}')
        elif way == 6:
            listed = ", ".join(f'"{name}"' for name in columns)
            db.execute(f'INSERT OR IGNORE INTO "{table}" ({listed}) SELECT {listed} FROM "{table}" WHERE rowid = {row}')
        else:
            other = rng.choice(columns)
            db.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = "{other}" WHERE rowid = {row}')


def _json_in_rows(folder: Path, rng: random.Random) -> None:
    with _database(folder) as db:
        found = [
            (table, column, row, text)
            for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for _, column, *_ in db.execute(f'PRAGMA table_info("{table}")').fetchall()
            for row, text in db.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
            if isinstance(text, str) and text[:1] in ("{", "[")
        ]
        table, column, row, text = rng.choice(found)
        for _ in range(rng.choice((1, 1, 3))):
            text = json.dumps(mutate_tree(rng, json.loads(text)))
        if rng.random() < 0.1:
            text = rng.choice(TEXTS).encode("utf-8", "replace").decode()
        db.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?', (text, row))


def _schema(folder: Path, rng: random.Random) -> None:
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        table, columns, _ = _pick(db, rng)
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        way = rng.choice(("drop", "view", "column", "trigger", "rename", "generated", "index", "more", "wal"))
        if way in ("drop", "view"):
            db.execute("PRAGMA foreign_keys = OFF")
            db.execute(f'DROP TABLE "{table}"')
        if way == "view":
            listed = ", ".join(f'i AS "{name}"' for name in columns)
            db.execute(f'CREATE VIEW "{table}" AS {endless} SELECT {listed} FROM n')
        elif way == "column":
            db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{rng.choice(columns)}"')
        elif way == "trigger":
            db.execute(f'CREATE TRIGGER t AFTER UPDATE ON "{table}" BEGIN DELETE FROM meta; END')
        elif way == "rename":
            db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{rng.choice(columns)}" TO "x"')
        elif way == "generated":
            db.execute(f'ALTER TABLE "{table}" ADD COLUMN y AS (randomblob(100000000)) VIRTUAL')
        elif way == "index":
            db.execute(f'CREATE INDEX i ON "{table}" (abs("{rng.choice(columns)}"))')
        elif way == "more":
            db.execute(f"CREATE TABLE more AS {endless} SELECT i, printf('%.1000d', i) FROM n LIMIT 3000")
        elif way == "wal":
            for suffix in ("-wal", "-shm", "-journal"):
                if rng.random() < 0.5:
                    Path(f"{folder / layout.STATE}{suffix}").write_bytes(rng.randbytes(5000))
        db.commit()


def _exchange(folder: Path, rng: random.Random) -> None:
    """Two files have each other's contents, each of them whole."""
    one, other = rng.sample(_files(folder), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _meta(folder: Path, rng: random.Random) -> None:
    """What is said of the whole experiment: a value of another key, a part of it, or one that is not the program's."""
    with _database(folder) as db:
        rows = db.execute("SELECT key, value FROM meta").fetchall()
        for _ in range(rng.choice((1, 1, 4))):
            (key, value), (_, other) = rng.sample(rows, 2)
            new = rng.choice(
                (other, value[: rng.randrange(len(value) + 1)], f"{value}{value}", _stored(any_value(rng)))
            )
            db.execute("UPDATE OR IGNORE meta SET value = ? WHERE key = ?", (new, key))


def _told_twice(folder: Path, rng: random.Random) -> None:
    """A key of JSON stands twice, with two values: readers differ in which they take."""
    path = folder / layout.FINDINGS
    found = json.loads(path.read_text())
    key = rng.choice(list(found))
    path.write_text(f"{json.dumps(found)[:-1]}, {json.dumps(key)}: {json.dumps(rng.choice(list(found.values())))}}}")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _bytes(folder: Path, rng: random.Random) -> None:
    path = rng.choice([folder / layout.STATE, *_files(folder)])
    path.write_bytes(mutate_bytes(rng, path.read_bytes()))


def _parquet(folder: Path, rng: random.Random) -> None:
    """Another value, another type, another name or no such column in a file of a run."""
    path = rng.choice(sorted(folder.rglob("*.parquet")))
    with duckdb.connect(":memory:", config={"threads": 1}) as db:
        db.execute(f"SELECT setseed({rng.random()})")
        columns = [row[0] for row in db.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
        column, value = rng.choice(columns), rng.choice(_COLUMNS)
        some = f'CASE WHEN random() < 0.3 THEN TRY_CAST({value} AS VARCHAR) ELSE "{column}"::VARCHAR END'
        query = rng.choice(
            (
                f"SELECT * REPLACE ({value} AS \"{column}\") FROM '{path}'",
                f"SELECT * REPLACE ({some} AS \"{column}\") FROM '{path}'",
                f"SELECT * EXCLUDE (\"{column}\") FROM '{path}'",
                f"SELECT * RENAME (\"{column}\" AS x) FROM '{path}'",
                f"SELECT * FROM '{path}' WHERE false",
                f"SELECT * FROM '{path}' UNION ALL SELECT * FROM '{path}'",
                f"SELECT * FROM (FROM '{path}' LIMIT 2000), range(2000)",  # it may have been made larger before
                f"SELECT f.* FROM (FROM '{path}' LIMIT 9) AS f, range(200000)",
                (
                    f'SELECT f.* REPLACE (range::VARCHAR || "{column}" AS "{column}") '
                    f"FROM (FROM '{path}' LIMIT 2000) AS f, range(300)"
                ),
            )
        )
        db.execute(f"COPY ({query}) TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").replace(path)


def _log(folder: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(folder.rglob(layout.SERVER_LOG)))
    lines = path.read_text().splitlines()
    at = rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        lines[at] = json.dumps(mutate_tree(rng, json.loads(lines[at])))
    elif way == 1:
        lines[at] = rng.choice(TEXTS).encode("utf-8", "replace").decode()
    elif way == 2:
        lines[at] = mutate_text(rng, lines[at])
    elif way == 3:
        lines *= max(1, min(3000, _MOST_OF_LOG // path.stat().st_size))
    else:
        lines[at] = json.dumps({**_LOG_LINE, "message": "x" * 20_000_000})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")


def _findings(folder: Path, rng: random.Random) -> None:
    """What a report has left, with another value in it."""
    path = folder / layout.FINDINGS
    tree = json.loads(path.read_text())
    for _ in range(rng.choice((1, 1, 3))):
        tree = mutate_tree(rng, tree)
    path.write_text(json.dumps(tree))


def _place(folder: Path, rng: random.Random) -> None:
    """Something else stands where a file or a folder was."""
    path = rng.choice([*_files(folder), folder / layout.RUNS, *(folder / layout.RUNS).iterdir()])
    way = rng.choice(("gone", "link", "pipe", "directory", "sparse", "empty", "closed"))
    if way in ("sparse", "empty", "closed"):
        if path.is_file():
            os.truncate(path, {"sparse": _SPARSE, "empty": 0}.get(way, path.stat().st_size))
        path.chmod(0o000 if way == "closed" else path.stat().st_mode)
        return
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if way == "link":
        precious = str(folder.parent / PRECIOUS)
        path.symlink_to(rng.choice(("/dev/zero", "/etc", "/proc/self/mem", path.name, "nowhere", precious)))
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "directory":
        (path / "x").mkdir(parents=True)
