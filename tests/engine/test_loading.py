"""Data of pg_dump and psql, loaded for real."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.engine.target.loading import create_as_dumped
from pgtrial.errors import PreflightError, TargetError
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.postgres.connect import connect, create_database, execute, fetch
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.store.belongings import Belongings
from pgtrial.workloads.data_files import DataFile, DumpFormat
from support.loading import empty_database, load, read_files

SOURCE = r"""
CREATE ROLE shop;
CREATE ROLE reader;
CREATE DATABASE shop;
\connect shop
CREATE SCHEMA app AUTHORIZATION shop;
SET ROLE shop;
CREATE TABLE app.orders (id bigserial PRIMARY KEY, note text);
INSERT INTO app.orders (note) SELECT E'Ü\\\n\t' || i FROM generate_series(1, 100) i;
GRANT SELECT ON app.orders TO reader;
"""
FORMS = {"plain.sql": "p", "custom.dump": "c", "directory": "d", "tar.tar": "t"}


@pytest.fixture(scope="module")
def dumps(served: ThrowawayCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pg_dump makes of a database, in each of its forms; the server has neither the database nor the roles."""
    folder = tmp_path_factory.mktemp("dumps")
    environment = served.host_environment("postgres")
    psql = [served.programs.path("psql"), "-q", "-v", "ON_ERROR_STOP=1"]
    subprocess.run(psql, input=SOURCE.encode(), env=environment, check=True)
    for name, form in FORMS.items():
        argv = [served.programs.path("pg_dump"), f"-F{form}", "-f", folder / name, "shop"]
        subprocess.run(argv, env=environment, check=True)
    subprocess.run([*psql, "-c", "DROP DATABASE shop", "-c", "DROP ROLE shop, reader"], env=environment, check=True)
    return folder


@pytest.fixture
def database(served: ThrowawayCluster) -> Iterator[str]:
    with empty_database(served) as conninfo:
        yield conninfo


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_pg_dump_is_loaded_with_owners_and_rights(
    served: ThrowawayCluster, dumps: Path, database: str, name: str
) -> None:
    load(served, dumps, name)

    (row,) = asyncio.run(
        fetch(
            database,
            "SELECT count(*), max(note), min(tableowner), has_table_privilege('reader', 'app.orders', 'SELECT') "
            "FROM app.orders, pg_tables WHERE tablename = 'orders'",
        )
    )
    assert row == (100, "Ü\\\n\t99", "shop", True)


# Encoding, collation and its provider.
_LIKE = """
    SELECT pg_encoding_to_char(encoding), datcollate, datctype, datlocprovider::text
    FROM pg_database WHERE datname = '{}'
"""


def create_for(served: ThrowawayCluster, *files: DataFile) -> tuple[list[tuple[object, ...]], CaveatFinding | None]:
    """What becomes of the database for the files."""
    making = create_as_dumped(
        files,
        lambda locale: create_database(served.conninfo(), "copied", locale),
        conninfo=served.conninfo("copied"),
    )
    try:
        caveat = asyncio.run(making)
        return asyncio.run(fetch(served.conninfo(), _LIKE.format("copied"))), caveat
    finally:
        asyncio.run(execute(served.conninfo(), "DROP DATABASE IF EXISTS copied"))


@pytest.mark.parametrize("form", ["c", "d", "t"])
@pytest.mark.parametrize(
    "options",
    [
        "ENCODING 'LATIN1' LOCALE 'C'",
        "ENCODING 'SQL_ASCII' LOCALE 'C'",
        "LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'",
        "LOCALE_PROVIDER icu ICU_LOCALE 'de-DE' LOCALE 'C.UTF-8'",
    ],
)
def test_a_database_for_an_archive_is_like_the_one_that_was_dumped(
    served: ThrowawayCluster, tmp_path: Path, options: str, form: str
) -> None:
    if "icu" in options and not asyncio.run(
        fetch(served.conninfo(), "SELECT FROM pg_collation WHERE collprovider = 'i' LIMIT 1")
    ):
        pytest.skip("the server was built without ICU")
    made = f'CREATE DATABASE "Like It" TEMPLATE template0 {options}'
    asyncio.run(execute(served.conninfo(), made))  # type: ignore[arg-type]
    try:
        original = asyncio.run(fetch(served.conninfo(), _LIKE.format("Like It")))
        argv = [served.programs.path("pg_dump"), f"-F{form}", "-f", tmp_path / "dump", "Like It"]
        subprocess.run(argv, env=served.host_environment("postgres"), check=True)
    finally:
        asyncio.run(execute(served.conninfo(), 'DROP DATABASE "Like It"'))

    assert create_for(served, *read_files(tmp_path, "dump")) == (original, None)


