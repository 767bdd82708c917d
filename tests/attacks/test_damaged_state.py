"""A state.sqlite that is damaged or forged is told as such, in one message, by every command that reads it."""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.store import layout
from support import write_result_folder

Way = Callable[[Path], object]
_LOOSE = "UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT', ''), 'NOT NULL', '') WHERE type = 'table'"


def by_sql(*statements: str) -> Way:
    """As somebody does whom no constraint of the tables hinders."""

    def way(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            for statement in ("PRAGMA foreign_keys = OFF", "PRAGMA writable_schema = ON", _LOOSE):
                db.execute(statement)
            db.execute("PRAGMA writable_schema = RESET")
            db.execute("PRAGMA ignore_check_constraints = ON")
            for statement in statements:
                db.execute(statement)

    return way


def by_bytes(change: Callable[[bytes], bytes]) -> Way:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def beside(suffix: str, make: Way) -> Way:
    return lambda path: make(Path(f"{path}{suffix}"))


def instead(make: Way) -> Way:
    def way(path: Path) -> None:
        path.unlink()
        make(path)

    return way


WAYS: dict[str, Way] = {
    "empty": by_bytes(lambda _: b""),
    "half": by_bytes(lambda content: content[: len(content) // 2]),
    "text": by_bytes(lambda _: b"hello\n" * 1000),
    "zeros": by_bytes(lambda content: bytes(len(content))),
    "page size": by_bytes(lambda content: content[:16] + b"\0\3" + content[18:]),
    "first page": by_bytes(lambda content: content[:100] + b"\xff" * 300 + content[400:]),
    "other pages": by_bytes(lambda content: content[:4096] + b"\xab" * (len(content) - 4096)),
    "encoding": by_bytes(lambda content: content[:56] + b"\0\0\0\3" + content[60:]),
    "another database": instead(lambda path: sqlite3.connect(path).execute("CREATE TABLE x (y)")),
    "a link": instead(lambda path: path.symlink_to("/etc/passwd")),
    "no format": by_sql("DELETE FROM meta"),
    "no column": by_sql("ALTER TABLE run DROP COLUMN reason"),
    "no arms": by_sql("DELETE FROM arm"),
    "no slots": by_sql("DELETE FROM slot"),
    "an unknown arm": by_sql("UPDATE slot SET arm = 'ghost'"),
    "an arm that is a path": by_sql("UPDATE arm SET name = '../x' WHERE position = 0"),
    "a phase of no run": by_sql("UPDATE phase SET run = 99"),
    "a slice of no run": by_sql("INSERT INTO slice VALUES (99, 0, 0, 1.0, 2.0, 3.0)"),
    "a phase that ends before it begins": by_sql("UPDATE phase SET ended = started - 100"),
    "another state": by_sql("UPDATE run SET state = 'well'"),
    "bytes": by_sql("UPDATE run SET reason = x'ff00'"),
    "a missing time": by_sql("UPDATE run SET started = NULL"),
    "a view": by_sql("ALTER TABLE caveat RENAME TO c", "CREATE VIEW caveat AS SELECT * FROM c"),
    "a trigger": by_sql("CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM meta; END"),
    "a virtual table": by_sql("CREATE VIRTUAL TABLE f USING fts5 (a)"),
    "a computed column": by_sql("ALTER TABLE event ADD COLUMN y AS (1) VIRTUAL"),
    "a rollback journal": beside("-journal", lambda path: path.write_bytes(b"x" * 600)),
    "a link as its log": beside("-wal", lambda path: path.symlink_to("/etc/passwd")),
    "a directory as its index": beside("-shm", Path.mkdir),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_result_folder(tmp_path_factory.mktemp("model") / "gift", runs=2)
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return folder


@pytest.mark.parametrize("command", ["report", "status", "resume", "export"])
@pytest.mark.parametrize("way", WAYS)
def test_it_is_told_in_one_message(
    way: str, command: str, original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(original, tmp_path / "gift")
    WAYS[way](folder / layout.STATE)
    more = {"resume": ["--quiet"], "export": ["--bundle", "-o", str(tmp_path / "b.zip")]}.get(command, [])

    assert main([command, str(folder), *more]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f'error: "{folder / layout.STATE}" is damaged: ')
    assert hint.startswith("hint: Use a copy of the folder as pgtrial wrote it.")
