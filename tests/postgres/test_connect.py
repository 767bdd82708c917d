import os

import pytest

from pgtrial.errors import ConnectError, TargetError
from pgtrial.postgres.connect import conninfo, execute, fetch, forget_caller


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PGHOSTADDR", "192.0.2.1"),
        ("PGOPTIONS", "--nonsense"),
        ("PGSERVICE", "nonsense"),
        ("PGSSLMODE", "nonsense"),
        ("PGCHANNELBINDING", "require"),
        ("PGTARGETSESSIONATTRS", "standby"),
    ],
)
def test_callers_variables_do_not_reach_a_connection(name, value, served, runner, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConnectError):
        runner.run(fetch(served.conninfo(), "SELECT 1"))

    forget_caller()

    assert runner.run(fetch(served.conninfo(), "SELECT 1")) == [(1,)]


def test_what_is_not_libpqs_stays(monkeypatch):
    for name in ("PG_CONFIG", "PGTRIAL_REQUIRE_PG", "PATH"):
        monkeypatch.setenv(name, "kept")
    monkeypatch.setenv("PGUSER", "gone")

    forget_caller()

    assert [os.environ.get(name) for name in ("PG_CONFIG", "PGTRIAL_REQUIRE_PG", "PATH", "PGUSER")] == [
        "kept",
        "kept",
        "kept",
        None,
    ]


def test_server_that_is_not_there_is_a_connection_error(runner, tmp_path):
    with pytest.raises(ConnectError, match="cannot connect to the server"):
        runner.run(fetch(conninfo(host=str(tmp_path), port=5432, user="x", database="x"), "SELECT 1"))


def test_a_database_without_an_encoding_gives_texts(runner, served):
    runner.run(
        execute(
            served.conninfo(),
            "CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
        )
    )
    try:
        there = served.conninfo("ascii")

        assert runner.run(fetch(there, "SELECT 'größer'::text")) == [("größer",)]
        with pytest.raises(TargetError, match="invalid byte sequence"):
            runner.run(fetch(there, r"SELECT E'\xff'::text"))
    finally:
        runner.run(execute(served.conninfo(), "DROP DATABASE ascii"))
