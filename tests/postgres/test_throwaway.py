import asyncio
import contextlib
import dataclasses
import os
import re
import signal
from pathlib import Path

import pytest

from pgtrial.errors import SettingError, StoreError, TargetError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.processes import find_server_children, identify
from pgtrial.postgres.connect import execute, execute_script, fetch
from pgtrial.postgres.throwaway import ThrowawayCluster

_BUSY = "SELECT count(*) FROM generate_series(1, 200000) AS a, generate_series(1, 200000) AS b"


def test_server_listens_on_its_private_socket_only(served, runner):
    rows = runner.run(fetch(served.conninfo(), "SELECT current_setting('listen_addresses'), inet_server_addr()"))

    assert rows == [("", None)]
    assert (served.socket_directory.stat().st_mode & 0o077) == 0


def test_settings_are_read_back_with_their_source(throwaway, runner):
    runner.run(throwaway.stop())
    wanted = {"shared_buffers": "64MB", "synchronous_commit": "off"}
    throwaway.write_settings(wanted)
    runner.run(throwaway.start())

    actual = runner.run(throwaway.verify_settings(wanted))

    assert actual["shared_buffers"].shown == "64MB"
    assert actual["shared_buffers"].source == "configuration file"


def test_setting_that_did_not_take_is_an_error_with_both_values(served, runner):
    with pytest.raises(SettingError) as caught:
        runner.run(served.verify_settings({"work_mem": "77MB"}))

    assert caught.value.message == ('setting "work_mem" is 4MB (source: default) after the start, expected 77MB')


def test_setting_that_the_database_has_of_its_own_did_not_take(throwaway, runner):
    runner.run(throwaway.stop())
    wanted = {"work_mem": "8MB"}
    throwaway.write_settings(wanted)
    runner.run(throwaway.start())
    runner.run(execute(throwaway.conninfo(), "CREATE DATABASE other"))
    runner.run(execute(throwaway.conninfo(), "ALTER DATABASE other SET work_mem = '1MB'"))

    runner.run(throwaway.verify_settings(wanted))
    with pytest.raises(SettingError) as caught:
        runner.run(throwaway.verify_settings(wanted, database="other"))

    assert caught.value.message == 'setting "work_mem" is 1MB (source: database) after the start, expected 8MB'


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


def test_sql_error_names_file_and_line(served, runner):
    with pytest.raises(TargetError) as caught:
        runner.run(execute_script(served.conninfo(), "SELECT 1;\n\nSELECT nonsense;", name="setup.sql"))

    assert caught.value.message == 'setup.sql, line 3: column "nonsense" does not exist'


def test_sql_error_without_a_position_has_the_line_where_the_statement_begins(served, runner):
    script = "SELECT 1;\n\n/* a\n   b */ -- c\n  ALTER TABLE nope\n  ADD a int;"
    with pytest.raises(TargetError) as caught:
        runner.run(execute_script(served.conninfo(), script, name="arms.after.sql.apply"))

    assert caught.value.message == 'arms.after.sql.apply, line 5: relation "nope" does not exist'


def test_a_transaction_that_a_script_leaves_open_is_an_error_and_not_lost_in_silence(served, runner):
    script = "SELECT 1;\nBEGIN;\nCREATE TABLE lost (a int);\nCREATE INDEX ON lost (a);\n"
    with pytest.raises(TargetError) as caught:
        runner.run(execute_script(served.conninfo(), script, name="arms.after.sql.apply"))

    assert caught.value.message == (
        "arms.after.sql.apply, line 2: the transaction that begins here is not committed, and leaves nothing behind"
    )
    runner.run(execute_script(served.conninfo(), f"{script}COMMIT;\nDROP TABLE lost;", name="arms.after.sql.apply"))


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


def test_server_that_was_killed_leaves_no_process_and_no_shared_memory(throwaway, runner):
    data, pid = str(throwaway.data), throwaway.process.pid
    lines = (throwaway.data / "postmaster.pid").read_text().splitlines()
    segment = lines[6].split()[1]  # LOCK_FILE_LINE_SHMEM_KEY: key and id
    mapped = set(re.findall(r"/dev/shm/PostgreSQL\.\d+", Path(f"/proc/{pid}/maps").read_text()))
    assert segment in segments()
    assert mapped

    async def kill() -> None:
        # What a busy session does is not ended by the end of the first process.
        busy = asyncio.ensure_future(execute(throwaway.conninfo(), _BUSY))
        while not any("SELECT" in title for title in titles(find_server_children(data))):
            await asyncio.sleep(0.01)
        throwaway.process.kill()
        await throwaway.stop()
        with pytest.raises(TargetError):
            await busy

    runner.run(kill())

    assert find_server_children(data) == ()
    assert segment not in segments()
    assert not [path for path in mapped if Path(path).exists()]
    runner.run(throwaway.start())  # the data are as the kill left them
    runner.run(throwaway.stop())


def test_the_logger_has_ended_when_the_server_has(throwaway, runner):
    (logger,) = (
        child
        for child in find_server_children(str(throwaway.data))
        if any("logger" in text for text in titles([child]))
    )
    os.kill(logger.pid, signal.SIGSTOP)  # it ends after all others, however long that takes it

    runner.run(throwaway.stop())

    assert find_server_children(str(throwaway.data)) == ()


def segments() -> set[str]:
    """Numbers of the System V segments there are."""
    header, *rows = Path("/proc/sysvipc/shm").read_text().splitlines()
    place = header.split().index("shmid")
    return {row.split()[place] for row in rows}


def titles(processes) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(Path(f"/proc/{process.pid}/cmdline").read_text())
    return found


def test_stop_that_is_cancelled_can_be_asked_for_again(throwaway, runner):
    pid = throwaway.process.pid

    async def cancel_while_it_stops():
        task = asyncio.create_task(throwaway.stop())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    runner.run(cancel_while_it_stops())
    assert throwaway.process is not None
    runner.run(throwaway.stop(immediate=True))

    assert throwaway.process is None
    assert identify(pid) is None


def test_own_statements_are_not_cut_short_by_the_experiments_settings(throwaway, runner):
    runner.run(throwaway.stop())
    throwaway.write_settings({"statement_timeout": "100ms"})
    runner.run(throwaway.start())

    runner.run(execute(throwaway.conninfo(), "SELECT pg_sleep(0.3)"))
    with pytest.raises(TargetError, match="statement timeout"):
        runner.run(fetch(throwaway.conninfo(), "SELECT pg_sleep(0.3)"))


def test_file_that_cannot_be_written_is_an_error_that_names_it(served):
    nowhere = dataclasses.replace(served, directory=served.directory / "nowhere")
    with pytest.raises(TargetError, match="nowhere"):
        nowhere.write_settings({})


def test_server_that_never_started_has_no_log(runner, tmp_path):
    cluster = ThrowawayCluster(
        host=LocalHost(), programs=None, directory=tmp_path, socket_directory=tmp_path, account=None
    )
    runner.run(cluster.keep_log(tmp_path / "kept"))
    assert list(tmp_path.iterdir()) == []
    cluster.log.parent.mkdir(parents=True)
    cluster.log.write_text("x")

    with pytest.raises(StoreError, match="cannot write"):
        runner.run(cluster.keep_log(tmp_path / "nowhere" / "run"))
