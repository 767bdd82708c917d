from pathlib import Path

import pytest

from pgtrial.workloads.psql_script import PsqlScript, ScriptError, extensions_in, roles_in


def read(tmp_path: Path, text: str, **others: str) -> PsqlScript:
    for name, content in {"load.sql": text, **{f"{name}.sql": other for name, other in others.items()}}.items():
        (tmp_path / name).write_text(content)
    return PsqlScript.read(tmp_path / "load.sql")


def uses(script: PsqlScript) -> list[tuple[str, str]]:
    return [(use.where, use.what) for use in script.uses]


@pytest.mark.parametrize(
    "line",
    [
        r"\! id",
        r"SELECT 1 \! id",
        r"\copy t from program 'id'",
        r"\copy (select 1) to program 'id'",
        r"\o |sh",
        r"\out | sh",
        r"SELECT 1 \g |sh",
        r"SELECT 1 \gx | sh",
        r"\set x `id`",
        r"\e",
        r"\setenv EDITOR /tmp/x",
        r"\copy t to '/tmp/x'",
        r"\o /tmp/x",
        r"\w /tmp/x",
        r"SELECT 'id' \gexec",
        r"\lo_export 1 /tmp/x",
        "COPY t FROM PROGRAM 'id';",
    ],
)
def test_what_is_executed_beside_sql_is_found_with_its_line(tmp_path: Path, line: str) -> None:
    (first, *_) = uses(read(tmp_path, f"SELECT 1;\n{line}\n"))

    assert first[0] == "load.sql, line 2"
    assert first[1].endswith(line)


@pytest.mark.parametrize(
    "line",
    [
        "\\restrict abc\nSELECT 1;\n\\unrestrict abc",
        r"\set rows 10",
        r"\pset pager off",
        r"\echo done",
        r"SELECT 1 \gset",
        r"SELECT 1 \g",
        r"ALTER TABLE t ADD CHECK (mail ~ '^(\w|\d)+@');",
        "COPY t (a, b) FROM stdin;\n\\.",
        "\\copy t from stdin\n1\n\\.",
    ],
)
def test_plain_commands_of_psql_execute_nothing(tmp_path: Path, line: str) -> None:
    assert uses(read(tmp_path, f"{line}\n")) == []


DUMP = """--
-- PostgreSQL database dump
--

\\restrict abc

CREATE TABLE t (a int);
COPY t (a) FROM stdin;
1
2
\\.

CREATE INDEX ON t (a);

--
-- PostgreSQL database dump complete
--

\\unrestrict abc
"""


@pytest.mark.parametrize("end", ["2\n", "1\n2\n\\.\n", "ON t (a);\n"])
@pytest.mark.parametrize("without", ["", "\\restrict abc\n"])
def test_a_dump_that_is_cut_off_is_refused_because_psql_would_load_half_of_it(
    tmp_path: Path, end: str, without: str
) -> None:
    text = DUMP.replace(without, "")

    with pytest.raises(ScriptError) as caught:
        read(tmp_path, text[: text.index(end) + len(end)])

    assert "seems to be cut off" in caught.value.hint


def test_what_pg_dump_has_written_to_its_end_or_an_editor_without_its_comments_is_whole(tmp_path: Path) -> None:
    no_comments = "".join(line for line in DUMP.splitlines(keepends=True) if not line.startswith("--"))
    by_older = "".join(line for line in DUMP.splitlines(keepends=True) if "restrict" not in line)

    assert [uses(read(tmp_path, text)) for text in (DUMP, no_comments, by_older)] == [[], [], []]


def test_extensions_are_those_of_statements_and_not_of_comments(tmp_path: Path) -> None:
    text = '-- CREATE EXTENSION a;\nCREATE EXTENSION IF NOT EXISTS "uuid-ossp" SCHEMA x;\ncreate extension Hstore;\n'

    assert read(tmp_path, text).extensions == {"uuid-ossp", "hstore"}
    assert extensions_in("\n" * 1_000_000 + "CREATE EXTENSION cube") == {"cube"}  # in time that grows with the length


@pytest.mark.parametrize(
    "command", [r"\if :have", r"  \elif :have", r"\echo rows: :have", r"\qecho :have :{?have}", r"\warn :have"]
)
def test_a_variable_that_decides_or_is_shown_is_no_sql_also_behind_a_condition(tmp_path: Path, command: str) -> None:
    script = read(tmp_path, f"\\set have yes\n\\if :{{?have}}\n{command}\nSELECT 1;\n\\endif\n")

    assert uses(script) == []


