r"""Data to load from a stranger: what psql and the server would execute is found, and what hides it hides nothing."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.engine.target.base import DATABASE
from pgtrial.experiment_file.code_uses import find_in_sql
from pgtrial.postgres.connect import execute, fetch
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.workloads.psql_script import PsqlScript, ScriptError
from support.loading import empty_database, load

COMMAND = "COPY (SELECT 1) TO PROGRAM 'touch {mark}';\n"
# Each makes it look as if the command were among the data of a COPY, where psql executes it.
DISGUISES = {
    "comment": "/*\nCOPY t FROM stdin;\n*/\n{command}",
    "nested comment": "/* /* */\nCOPY t FROM stdin;\n*/\n{command}",
    "string": "SELECT '\nCOPY t FROM stdin;\n';\n{command}",
    "string with escapes": "SELECT E'\\'\nCOPY t FROM stdin;\n';\n{command}",
    "string that goes on": "SELECT E'a'\n'\\'\nCOPY t FROM stdin;\n';\n{command}",
    "name": 'SELECT 1 AS "\nCOPY t FROM stdin;\n";\n{command}',
    "dollars": "SELECT $a$ $b$\nCOPY t FROM stdin;\n$a$;\n{command}",
    "condition": "\\if false\nCOPY t FROM stdin;\n\\endif\n{command}",
    "reset": "COPY t FROM stdin\n\\r\n{command}",
    "error": "\\set ON_ERROR_STOP off\nCOPY nowhere FROM stdin;\n{command}",
    "error by name": "\\set n ON_ERROR_STOP\n\\set :n off\nCOPY nowhere FROM stdin;\n{command}",
    "variable": "\\set x '/*'\n:x\nCOPY t FROM stdin;\n*/\n{command}",
    "standard input": "\\copy t from pstdin\n{command}",
    "table of that name": "CREATE TABLE stdin (a int);\nCOPY (SELECT a FROM stdin) TO stdout;\n{command}",
    "begin": "CREATE FUNCTION begin() RETURNS int LANGUAGE sql AS 'SELECT 1';\nCOPY t FROM stdin;\n{command}",
    "strings": "SET standard_conforming_strings = off;\nSELECT '\\'\nCOPY t FROM stdin;\n';\n{command}",
    "strings by a function": "SELECT set_config('standard_'||'conforming_strings', 'off', false);\n"
    "SELECT '\\'\nCOPY t FROM stdin;\n';\n{command}",
    "encoding": "SET client_encoding = 'SJIS';\nCOPY t FROM stdin;\n{command}",
    "end of data before": "COPY t FROM stdin \\g\n$x$\n\\.\n/* $x$\nCOPY t FROM stdin;\n*/\n{command}",
    "more on the line": "COPY t FROM stdin; SELECT '\n\\.\nCOPY t FROM stdin;\n';\n{command}",
    "separator": "\\echo x \\\\ /*\nCOPY t FROM stdin;\n*/\n{command}",
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_command_that_looks_like_data_is_found(tmp_path: Path, disguise: str) -> None:
    text = DISGUISES[disguise].format(command=COMMAND)
    (tmp_path / "load.sql").write_text(f"CREATE TABLE t (a int);\n{text}")

    found = PsqlScript.read(tmp_path / "load.sql").uses

    assert any("touch" in use.what and "a shell command" in use.what for use in found), found


def test_what_a_file_that_is_read_does_to_the_next_line_counts(tmp_path: Path) -> None:
    (tmp_path / "part.sql").write_text("\\set ON_ERROR_STOP off\n")
    (tmp_path / "load.sql").write_text(f"\\i part.sql\nCOPY nowhere FROM stdin;\n{COMMAND}")

    assert any("touch" in use.what for use in PsqlScript.read(tmp_path / "load.sql").uses)


@pytest.mark.parametrize(
    "text",
    [
        "COPY t FROM stdin;\n{data}",
        'COPY public."a ""b" (a, "c d") FROM stdin WITH (FORMAT csv);\n{data}',
        "COPY t\n  (a)\n  FROM stdin; -- data\n{data}",
        "\\copy t (a) from stdin\n{data}",
        (
            "SET client_encoding = 'UTF8';\nSELECT pg_catalog.set_config('search_path', '', false);\n"
            "SET standard_conforming_strings = on;\n\\restrict x\nCOPY t FROM stdin;\n{data}\\unrestrict x\n"
        ),
        "CREATE FUNCTION f() LANGUAGE plpgsql AS $$\nBEGIN -- '\nRETURN; END $$;\nCOPY t FROM stdin;\n{data}",
        "CREATE FUNCTION f() RETURNS int\n BEGIN ATOMIC\n SELECT 1;\nEND;\nCOPY t FROM stdin;\n{data}",
        "COMMENT ON TABLE t IS E'it\\'s \\\\';\nCOPY t FROM stdin;\n{data}",
        "\\set rows 10\nCOPY t FROM stdin;\n{data}",
    ],
)
def test_data_of_honest_files_are_passed_over(tmp_path: Path, text: str) -> None:
    data = "a program to copy\t\\N\n\\! no command\n/* ' $$\n\\.\n"
    (tmp_path / "load.sql").write_text(f"{text.format(data=data)}COPY t FROM stdin;\n{data}")

    assert PsqlScript.read(tmp_path / "load.sql").uses == []


@pytest.mark.parametrize(
    "text",
    [
        "\\set a PRO\n\\set b 'GRAM ''id'''\nCOPY (SELECT 1) TO :a:b;\n",
        "SELECT 'COPY (SELECT 1) TO PROG' || 'RAM ''id''' AS x \\gset\n:x;\n",
        "\\set n x\n\\set :n y\n:x\n",
    ],
)
def test_sql_that_variables_put_together_is_listed(tmp_path: Path, text: str) -> None:
    (tmp_path / "load.sql").write_text(text)

    found = [use.what.partition(":")[0] for use in PsqlScript.read(tmp_path / "load.sql").uses]
    # Where the variable is the file of a COPY, that is said as well.
    also = {"a file of the server's machine"} if "COPY (SELECT 1) TO :" in text else set()
    assert set(found) == {"SQL put together as it runs"} | also


@pytest.mark.parametrize(
    "text",
    [
        "\\set x 'BEGIN EXE' 'CUTE $$id$$; END'\nDO :'x';\n",
        "\\set x 'BEGIN EXE' 'CUTE $$id$$; END'\n\\echo \\\\ DO :'x';\n",
        "SELECT 'lo_exp' || 'ort' AS x \\gset\nSELECT :\"x\"(1, 'file');\n",
        "DO $$ BEGIN RAISE '%', 'COPY t TO PRO' || 'GRAM ''id'''; END $$;\n/**/ :LAST_ERROR_MESSAGE;\n",
        "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'OGRAM'; END $$;\nCOPY t TO PR:LAST_ERROR_SQLSTATE 'id';\n",
    ],
)
def test_sql_out_of_quoted_variables_and_errors_is_listed(tmp_path: Path, text: str) -> None:
    (tmp_path / "load.sql").write_text(f"\\set ON_ERROR_STOP 0\n{text}")

    assert any(use.what.startswith("SQL put together") for use in PsqlScript.read(tmp_path / "load.sql").uses)


@pytest.mark.parametrize("name", [":f", "a'.sql'", "'e\\x76il.sql'"])
def test_a_file_that_psql_finds_by_another_name_is_listed(tmp_path: Path, name: str) -> None:
    """What is read to find code has to be what psql reads."""
    for harmless in ("good.sql", "a'.sql'", "e\\x76il.sql"):
        (tmp_path / harmless).write_text("SELECT 1;\n")
    condition = "\\set f evil.sql\n\\if false\n\\set f good.sql\n\\endif\n"
    (tmp_path / "load.sql").write_text(f"{condition}\\i {name}\n")

    assert {use.where for use in PsqlScript.read(tmp_path / "load.sql").uses} == {"load.sql, line 5"}


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE FUNCTION f() RETURNS int AS '/tmp/x.so', 'f' LANGUAGE c",
        "CREATE FUNCTION f() RETURNS int LANGUAGE/**/\"C\" AS '/tmp/x'",
        "CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'x'; END $$",
        "CREATE FUNCTION f() RETURNS void SECURITY DEFINER LANGUAGE plpython3u AS 'import os'",
        "CREATE FOREIGN TABLE x (a int) SERVER s OPTIONS (program 'id')",
        "COPY t FROM\nPROGRAM 'id'",
        "ALTER SYSTEM SET archive_command = 'id'",
        "ALTER DATABASE x SET session_preload_libraries = '/tmp/x'",
        "LOAD '/tmp/x'",
        "UPDATE pg_catalog.pg_proc SET probin = '/tmp/x', prolang = 13",
        "SET allow_system_table_mods = on",
        "SELECT dblink_connect('host=production')",
        "CREATE EXTENSION postgres_fdw",
        "CREATE SUBSCRIPTION s CONNECTION 'host=production' PUBLICATION p",
    ],
)
def test_statements_that_execute_more_than_sql_are_listed(sql: str) -> None:
    assert [*find_in_sql("dump", f"SELECT 1;\n{sql};\n")]


@pytest.mark.parametrize(
    "line",
    [
        "SELECT 1; \\copy t from '/etc/passwd'",
        "SELECT 1; \\i /etc/passwd",
        "SELECT 1; \\ir ../other.sql",
        'SELECT 1; \\c "host=127.0.0.1"',
        "\\echo a \\c :conn",
        "\\echo a \\connect production",
        "\\set x 1 \\copy t from '/etc/passwd'",
        "\\getenv x HOME",
        "\\prompt x",
        "\\cd /etc",
        "SELECT 1; \\set x `id`",
        f"SELECT '{'x' * ((1 << 20) - 12)}'; \\copy t from '/etc/passwd'",
    ],
    ids=lambda line: line[-40:],
)
def test_a_command_of_psql_is_found_wherever_it_stands(tmp_path: Path, line: str) -> None:
    (tmp_path / "load.sql").write_text(f"CREATE TABLE t (a text);\n{line}\n")

    assert _is_told(tmp_path / "load.sql")


def _is_told(path: Path) -> bool:
    """Whether a file is refused, or what it executes is listed."""
    try:
        return bool(PsqlScript.read(path).uses)
    except ScriptError:
        return True


@pytest.mark.parametrize("padding", ["", "x" * 100], ids=["short", "long"])
def test_a_string_that_goes_on_in_the_next_line_hides_nothing(tmp_path: Path, padding: str) -> None:
    (tmp_path / "load.sql").write_text(f"DO 'BEGIN PERFORM ''{padding}''; EXE'\n'CUTE ''x''; END';\n")

    assert [use.where for use in PsqlScript.read(tmp_path / "load.sql").uses] == ["load.sql, line 1"]


@pytest.fixture
def database(served: ThrowawayCluster) -> Iterator[str]:
    with empty_database(served) as conninfo:
        yield conninfo


@pytest.mark.pg
def test_how_strings_are_read_is_not_the_choice_of_the_file_before(
    served: ThrowawayCluster, tmp_path: Path, database: str
) -> None:
    (tmp_path / "first.sql").write_text(f"ALTER DATABASE {DATABASE} SET standard_conforming_strings = off;\n")
    (tmp_path / "second.sql").write_text("CREATE TABLE public.t AS SELECT '\\' AS a;\n")

    load(served, tmp_path, "first.sql", "second.sql")

    assert asyncio.run(fetch(database, "SELECT a FROM public.t")) == [("\\",)]


@pytest.mark.pg
def test_triggers_of_a_dump_run_as_the_account_of_the_server(
    served: ThrowawayCluster, tmp_path: Path, database: str
) -> None:
    """An event trigger meets pgtrial's own statements too: it may be anything in SQL, and has no more rights."""
    (tmp_path / "load.sql").write_text(
        "CREATE TABLE public.seen (who text, tag text);\n"
        "CREATE FUNCTION public.see() RETURNS event_trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN\n"
        "INSERT INTO public.seen\n"
        "SELECT (regexp_match(pg_read_file('/proc/self/status'), 'Uid:\\s+(\\d+)'))[1], tg_tag;\n"
        "END $$;\n"
        "CREATE EVENT TRIGGER see ON ddl_command_end EXECUTE FUNCTION public.see();\n"
    )
    (found,) = (use.what for use in PsqlScript.read(tmp_path / "load.sql").uses)
    assert found.startswith("a file of the server's machine")

    load(served, tmp_path, "load.sql")

    asyncio.run(execute(database, "CREATE TABLE public.own (a int)"))
    owner = str(served.data.stat().st_uid)
    assert asyncio.run(fetch(database, "SELECT who, tag FROM public.seen")) == [(owner, "CREATE TABLE")]
    assert os.geteuid() != 0 or owner != "0"
