import os
from pathlib import Path

import pytest

from pgtrial.errors import PreflightError, SettingError, TargetError
from pgtrial.hosts.processes import identify
from pgtrial.knobs import postgresql
from pgtrial.postgres.connect import execute_script, fetch
from pgtrial.postgres.snapshot import Snapshot
from pgtrial.postgres.work_directory import prepare_directories, remove_directories


def test_server_listens_on_its_private_socket_only(throwaway, runner):
    rows = runner.run(fetch(throwaway.conninfo(), "SELECT current_setting('listen_addresses'), inet_server_addr()"))

    assert rows == [("", None)]
    assert (throwaway.socket_directory.stat().st_mode & 0o077) == 0


def test_settings_are_read_back_with_their_source(throwaway, runner):
    runner.run(throwaway.stop())
    wanted = {"shared_buffers": "64MB", "synchronous_commit": "off"}
    postgresql.apply(throwaway, wanted)
    runner.run(throwaway.start())

    actual = runner.run(postgresql.verify(throwaway, wanted))

    assert actual["shared_buffers"].shown == "64MB"
    assert actual["shared_buffers"].source == "configuration file"


def test_setting_that_did_not_take_is_an_error_with_both_values(throwaway, runner):
    with pytest.raises(SettingError) as caught:
        runner.run(postgresql.verify(throwaway, {"work_mem": "77MB"}))

    assert caught.value.message == ('setting "work_mem" is 4MB (source: default) after the start, expected 77MB')


def test_refused_setting_shows_the_servers_own_line(throwaway, runner):
    runner.run(throwaway.stop())
    throwaway.write_settings({"max_connections": "-5"})

    with pytest.raises(SettingError) as caught:
        runner.run(throwaway.start())

    assert '-5 is outside the valid range for parameter "max_connections"' in caught.value.detail


def test_memory_that_the_machine_does_not_have_shows_the_servers_own_line(throwaway, runner):
    runner.run(throwaway.stop())
    throwaway.write_settings({"shared_buffers": "8000GB"})

    with pytest.raises(SettingError) as caught:
        runner.run(throwaway.start())

    assert "could not map anonymous shared memory" in caught.value.detail


def test_snapshot_brings_the_data_back(throwaway, runner):
    database = throwaway.conninfo()
    runner.run(execute_script(database, "CREATE TABLE t AS SELECT 1 AS a", name="setup"))
    runner.run(throwaway.stop())
    snapshot = Snapshot(host=throwaway.host, cluster=throwaway)
    assert not snapshot.is_complete()
    runner.run(snapshot.take())
    for _ in range(2):
        runner.run(snapshot.restore())
        runner.run(throwaway.start())
        assert runner.run(fetch(database, "SELECT a FROM t")) == [(1,)]
        runner.run(execute_script(database, "UPDATE t SET a = 2", name="change"))
        runner.run(throwaway.stop(immediate=True))

    assert snapshot.is_complete()


def test_sql_error_names_file_and_line(throwaway, runner):
    with pytest.raises(TargetError) as caught:
        runner.run(execute_script(throwaway.conninfo(), "SELECT 1;\n\nSELECT nonsense;", name="setup.sql"))

    assert caught.value.message == 'setup.sql, line 3: column "nonsense" does not exist'


def test_stopped_server_leaves_no_process_and_no_socket(throwaway, runner):
    pid = throwaway.process.pid
    runner.run(throwaway.stop())

    assert identify(pid) is None
    assert list(throwaway.socket_directory.iterdir()) == []


def test_killed_server_is_noticed(throwaway, runner):
    async def kill() -> None:
        throwaway.process.kill()
        await throwaway.process.wait()

    assert not throwaway.has_died()
    runner.run(kill())

    assert throwaway.has_died()


def test_long_path_gets_a_short_directory_for_its_socket(tmp_path: Path):
    base = tmp_path / ("x" * 80) / ("y" * 80)
    work, socket_directory = prepare_directories(base, f"pgtrial-test-{os.getpid()}", None)

    try:
        assert work.is_relative_to(base)
        assert socket_directory.parent == Path("/tmp")
    finally:
        remove_directories(work, socket_directory)
    assert not socket_directory.exists()


def test_file_in_place_of_a_directory_is_a_clear_error(tmp_path: Path):
    (tmp_path / "file").touch()

    with pytest.raises(PreflightError) as caught:
        prepare_directories(tmp_path / "file", "x", None)

    assert str(tmp_path / "file") in caught.value.message
    assert "--work-directory" in caught.value.hint
