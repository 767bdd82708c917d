"""What a throw-away server of each version writes to its log is found again."""

import contextlib
import threading
import time

import psycopg

from pgtrial.analysis.log_pairing import LogEvent, pair_entries
from pgtrial.postgres.programs import Programs
from pgtrial.store.server_log.stored import read_log
from support import wait_until

# A short deadlock_timeout, so that waits are logged soon; a worker looks every second for what there is to vacuum.
SETTINGS = {
    "deadlock_timeout": "100ms",
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_threshold": "10",
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_analyze_threshold": "10",
    "autovacuum_analyze_scale_factor": "0",
    "log_min_duration_statement": "150ms",
    "work_mem": "64kB",
}
LIMIT = 60.0  # s


def wait_for_lock(conninfo: str) -> None:
    """A session waits for a row that another one has locked."""
    with psycopg.connect(conninfo) as first, psycopg.connect(conninfo, autocommit=True) as second:
        first.execute("SELECT * FROM t WHERE id = 1 FOR UPDATE")
        waiting = threading.Thread(target=second.execute, args=("UPDATE t SET x = x WHERE id = 1",))
        waiting.start()
        _until_waiting(first, second.info.backend_pid)
        time.sleep(0.2)  # longer than deadlock_timeout
        first.commit()
        waiting.join(LIMIT)


def make_deadlock(conninfo: str) -> None:
    def update(connection: "psycopg.Connection", row: int) -> None:
        with contextlib.suppress(psycopg.errors.DeadlockDetected):
            connection.execute("UPDATE t SET x = x WHERE id = %s", [row])

    with psycopg.connect(conninfo) as first, psycopg.connect(conninfo) as second:
        update(first, 2)
        update(second, 3)
        waiting = threading.Thread(target=update, args=(first, 3))
        waiting.start()
        update(second, 2)
        second.rollback()
        waiting.join(LIMIT)
        first.rollback()


def _until_waiting(connection: "psycopg.Connection", pid: int) -> None:
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_get_activity(%s)"
    wait_until(lambda: connection.execute(query, [pid]).fetchone() == (True,))


def events_of(cluster, tmp_path) -> list[LogEvent]:
    cluster_log = tmp_path / "server.jsonl"
    cluster_log.write_text(cluster.host.ops.read(str(cluster.log)))
    return list(pair_entries(1, read_log(cluster_log, None), is_own=lambda name: name == "postgres"))


def find(cluster, tmp_path, kind: str, about: str = "") -> LogEvent:
    """The first event of a kind, as soon as the log has it."""
    return wait_until(
        lambda: [each for each in events_of(cluster, tmp_path) if each.kind == kind and each.object.startswith(about)]
    )[0]


def test_each_kind_of_event_is_found_in_the_log_of_a_real_server(
    each_programs: Programs, runner, run_cluster, tmp_path
):
    begun = time.time()
    with run_cluster(each_programs, runner, settings=SETTINGS) as cluster:
        conninfo = cluster.conninfo()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT id, 0 AS x FROM generate_series(1, 1000) AS id")
            connection.execute("CHECKPOINT")
            connection.execute("SELECT count(*) FROM (SELECT i FROM generate_series(1, 300000) AS i ORDER BY -i) AS s")
            connection.execute("SELECT pg_sleep(0.2), 'a secret'")
            with contextlib.suppress(psycopg.errors.DivisionByZero):
                connection.execute("SELECT 1 / 0")
            wait_for_lock(conninfo)
            make_deadlock(conninfo)
            connection.execute("DELETE FROM t WHERE id > 500")

        checkpoint = find(cluster, tmp_path, "checkpoint")
        vacuum = find(cluster, tmp_path, "autovacuum", "public.t")
        analyze = find(cluster, tmp_path, "autoanalyze", "public.t")
        events = events_of(cluster, tmp_path)
    ended = time.time()

    assert checkpoint.numbers["requested"] == 1
    assert checkpoint.numbers["buffers"] > 0
    assert checkpoint.numbers["total seconds"] >= checkpoint.numbers["write seconds"]
    assert checkpoint.numbers["distance bytes"] > 0
    assert vacuum.numbers["tuples removed"] >= 500  # those that were deleted, and old versions of updated ones
    assert {"seconds", "pages removed", "WAL bytes", "blocks hit", "blocks read", "blocks dirtied"} <= set(
        vacuum.numbers
    )
    assert "seconds" in analyze.numbers
    by_kind = {event.kind: event for event in events}
    assert by_kind["temporary file"].numbers["bytes"] > 1024**2
    assert by_kind["error"].object == "22012"
    assert by_kind["deadlock"].object == "40P01"
    waits = [event for event in events if event.kind == "lock wait"]
    assert {event.object for event in waits} == {"ShareLock"}
    assert max(event.numbers["seconds"] for event in waits) >= 0.2
    slow = [event.text for event in events if event.kind == "slow statement"]
    assert any(text.endswith("SELECT pg_sleep(?), ?") for text in slow)
    assert all(begun - 1 <= event.start <= event.end <= ended + 1 for event in events)


def test_small_temporary_files_are_not_logged(served):
    with psycopg.connect(served.conninfo(), autocommit=True) as connection:
        connection.execute("SET work_mem = '64kB'")
        connection.execute("SELECT count(*) FROM (SELECT i FROM generate_series(1, 20000) AS i ORDER BY -i) AS s")
        (size,) = connection.execute("SELECT setting FROM pg_settings WHERE name = 'log_temp_files'").fetchone() or ()

    assert size == "1024"
    assert not any("temporary file" in str(entry["message"]) for entry in served.read_log())


def test_messages_are_english_whatever_language_the_caller_speaks(
    programs: Programs, runner, run_cluster, monkeypatch, tmp_path
):
    monkeypatch.setenv("LANGUAGE", "ru:de")
    with run_cluster(programs, runner, settings={}) as cluster:
        with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        find(cluster, tmp_path, "checkpoint")
        messages = [str(entry["message"]) for entry in cluster.read_log()]

    assert any(message.startswith("checkpoint starting") for message in messages)
