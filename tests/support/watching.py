"""A watcher in this process, what it has written, and a network that can be cut."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import PORT
from pgtrial.watch.folder import Ages, open_folder
from pgtrial.watch.layout import hour_parts, look
from pgtrial.watch.reach import reach
from pgtrial.watch.recorder import Recorder
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.watcher import Options, Watcher
from support.namespaces import NamespaceHost

INTERVAL, POLL = 0.5, 0.1
COMMITS = "SELECT t, value FROM {files} WHERE metric = 'pg_stat_database.xact_commit' ORDER BY t"
POLLS = "SELECT t, value FROM {files} WHERE metric = 'sessions.polls' ORDER BY t"
BEGUN = "SELECT DISTINCT value FROM {files} WHERE metric = 'watch.session'"
MACHINE = "SELECT t, value FROM {files} WHERE metric = 'proc_stat.cpu_user' ORDER BY t"
# Of a host whose network is another one: what comes to its address goes to a socket of the file system.
_RELAY = """
import asyncio, sys
async def relay(reader, writer):
    try:
        there, back = await asyncio.open_unix_connection(sys.argv[2])
    except OSError:  # the server is away
        writer.close()
        return
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


def rows(root: Path, kind: str, statement: str) -> list[tuple[Any, ...]]:
    """Of all readings that are there; none while there are none."""
    if not root.exists():
        return []
    files = [
        str(root.joinpath(*hour_parts(hour), name))
        for hour, kinds in look(root).hours.items()
        for name in kinds[kind].readings
    ]
    if not files:
        return []
    with duckdb.connect() as db, suppress(duckdb.IOException):  # one may be replaced just now
        return db.execute(statement.replace("{files}", f"read_parquet({files})")).fetchall()
    return []


@contextmanager
def watched(address: str, root: Path, **more: Any) -> Iterator[tuple[Watcher, list[str]]]:
    """A watcher in a thread of this process, and what it says."""
    said: list[str] = []
    first = reach(address, {})
    with open_folder(root, first.mark, ages=Ages(), counters=COUNTERS, keep_free=0) as folder:
        recorder, options = Recorder(folder, tell=said.append), Options(interval=INTERVAL, poll=POLL, **more)
        watcher = Watcher(address, {}, first, recorder, options=options, tell=said.append)
        thread = threading.Thread(target=watcher.run)
        thread.start()
        try:
            yield watcher, said
        finally:
            watcher.stop()
            thread.join(60)


class Network:
    """A way to the server over TCP that can be cut: what is sent meanwhile arrives when it is mended."""

    def __init__(self, cluster: ThrowawayCluster) -> None:
        self._server = f"{cluster.socket_directory}/.s.PGSQL.{PORT}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def address(self, cluster_dsn: str, **more: str) -> str:
        """The connection string that leads through it."""
        port = self._listener.getsockname()[1]
        return psycopg.conninfo.make_conninfo(cluster_dsn, host="127.0.0.1", port=port, **more)

    @property
    def connections(self) -> int:
        """How many have been begun so far."""
        return len(self._sockets) // 2

    def cut(self) -> None:
        self._is_whole.clear()

    def mend(self) -> None:
        self._is_whole.set()

    def close(self) -> None:
        self.mend()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                here, _ = self._listener.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._server)
                self._sockets += [here, there]
                for pair in ((here, there), (there, here)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=pair))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                self._is_whole.wait()
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)


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
