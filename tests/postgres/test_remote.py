"""Throw-away clusters on a host that is reached by ssh."""

import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from pgtrial.errors import ConnectError, PreflightError, SettingError
from pgtrial.hosts.local import server_account
from pgtrial.hosts.processes import identify
from pgtrial.hosts.ssh.host import SshHost
from pgtrial.postgres import programs as module
from pgtrial.postgres.connect import execute, execute_script, fetch
from pgtrial.postgres.programs import find_programs, reachable_programs
from pgtrial.postgres.snapshot import Snapshot
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import (
    check_access,
    prepare_directories,
    prepare_directory,
    remove_until_gone,
)
from support import reached


@pytest.fixture
def remote(sshd, monkeypatch, runner):
    monkeypatch.setenv("PGTRIAL_SSH", sshd.ssh())
    host = runner.run(SshHost.open(sshd.address))
    yield host
    runner.run(host.close())


@pytest.fixture
def second(sshd, remote, runner):
    """One more connection to the host of ``remote``, which stays when that is closed."""
    host = runner.run(SshHost.open(sshd.address))
    yield host
    runner.run(host.close())


@pytest.fixture(scope="module")
def made(storage):
    """Where data and WAL are kept as initdb made them the first time, for a copy costs a tenth of it."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-", dir=storage) as name:
        yield Path(name)


def make_data(cluster, runner, made):
    if not (made / "data").exists():
        runner.run(cluster.initdb())
        subprocess.run(["cp", "-a", cluster.wal, made / "wal"], check=True)
        subprocess.run(["cp", "-a", cluster.data, made / "data"], check=True)
        return
    subprocess.run(["cp", "-a", made / "wal", cluster.wal], check=True)
    subprocess.run(["cp", "-a", made / "data", cluster.data], check=True)
    link = cluster.data / "pg_wal"
    link.unlink()
    link.symlink_to(cluster.wal)


@pytest.fixture
def cluster(remote, runner, programs, storage, made):
    """A cluster that is made, with its WAL elsewhere, and not yet started."""
    account, name = server_account(remote.ops), f"pgtrial-test-{uuid.uuid4().hex[:8]}"
    base = storage
    work, socket_directory = prepare_directories(remote, base, name, account)
    wal = base / f"{name}-wal"
    prepare_directory(remote, wal, account)
    found = runner.run(reachable_programs(remote, programs, work=work, account=account))
    runner.run(check_access(remote, work, account))
    cluster = ThrowawayCluster(
        host=remote,
        programs=found,
        directory=work,
        socket_directory=socket_directory,
        account=account,
        wal_directory=wal,
    )
    try:
        make_data(cluster, runner, made)
        cluster.write_settings({"fsync": "off"})
        yield cluster
    finally:
        runner.run(cluster.stop(immediate=True))
        assert runner.run(remove_until_gone(cluster.host, *cluster.directories))
    assert not any(directory.exists() for directory in (work, socket_directory, wal))


def test_cluster_there_is_used_from_here(cluster, runner, tmp_path):
    runner.run(cluster.start())
    directory = cluster.environment("postgres")["PGHOST"]

    assert runner.run(fetch(cluster.conninfo(), "SELECT 41 + 1")) == [(42,)]
    assert directory != str(cluster.socket_directory)
    assert cluster.host_environment("postgres")["PGHOST"] == str(cluster.socket_directory)
    assert Path(cluster.data / "pg_wal").resolve() == cluster.wal
    assert not cluster.has_died()
    pid = cluster.process.pid
    runner.run(execute(cluster.conninfo(), "CHECKPOINT"))
    runner.run(cluster.stop())
    runner.run(cluster.keep_log(tmp_path / "log"))

    assert identify(pid) is None
    assert (tmp_path / "log").read_bytes() == cluster.log.read_bytes()
    assert "database system is shut down" in (tmp_path / "log").read_text()


def test_programs_there_reach_the_server_by_its_own_socket(cluster, runner):
    runner.run(cluster.start())

    runner.run(
        cluster.host.run(
            [cluster.programs.path("pgbench"), "--initialize", "--quiet"],
            account=cluster.account,
            directory=cluster.directory,
            environment=cluster.host_environment("postgres"),
        )
    )

    assert runner.run(fetch(cluster.conninfo(), "SELECT count(*) FROM public.pgbench_branches")) == [(1,)]


def test_snapshot_brings_data_and_wal_back(cluster, runner):
    snapshot = Snapshot(host=cluster.host, cluster=cluster)
    runner.run(cluster.start())
    runner.run(execute_script(cluster.conninfo(), "CREATE TABLE t AS SELECT 1 AS a", name="setup"))
    runner.run(cluster.stop())
    assert not snapshot.is_complete()
    runner.run(snapshot.take())
    assert snapshot.is_complete()
    for _ in range(2):
        runner.run(snapshot.restore())
        runner.run(cluster.start())
        assert runner.run(fetch(cluster.conninfo(), "SELECT a FROM public.t")) == [(1,)]
        runner.run(execute_script(cluster.conninfo(), "UPDATE t SET a = 2", name="change"))
        runner.run(cluster.stop(immediate=True))


def test_refused_setting_shows_the_servers_own_line(cluster, runner):
    cluster.write_settings({"max_connections": "-5"})

    with pytest.raises(SettingError, match="the server does not start") as caught:
        runner.run(cluster.start())

    assert '-5 is outside the valid range for parameter "max_connections"' in caught.value.detail


def test_settings_are_read_back(cluster, runner):
    wanted = {"shared_buffers": "64MB"}
    cluster.write_settings(wanted)
    runner.run(cluster.start())

    assert runner.run(cluster.verify_settings(wanted))["shared_buffers"].shown == "64MB"


def test_server_that_was_killed_is_noticed(cluster, runner):
    async def kill() -> None:
        cluster.process.kill()
        await cluster.process.wait()

    runner.run(cluster.start())
    runner.run(kill())

    assert cluster.has_died()


def test_server_ends_with_the_connection(second, cluster, runner):
    runner.run(cluster.start())
    pid = cluster.process.pid
    runner.run(cluster.host.close(at_once=True))
    with pytest.raises(ConnectError):
        cluster.has_died()
    cluster.process, cluster.host = None, second  # for the fixture, which removes what the server leaves

    assert runner.run(ended(second, pid))


async def ended(host: SshHost, pid: int) -> bool:
    await reached(lambda: host.ops.start_ticks(pid) is None)
    return True


def test_programs_are_found_there(remote, programs, monkeypatch):
    monkeypatch.setattr(module, "_embedded", lambda: pytest.fail("the embedded servers are of this machine"))

    assert find_programs(str(programs.directory), host=remote, may_run=True).version == programs.version


def test_programs_that_are_not_there_are_a_clear_error(remote, monkeypatch):
    monkeypatch.setattr(module, "_DISTRIBUTION_FOLDERS", ("/nowhere/*/bin",))

    with pytest.raises(PreflightError) as caught:
        find_programs("99", host=remote)
    with pytest.raises(PreflightError, match="is given as"):
        find_programs("own/bin", host=remote)

    assert caught.value.message == f'no PostgreSQL 99 programs found on "{remote.name}"'
    assert "embedded" not in caught.value.hint
