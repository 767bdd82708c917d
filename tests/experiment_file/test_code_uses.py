from pathlib import Path

import pytest

from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.code_uses import find_code_uses
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.workloads.scenarios import scripts_of

TEXT = """
format = 1
experiment = { name = "code" }
dataset = { scale = 1 }
workload = { mix = "select-only", clients = 1, duration = "2s" }
design = { blocks = 2 }
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""


BACKSLASH = "\\"


def uses(text: str = TEXT, **scripts: str) -> list[tuple[str, str]]:
    experiment = parse_experiment(text, "e.toml", Path("/"), check_files=False).experiment
    found = find_code_uses(experiment, resolve_arms(experiment), scripts)
    return [(use.where, use.what) for use in found]


def test_plain_experiment_executes_nothing() -> None:
    assert uses() == []


@pytest.mark.parametrize(
    ("value", "protocol", "is_listed"),
    [
        ("\"1; COPY t TO PROGRAM 'id'\"", "simple", True),
        ('"PROGRAM"', "simple", True),  # the rest of it may be in the script
        ('"PROGRAM"', "prepared", False),  # a parameter, and no text of the statement
        ("100", "simple", False),
        ('"-2.5e-3"', "simple", False),
    ],
)
def test_a_variable_becomes_text_of_a_statement(value, protocol, is_listed) -> None:
    load = f'[arms.b.workload]\nvariables = {{ x = {value} }}\nprotocol = "{protocol}"\n'

    found = uses(TEXT.replace('[arms.b.postgresql]\nwork_mem = "8MB"\n', load))

    assert [where for where, _ in found] == ["arms.b.workload.variables.x"] * is_listed


@pytest.mark.parametrize(
    "line",
    [
        r"\setshell x id",
        r"\SETSHELL x id",
        r"\shell id",
        r"\ shell id",
        "\\\t shell id",
        r"SELECT 1 \; \shell id",
        "COPY t FROM PROGRAM 'id'",
        "copy (select 1) TO /* ; */ program $$id$$",
        "CREATE FOREIGN TABLE f (a text) SERVER file_fdw_server OPTIONS (program 'id')",
        "CREATE SERVER s FOREIGN DATA WRAPPER file_fdw; CREATE FOREIGN TABLE t () SERVER s OPTIONS (PROGRAM 'id')",
        "CREATE FUNCTION f() RETURNS int AS 'x.so' LANGUAGE c",
        "CREATE FUNCTION f() RETURNS int LANGUAGE 'C' AS 'x.so'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE /* sql */ c AS 'x.so'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE internal AS 'int4pl'",
        "DO LANGUAGE plpython3u $$ import os $$",
        "CREATE EXTENSION plperlu",
        "LOAD 'x'",
        "load /* */ 'x'",
        "LOAD $$x$$",
        "ALTER SYSTEM SET archive_command = 'id'",
        "ALTER SYSTEM SET ssl_passphrase_command TO 'id'",
        "ALTER SYSTEM SET listen_addresses = '*'",
        "alter /* */ system /* */ set hba_file = '/x'",
        "ALTER SYSTEM\tRESET ALL",
        "ALTER SYSTEM :x = 1",
        "DO 'BEGIN EXE'\n'CUTE ''x''; END'",
        "DO 'BEGIN EXE' -- c\n-- d\n\n'CUTE ''x''; END'",
        "DO 'BEGIN EXE'\n'CU'\n'TE ''x''; END'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT lo_ex'\n'port(1, ''/x'')'",
        "DO 'BEGIN ALTER SYS'\n'TEM SET a = 1; END'",
        "DO E'BEGIN \\105XE'\n'CUTE ''x''; END'",
        "DO 'BEGIN DO ''BEGIN EXE''\n''CUTE x; END''; END'",
        "DO E'BEGIN DO \\'BEGIN EXE\\'\n\\'CUTE x; END\\'; END'",
        "DO 'BEGIN EXE'\r'CUTE ''x''; END'",
        r"DO E'BEGIN EXE\'\n\'CUTE x; END'",
        r"DO E'BEGIN DO E\'BEGIN COPY t FROM PROGRA\\115 \\\'id\\\'; END\'; END'",
        r"DO E'BEGIN \COPY t FROM ''/etc/passwd''; END'",
        "COPY public . t TO '/x'",
        "COPY public\t.\tt TO '/x'",
        "COPY t€ TO '/x'",
        r"DO U&'BEGIN EXECUT\00:x ''x''; END'",
        r"DO E'BEGIN EXECUT\:x ''x''; END'",
        "SELECT U&\"lo_expor!00:y\" UESCAPE '!' (1, '/x')",
        "CREATE FUNCTION f() RETURNS int LANGUAGE \"sql-i\" AS 'be_lo_export'",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql€ AS 'be_lo_export'",
        'ALTER LANGUAGE internal RENAME TO "sql"',
        'CREATE LANGUAGE "sql-x" HANDLER plperl_call_handler',
        "CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE x HANDLER h",
        "ALTER DATABASE d SET primary_conninfo = 'host=x'",
        "SELECT pg_ls_logdir()",
        "SELECT pg_ls_waldir()",
        "ALTER DATABASE d SET session_preload_libraries = 'x'",
        "SELECT set_config('local_preload_libraries', 'x', false)",
        "SET dynamic_library_path = '/tmp'",
        "SELECT lo_export(1, '/x')",
        "DO $$ BEGIN EXECUTE 'CO' || 'PY t FROM PRO' || 'GRAM ''id'''; END $$",
        "DO $$ BEGIN EXECUTE format('%s', x); END $$",
    ],
)
def test_code_in_a_script_is_listed(line: str) -> None:
    (found,) = {where for where, _ in uses(**{"x.sql": f"SELECT 1;\n{line};\n"})}

    assert found == "x.sql, line 2"


@pytest.mark.parametrize(
    "line",
    [
        r"\set aid random(1, 100000 * :scale)",
        "COPY t FROM STDIN",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$",
        "CREATE TRIGGER t BEFORE INSERT ON u EXECUTE FUNCTION f()",
        "GRANT EXECUTE ON FUNCTION f TO public",
        "EXECUTE prepared(1)",
        "UPDATE load SET load = 1",
        "SELECT program, language FROM shows",
        "SET work_mem = '1MB'",
        "CREATE EXTENSION pg_trgm",
    ],
)
def test_plain_sql_is_not_listed(line: str) -> None:
    assert uses(**{"x.sql": line}) == []


@pytest.mark.parametrize(
    ("change", "where", "what"),
    [
        ('work_mem = "8MB"\narchive_command = "id"', "arms.b.postgresql.archive_command", "archive_command = id"),
        (
            'work_mem = "8MB"\nshared_preload_libraries = "/tmp/x"',
            "arms.b.postgresql.shared_preload_libraries",
            "shared_preload_libraries = /tmp/x",
        ),
        ('work_mem = "8MB"\n"plperl.on_init" = "x"', 'arms.b.postgresql."plperl.on_init"', "plperl.on_init = x"),
        (
            'work_mem = "8MB"\n[arms.b.extensions]\ncreate = ["plpython3u"]',
            "arms.b.extensions.create",
            "an untrusted language: plpython3u",
        ),
        (
            'work_mem = "8MB"\n[arms.b.sql]\napply = "COPY t TO PROGRAM \'id\'"',
            "arms.b.sql.apply, line 1",
            "a shell command of the server: COPY t TO PROGRAM 'id'",
        ),
        ('work_mem = "8MB"\n[target]\npostgres = "./pg"', "target.postgres", "programs in ./pg"),
        ('work_mem = "8MB"\n[arms.b.server]\npostgres = "/x"', "arms.b.server.postgres", "programs in /x"),
        (
            'work_mem = "8MB"\n[target]\nkind = "server"\nrestart = ["sh", "-c", "id"]',
            "target.restart",
            "the command sh -c id",
        ),
    ],
)
def test_code_in_the_file_is_listed(change: str, where: str, what: str) -> None:
    assert uses(TEXT.replace('work_mem = "8MB"', change)) == [(where, what)]


@pytest.mark.parametrize(
    "change",
    [
        "archive_command = ''",
        'shared_preload_libraries = "pg_stat_statements, auto_explain"',
        'work_mem = "8MB"\n[arms.b.extensions]\npreload = ["auto_explain"]',
    ],
)
def test_what_is_empty_or_installed_is_no_code_of_the_file(change: str) -> None:
    assert uses(TEXT.replace('work_mem = "8MB"', change)) == []


def test_listed_lines_move_no_cursor() -> None:
    ((where, what),) = uses(**{"\x1b[2J.sql": "\\shell \x1b]0;x\x07" + "x" * 1000})

    assert (where + what).isprintable()
    assert len(what) < 200


def test_scripts_are_those_of_the_file_and_not_of_a_mix(tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text("SELECT 1")
    (tmp_path / "setup.sql").write_text("SELECT 2")
    own = TEXT.replace("clients = 1", "clients = 2").replace(
        'mix = "select-only"',
        'scenario = [{ name = "first", file = "own.sql" }, { name = "second", builtin = "select-only" }]',
    )
    with_setup = own.replace("scale = 1", 'scale = 1, setup = "setup.sql"')

    loaded = parse_experiment(with_setup, "e.toml", tmp_path)
    assert scripts_of(loaded.experiment, tmp_path) == {"setup.sql": "SELECT 2", "own.sql": "SELECT 1"}

    mixed = parse_experiment(
        TEXT.replace("clients = 1", "clients = 9").replace("select-only", "oltp"), "e.toml", tmp_path
    )
    assert scripts_of(mixed.experiment, tmp_path) == {}


@pytest.mark.parametrize(
    "name",
    ["session_preload_libraries", "Local-Preload-Libraries", "dynamic_library_path", r"session\_preload\_libraries"],
)
def test_a_setting_in_the_connection_that_names_code_is_found(name: str) -> None:
    target = f"""[target]
