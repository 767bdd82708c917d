"""Whole experiments on a server that is somebody else's, as a user runs them."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pgtrial.hosts.linux.control_groups import groups_of
from pgtrial.hosts.operations import Operations
from support import wait_until

TEXT = """
format = 1
experiment = { name = "foreign" }
[target]
kind       = "server"
connection = "CONNECTION dbname=postgres"
settings   = "server"
DATABASE
[workload]
mix      = "select-only"
clients  = 2
rate     = 100
duration = "1s"
warmup   = 0
[arms.plain]
[arms.large.postgresql]
work_mem = "7MB"
[design]
blocks = 1
"""
# One version: what depends on it is tested with the parts.
pytestmark = pytest.mark.parametrize("each_programs", ["any"], indirect=True, scope="session")
HAND_MADE = "# kept by hand\nmaintenance_work_mem = '65MB'\n"


@pytest.fixture
def seal_work() -> None:
    """As much as for a user: another process reads what one has written, and takes as much for it."""


def write(folder: Path, foreign, *, database: str = "", user: str = "boss") -> None:
    text = TEXT.replace("CONNECTION", foreign.connection(user)).replace(
        "DATABASE", f'database = "{database}"\n[dataset]\nkind = "existing"' if database else "[dataset]\nscale = 1"
    )
    (folder / "foreign.toml").write_text(text)


def databases(foreign) -> set[str]:
    return {name for (name,) in foreign.sql("SELECT datname FROM pg_database")}


def files_with(folder: Path, secret: str) -> list[Path]:
    own = folder / "pgpass"
    return [
        path for path in folder.rglob("*") if path.is_file() and path != own and secret.encode() in path.read_bytes()
    ]


@pytest.fixture
def group(foreign) -> Iterator[Path]:
    """A control group of the server's own, as a service has one."""
    pid = int((foreign.data / "postmaster.pid").read_text().splitlines()[0])
    places = [Path(own) for hierarchy, (own, *_) in groups_of(Operations(), pid) if "memory" in hierarchy.controllers]
    if os.geteuid() != 0 or not places:
        pytest.skip("making a control group with a controller for memory needs root and a kernel that has one")
    group = places[0] / f"pgtrial-test-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(f"{pid}\n")
    try:
        yield group
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (places[0] / "cgroup.procs").write_text(f"{member}\n")
        group.rmdir()


def test_memory_of_the_servers_own_control_group_is_sampled(foreign, group, pgtrial, tmp_path):
    write(tmp_path, foreign)

    result = pgtrial("run", "foreign.toml", "--allow-host-changes")

    assert result.returncode == 0, result.stderr
    pattern = tmp_path / "results/*/runs/*/samples.parquet"
    ((largest,),) = duckdb.sql(f"SELECT max(value) FROM '{pattern}' WHERE metric = 'cgroup.memory_usage'").fetchall()
    assert largest > 0


def test_settings_and_databases_are_as_before_and_no_password_is_kept(foreign, pgtrial, tmp_path):
    foreign.set_auto_conf(HAND_MADE)
    before = databases(foreign)
    write(tmp_path, foreign)

    refused = pgtrial("run", "foreign.toml")
    result = pgtrial("run", "foreign.toml", "--allow-host-changes")

    assert refused.returncode == 2
    assert "--allow-host-changes" in refused.stderr
    assert result.returncode == 0, result.stderr
    assert foreign.auto_conf.read_text() == HAND_MADE
    assert databases(foreign) == before
    (state,) = tmp_path.glob("results/*/state.sqlite")
    with sqlite3.connect(state) as db:
        shown = db.execute(
            "SELECT slot.arm, setting.value FROM setting JOIN run ON run.id = setting.run "
            "JOIN slot ON slot.number = run.slot WHERE setting.name = 'work_mem'"
        ).fetchall()
    db.close()
    assert dict(shown) == {"plain": "4MB", "large": "7MB"}
    assert files_with(tmp_path, foreign.password) == []
    assert foreign.password not in result.stdout + result.stderr


def test_what_a_killed_pgtrial_left_is_restored(foreign, pgtrial, tmp_path):
    foreign.set_auto_conf(HAND_MADE)
    before = databases(foreign)
    write(tmp_path, foreign)

    with subprocess.Popen(
        [sys.executable, "-m", "pgtrial", "run", "foreign.toml", "--allow-host-changes", "-q"]
    ) as process:
        wait_until(lambda: "work_mem = '7MB'" in foreign.auto_conf.read_text())
        process.kill()
    again = pgtrial("run", "foreign.toml", "--allow-host-changes")
    restored = pgtrial("restore")

    assert again.returncode == 1
    assert "pgtrial restore" in again.stderr
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert foreign.auto_conf.read_text() == HAND_MADE
    assert databases(foreign) == before


