"""A cluster of one's own for a benchmark: made, started, and removed again; and the way to one through a pooler."""

import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.postgres.pooler import Pooler
from pgtrial.postgres.programs import find_programs, reachable_programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import prepare_directories, remove_directories


@asynccontextmanager
async def running_cluster(
    name: str, settings: Mapping[str, str], *, postgres: str | None = None
) -> AsyncIterator[ThrowawayCluster]:
    """``postgres``: a major version or a directory of programs; None: the first that is found."""
    host, account = LocalHost(), server_account()
    place = Path(tempfile.gettempdir())
    work, sockets = prepare_directories(host, place, f"pgtrial-{name}-{uuid.uuid4().hex[:8]}", account)
    try:
        programs = await reachable_programs(host, find_programs(postgres), work=work, account=account)
        cluster = ThrowawayCluster(
            host=host, programs=programs, directory=work, socket_directory=sockets, account=account
        )
        await cluster.initdb()
        cluster.write_settings(settings)
        try:
            await cluster.start()
            yield cluster
        finally:
            await cluster.stop(immediate=True)
    finally:
        remove_directories(host, work, sockets)


def through(pooler: Pooler, database: str = "postgres") -> str:
    """How to connect through it."""
    environment = pooler.environment()
    host, port = environment["PGHOST"], environment["PGPORT"]
    return f"host={host} port={port} user=postgres dbname={database}"
