"""What the server changes by itself when one setting changes is not taken for an undeclared difference."""

import asyncio
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.analysis.settings import DERIVED, VOLATILE
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import read_settings
from pgtrial.postgres.throwaway import ThrowawayCluster, prepare_directories, reachable_programs, remove_directories

CHANGES = {
    "shared_buffers": "16MB",
    "max_connections": "30",
    "max_worker_processes": "20",
    "autovacuum_max_workers": "7",
    "max_locks_per_transaction": "256",
    "track_activity_query_size": "4096",
    "archive_mode": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "io_max_combine_limit": "64kB",
}


@pytest.fixture
def cluster(each_programs: Programs, runner: asyncio.Runner) -> Iterator[ThrowawayCluster]:
    host, account = LocalHost(), server_account()
    name = f"pgtrial-test-{uuid.uuid4().hex[:8]}"
    work, socket_directory = prepare_directories(Path(tempfile.gettempdir()), name, account)
    usable = runner.run(reachable_programs(host, each_programs, work=work, account=account))
    cluster = ThrowawayCluster(
        host=host, programs=usable, directory=work, socket_directory=socket_directory, account=account
    )
    try:
        runner.run(cluster.initdb())
        yield cluster
    finally:
        runner.run(cluster.stop(immediate=True))
        remove_directories(work, socket_directory)


def test_only_known_settings_follow_from_others(cluster, runner):
    def shown(settings: dict[str, str]) -> dict[str, str]:
        cluster.write_settings(settings)
        runner.run(cluster.start())
        found = runner.run(read_settings(cluster.conninfo()))
        runner.run(cluster.stop())
        return {name: setting.shown for name, setting in found.items()}

    base = shown({})
    for name, value in CHANGES.items():
        if name not in base:
            continue  # newer than this server
        changed = shown({name: value})
        assert changed[name] != base[name]
        followed = {other for other in base if changed[other] != base[other]} - {name, *VOLATILE}
        assert all(name in DERIVED.get(other, ()) for other in followed), (name, followed)