@pytest.mark.parametrize(
    "line",
    ["SELECT 1 :have", r"\if :have \\ SELECT 1 :have", r"\echo 1 :'have'", r"\if `x` :have", r"SELECT 1 \if :have"],
)
def test_a_variable_that_may_be_sql_is_listed_behind_a_condition(tmp_path: Path, line: str) -> None:
    script = read(tmp_path, f"\\set have yes\n\\if :{{?have}}\n{line}\n\\endif\n")

    assert any(use.what == f"SQL put together as it runs: {line}" for use in script.uses)


def test_data_are_not_looked_at_and_what_follows_them_is(tmp_path: Path) -> None:
    script = read(tmp_path, "COPY t (a)\n  FROM stdin;\n\\! not a command\nPROGRAM\n\\.\n\\! id\n")

    assert uses(script) == [("load.sql, line 6", "a shell command: \\! id")]


def test_files_that_are_read_are_found_through_variables_and_each_other(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/rows.csv").write_text("1\n")
    (tmp_path / "parts/a.sql").write_text("\\ir b.sql\n\\! id\n")
    (tmp_path / "parts/b.sql").write_text("SELECT 1;\n")
    text = "\\set dir parts\n\\i :dir/a.sql\n\\copy t from 'parts/rows.csv' with csv\n"

    script = read(tmp_path, text)

    assert [str(file) for file in script.files] == ["load.sql", "parts/a.sql", "parts/b.sql", "parts/rows.csv"]
    assert uses(script) == [
        ("load.sql, line 2", "a file that psql may find elsewhere: \\i :dir/a.sql"),
        ("parts/a.sql, line 2", "a shell command: \\! id"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (r"\i ../other.sql", 'load.sql, line 1: "../other.sql" is not in the directory'),
        (r"\i /etc/passwd", 'load.sql, line 1: "/etc/passwd" is not in the directory'),
        (r"\i missing.sql", "does not exist"),
        (r"\i load.sql", "is read by itself"),
        (r"\connect shop", r"load.sql, line 1: \\connect shop: the data are loaded into one database"),
        ("-- +goose Up\nSELECT 1;\n-- +goose Down", "^it is for a migration tool: what stands from line 3 on undoes"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        read(tmp_path, f"{line}\n")


@pytest.mark.parametrize(
    ("statement", "roles"),
    [
        ("ALTER TABLE public.t OWNER TO shop;", {"shop"}),
        ('ALTER TABLE t OWNER TO "Shop ""1""";', {'Shop "1"'}),
        ("GRANT SELECT ON TABLE t TO reader, Writer;", {"reader", "writer"}),
        ("REVOKE ALL ON SCHEMA public FROM PUBLIC;", set()),
        ("ALTER DEFAULT PRIVILEGES FOR ROLE shop IN SCHEMA a GRANT SELECT ON TABLES TO reader;", {"shop", "reader"}),
        ("CREATE SCHEMA app AUTHORIZATION shop;", {"shop"}),
        ("CREATE POLICY p ON t FOR SELECT TO reader USING (true);", {"reader"}),
        ("GRANT pg_monitor TO CURRENT_USER;", set()),
        ("INSERT INTO t VALUES ('from a');", set()),
    ],
)
def test_roles_that_a_statement_takes_for_granted_are_found(statement: str, roles: set[str]) -> None:
    assert roles_in(statement) == roles


def test_role_that_the_file_makes_is_not_taken_for_granted(tmp_path: Path) -> None:
    assert read(tmp_path, "CREATE ROLE shop;\nALTER TABLE t OWNER TO shop;\n").roles == set()


@pytest.mark.parametrize("name", ['"from stdin "', '"to stdout "', '"a".""" from stdin"'])
def test_the_file_of_a_copy_is_not_taken_from_the_name_of_its_table(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.sql").write_text(f"\\copy {name} from '/etc/hostname'\n")
    with pytest.raises(ScriptError, match="is not in the directory"):
        PsqlScript.read(tmp_path / "a.sql")


def test_a_copy_that_is_not_understood_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("\\copy t\" from '/etc/hostname'\n")
    assert PsqlScript.read(tmp_path / "a.sql").uses


def test_a_step_back_from_a_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/ssl")
    (tmp_path / "hostname").write_text("x")
    (tmp_path / "a.sql").write_text("\\copy t from 'link/../hostname'\n")
    with pytest.raises(ScriptError, match="is not in the directory"):
        PsqlScript.read(tmp_path / "a.sql")


def test_variables_are_no_part_of_the_file_of_a_copy(tmp_path: Path) -> None:
    (tmp_path / ":x").write_text("1\n")
    (tmp_path / "b").write_text("2\n")

    assert Path(":x") in read(tmp_path, "\\set x b\n\\copy t from :x\n").files