def archive(locale: tuple[tuple[str, str], ...]) -> DataFile:
    nothing: frozenset[str] = frozenset()
    return DataFile(
        name="x",
        root=Path(),
        path=Path("x"),
        kind=DumpFormat.ARCHIVE,
        files=(),
        roles=nothing,
        extensions=nothing,
        uses=(),
        locale=locale,
    )


@pytest.mark.parametrize(("encoding", "collation"), [("UTF8", "C.UTF-8"), ("LATIN1", "C")])
def test_a_collation_that_is_not_there_is_a_caveat_and_the_encoding_stays(
    served: ThrowawayCluster, encoding: str, collation: str
) -> None:
    locale = (("ENCODING", encoding), ("LOCALE_PROVIDER", "libc"), ("LOCALE", "xx_YY.UTF-8"))
    ((*found, _, _),), caveat = create_for(served, archive(locale))

    assert found == [encoding, collation]
    assert caveat is not None
    assert f"has ENCODING {encoding}, LOCALE_PROVIDER libc, LOCALE xx_YY.UTF-8. That cannot be had here" in caveat.text
    assert caveat.code == "other-collation"
    assert caveat.text.endswith(f'sorted by "{collation}".')


def test_a_caveat_shows_no_more_than_the_beginning_of_a_long_value(served: ThrowawayCluster) -> None:
    locale = (("ENCODING", "UTF8"), ("LOCALE_PROVIDER", "libc"), ("LOCALE", "x" * 1000))

    _, caveat = create_for(served, archive(locale))

    assert caveat is not None
    assert f"LOCALE {'x' * 199}…. That" in caveat.text
    assert "x" * 200 not in caveat.text


def test_file_for_psql_reads_others_and_a_second_file_follows(
    served: ThrowawayCluster, tmp_path: Path, database: str
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "first.sql").write_text(
        "\\set dir parts\n\\i :dir/table.sql\n\\copy t from 'parts/rows.csv' with csv\n"
    )
    (tmp_path / "parts/table.sql").write_text("CREATE TABLE t (a int, b text);\n")
    (tmp_path / "parts/rows.csv").write_text("1,one\n2,two\n")
    (tmp_path / "second.sql").write_text("COPY t FROM stdin;\n3\tthree\n\\.\n")

    load(served, tmp_path, "first.sql", "second.sql")

    assert asyncio.run(fetch(database, "SELECT a, b FROM public.t ORDER BY a")) == [
        (1, "one"),
        (2, "two"),
        (3, "three"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\nSELECT * FROM nowhere;\n", r'^load.sql, line 2: relation "nowhere" does not exist$'),
        ("CREATE TABLE t (a int);\nCOPY t FROM stdin;\n1\nx\n\\.\n", r"^load.sql, line 4: invalid input syntax"),
        ("CREATE TABLE t (a int);\ncopy t\nfrom stdin;\n1\n2\nx\n3\n\\.\n", r"^load.sql, line 6: invalid input syntax"),
        ("\\i part.sql\n", r"^part.sql, line 1: division by zero$"),
        ("\\nonsense\n", r"^load.sql, line 1: invalid command \\nonsense$"),
        ("\\set ON_ERROR_STOP off\nSELECT 1/0;\nSELECT 1;\n", r"^load.sql, line 2: division by zero$"),
    ],
)
@pytest.mark.usefixtures("database")
def test_error_has_file_and_line(served: ThrowawayCluster, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "load.sql").write_text(text)
    (tmp_path / "part.sql").write_text("SELECT 1/0;\n")

    with pytest.raises(TargetError, match=message):
        load(served, tmp_path, "load.sql")


@pytest.mark.parametrize(
    "text", ["BEGIN;\nCREATE TABLE t (a int);\n", "\\set AUTOCOMMIT off\nCREATE TABLE t (a int);\n\\q\n"]
)
@pytest.mark.usefixtures("database")
def test_rows_of_a_transaction_that_is_left_open_are_not_lost_in_silence(
    served: ThrowawayCluster, tmp_path: Path, text: str
) -> None:
    (tmp_path / "rows.sql").write_text(text)

    with pytest.raises(TargetError) as caught:
        load(served, tmp_path, "rows.sql")

    assert caught.value.message == (
        "rows.sql: a transaction that begins in it is not committed, and leaves nothing behind"
    )


def test_error_of_an_archive_has_the_statement(served: ThrowawayCluster, dumps: Path, database: str) -> None:
    asyncio.run(execute(database, "CREATE SCHEMA app"))

    with pytest.raises(TargetError, match=r'^custom.dump: schema "app" already exists$') as caught:
        load(served, dumps, "custom.dump")

    assert "CREATE SCHEMA app" in caught.value.detail


