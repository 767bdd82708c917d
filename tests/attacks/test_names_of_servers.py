"""A server that somebody else has filled with names and words: they are shown as text, and mean nothing more."""

import asyncio
import json
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgtrial.cli.main import main
from pgtrial.postgres.connect import connect, execute

DATABASE = 'x"; DROP TABLE t; -- \\! id $HOME %s {0} \U0001f600'  # a name in a file has no control characters
TABLE = "t\x1b]0;owned\x07<script>alert(1)</script>\n| a | b |\n=cmd()"
EXPERIMENT = """
format = 1
experiment = {{ name = "gift" }}
hypothesis = {{ claim = "b is better", arm = "b", expect = "better" }}
design = {{ blocks = 2 }}
[dataset]
kind = "existing"
[target]
kind = "server"
connection = {connection}
database = {database}
[workload]
clients = 1
duration = "1s"
[[workload.scenario]]
name = "s"
file = "s.sql"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""


@pytest.fixture
def strange(served, runner) -> str:
    """How a database is reached whose name and tables have everything that a name can have."""

    async def make() -> str:
        async with connect(served.conninfo()) as connection:
            await connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(DATABASE)))
            await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
            await connection.execute(
                sql.SQL("ALTER DATABASE {} SET my.own = {}").format(
                    sql.Identifier(DATABASE), sql.Literal("\x1b[31m'; --\n")
                )
            )
        conninfo = psycopg.conninfo.make_conninfo(served.conninfo(), dbname=DATABASE)
        async with connect(conninfo, application="a'b\n") as connection:
            await connection.execute(sql.SQL("CREATE TABLE public.{} (a int)").format(sql.Identifier(TABLE)))
        return conninfo

    return runner.run(make())


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_look_at_a_server_shows_names_as_text(
    strange: str, served, tmp_path: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.sql").write_text("SELECT 1;\n")
    file = tmp_path / "e.toml"
    text = EXPERIMENT.format(
        connection=json.dumps(served.conninfo()), database=json.dumps(DATABASE, ensure_ascii=False)
    )
    file.write_text(text)

    status = main(["check", "--no-host", "--connect", str(file), *options])

    told = capsys.readouterr()
    assert "this is a bug" not in told.err
    assert status in (0, 1), told.err
    assert "\x1b" not in told.out + told.err
    if options:
        json.loads(told.out)


def test_a_copy_of_a_database_quotes_its_name(strange: str, served, tmp_path: Path, capsys) -> None:
    (tmp_path / "s.sql").write_text("SELECT 1;\n")
    file = tmp_path / "e.toml"
    file.write_text(
        EXPERIMENT.format(connection=json.dumps(served.conninfo()), database=json.dumps(DATABASE, ensure_ascii=False))
    )
    name = DATABASE + "_copy"
    asyncio.run(execute(served.conninfo(), sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name))))  # type: ignore[arg-type]

    assert main(["copy", str(file)]) == 0, capsys.readouterr().err

    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert main(["check", "--no-host", str(file.with_name("e-copy.toml"))]) == 0


def test_a_dump_of_a_database_with_strange_names_is_loaded(strange: str, served, tmp_path: Path, capsys) -> None:
    (tmp_path / "s.sql").write_text("SELECT 1;\n")
    file = tmp_path / "e.toml"
    file.write_text(
        EXPERIMENT.format(connection=json.dumps(served.conninfo()), database=json.dumps(DATABASE, ensure_ascii=False))
    )

    assert main(["copy", str(file), "--dump", str(tmp_path / "d.dump")]) == 0, capsys.readouterr().err

    capsys.readouterr()
    assert main(["plan", str(file.with_name("e-copy.toml"))]) == 0
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
