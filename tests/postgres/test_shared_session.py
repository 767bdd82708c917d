"""A session of a server that a pooler hands on to others: whatever pgtrial does there, they find it as it was."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgtrial.engine.sampler.extensions import ExtensionReader
from pgtrial.engine.sampler.link import ServerLink
from pgtrial.errors import TargetError
from pgtrial.postgres.connect import connect, execute, fetch, refuse_shared
from pgtrial.postgres.existing.inventory import read_inventory
from pgtrial.postgres.existing.log_place import _is_english
from pgtrial.postgres.existing.server import ServerControl
from pgtrial.postgres.existing.table_rows import note_rows
from pgtrial.postgres.existing.write_watch import WriteWatch
from pgtrial.postgres.plans import read_shapes
from pgtrial.postgres.production import read_load
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.watch.reach import reach
from support import PATIENCE
from support.cluster import through
from support.programs import needs_pgbouncer
from support.waiting import reached

pytestmark = needs_pgbouncer

# Of the session of the server; what PgBouncer itself keeps apart for each client is not among it.
_STATE = """
    SELECT pg_backend_pid()::text, setting FROM pg_settings
    WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding')
    UNION ALL SELECT name, setting FROM pg_settings
    WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding')
    UNION ALL SELECT name, statement FROM pg_prepared_statements
    UNION ALL SELECT locktype, mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'
    UNION ALL SELECT 'own setting', nullif(current_setting('pgtrial.message', true), '')
    ORDER BY 1, 2
"""


@pytest.fixture(scope="module")
def served(programs: Programs, run_cluster: Callable[..., Any]) -> Iterator[ThrowawayCluster]:
    """A server that remembers its load."""
    settings = {"shared_preload_libraries": "pg_stat_statements"}
    with asyncio.Runner() as runner, run_cluster(programs, runner, settings=settings) as cluster:
        runner.run(execute(cluster.conninfo(), "CREATE EXTENSION pg_stat_statements"))
        runner.run(execute(cluster.conninfo(), "CREATE TABLE kept (id int PRIMARY KEY, n int)"))
        for number in range(8):
            runner.run(fetch(cluster.conninfo(), "SELECT n FROM public.kept WHERE id = %s", (number,)))
            runner.run(execute(cluster.conninfo(), "TRUNCATE kept"))
        yield cluster


@pytest.fixture
def pooled(pooler: Callable[..., Any]) -> str:
    """The way through a pooler that has one session for all."""
    return through(pooler({"pool_mode": "transaction", "pool_size": "1"}))


def control(conninfo: str) -> ServerControl:
    return cast("ServerControl", SimpleNamespace(conninfo=lambda *_: conninfo))


async def read_it(conninfo: str) -> None:
    load = await read_load(conninfo)
    assert any(each.types == ("integer",) for each in load.statements)


async def reach_it(conninfo: str) -> None:
    found = await asyncio.to_thread(reach, conninfo, {})
    assert found.version_num >= 120000


async def sample_it(conninfo: str) -> None:
    for _ in range(2):  # the second finds nothing of the first
        link, deadline = ServerLink(conninfo, timeout=5.0), time.monotonic() + PATIENCE
        link.connect({"one": "SELECT $1::int + 1", "two": "SELECT 2"}, deadline=deadline)
        try:
            answer = link.run("one", (b"1",), deadline=deadline)
            answers = link.run_all([("one", (b"2",)), ("two", ())], deadline=deadline)
        finally:
            link.close()
        assert answer is not None
        assert answers is not None
        assert [each.get_value(0, 0) for each in (answer, *cast("list[Any]", answers))] == [b"2", b"3", b"2"]


async def sample_extensions(conninfo: str) -> None:
    remarks: list[str] = []
    sources: list[str] = []
    extensions = ExtensionReader(
        [conninfo],
        version_num=int((await fetch(conninfo, "SHOW server_version_num"))[0][0]),
        parameters={"database": b"postgres", "load": b"pgtrial"},
        interval=1.0,
        add=lambda _t, source, _payload: sources.append(source),
        remark=remarks.append,
    )
    extensions.start()
    extensions.finish()
    assert not remarks
    assert "pg_stat_statements" in sources


async def plan_it(conninfo: str) -> None:
    shapes = await read_shapes(
        conninfo, [("SELECT nothing", 0), ("SELECT n FROM kept WHERE id = $1", 1), ("DELETE FROM kept", 0)]
    )
    assert [shape is None for shape in shapes] == [True, False, False]


async def take_inventory(conninfo: str) -> None:
    assert (await read_inventory(control(conninfo), "postgres")).catalogue


async def count_rows(conninfo: str) -> None:
    assert "kept" in await note_rows(control(conninfo), "postgres", "TRUNCATE kept")


async def watch_writes(conninfo: str) -> None:
    watch = WriteWatch(control=control(conninfo), database="postgres", names=["pgtrial load"], seed="1")
    watch.start()
    await reached(lambda: watch._looks)
    assert (await watch.stop()).looks


async def write_it(conninfo: str) -> None:
    await execute(conninfo, "COMMENT ON TABLE kept IS 'no limit of time'")


async def find_language(conninfo: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        assert await _is_english(connection, "C")


async def fetch_often(conninfo: str) -> None:
    async with connect(conninfo) as connection:
        for _ in range(10):
            await connection.execute("SELECT %s::int", (1,))


@pytest.mark.parametrize(
    "do",
    [
        read_it,
        reach_it,
        sample_it,
        sample_extensions,
        plan_it,
        take_inventory,
        count_rows,
        watch_writes,
        write_it,
        find_language,
        fetch_often,
    ],
)
def test_a_session_that_a_pooler_shares_is_left_as_it_was(
    do: Callable[[str], Awaitable[None]], pooled: str, runner: asyncio.Runner
) -> None:
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as application:
        before = application.execute(_STATE).fetchall()

        runner.run(cast("Any", do(pooled)))

        assert application.execute(_STATE).fetchall() == before
        application.execute("UPDATE kept SET n = 1")


def test_what_needs_a_session_of_its_own_is_refused_there(
    pooled: str, served: ThrowawayCluster, runner: asyncio.Runner
) -> None:
    runner.run(refuse_shared(served.conninfo(), "it sets dials"))

    with pytest.raises(TargetError, match="its sessions are others' too: it sets dials"):
        runner.run(refuse_shared(pooled, "it sets dials"))
