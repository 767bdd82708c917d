"""Connections to databases of strangers: a query without an end is ended, an honest one never meets the limit."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pgtrial.store.sqlite import connect_to_read


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "state.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (i INTEGER)")
        db.executemany("INSERT INTO t VALUES (?)", ((i,) for i in range(100_000)))
        db.commit()
    return path


def test_a_query_without_an_end_is_interrupted(database: Path) -> None:
    with closing(connect_to_read(database)) as db, pytest.raises(sqlite3.OperationalError, match="interrupted"):
        db.execute("SELECT count(*) FROM t AS a, t AS b, t AS c").fetchall()


def test_twenty_readings_of_a_large_table_are_not(database: Path) -> None:
    with closing(connect_to_read(database)) as db:
        assert {db.execute("SELECT count(i) FROM t").fetchone() for _ in range(20)} == {(100_000,)}


@pytest.mark.parametrize("written", ["CREATE\tVIRTUAL TABLE", "create /* */ virtual TABLE"])
def test_a_virtual_table_is_seen_however_it_is_written(database: Path, written: str) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("CREATE VIRTUAL TABLE v USING rtree(id, a, b)")
        db.execute("PRAGMA writable_schema = ON")
        changed = "UPDATE sqlite_schema SET sql = replace(sql, 'CREATE VIRTUAL TABLE', ?) WHERE name = 'v'"
        db.execute(changed, (written,))
        db.commit()

    with pytest.raises(sqlite3.DatabaseError, match=r'"v"'):
        connect_to_read(database)


def test_indexes_are_no_harm(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("CREATE UNIQUE INDEX one ON t (i)")
        db.execute("CREATE TABLE u (i INTEGER UNIQUE)")

    with closing(connect_to_read(database)) as db:
        assert db.execute("SELECT count(i) FROM t").fetchone() == (100_000,)


def test_thousands_of_tables_are_not_looked_at(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA writable_schema = ON")
        rows = ((f"t{i}", f"t{i}", f"CREATE TABLE t{i} (a)") for i in range(2000))
        db.executemany(
            "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('table', ?, ?, 2, ?)", rows
        )
        db.commit()

    with pytest.raises(sqlite3.DatabaseError, match="more than 1000 tables"):
        connect_to_read(database)
