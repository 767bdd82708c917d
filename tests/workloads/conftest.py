"""A real server of every version there is, and its pgbench."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pgtrial.postgres.connect import connect, execute
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster

DATABASE = "postgres"


@dataclass(frozen=True)
class Server:
    """A running cluster with the tables of pgbench at scale 1."""

    cluster: ThrowawayCluster
    runner: asyncio.Runner

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return self.runner.run(self._query(sql))

    async def _query(self, sql: str) -> list[tuple[object, ...]]:
        async with connect(self.cluster.conninfo(DATABASE), as_user=True) as connection:
            return await (await connection.execute(sql.encode())).fetchall()

    def execute(self, sql: str) -> None:
        self.runner.run(execute(self.cluster.conninfo(DATABASE), sql))

    def start_pgbench(
        self, argv: Sequence[str], environment: Mapping[str, str] = {}, *, directory: str | None = None
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.cluster.programs.path("pgbench"), *argv],
            env={**os.environ, **self.cluster.environment(DATABASE), **environment},
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def pgbench(self, argv: Sequence[str], environment: Mapping[str, str] = {}) -> tuple[int, str, str]:
        """(exit status, stdout, stderr)"""
        with self.start_pgbench(argv, environment) as process:
            stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr


@pytest.fixture(scope="session")
def server(each_programs: Programs, run_cluster: Callable[..., Any]) -> Iterator[Server]:
    with asyncio.Runner() as runner, run_cluster(each_programs, runner) as cluster:
        server = Server(cluster=cluster, runner=runner)
        status, _, stderr = server.pgbench(["--initialize", "--quiet"])
        assert status == 0, stderr
        yield server
