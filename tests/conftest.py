"""What tests on real servers share. A test that uses one of these fixtures is marked "pg" by that alone."""

import asyncio
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.postgres.reachable import reachable_programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import prepare_directories, remove_directories

VERSIONS = ("15", "16", "17", "18")


def _find(wanted: str | None) -> Programs | None:
    try:
        return find_programs(wanted)
    except PreflightError:
        return None


def _require(programs: Programs | None) -> Programs:
    """Programs, or the test is skipped; where PostgreSQL is required, as in CI, it fails instead."""
    if programs is None:
        reason = "no PostgreSQL programs on this machine; make setup-test installs some"
        if os.environ.get("PGTRIAL_REQUIRE_PG") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return programs


def pytest_report_header() -> str:
    found = {programs.version: programs.directory for version in VERSIONS if (programs := _find(version))}
    return "PostgreSQL: " + (", ".join(f"{version} in {place}" for version, place in found.items()) or "none")


@pytest.hookimpl(tryfirst=True)  # before the marks are used to select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"programs", "each_programs"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.pg)


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The programs pgtrial itself would choose."""
    return _require(_find(None))


@pytest.fixture(scope="session", params=[version for version in VERSIONS if _find(version)] or ["any"])
def each_programs(request: pytest.FixtureRequest) -> Programs:
    """The programs of every supported major version that there is, one after the other."""
    return _require(_find(None if request.param == "any" else request.param))


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """An event loop for fixtures and test together: ``runner.run(coroutine)``."""
    with asyncio.Runner() as running:
        yield running


@contextmanager
def _run_cluster(
    programs: Programs, runner: asyncio.Runner, *, settings: Mapping[str, str] | None = None
) -> Iterator[ThrowawayCluster]:
    host, account = LocalHost(), server_account()
    # Not tmp_path: that is closed to the user whom the server runs as.
    work, socket_directory = prepare_directories(
        Path(tempfile.gettempdir()), f"pgtrial-test-{uuid.uuid4().hex[:8]}", account
    )
    try:
        cluster = ThrowawayCluster(
            host=host,
            programs=runner.run(reachable_programs(host, programs, work=work, account=account)),
            directory=work,
            socket_directory=socket_directory,
            account=account,
        )
        runner.run(cluster.initdb())
        cluster.write_settings({"fsync": "off", **(settings or {})})
        try:
            runner.run(cluster.start())
            yield cluster
        finally:
            runner.run(cluster.stop(immediate=True))
    finally:
        remove_directories(work, socket_directory)


@pytest.fixture(scope="session")
def run_cluster() -> Callable[..., AbstractContextManager[ThrowawayCluster]]:
    """Context manager ``run_cluster(programs, runner, settings={})``: a cluster that runs, removed at the end."""
    return _run_cluster


@pytest.fixture
def throwaway(programs: Programs, runner: asyncio.Runner) -> Iterator[ThrowawayCluster]:
    """A cluster that runs; stopped and removed after the test."""
    with _run_cluster(programs, runner) as cluster:
        yield cluster
