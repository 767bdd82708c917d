"""A watch of a server behind a cable that is pulled: packets vanish, and nobody is told."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
import pytest

from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import PORT
from pgtrial.watch.layout import SAMPLES
from support import wait_until
from support.namespaces import NamespaceHost, namespaces
from support.watching import COMMITS, POLLS, rows, watched

pytestmark = pytest.mark.pg
# Of a host whose network is another one: what comes to its address goes to a socket of the file system.
_RELAY = """
import asyncio, sys
async def relay(reader, writer):
    there, back = await asyncio.open_unix_connection(sys.argv[2])
    async def pass_on(source, target):
        while content := await source.read(65536):
            target.write(content)
            await target.drain()
        target.close()
    await asyncio.gather(pass_on(reader, back), pass_on(there, writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(relay, sys.argv[1], 5432)
    print("listening", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def host() -> Iterator[NamespaceHost]:
    with namespaces("db") as found:
        yield found.hosts[0]


@pytest.fixture(scope="module")
def shop(
    programs: Programs, run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]]
) -> Iterator[ThrowawayCluster]:
    with asyncio.Runner() as runner, run_cluster(programs, runner) as cluster:
        yield cluster


@contextmanager
def reached_at(host: NamespaceHost, cluster: ThrowawayCluster) -> Iterator[str]:
    """The connection string of a server that answers at the host's address."""
    command = ["nsenter", f"--net=/run/netns/{host.namespace}", "setpriv", "--pdeathsig", "TERM", sys.executable]
    path = f"{cluster.socket_directory}/.s.PGSQL.{PORT}"
    with subprocess.Popen([*command, "-c", _RELAY, host.address, path], stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None
            assert relay.stdout.readline() == "listening\n"
            yield psycopg.conninfo.make_conninfo(cluster.conninfo(), host=host.address, port=5432)
        finally:
            relay.terminate()


def test_a_cable_that_is_pulled_is_a_gap_and_the_watch_is_back_soon_after(
    shop: ThrowawayCluster, host: NamespaceHost, tmp_path
) -> None:
    root = tmp_path / "w"
    with reached_at(host, shop) as address, watched(address, root) as (watcher, said):
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 6)
        with host.losing_packets():
            cut = time.time()
            wait_until(lambda: [text for text in said if "is lost" in text])
            mended = time.time()
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: sum(row[0] > mended for row in found) > 6)
    assert watcher.error is None
    assert any("connected to PostgreSQL" in text for text in said)
    for statement in (COMMITS, POLLS):
        assert [t for t, _ in rows(root, SAMPLES, statement) if cut + 1 < t < mended] == []
