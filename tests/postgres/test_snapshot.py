import os

import pytest

from pgtrial.errors import TargetError
from pgtrial.postgres import snapshot as module
from pgtrial.postgres.connect import execute, execute_script, fetch
from pgtrial.postgres.snapshot import Snapshot


@pytest.fixture
def snapshot(throwaway):
    return Snapshot(host=throwaway.host, cluster=throwaway)


def test_snapshot_brings_the_data_back(snapshot, throwaway, runner):
    database = throwaway.conninfo()
    runner.run(execute_script(database, "CREATE TABLE t AS SELECT 1 AS a", name="setup"))
    runner.run(throwaway.stop())
    assert not snapshot.is_complete()
    runner.run(snapshot.take())
    for _ in range(2):
        runner.run(snapshot.restore())
        runner.run(throwaway.start())
        assert runner.run(fetch(database, "SELECT a FROM public.t")) == [(1,)]
        runner.run(execute_script(database, "UPDATE t SET a = 2", name="change"))
        runner.run(throwaway.stop(immediate=True))

    assert snapshot.is_complete()


def test_cluster_goes_on_with_its_data_after_a_snapshot_was_taken(snapshot, throwaway, runner):
    runner.run(execute(throwaway.conninfo(), "CREATE TABLE t ()"))
    runner.run(throwaway.stop())
    runner.run(snapshot.take())
    runner.run(throwaway.start())

    assert runner.run(fetch(throwaway.conninfo(), "SELECT count(*) FROM public.t")) == [(0,)]


def test_data_that_cannot_be_removed_are_never_used_again(snapshot, throwaway, runner, monkeypatch):
    async def keep(*_directories):
        return False

    runner.run(throwaway.stop())
    runner.run(snapshot.take())
    monkeypatch.setattr(module, "remove_until_gone", keep)

    with pytest.raises(TargetError, match="cannot remove the data of the previous run"):
        runner.run(snapshot.restore())
    assert not (throwaway.data / "snapshot").exists()


def test_snapshot_that_is_not_whole_is_none(snapshot, throwaway, runner):
    runner.run(throwaway.stop())
    snapshot.directory.mkdir()

    assert not snapshot.is_complete()


def test_data_outside_of_the_cluster_are_refused(snapshot, throwaway, runner):
    place = throwaway.socket_directory / "elsewhere"
    place.mkdir()
    if throwaway.account is not None:
        os.chown(place, throwaway.account.uid, throwaway.account.gid)
    runner.run(execute_script(throwaway.conninfo(), f"CREATE TABLESPACE t LOCATION '{place}'", name="setup"))
    runner.run(throwaway.stop())

    with pytest.raises(TargetError, match="tablespace") as caught:
        runner.run(snapshot.take())

    assert str(place) in caught.value.message
    assert not snapshot.is_complete()
