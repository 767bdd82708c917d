"""The sampler on the processes of a real server and load, and on what extensions of the server offer."""

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgtrial.engine.collect import convert
from pgtrial.engine.sampler.config import RemoteReader
from pgtrial.engine.sampler.control import (
    Sampler,
    SamplerConfig,
    SamplerReport,
    find_server,
)
from pgtrial.engine.sampler.files import reader_argv
from pgtrial.engine.sampler.spool import read_header
from pgtrial.hosts.operations import Operations
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.store import parquet
from support.programs import skip_for_want

INTERVAL = 0.2
LIBRARIES = ("pg_stat_statements", "pg_wait_sampling")


def available(programs: Programs) -> list[str]:
    """Extensions that an installation comes with."""
    names = (*LIBRARIES, "pg_buffercache")
    return [name for name in names if any(programs.directory.parent.rglob(f"{name}.so"))]


@pytest.fixture(scope="module")
def cluster(
    programs: Programs, run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]]
) -> Iterator[ThrowawayCluster]:
    """A server with extensions, and data of pgbench in the database "shop"."""
    libraries = ", ".join(name for name in available(programs) if name in LIBRARIES)
    with (
        asyncio.Runner() as runner,
        run_cluster(programs, runner, settings={"shared_preload_libraries": libraries}) as cluster,
    ):
        with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
            connection.execute("CREATE DATABASE without")
        run_pgbench(cluster, "--initialize", "--quiet")
        yield cluster


def run_pgbench(cluster: ThrowawayCluster, *options: str, scenario: str = "a") -> None:
    subprocess.run(
        [cluster.programs.path("pgbench"), *options],
        env={**cluster.environment("shop"), "PGAPPNAME": f"pgtrial/{scenario}"},
        check=True,
        capture_output=True,
    )


@pytest.fixture
def config(cluster: ThrowawayCluster, tmp_path: Path) -> SamplerConfig:
    (tmp_path / "spool").mkdir()
    return SamplerConfig(
        conninfo=cluster.conninfo("template1"),
        version_num=cluster.programs.major * 10000,
        database="shop",
        spool=str(tmp_path / "spool"),
        interval=INTERVAL,
        session_interval=INTERVAL / 10,
        server_pid=find_server(Operations(), [str(cluster.data)]),
        load_conninfo=cluster.conninfo("shop"),
    )


@pytest.fixture(params=["here", "elsewhere"])
def any_config(request: pytest.FixtureRequest, config: SamplerConfig) -> SamplerConfig:
    """The server's processes are read here, or by a reader elsewhere."""
    if request.param == "here":
        return config
    return replace(config, remote=RemoteReader(command=reader_argv(sys.executable), clock_offset=0.0))


async def sample(config: SamplerConfig, work: Callable[[], object], *, folder: Path) -> SamplerReport:
    """Sample while ``work`` is done, and convert."""
    sampler = Sampler()
    await sampler.start(config)
    try:
        await asyncio.to_thread(work)
        await asyncio.sleep(3 * INTERVAL)
    finally:
        report = await sampler.stop()
    convert(Path(config.spool), folder=folder)
    return report


def increases(folder: Path, metric: str) -> dict[str, float]:
    """Last less first value of a metric by object."""
    with parquet.connect() as db:
        rows = db.execute(
            f"SELECT object, max_by(value, t) - min_by(value, t) FROM '{folder}/samples.parquet' "
            "WHERE metric = ? GROUP BY object",
            [metric],
        ).fetchall()
    return dict(rows)


def create(cluster: ThrowawayCluster, *extensions: str, database: str = "shop") -> None:
    with psycopg.connect(cluster.conninfo(database), autocommit=True) as connection:
        for name in extensions:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {name}")


def drop(cluster: ThrowawayCluster, *databases: str) -> None:
    for database in databases or ("shop", "template1"):
        with psycopg.connect(cluster.conninfo(database), autocommit=True) as connection:
            for name in (*LIBRARIES, "pg_buffercache"):
                connection.execute(f"DROP EXTENSION IF EXISTS {name}")


@pytest.fixture
def extensions(cluster: ThrowawayCluster) -> Iterator[list[str]]:
    """Those that are there, in the load's database."""
    found = available(cluster.programs)
    create(cluster, *found)
    yield found
    drop(cluster)