kind = "server"
connection = "host=db options='-c {name.replace(BACKSLASH, 4 * BACKSLASH)}=/tmp/gift.so'"
"""

    plain = name.replace(BACKSLASH, "")  # as the server takes it
    assert uses(TEXT + target) == [("target.connection", f"a setting that names code: -c {plain}=/tmp/gift.so")]


def test_lines_after_a_string_that_goes_on_keep_their_numbers() -> None:
    assert uses(**{"x.sql": "SELECT 'a'\n'b'\n'c', 1\n;\nSELECT lo_export(1, '/x');\n"}) == [
        ("x.sql, line 5", "a file written by the server: SELECT lo_export(1, '/x');")
    ]


GSET = "SELECT 'id' AS x \\gset\n"


@pytest.mark.parametrize("line", ["SELECT :x;", "ALTER :x;", "SELECT * FROM t WHERE a = :x;", "UPDATE t SET a = b-:x;"])
@pytest.mark.parametrize("change", ["", '"4MB"\n[arms.a.workload]\nprotocol = "extended"'], ids=["all", "one arm"])
def test_an_answer_of_the_server_that_is_put_into_sql_is_listed(line: str, change: str) -> None:
    text = TEXT.replace('"4MB"', change) if change else TEXT
    (found,) = uses(text, **{"x.sql": GSET + line})

    assert found == ("x.sql, line 2", f"SQL put together as it runs: {line}")


@pytest.mark.parametrize(
    "script",
    [
        GSET + "/*\n\\set x 1\n*/\nSELECT :x;",
        GSET + "SELECT '\n\\set x 1\n', :x;",
        GSET + "SELECT '\n\\ :x ';",
        GSET + "SELECT E'\\' \n\\set x 1\n', :x;",
        GSET + "SELECT $$\n\\set x 1\n$$, :x;",
        GSET + "\\if 0\n\\set x 1\n\\endif\nSELECT :x;",
        "\\set x 1\n" + GSET + "SELECT :x;",
        "\\set x 1\nSELECT 1;\n" + GSET + "\\set y 1\nSELECT :y, :x;",
        "SELECT :x;\n" + GSET,
        GSET + "\\set x1 1\nSELECT :x;",
    ],
)
def test_what_only_looks_like_a_number_is_listed(script: str) -> None:
    assert [what.partition(":")[0] for _, what in uses(**{"x.sql": script})] == ["SQL put together as it runs"]


def test_a_number_that_is_set_just_before_is_no_code() -> None:
    script = (
        GSET + "-- it's a number\n\\if :x\n\\set y 1 + :x\nSELECT 'a', :y;\n\\else\n\\set y 2\n"
        "SELECT :y;\n\\endif\n\\sleep :x ms"
    )

    assert uses(**{"x.sql": script}) == []


def test_an_answer_of_the_server_that_is_bound_as_a_value_is_no_code() -> None:
    text = TEXT.replace('"select-only"', '"select-only", protocol = "extended"')

    assert uses(text, **{"x.sql": GSET + "SELECT a::int FROM t WHERE a = :x;"}) == []


SERVER_TEXT = TEXT.replace("scale = 1", 'kind = "existing"').replace(
    "[arms.a.postgresql]", '[target]\nkind = "server"\ndatabase = "d"\n[arms.a.postgresql]'
)


@pytest.mark.parametrize(
    "line",
    [
        "SELECT pg_drop_replication_slot('a')",
        "SELECT pg_create_physical_replication_slot('a', true)",
        "SELECT pg_replication_origin_create('a')",
        "SELECT pg_terminate_backend(1)",
        "SELECT pg_cancel_backend(1)",
        "SELECT pg_reload_conf()",
        "SELECT pg_stat_reset()",
        "SELECT pg_stat_statements_reset()",
        "SELECT pg_switch_wal()",
        "SELECT pg_backup_start('a')",
        "SELECT pg_start_backup('a')",
        "SELECT pg_promote()",
        "SELECT lo_unlink(1)",
        "ALTER ROLE app SUPERUSER",
        "ALTER USER app SUPERUSER",
        "ALTER DATABASE d SET work_mem = 1",
        "ALTER/**/DATABASE d SET work_mem = 1",
        "DROP DATABASE d",
        "CREATE EVENT TRIGGER t ON ddl_command_end EXECUTE FUNCTION f()",
        "DROP OWNED BY app",
        "CHECKPOINT",
        "SELECT pg_buffercache_evict(1)",
        "SELECT pg_prewarm('t')",
        "SELECT pg_logical_emit_message(true, 'a', 'b')",
        "PREPARE TRANSACTION 'a'",
        "COMMIT PREPARED 'a'",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
    ],
)
def test_what_concerns_a_whole_server_is_listed_where_it_is_not_ours(line: str) -> None:
    (found,) = uses(SERVER_TEXT, **{"x.sql": f"SELECT 1;\n{line};\n"})

    assert found == ("x.sql, line 2", f"what concerns the whole server: {line};")
    assert uses(**{"x.sql": f"SELECT 1;\n{line};\n"}) == []


@pytest.mark.parametrize(
    "line",
    [
        "SELECT lo_create(0)",
        "SELECT lowrite(1, 'x')",
        "REINDEX INDEX vk",
        "ANALYZE victim",
        "ANALYSE",
        "VACUUM FULL victim",
        "CLUSTER victim USING vk",
        "BEGIN; LOCK TABLE victim IN ACCESS EXCLUSIVE MODE",
        "LOCK victim",
        "NOTIFY jobs",
        "SELECT pg_notify('jobs', 'x')",
        "SELECT pg_try_advisory_xact_lock(1)",
        "SELECT brin_desummarize_range('i', 0)",
        "SELECT brin_summarize_new_values('i')",
        "SELECT gin_clean_pending_list('i')",
        "SELECT pg_clear_relation_stats('public', 'victim')",
        "SELECT pg_restore_attribute_stats('relname', 'victim')",
        "SELECT pg_truncate_visibility_map('victim')",
        "SELECT heap_force_kill('victim', ARRAY['(0,1)']::tid[])",
    ],
)
def test_what_read_only_transactions_allow_is_listed_where_nothing_may_be_written(line: str) -> None:
    (found,) = uses(SERVER_TEXT, **{"x.sql": f"SELECT 1;\n{line};\n"})

    assert found == ("x.sql, line 2", f"a change that read-only transactions allow: {line};")
    writing = SERVER_TEXT.replace('database = "d"', 'database = "d"\nwrites = true')
    assert uses(writing, **{"x.sql": f"SELECT 1;\n{line};\n"}) == []


@pytest.mark.parametrize(
    "line",
    [
        "SET application_name = 'shop'",
        'set session "application_name" to shop',
        "SELECT set_config('application_name', 'shop', false)",
    ],
)
def test_a_script_that_takes_another_name_is_listed_where_sessions_are_looked_at_by_theirs(line: str) -> None:
    (found,) = uses(SERVER_TEXT, **{"x.sql": f"{line};\n"})

    assert found == ("x.sql, line 1", f"a name by which the script's session is not known as the load's: {line};")
    writing = SERVER_TEXT.replace('database = "d"', 'database = "d"\nwrites = true')
    assert uses(writing, **{"x.sql": f"{line};\n"}) == []


@pytest.mark.parametrize(
    "line",
    [
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN (ANALYZE) SELECT 1",
        "SELECT lock FROM cluster",
        "SELECT application_name FROM pg_stat_activity",
    ],
)
def test_what_only_reads_is_not_listed_there(line: str) -> None:
    assert uses(SERVER_TEXT, **{"x.sql": f"{line};\n"}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plpython3.python_path", "/x"),
        ("plpython3.virtual_env", "/x"),
        ("plrust.work_dir", "/x"),
        ("pllua.on_init", "x"),
        ("plv8.v8_flags", "--x"),
        ("postgis.gdal_enabled_drivers", "ENABLE_ALL"),
        ("postgis.gdal_datapath", "/x"),
        ("postgis.enable_outdb_rasters", "on"),
        ("basic_archive.archive_directory", "/x"),
        ("duckdb.allow_community_extensions", "on"),
        ("any_extension.dir", "/x"),
        ("any_extension.key_file", "/x"),
        ("ssl_crl_dir", "/x"),
        ("pgsodium.getkey_script", "/x"),
        ("pljava.classpath", "/x"),
        ("allow_system_table_mods", "on"),
        ("stats_temp_directory", "/x"),
    ],
)
def test_setting_that_names_code_or_files_is_listed(name: str, value: str) -> None:
    text = TEXT.replace('work_mem = "8MB"', f'"{name}" = "{value}"')

    assert [what for _, what in uses(text)] == [f"{name} = {value}"]


@pytest.mark.parametrize(
    "line",
    [
        'search_path = "a, b"',
        'log_temp_files = "0"',
        'temp_file_limit = "1GB"',
        'log_replication_commands = "on"',
        'temp_tablespaces = "a"',
        '"plperl.use_strict" = "on"',
        '"auto_explain.log_min_duration" = "1s"',
    ],
)
def test_setting_that_names_neither_is_not_listed(line: str) -> None:
    assert uses(TEXT.replace('work_mem = "8MB"', line)) == []