def test_an_archive_of_a_database_with_tablespaces_is_loaded_without_them(
    served: ThrowawayCluster, tmp_path: Path, database: str
) -> None:
    asyncio.run(_make_tablespace(database, served.data / "fast"))
    try:
        asyncio.run(execute(database, "CREATE TABLE public.t TABLESPACE fast AS SELECT 1 AS a"))
        argv = [served.programs.path("pg_dump"), "-Fc", "-f", tmp_path / "fast.dump", database]
        subprocess.run(argv, check=True)
    finally:
        asyncio.run(execute(database, "DROP TABLE IF EXISTS public.t"))
        asyncio.run(execute(database, "DROP TABLESPACE fast"))

    load(served, tmp_path, "fast.dump")

    assert asyncio.run(fetch(database, "SELECT a FROM public.t")) == [(1,)]


async def _make_tablespace(database: str, directory: Path) -> None:
    """In a directory that the server's account makes."""
    async with connect(database) as connection:
        await connection.execute(f"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {directory}'".encode())
        await connection.execute(f"CREATE TABLESPACE fast LOCATION '{directory}'".encode())


@pytest.mark.usefixtures("database")
def test_output_with_tablespaces_is_refused_with_the_option_that_leaves_them_out(
    served: ThrowawayCluster, tmp_path: Path
) -> None:
    (tmp_path / "plain.sql").write_text("SET default_tablespace = slow;\nCREATE TABLE t (a int);\n")

    with pytest.raises(TargetError, match=r'^plain.sql, line 1: .*"slow"$') as caught:
        load(served, tmp_path, "plain.sql")

    assert "--no-tablespaces" in caught.value.hint


# The first line makes the list of what is executed believe that data follow; psql takes it for a comment.
# Each reads what psql gives it, since psql may find that a program has ended before.
HIDDEN = ["\\copy (SELECT 1) to program 'cat >{mark}'", "\\o |cat >{mark}", "SELECT 1 \\g |cat >{mark}"]
SILENT = ["\\! touch {mark}", "\\set x `touch {mark}`"]  # psql goes on where it cannot start these


@pytest.mark.parametrize("line", HIDDEN)
@pytest.mark.usefixtures("database")
def test_program_that_was_not_found_in_the_file_is_not_started(
    served: ThrowawayCluster, tmp_path: Path, line: str
) -> None:
    mark = served.data / "mark"  # where the account may write
    (tmp_path / "load.sql").write_text(f"/*\nCOPY t FROM stdin;\n*/\n{line.format(mark=mark)}\n")

    with pytest.raises(TargetError, match=r"^load.sql, line 4: ") as caught:
        load(served, tmp_path, "load.sql")

    assert not mark.exists()
    assert "--allow-code" in caught.value.hint


@pytest.mark.parametrize("line", SILENT)
@pytest.mark.usefixtures("database")
def test_program_that_psql_does_not_miss_is_not_started_either(
    served: ThrowawayCluster, tmp_path: Path, line: str
) -> None:
    mark = served.data / "mark"
    (tmp_path / "load.sql").write_text(f"/*\nCOPY t FROM stdin;\n*/\n{line.format(mark=mark)}\n")

    with contextlib.suppress(TargetError):  # where psql says a word of it
        load(served, tmp_path, "load.sql")

    assert not mark.exists()


@pytest.mark.parametrize("line", [*HIDDEN, *SILENT])
@pytest.mark.usefixtures("database")
def test_program_that_is_allowed_is_started_as_the_servers_account(
    served: ThrowawayCluster, tmp_path: Path, line: str
) -> None:
    mark = served.data / "mark"
    (tmp_path / "load.sql").write_text(f"{line.format(mark=mark)}\n")

    load(served, tmp_path, "load.sql", may_run=True)

    owner = mark.stat().st_uid
    mark.unlink()
    assert owner == served.data.stat().st_uid


@pytest.mark.usefixtures("database")
def test_file_that_has_changed_since_the_beginning_is_not_loaded(served: ThrowawayCluster, tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text("SELECT 1;\n")

    with pytest.raises(PreflightError, match="is not as it was when the experiment was begun"):
        load(served, tmp_path, "load.sql", digest="another")


@pytest.mark.usefixtures("database")
def test_nothing_is_left_of_what_was_loaded(served: ThrowawayCluster, tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text("SELECT 1;\n")

    load(served, tmp_path, "load.sql")

    assert not [path for path in Belongings.of(tmp_path).paths(served.host.name) if path.exists()]