def test_an_existing_database_is_left_as_found(foreign, pgtrial, tmp_path):
    foreign.sql("CREATE DATABASE shop")
    try:
        foreign.sql("CREATE TABLE pgbench_accounts (aid int, abalance int)", database="shop")
        foreign.sql("INSERT INTO pgbench_accounts SELECT i, 0 FROM generate_series(1, 1000) AS i", database="shop")
        foreign.sql("CREATE TABLE pgbench_branches (bid int)", database="shop")
        foreign.sql("INSERT INTO pgbench_branches VALUES (1)", database="shop")
        write(tmp_path, foreign, database="shop")

        result = pgtrial("run", "foreign.toml", "--allow-host-changes")

        assert result.returncode == 0, result.stderr
        assert foreign.sql("SELECT count(*) FROM pgbench_accounts", database="shop") == [(1000,)]
        (folder,) = (path.parent for path in tmp_path.glob("results/*/findings.json"))
        findings = json.loads((folder / "findings.json").read_text())
        assert findings["experiment"]["restore"] == "never"
        assert "shared-server" in {caveat["code"] for caveat in findings["caveats"]}
    finally:
        foreign.sql("DROP DATABASE shop WITH (FORCE)")


def test_a_role_without_rights_is_told_what_it_lacks(foreign, pgtrial, tmp_path):
    write(tmp_path, foreign, user="nobody_special")

    result = pgtrial("run", "foreign.toml", "--allow-host-changes")

    assert result.returncode == 1
    assert result.stderr.count("error:") == 1
    assert "may not create a database" in result.stderr
    assert "Traceback" not in result.stderr


PLAIN = """
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.orders (id integer PRIMARY KEY, note text);
OWNER
COPY public.orders (id, note) FROM stdin;
1	Ü
2	\\N
\\.
"""
LOADED = """
format = 1
experiment = { name = "loaded" }
[target]
kind       = "server"
connection = "CONNECTION"
[dataset]
kind  = "sql"
load  = ["FILE"]
setup = "more.sql"
[workload]
clients  = 1
rate     = 100
duration = "1s"
warmup   = 0
scenario = [{ name = "read", file = "read.sql" }]
[arms.plain]
[arms.large.postgresql]
work_mem = "7MB"
[design]
blocks = 1
"""


def write_loaded(folder: Path, foreign, *, owner: str = "", user: str = "maker", file: str = "plain.sql") -> None:
    """An experiment whose data are loaded into a database that pgtrial makes on the server."""
    (folder / "plain.sql").write_text(PLAIN.replace("OWNER", owner))
    (folder / "more.sql").write_text("INSERT INTO orders VALUES (3, 'later');\n")
    (folder / "read.sql").write_text("SELECT 1 / (count(*) = 3)::int FROM orders;\n")
    text = LOADED.replace("CONNECTION", foreign.connection(user)).replace("FILE", file)
    (folder / "loaded.toml").write_text(text)


def roles(foreign) -> list[tuple[str]]:
    return foreign.sql("SELECT rolname FROM pg_roles ORDER BY 1")


def test_data_are_loaded_into_a_database_of_its_own_once_that_is_allowed(foreign, pgtrial, tmp_path):
    before = databases(foreign), roles(foreign)
    write_loaded(tmp_path, foreign)

    refused = pgtrial("run", "loaded.toml")
    planned = pgtrial("plan", "loaded.toml")
    result = pgtrial("run", "loaded.toml", "--allow-writes")

    assert refused.returncode == 2
    assert "dataset.load, plain.sql: its statements are executed on the server" in refused.stderr
    assert "The statements of plain.sql are executed on the server" in " ".join(planned.stdout.split())
    assert result.returncode == 0, result.stderr
    assert (databases(foreign), roles(foreign)) == before
    assert files_with(tmp_path, foreign.password) == []


def test_an_archive_is_loaded_without_its_owners(foreign, pgtrial, tmp_path):
    write_loaded(tmp_path, foreign, file="orders.dump")
    foreign.sql("CREATE ROLE shop")
    foreign.sql("CREATE DATABASE source")
    try:
        foreign.sql("CREATE TABLE orders (id integer PRIMARY KEY, note text)", database="source")
        foreign.sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b')", database="source")
        foreign.sql("ALTER TABLE orders OWNER TO shop", database="source")
        environment = {**os.environ, "PGPASSWORD": foreign.password}
        to = f"--dbname={foreign.connection()} dbname=source"
        argv = [foreign.programs.path("pg_dump"), "-Fc", "-f", tmp_path / "orders.dump", to]
        subprocess.run(argv, env=environment, check=True)
    finally:
        foreign.sql("DROP DATABASE source WITH (FORCE)")
        foreign.sql("DROP ROLE shop")

    result = pgtrial("run", "loaded.toml", "--allow-writes")

    assert result.returncode == 0, result.stderr


def test_a_role_that_the_server_does_not_have_is_named_and_not_made(foreign, pgtrial, tmp_path):
    before = databases(foreign), roles(foreign)
    write_loaded(tmp_path, foreign, owner="ALTER TABLE public.orders OWNER TO shop;")

    result = pgtrial("run", "loaded.toml", "--allow-writes")

    assert result.returncode == 1
    assert "the data to load name roles that the server does not have: shop" in result.stderr
    assert (databases(foreign), roles(foreign)) == before
    assert not list(tmp_path.glob("results/*"))


def test_an_error_in_the_data_has_file_and_line(foreign, pgtrial, tmp_path):
    before = databases(foreign)
    write_loaded(tmp_path, foreign, owner="SELECT nonsense;")

    result = pgtrial("run", "loaded.toml", "--allow-writes")

    assert result.returncode == 1
    assert 'plain.sql, line 4: column "nonsense" does not exist' in result.stderr
    assert databases(foreign) == before
