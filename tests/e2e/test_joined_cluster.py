"""Experiments on hosts that the workers of a cluster offer, which the user has started: end to end, and with losses."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import wait_until
from support.dask_cluster import DaskCluster, dask_cluster
from support.fleet import (
    BLOCKS_TEXT,
    CHANGED,
    TUNED,
    assert_restored,
    assert_whole,
    fleet_hosts,
    processes,
    settings,
)
from support.namespaces import Namespaces


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[Namespaces]:
    with fleet_hosts("a", "b") as hosts:
        yield hosts


@pytest.fixture
def joined_place(new_place, two_hosts):
    place = new_place("joined")
    place.write_light_experiment(
        ("blocks = 2", BLOCKS_TEXT), ('duration = "2s"', 'duration = "1s"'), ('warmup   = "1s"', "warmup = 0")
    )
    return place


@pytest.fixture
def cluster(joined_place, two_hosts) -> Iterator[DaskCluster]:
    with dask_cluster(joined_place.directory) as found:
        for host in two_hosts.hosts:
            add_worker(found, joined_place, two_hosts, f"host:{host.name}@{host.ssh}")
        yield found


def add_worker(cluster: DaskCluster, place, hosts: Namespaces, resource: str) -> None:
    """Its journal and its folders are its own, as on a machine of its own."""
    state = place.directory / f"worker-{resource[5]}"  # of the host
    cluster.add_worker(resource, PGTRIAL_SSH=hosts.ssh, PGTRIAL_STATE_DIRECTORY=str(state), PG_CONFIG=place.pg_config)


def plan(place, cluster: DaskCluster):
    return place.run("plan", "small.toml", "--fleet", cluster.address, environment=cluster.environment)


def start(place, cluster: DaskCluster, *arguments: str):
    return place.start(*arguments, environment=cluster.environment)


def run_command(place, cluster: DaskCluster, *arguments: str):
    wait_until(lambda: plan(place, cluster), lambda found: found.returncode == 0 and found.stdout.count("ssh://") >= 2)
    return start(place, cluster, "run", "small.toml", "--allow-code", *arguments, "--fleet", cluster.address)


def resume(place, cluster: DaskCluster):
    return place.finish(start(place, cluster, "resume", str(place.only_folder().path), "--allow-code"))


def wait_for_runs(place, number: int) -> None:
    """Until so many runs are measured where the workers are."""

    def begun() -> list[Path]:
        return list(place.directory.glob("worker-*/fleet/*/*/runs/*"))

    wait_until(begun, lambda found: len(found) >= number)


def assert_nothing_there(place) -> None:
    """No worker has a folder left, nor anything to put back."""
    assert wait_until(lambda: list(place.directory.glob("worker-*/fleet/*/*")), lambda left: not left) == []


def test_blocks_on_the_hosts_of_workers_give_a_folder_as_ever(joined_place, cluster, two_hosts):
    result = joined_place.finish(run_command(joined_place, cluster))

    assert result.returncode == 0, result.stderr
    assert_whole(joined_place)
    folder = joined_place.only_folder()
    assert {host for _, host in folder.query("SELECT block, host FROM block_host")} == {"a", "b"}
    assert (folder.path / "findings.json").is_file()
    assert_restored(two_hosts)
    assert_nothing_there(joined_place)


def test_a_worker_that_is_killed_and_started_again_goes_on(joined_place, cluster, two_hosts):
    process = run_command(joined_place, cluster)
    wait_for_runs(joined_place, 1)
    resource = next(iter(cluster.workers))
    victim = cluster.workers.pop(resource)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    add_worker(cluster, joined_place, two_hosts, resource)
    result = joined_place.finish(process)

    assert result.returncode == 0, result.stderr
    assert "is lost" in result.stderr
    assert_whole(joined_place)
    assert_restored(two_hosts)
    assert_nothing_there(joined_place)


def test_a_worker_puts_back_first_what_an_earlier_one_has_left(joined_place, cluster, two_hosts, gate):
    joined_place.write_gated_experiment(
        gate, ('duration = "2s"', 'duration = "1s"'), ("blocks = 2", BLOCKS_TEXT), TUNED
    )
    before = settings(two_hosts)
    process = run_command(joined_place, cluster, "--allow-host-changes")
    wait_until(lambda: settings(two_hosts), lambda found: set(found) == {CHANGED})
    workers = dict(cluster.workers)
    engines = processes(joined_place, "pgtrial.fleet.session", state="worker-")
    for pid in [worker.pid for worker in workers.values()] + engines:
        os.kill(pid, signal.SIGKILL)
    for worker in workers.values():
        worker.wait()
    assert set(settings(two_hosts)) == {CHANGED}

    gate.unlink()
    for resource in workers:
        add_worker(cluster, joined_place, two_hosts, resource)
    result = joined_place.finish(process)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("is lost") == len(workers)
    assert_whole(joined_place)
    assert settings(two_hosts) == before
    assert_restored(two_hosts)
    assert_nothing_there(joined_place)


def test_ctrl_c_ends_what_runs_at_workers_and_it_is_resumed(joined_place, cluster, two_hosts):
    process = run_command(joined_place, cluster)
    wait_for_runs(joined_place, 1)
    process.send_signal(signal.SIGINT)
    result = joined_place.finish(process)
    assert result.returncode == 130, result.stderr
    assert_restored(two_hosts)
    assert_nothing_there(joined_place)

    result = resume(joined_place, cluster)
    assert result.returncode == 0, result.stderr
    assert_whole(joined_place)


def test_a_client_that_is_killed_is_resumed_and_no_block_counts_twice(joined_place, cluster, two_hosts):
    process = run_command(joined_place, cluster)
    wait_for_runs(joined_place, 1)
    process.kill()
    joined_place.finish(process)
    result = resume(joined_place, cluster)

    assert result.returncode == 0, result.stderr
    assert_whole(joined_place)
    assert_restored(two_hosts)
    assert_nothing_there(joined_place)


def test_a_scheduler_that_is_gone_ends_the_experiment_and_what_runs(joined_place, cluster, two_hosts):
    process = run_command(joined_place, cluster)
    wait_for_runs(joined_place, 1)
    assert cluster.scheduler is not None
    cluster.scheduler.kill()
    result = joined_place.finish(process)

    assert result.returncode in (1, 6), result.stderr
    assert "the scheduler of the fleet has ended" in result.stderr
    assert_restored(two_hosts)
    assert (
        wait_until(lambda: processes(joined_place, "pgtrial.fleet.session", state="worker-"), lambda left: not left)
        == []
    )