def test_cpu_time_of_server_and_load_is_read_by_what_they_are(
    cluster: ThrowawayCluster, any_config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    # For two seconds, however fast the machine is: what begins and ends between two samples is not seen.
    options = ("--select-only", "--client=2", "--jobs=2", "--time=2", "--rate=1500", "--no-vacuum")
    report = runner.run(sample(any_config, lambda: run_pgbench(cluster, *options), folder=tmp_path))

    assert (report.errors, report.gaps) == ((), ())
    run, queue = increases(tmp_path, "backend_cpu.run"), increases(tmp_path, "backend_cpu.queue")
    assert set(run) >= {"postmaster", "client backend", "checkpointer", "background writer", "walwriter", "logger"}
    assert set(run) == set(queue)
    assert run["client backend"] > max(0.02, 3 * run["checkpointer"])
    (generator,) = increases(tmp_path, "pgbench_cpu.run").values()
    assert generator > 0.02
    assert "backend_cpu" in read_header(Path(any_config.spool)).sources


def test_cpu_time_of_a_server_that_is_not_known_is_a_caveat(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    for number, (changed, is_said) in enumerate(
        [({"server_pid": None}, True), ({"server_pid": None, "machine": False}, False), ({}, False)]
    ):
        (spool := tmp_path / str(number)).mkdir()
        report = runner.run(
            sample(replace(config, spool=str(spool), **changed), lambda: None, folder=tmp_path)  # type: ignore[arg-type]
        )
        said = [caveat for caveat in report.caveats if "CPU time of the server's processes" in caveat.text]
        assert bool(said) == is_said


def test_generators_of_others_are_not_read(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    options = ("--select-only", "--client=1", "--transactions=3000", "--no-vacuum")
    report = runner.run(
        sample(replace(config, generators="PGHOST=/elsewhere"), lambda: run_pgbench(cluster, *options), folder=tmp_path)
    )

    assert report.gaps == ()
    assert increases(tmp_path, "pgbench_cpu.run") == {"": 0.0}


def test_nothing_is_read_or_said_of_extensions_that_are_not_there(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    report = runner.run(sample(config, lambda: None, folder=tmp_path))

    assert not [caveat for caveat in report.caveats if caveat.code == "no-source" and "pg_" in caveat.text]
    assert not (tmp_path / "statements.parquet").exists()
    with psycopg.connect(cluster.conninfo("shop")) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgtrial sampler' AND datname = 'shop'"
        )
        assert found.fetchone() == (0,)


def test_statements_of_the_load_are_kept_with_their_texts(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path, extensions: list[str]
) -> None:
    if "pg_stat_statements" not in extensions:
        skip_for_want("pg_stat_statements", "apt install postgresql-contrib")
    options = ("--client=1", "--transactions=20", "--no-vacuum")
    report = runner.run(sample(config, lambda: run_pgbench(cluster, *options), folder=tmp_path))

    assert (report.errors, report.gaps) == ((), ())
    with parquet.connect() as db:
        rows = db.execute(
            f"SELECT query, count(*), max(calls) - coalesce(min(calls) FILTER (t < m), 0), max(exec_time) "
            f"FROM '{tmp_path}/statements.parquet', (SELECT max(t) AS m FROM '{tmp_path}/statements.parquet') "
            "GROUP BY query ORDER BY query"
        ).fetchall()
    found = {query: (readings, calls, seconds) for query, readings, calls, seconds in rows}
    update = "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?"
    assert found[update][1] == 20
    assert found[update][2] > 0
    assert found[update][0] in (1, 2)  # not at the beginning, if it had never been run before
    assert not [query for query in found if "@" in query or "toplevel" in query or "extname" in query]
    assert increases(tmp_path, "pg_stat_statements.calls")[""] >= 7 * 20


def test_buffers_are_read_at_the_end(
    config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path, extensions: list[str]
) -> None:
    if "pg_buffercache" not in extensions:
        skip_for_want("pg_buffercache", "apt install postgresql-contrib")
    runner.run(sample(config, lambda: None, folder=tmp_path))

    with parquet.connect() as db:
        ((times, buffers),) = db.execute(
            f"SELECT count(DISTINCT t), sum(value) FROM '{tmp_path}/samples.parquet' "
            "WHERE metric = 'pg_buffercache.buffers' AND object = 'pgbench_accounts'"
        ).fetchall()
    assert times == 1
    assert buffers > 100


def test_waits_that_the_server_has_sampled_agree_with_sampled_sessions(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path, extensions: list[str]
) -> None:
    if "pg_wait_sampling" not in extensions:
        required_by = "PGTRIAL_REQUIRE_WAIT_SAMPLING" if cluster.programs.major == 15 else ""
        how = f"apt install postgresql-{cluster.programs.major}-pg-wait-sampling"
        skip_for_want("pg_wait_sampling", how, required_by=required_by)
    clients, seconds, spell = 8, 3, 0.05
    script = tmp_path / "sleep.sql"
    script.write_text(f"SELECT pg_sleep({spell});\n\\sleep {spell * 1000:.0f} ms\n")
    options = ("--file", str(script), f"--client={clients}", f"--time={seconds}", "--no-vacuum")
    report = runner.run(sample(config, lambda: run_pgbench(cluster, *options), folder=tmp_path))

    assert (report.errors, report.gaps) == ((), ())
    counts = increases(tmp_path, "pg_wait_sampling.count")
    by_server = counts["Timeout/PgSleep"] / sum(counts.values())
    with parquet.connect() as db:
        ((asleep, seen),) = db.execute(
            f"SELECT sum(sessions) FILTER (wait_event = 'PgSleep'), sum(sessions) FROM '{tmp_path}/waits.parquet' "
            "WHERE application = 'pgtrial/a'"
        ).fetchall()
    # What is seen twice in one spell says nothing new: each cycle of a client counts as one sample.
    cycles = clients * seconds / (2 * spell)
    error = math.sqrt(by_server * (1 - by_server) * 2 / cycles)
    assert asleep / seen == pytest.approx(by_server, abs=4 * error)


def test_extension_of_the_controls_database_is_read_there(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    if "pg_stat_statements" not in available(cluster.programs):
        skip_for_want("pg_stat_statements", "apt install postgresql-contrib")
    create(cluster, "pg_stat_statements", database="template1")
    try:
        runner.run(sample(config, lambda: None, folder=tmp_path))
    finally:
        drop(cluster)

    assert (tmp_path / "statements.parquet").exists()


def test_extension_that_is_there_and_not_loaded_is_a_caveat_and_no_error(
    programs: Programs, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path, throwaway: ThrowawayCluster
) -> None:
    if "pg_stat_statements" not in available(programs):
        skip_for_want("pg_stat_statements", "apt install postgresql-contrib")
    create(throwaway, "pg_stat_statements", database="postgres")
    config = replace(
        config,
        conninfo=throwaway.conninfo("template1"),
        load_conninfo=throwaway.conninfo("postgres"),
        database="postgres",
        server_pid=find_server(Operations(), [str(throwaway.data)]),
    )
    report = runner.run(sample(config, lambda: None, folder=tmp_path))

    assert (report.errors, report.gaps) == ((), ())
    (text,) = {c.text for c in report.caveats if c.text.startswith("pg_stat_statements cannot be read")}
    assert "shared_preload_libraries" in text


def test_database_of_the_load_that_cannot_be_reached_is_a_caveat_and_no_error(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path
) -> None:
    report = runner.run(
        sample(replace(config, load_conninfo=cluster.conninfo("nowhere")), lambda: None, folder=tmp_path)
    )

    assert report.errors == ()
    (text,) = [c.text for c in report.caveats if c.text.startswith("Extensions of the server are not read")]
    assert 'database "nowhere" does not exist' in text


def test_readings_of_extensions_do_not_count_as_the_databases_own_statements(
    cluster: ThrowawayCluster, config: SamplerConfig, runner: asyncio.Runner, tmp_path: Path, extensions: list[str]
) -> None:
    if "pg_stat_statements" not in extensions:
        skip_for_want("pg_stat_statements", "apt install postgresql-contrib")

    def idle() -> None:
        time.sleep(5 * INTERVAL)

    runner.run(sample(config, idle, folder=tmp_path))

    assert increases(tmp_path, "pg_stat_statements.calls") == {"": 0.0}
