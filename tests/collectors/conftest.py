"""Servers of every version there is, for the SQL of the collectors.

The environment variable PGTRIAL_TEST_POSTGRES may name more directories with programs, separated by colons.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from pgtrial.collectors import COLLECTORS
from pgtrial.collectors.base import NO_EXTENSION, ExtensionCollector
from pgtrial.errors import PreflightError
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from support.programs import skip_for_want


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
def server(request: pytest.FixtureRequest, run_cluster: Callable[..., Any]) -> Iterator[ThrowawayCluster]:
    """A running server of one major version."""
    with (
        asyncio.Runner() as runner,
        run_cluster(PROGRAMS[request.param], runner, settings={"autovacuum": "off"}) as cluster,
    ):
        yield cluster


@pytest.fixture
def connection(server: ThrowawayCluster) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.conninfo(), autocommit=True, application_name="pgtrial sampler") as connection:
        yield connection


@contextmanager
def _executing(statement: str, conninfo: str, **options: str) -> "Iterator[psycopg.Connection[Any]]":
    connection = psycopg.connect(conninfo, autocommit=True, **options)  # type: ignore[arg-type]
    try:
        connection.pgconn.send_query(statement.encode())
        yield connection
    finally:
        connection.cancel()
        while connection.pgconn.get_result() is not None:
            pass
        connection.close()


@pytest.fixture(scope="session")
def executing() -> "Callable[..., AbstractContextManager[psycopg.Connection[Any]]]":
    """Context manager ``executing(statement, conninfo, …)``: a session that is at it, until it is cancelled."""
    return _executing


def _extensions_of(programs: Programs) -> list[str]:
    """Those of the collectors' extensions that an installation comes with."""
    wanted = sorted(
        {collector.extension for collector in COLLECTORS if isinstance(collector, ExtensionCollector)} - {NO_EXTENSION}
    )
    return [name for name in wanted if any(programs.directory.parent.rglob(f"{name}.so"))]


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A running server with all extensions it has, in a schema of the database "shop"."""

    cluster: ThrowawayCluster
    extensions: list[str]

    def connect(self, **options: str) -> "psycopg.Connection[Any]":
        return psycopg.connect(self.cluster.conninfo("shop"), autocommit=True, **options)  # type: ignore[arg-type]

    def need(self, extension: str) -> None:
        if extension not in self.extensions:
            skip_for_want(extension, "make setup-test, or a package of that extension")


@pytest.fixture(scope="session", params=sorted(PROGRAMS))
def extended(request: pytest.FixtureRequest, run_cluster: Callable[..., Any]) -> Iterator[Extended]:
    """A server of one major version with extensions."""
    programs = PROGRAMS[request.param]
    extensions = _extensions_of(programs)
    libraries = ", ".join(name for name in extensions if name != "pg_buffercache")
    settings = {"autovacuum": "off", "shared_preload_libraries": libraries}
    with asyncio.Runner() as runner, run_cluster(programs, runner, settings=settings) as cluster:
        with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        extended = Extended(cluster=cluster, extensions=extensions)
        with extended.connect() as connection:
            connection.execute('CREATE SCHEMA "of DBAs"')
            for name in extensions:
                connection.execute(f'CREATE EXTENSION {name} SCHEMA "of DBAs"')
        yield extended
