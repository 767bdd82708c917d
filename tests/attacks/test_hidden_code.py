r"""SQL that executes code or reaches files, written so that a search for its names would not find them."""

from pathlib import Path

import pytest

from pgtrial.experiment_file.code_uses import find_in_sql
from pgtrial.experiment_file.escapes import readings
from pgtrial.workloads.psql_script import PsqlScript

LONG = "x" * 300
HIDDEN = [
    # escapes of names and strings
    r"""SELECT U&"lo\005fexport"(1, '/x')""",
    r"""SELECT u&"lo\+00005fexport"(1, '/x')""",
    r"""SELECT U&"lo!005fexport" UESCAPE '!'(1, '/x')""",
    r"""SELECT U&"lo!005fexport" uescape E'\041'(1, '/x')""",
    r"""SELECT U&"lo!005fexport" UESCAPE/**/'!'(1, '/x')""",
    r"""SELECT U&"x" UESCAPE 'l', U&"x" UESCAPE '_', U&"lo!005fexport" UESCAPE '!'(1, '/x')""",
    r"""SELECT U&"pg_r\0065ad_file"('/x')""",
    r"""SELECT U&"dblink\005fconnect"('')""",
    r"""ALTER SYSTEM SET U&"archive\005fcommand" = 'id'""",
    r"""ALTER DATABASE d SET U&"session_preload\005flibraries" = '/x'""",
    r"""CREATE FUNCTION f() RETURNS int LANGUAGE U&"plpython3\0075" AS 'import os'""",
    r"""COPY U&"t\0061" FROM '/x'""",
    r"""SELECT set_config(E'archive\137command', 'id', false)""",
    r"""SELECT set_config(E'archive\x5fcommand', 'id', false)""",
    r"""SELECT set_config(U&'archive\005fcommand', 'id', false)""",
    r"""DO E'BEGIN PERFORM lo\_export(1, \'/x\'); END'""",
    r"""DO E'BEGIN PERFORM U&"lo\\005fexport"(1, \'/x\'); END'""",
    r"""DO E'BEGIN \x45XECUTE y; END'""",
    r"""SELECT ' e' || U&"lo\005fexport"(1, '/x')""",
    # names that are put together
    "SELECT set_config('archive' || '_command', 'id', false)",
    "SELECT set_config('archive'\n'_command', 'id', false)",
    "SELECT set_config/**/(concat('archive', '_command'), 'id', false)",
    "SELECT \"set_config\"(name, 'id', false) FROM names",
    "SELECT set_config(:'name', 'id', false)",
    "SELECT pg_copy_logical_replication_slot('a', 'b', false, '/x')",
    "SET pljava.vmoptions = '-agentpath:/x'",
    "SET plv8.start_proc = 'f'",
    "CREATE AGGREGATE put(text, bool) (sfunc = set_config, stype = text, initcond = 'archive_command')",
    "UPDATE pg_settings SET setting = 'id' WHERE name = 'archive' || '_command'",
    "SELECT 'export' AS x \\gset\nSELECT lo_:x(1, '/x')",
    "SELECT 'lo_export' AS x \\gset\nSELECT :x (1, '/x')",
    # texts that are executed
    "SELECT query_to_xml('SELECT lo_' || 'export(1, ''/x'')', true, true, '')",
    "SELECT query_to_xmlschema('SELECT 1', true, true, '')",
    "SELECT cursor_to_xml('c', 1, true, true, '')",
    "SELECT table_to_xml('v', true, true, '')",
    "SELECT database_to_xml_and_xmlschema(true, true, '')",
    "SELECT * FROM ts_stat('SELECT ' || x)",
    "SELECT ts_rewrite('a'::tsquery, 'SELECT ' || x)",
    "SELECT * FROM crosstab('SELECT ' || x) AS (a text)",
    "SELECT cron.schedule('* * * * *', 'SELECT ' || x)",
    "DO $$ DECLARE function text; BEGIN EXECUTE function; END $$",
    "DO $$ DECLARE function text; BEGIN EXECUTE function USING(1); END $$",
    # files
    "SELECT size FROM pg_stat_file('/home/me/.pgpass')",
    "CREATE TABLESPACE t LOCATION '/home/me'",
    "CREATE TABLESPACE t OWNER o LOCATION $$/home/me$$",
    "COPY BINARY t FROM '/x'",
    f"COPY {LONG} FROM '/x'",
    f"COPY \"{LONG}\" FROM '/x'",
    "COPY \"a\nb\" FROM '/x'",
    "COPY t (\"a)\", b) FROM '/x'",
    "COPY t FROM :'file'",
    "COPY (SELECT 1) /* */ TO '/x'",
    "COPY (SELECT 1\n, 'a long list of columns, with more in it than is looked at otherwise') TO '/x'",
    "SELECT pg_file_rename('x', 'y')",
    # libraries, catalogs, other servers
    "SELECT pg_create_logical_replication_slot('s', '/x.so')",
    "UPDATE pg_rewrite SET ev_action = x",
    'UPDATE ONLY pg_catalog . "pg_trigger" SET tgfoid = 1',
    "INSERT INTO/**/pg_db_role_setting VALUES (0, 0, x)",
    "COPY pg_proc FROM stdin",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql_fdw",
]
PLAIN = [
    r"SELECT U&'d\0061t\+000061', U&'d!0061t' UESCAPE '!', E'a\tb\\c', '\xdeadbeef'",
    "SELECT pg_catalog.set_config('search_path', '', false), set_config('work_mem'::text, '1MB', true)",
    "SELECT id AS d_id FROM d \\gset\nUPDATE d SET a = :a WHERE id = :d_id AND t = '12:30' AND x::text IN (:a)",
    'COPY public.t ("a b", c) FROM stdin',
    "SET default_tablespace = ''",
    "UPDATE pgbench_accounts SET abalance = 1",
    "INSERT INTO pg_temp.t SELECT pg_table_size('t'), current_setting('location')",
    'CREATE TRIGGER t BEFORE INSERT ON u EXECUTE PROCEDURE "s".f ()',
    "REVOKE EXECUTE ON FUNCTION f() FROM public",
]


@pytest.mark.parametrize("sql", HIDDEN)
def test_hidden_code_in_a_script_is_listed(sql: str) -> None:
    found = {use.where for use in find_in_sql("s", f"SELECT 1;\n{sql};\n")}

    assert found & {f"s, line {number}" for number in range(2, 4)}


@pytest.mark.parametrize("sql", HIDDEN)
def test_hidden_code_in_data_to_load_is_listed_wherever_it_is_in_a_line(sql: str, tmp_path: Path) -> None:
    before = f"SELECT '{'x' * 100}'; "
    (tmp_path / "load.sql").write_text(f"{before}{sql};\n")

    assert PsqlScript.read(tmp_path / "load.sql").uses


@pytest.mark.parametrize("sql", PLAIN)
def test_what_only_looks_like_it_is_not_listed(sql: str) -> None:
    assert [*find_in_sql("s", sql)] == []


def test_escapes_that_are_decoded_end_no_line() -> None:
    text = "SELECT E'a\\nb\\012c', U&'\\000a' UESCAPE\n'!', U&'!000d';\n"

    assert {each.count("\n") for each in readings(text)[0]} == {2}
