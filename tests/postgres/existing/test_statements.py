import psycopg
import pytest
from psycopg import sql

from pgtrial.knobs.postgresql import LISTS, in_psql, split_list
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.database import alter_system, as_written


def test_every_list_that_a_server_quotes_is_known(foreign):
    """The oracle is what ALTER SYSTEM makes of 'a b' for each setting that it takes."""
    quoted = set()
    with psycopg.connect(foreign.conninfo(), autocommit=True) as connection:
        query = "SELECT name FROM pg_settings WHERE vartype = 'string' AND context <> 'internal'"
        for (name,) in connection.execute(query).fetchall():
            try:
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = 'a b'").format(sql.Identifier(name)))
            except psycopg.Error:
                continue
            if '"a b"' in foreign.auto_conf.read_text():
                quoted.add(name)
            connection.execute("ALTER SYSTEM RESET ALL")

    known = {name for (name,) in foreign.sql("SELECT name FROM pg_settings")} & set(LISTS)
    assert quoted == known


@pytest.mark.parametrize(
    ("name", "value", "elements"),
    [
        ("search_path", '"$user", Public', ["$user", "public"]),
        ("search_path", '"a""b,c" , d', ['a"b,c', "d"]),
        ("shared_preload_libraries", "$libdir/Foo,bar", ["$libdir/Foo", "bar"]),
        ("shared_preload_libraries", '"my lib"', ["my lib"]),
        ("temp_tablespaces", "", []),
    ],
)
def test_lists_are_taken_apart_as_the_server_does(name, value, elements):
    assert split_list(name, value) == elements


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("work_mem", "4MB", "work_mem = '4MB'"),
        ("log_line_prefix", "it's \\ %m", "log_line_prefix = 'it''s \\\\ %m'"),
        ("search_path", '"$user",select, Foo', 'search_path = \'"$user", "select", foo\''),
        ("session_preload_libraries", "auto_explain, x", "session_preload_libraries = 'auto_explain, x'"),
    ],
)
def test_a_value_stands_in_the_file_as_foreseen(foreign, runner, name, value, line):
    async def both():
        async with connect(foreign.conninfo()) as connection:
            written = await as_written(connection, name, value)
            await connection.execute(alter_system(name, written))
            return written

    written = runner.run(both())

    found = foreign.auto_conf.read_text().splitlines()[-1]
    assert found == line
    assert written.replace("\\", "\\\\").replace("'", "''") in line


def test_without_a_value_the_setting_is_reset():
    assert alter_system("a.B", None).as_string() == 'ALTER SYSTEM RESET "a"."B"'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work_mem", "64MB"),
        ("log_line_prefix", 'it\'s a \\ and a "quote"'),
        ("search_path", '"$user", public'),
        ("session_preload_libraries", "auto_explain, plpgsql"),
    ],
)
def test_statements_for_an_administrator_write_what_ours_write(foreign, name, value):
    (statement,) = in_psql({name: value}).lines
    written = []
    with psycopg.connect(foreign.conninfo(), autocommit=True) as connection:
        for text in (statement.encode(), alter_system(name, value)):
            connection.execute(text)
            written.append(foreign.auto_conf.read_text())
            connection.execute("ALTER SYSTEM RESET ALL")

    assert written[0] == written[1]
    assert name in written[0]
