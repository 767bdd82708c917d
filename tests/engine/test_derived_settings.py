"""What the server changes by itself when one setting changes is not taken for an undeclared difference."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pgtrial.analysis.world.settings import DERIVED, VOLATILE
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import read_settings
from pgtrial.postgres.throwaway import ThrowawayCluster

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
def cluster(
    each_programs: Programs, runner: asyncio.Runner, run_cluster: Callable[..., Any]
) -> Iterator[ThrowawayCluster]:
    with run_cluster(each_programs, runner) as cluster:
        runner.run(cluster.stop())
        yield cluster


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
