"""A real server of every version there is, and its pgbench."""

import asyncio
import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.postgres.connect import execute, fetch
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster, prepare_directories, reachable_programs, remove_directories

DATABASE = "postgres"


@dataclass(frozen=True)
class Server:
    """A running cluster with the tables of pgbench at scale 1."""

    cluster: ThrowawayCluster
    runner: asyncio.Runner

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.runner.run(fetch(self.cluster.conninfo(DATABASE), sql))]

    def execute(self, sql: str) -> None:
        self.runner.run(execute(self.cluster.conninfo(DATABASE), sql))

    def start_pgbench(self, argv: Sequence[str], environment: Mapping[str, str] = {}) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.cluster.programs.path("pgbench"), *argv],
            env={**os.environ, **self.cluster.environment(DATABASE), **environment},
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
def server(each_programs: Programs) -> Iterator[Server]:
    host, account = LocalHost(), server_account()
    # Not tmp_path: that is closed to the user whom the server runs as.
    work, sockets = prepare_directories(Path(tempfile.gettempdir()), f"pgtrial-test-{uuid.uuid4().hex[:8]}", account)
    with asyncio.Runner() as runner:
        try:
            usable = runner.run(reachable_programs(host, each_programs, work=work, account=account))
            cluster = ThrowawayCluster(
                host=host, programs=usable, directory=work, socket_directory=sockets, account=account
            )
            runner.run(cluster.initdb())
            cluster.write_settings({"fsync": "off"})
            try:
                runner.run(cluster.start())
                server = Server(cluster=cluster, runner=runner)
                status, _, stderr = server.pgbench(["--initialize", "--quiet"])
                assert status == 0, stderr
                yield server
            finally:
                runner.run(cluster.stop(immediate=True))
        finally:
            remove_directories(work, sockets)
