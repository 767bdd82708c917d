"""Servers of every version there is, for the SQL of the collectors.

The environment variable PGTRIAL_TEST_POSTGRES may name more directories with programs, separated by colons.
"""

import asyncio
import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.postgres.throwaway import ThrowawayCluster, prepare_directories, reachable_programs, remove_directories


def _programs() -> dict[str, Programs]:
    named = [directory for directory in os.environ.get("PGTRIAL_TEST_POSTGRES", "").split(":") if directory]
    found: dict[str, Programs] = {}
    for wanted in (*named, "15", "16", "17", "18"):
        try:
            programs = find_programs(wanted)
        except PreflightError:
            if wanted in named:
                raise
        else:
            found.setdefault(str(programs.major), programs)
    return found


PROGRAMS = _programs()


@pytest.fixture(scope="session", params=sorted(PROGRAMS))
def server(request: pytest.FixtureRequest) -> Iterator[ThrowawayCluster]:
    """A running server of one major version."""
    host, account = LocalHost(), server_account()
    work, socket_directory = prepare_directories(
        Path(tempfile.gettempdir()), f"pgtrial-test-{uuid.uuid4().hex[:8]}", account
    )
    try:
        with asyncio.Runner() as runner:
            cluster = ThrowawayCluster(
                host=host,
                programs=runner.run(reachable_programs(host, PROGRAMS[request.param], work=work, account=account)),
                directory=work,
                socket_directory=socket_directory,
                account=account,
            )
            runner.run(cluster.initdb())
            cluster.write_settings({"fsync": "off", "autovacuum": "off"})
            try:
                runner.run(cluster.start())
                yield cluster
            finally:
                runner.run(cluster.stop(immediate=True))
    finally:
        remove_directories(work, socket_directory)
