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
    "DO $$ DECLARE function text; BEGIN EXECUTE function OPERATOR(pg_catalog.||) 'x'; END $$",
    "DO $$ BEGIN EXECUTE function .make('x'); END $$",
    "DO $$ BEGIN EXECUTE procedure\n. make('x'); END $$",
    "SELECT repack.repack_apply('SELECT ' || x, '', '', '', '', 1)",
    "INSERT INTO cron.job (schedule, command) VALUES ('* * * * *', 'SELECT ' || x)",
    "SELECT cron.alter_job(1, command := 'SELECT ' || x)",
    "CALL distributed_exec('SELECT ' || x)",
    "SELECT dbms_sql.parse(c, 'SELECT ' || x)",
    "SELECT add_data_node('n', host => 'x')",
    "SELECT ai.ollama_embed('m', 'text', host => 'http://x')",
    "SELECT * FROM read_text('/home/me/.pgpass')",
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
    # reaching further: other hosts, other services, other programs, other roles
    "SELECT http_get('http://x')",
    "SELECT content FROM http (('POST', 'http://x', NULL, 'text/plain', 'a')::http_request)",
    "SELECT \"http_post\"('http://x', 'a', 'b')",
    "SELECT http_put/* */('http://x', 'a', 'b')",
    "SELECT net.http_post(url := 'http://x')",
    "SELECT http_set_curlopt('CURLOPT_PROXY', 'x')",
    "SELECT aws_s3.query_export_to_s3('SELECT 1', 'bucket', 'file')",
    "SET search_path = aws_s3; SELECT table_import_from_s3('t', '', '', u)",
    "SELECT aws_lambda . invoke(f, '{}')",
    "SELECT azure_storage.blob_put('account', 'container', 'blob', t) FROM t",
    "SELECT * FROM azure_storage.blob_get('account', 'container', 'blob')",
    "CREATE EXTENSION aws_s3 CASCADE",
    "CREATE EXTENSION IF NOT EXISTS http",
    'CREATE EXTENSION/**/"http"',
    "SELECT sqlj.install_jar('file:///x.jar', 'x', true)",
    "SET search_path = sqlj; SELECT replace_jar('http://x/x.jar', 'x', true)",
    "SELECT duckdb.raw_query('INSTALL x')",
    "SELECT * FROM duckdb.query('SELECT 1')",
    "SELECT r['a'] FROM read_csv('/etc/passwd') r",
    "SELECT * FROM read_parquet /* */ ('s3://bucket/x')",
    "SELECT utl_file.fopen('d', 'x', 'w')",
    "INSERT INTO pgagent.pga_jobstep (jstkind, jstcode) VALUES ('b', 'id')",
    "SELECT timetable.add_job('x', '* * * * *', 'id', job_kind := 'BUILTIN')",
    "SELECT pglogical.create_subscription('s', 'host=x')",
    "SELECT citus_add_node('x', 5432)",
    "SELECT run_command_on_workers('SELECT 1')",
    "ALTER SUBSCRIPTION s CONNECTION 'host=x'",
    "CREATE /* */ SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p",
    "IMPORT FOREIGN SCHEMA public FROM SERVER s INTO t",
    "IMPORT/**/FOREIGN/**/SCHEMA public FROM SERVER s INTO t",
    "CREATE FOREIGN TABLE t (a text) SERVER s OPTIONS (filename '/etc/passwd')",
    "CREATE FOREIGN /* */ TABLE t (a text) SERVER s OPTIONS (filename '/etc/passwd')",
    "ALTER FOREIGN TABLE t OPTIONS (SET filename '/etc/passwd')",
    "ALTER SERVER s OPTIONS (SET host 'x')",
    "ALTER /* */ SERVER s OPTIONS (SET host 'x')",
    "CREATE SERVER s FOREIGN/**/DATA WRAPPER w",
    "GRANT pg_execute_server_program TO me",
    'GRANT "pg_read_server_files" TO me',
    "GRANT/**/pg_write_server_files TO me",
    "GRANT pg_create_subscription TO me",
    "SELECT * FROM pg_logdir_ls() AS (a timestamp, b text)",
    "SELECT pg_file_length('/x')",
    "SELECT pg_read_file_v2('/x')",
    "SELECT * FROM pg_hba_file_rules",
    "SELECT st_setbandpath(r, 1, '/etc/passwd', 1)",
    "SELECT st_fromgdalraster('<VRTDataset>'::bytea)",
    # settings of extensions and languages
    'SET "plperl"."on_init" = \'x\'',
    "SET plperl /* */ . on_init = 'x'",
    "SET pllua.on_common_init = 'x'",
    "SET plv8.v8_flags = '--x'",
    "SET plpython3.python_path = '/x'",
    "SET plrust.PATH_OVERRIDE = '/x'",
    "SET postgis.gdal_enabled_drivers = 'ENABLE_ALL'",
    "SET LOCAL postgis.gdal_datapath = '/x'",
    "SELECT set_config('postgis.enable_outdb_rasters', 'on', false)",
    "ALTER DATABASE d SET basic_archive.archive_directory = '/x'",
    "ALTER DATABASE d SET duckdb.allow_community_extensions = on",
    "SET any_extension.work_directory TO '/x'",
    'SET LOCAL "any_extension" . "file_path" = \'/x\'',
    "SELECT set_config('any_extension.file_path', '/x', true)",
    "SET any_extension./**/work_dir = '/x'",
    "SET any_extension. -- of it\nwork_dir TO '/x'",
    "SET any_extension/* = a.b; */.work_dir = '/x'",
    "SET LOCAL /* */ any_extension.work_dir = '/x'",
    'SET "any_extension"./**/"file_path" = \'/x\'',
    f"SET any_extension{' ' * 200}.work_dir = '/x'",
    # functions of whatever an extension has, by its name alone
    "CREATE EXTENSION whatever",
    'CREATE EXTENSION IF NOT EXISTS "whatever" CASCADE',
    'CREATE EXTENSION "pg_trgm2"',
    'CREATE EXTENSION "PG_TRGM"',
    "CREATE EXTENSION pg_trgmé",
    "CREATE EXTENSION/**/whatever",
    "CREATE/**/EXTENSION whatever",
    "CREATE -- it\nEXTENSION whatever",
    "CREATE EXTENSION :name",
    "SELECT pg_reload_conf(), set_config('ssl_crl_dir', '/x', false)",
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
    "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u ON DELETE SET NULL",
    "INSERT INTO http_requests (http_status, server, filename) VALUES (200, 'foreign', 'x')",
    "UPDATE t SET file_path = u.file_path, home_directory = '/x' FROM u",
    "SET search_path = a, b",
    "SELECT a.search_path, b.on_init FROM a, b",
    "CREATE INDEX ON t (http_status)",
    "CREATE EXTENSION hstore",
    'CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA public',
    "create extension PG_trgm CASCADE",
    "UPDATE t SET a = 1, -- one\nb = 2",
    "GRANT pg_monitor TO me",
]


@pytest.mark.parametrize("sql", HIDDEN)
def test_hidden_code_in_a_script_is_listed(sql: str) -> None:
    found = {use.where for use in find_in_sql("s", f"SELECT 1;\n{sql};\n")}

    assert found & {f"s, line {number}" for number in range(2, 4)}


@pytest.mark.parametrize("sql", HIDDEN)
def test_hidden_code_in_data_to_load_is_listed_wherever_it_is_in_a_line(sql: str, tmp_path: Path) -> None:
    before = f"SELECT '{'x' * 100}'; "
    data = "\\.\n" if sql.endswith("FROM stdin") else ""
    (tmp_path / "load.sql").write_text(f"{before}{sql};\n{data}")

    assert PsqlScript.read(tmp_path / "load.sql").uses


@pytest.mark.parametrize("sql", PLAIN)
def test_what_only_looks_like_it_is_not_listed(sql: str) -> None:
    assert [*find_in_sql("s", sql)] == []


def test_escapes_that_are_decoded_end_no_line() -> None:
    text = "SELECT E'a\\nb\\012c', U&'\\000a' UESCAPE\n'!', U&'!000d';\n"

    assert {each.count("\n") for each in readings(text)[0]} == {2}
