"""Every statement on a real server of every version there is."""

import signal
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pgtrial.collectors import WATCHED, server_views, sessions
from pgtrial.collectors.base import QueryCollector, find_statement
from pgtrial.collectors.sessions import SessionGroup
from pgtrial.engine.sampler.link import SessionSums
from pgtrial.postgres.throwaway import ThrowawayCluster
from support import wait_until
from support.libpq import ask

pytestmark = pytest.mark.pg

QUERIES = [c for c in WATCHED if isinstance(c, QueryCollector) and c.understand is None]

BY_NAME = {collector.name: collector for collector in (*server_views.COLLECTORS, *server_views.WATCHED)}


def read(connection: psycopg.Connection, collector: QueryCollector) -> dict[tuple[str, str], float]:
    connection.execute("SELECT pg_stat_force_next_flush()")
    answer = ask(connection, collector.name, *[b"postgres" for _ in collector.parameters])
    return {(reading.metric, reading.object): reading.value for reading in collector.parse(*answer)}


def is_there(collector: QueryCollector, connection: psycopg.Connection) -> bool:
    return find_statement(collector.name, connection.info.server_version) is not None


def test_columns_are_declared_metrics(connection: psycopg.Connection) -> None:
    for collector in QUERIES:
        if is_there(collector, connection):
            columns, rows = ask(connection, collector.name, *[b"postgres" for _ in collector.parameters])
            names = [f"{collector.name}.{column}" for column in columns if column != "object"]
            assert rows
            assert set(names) <= {metric.name for metric in collector.metrics}, collector.name
            assert len(set(names)) == len(names)


def test_every_number_of_a_view_is_read(connection: psycopg.Connection) -> None:
    numbers = "('bigint', 'integer', 'numeric', 'double precision')"
    known = {metric.name.split(".")[1] for collector in QUERIES for metric in collector.metrics}
    # Read under the newer names, or not a quantity.
    known |= {"datid", "op_bytes", "checkpoints_timed", "checkpoints_req", "checkpoint_write_time"}
    known |= {"checkpoint_sync_time", "buffers_checkpoint", "pid", "client_port", "sync_priority"}
    known |= {"active_pid", "safe_wal_size"}
    views = [collector.name for collector in QUERIES]

    rows = connection.execute(
        sql.SQL(
            "SELECT column_name FROM information_schema.columns WHERE table_name = ANY(%s) AND data_type IN {}"
        ).format(sql.SQL(numbers)),
        [views],
    ).fetchall()

    assert rows
    assert {name for (name,) in rows} - known == set()


def test_transactions_and_wal_are_counted(connection: psycopg.Connection) -> None:
    database, wal = read(connection, BY_NAME["pg_stat_database"]), read(connection, BY_NAME["pg_stat_wal"])
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS t (i int)")
    for _ in range(5):
        connection.execute("SELECT pg_current_xact_id()")
    connection.execute("CREATE TABLE w AS SELECT generate_series(1, 1000) AS i")
    connection.execute("DROP TABLE w")

    after = read(connection, BY_NAME["pg_stat_database"])
    wal_after = read(connection, BY_NAME["pg_stat_wal"])

    assert after["pg_stat_database.xact_commit", ""] - database["pg_stat_database.xact_commit", ""] >= 8
    assert wal_after["pg_stat_wal.wal_bytes", ""] - wal["pg_stat_wal.wal_bytes", ""] > 1000 * 24


def test_requested_checkpoint_has_one_name_in_all_versions(connection: psycopg.Connection) -> None:
    (collector,) = [collector for collector in QUERIES if collector.name == "pg_stat_checkpointer"]
    before = read(connection, collector)
    connection.execute("CHECKPOINT")
    after = wait_until(lambda: read(connection, collector), lambda after: after != before)

    name = ("pg_stat_checkpointer.num_requested", "")
    assert after[name] == before[name] + 1
    assert {metric.rpartition(".")[2] for metric, _ in after} >= {
        "num_timed",
        "write_time",
        "sync_time",
        "buffers_written",
    }


def test_time_that_is_not_measured_is_not_zero(connection: psycopg.Connection) -> None:
    assert ("pg_stat_database.blk_read_time", "") not in read(connection, BY_NAME["pg_stat_database"])
    connection.execute("SET track_io_timing = on")
    assert ("pg_stat_database.blk_read_time", "") in read(connection, BY_NAME["pg_stat_database"])


def test_io_is_read_by_backend_type_object_and_context(connection: psycopg.Connection) -> None:
    if connection.info.server_version < 160000:
        assert not is_there(BY_NAME["pg_stat_io"], connection)
        return
    readings = read(connection, BY_NAME["pg_stat_io"])
    mine = "client backend/relation/normal"
    connection.execute("CREATE TABLE io AS SELECT generate_series(1, 10000) AS i")
    connection.execute("DROP TABLE io")
    after = read(connection, BY_NAME["pg_stat_io"])

    assert after["pg_stat_io.hits", mine] > readings["pg_stat_io.hits", mine]
    assert ("pg_stat_io.read_bytes", mine) in readings
    assert ("pg_stat_io.read_time", mine) not in readings
    assert (("pg_stat_io.writes", "client backend/wal/normal") in readings) == (
        connection.info.server_version >= 180000
    )


def test_small_caches_have_the_same_names_in_all_versions(connection: psycopg.Connection) -> None:
    readings = read(connection, BY_NAME["pg_stat_slru"])

    caches = {"commit_timestamp", "multixact_member", "multixact_offset", "notify", "serializable", "subtransaction"}
    assert {about for _, about in readings} == {*caches, "transaction", "other"}


def test_lag_of_a_standby_is_read_while_there_is_one(
    connection: psycopg.Connection, server: ThrowawayCluster, tmp_path: Path
) -> None:
    """The receiver flushes what it gets, and replays nothing; while it is stopped, the WAL goes on without it."""
    collector, flushed = BY_NAME[server_views.REPLICATION], ("pg_stat_replication.flush_bytes", "")
    assert read(connection, collector) == {}
    argv = [server.programs.path("pg_receivewal"), "--synchronous", "--no-loop", "--directory", tmp_path]
    receiver = subprocess.Popen(argv, env=server.host_environment(""), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: read(connection, collector), lambda now: now.get(flushed) == 0)
        receiver.send_signal(signal.SIGSTOP)
        connection.execute("CREATE TABLE lagging AS SELECT generate_series(1, 1000) AS i")
        assert set(read(connection, collector)) == {flushed}
        assert read(connection, collector)[flushed] > 10_000
        receiver.send_signal(signal.SIGCONT)
        wait_until(lambda: read(connection, collector), lambda now: now.get(flushed) == 0)
    finally:
        receiver.kill()
        receiver.wait()
        connection.execute("DROP TABLE IF EXISTS lagging")
    wait_until(lambda: read(connection, collector), lambda now: now == {})


def test_wal_that_a_slot_holds_grows_until_it_is_dropped(connection: psycopg.Connection) -> None:
    collector, held = BY_NAME[server_views.SLOTS], (server_views.HELD, "")
    assert read(connection, collector) == {held: 0.0}
    connection.execute("SELECT pg_create_physical_replication_slot('forgotten', true)")
    try:
        before = read(connection, collector)[held]
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS i")
        assert read(connection, collector)[held] > before + 10_000
    finally:
        connection.execute("SELECT pg_drop_replication_slot('forgotten')")
        connection.execute("DROP TABLE IF EXISTS kept")
    assert read(connection, collector) == {held: 0.0}


def test_reads_of_the_transaction_status_are_counted(connection: psycopg.Connection) -> None:
    hits = ("pg_stat_slru.blks_hit", "transaction")
    before = read(connection, BY_NAME["pg_stat_slru"])
    connection.execute("CREATE TABLE seen AS SELECT generate_series(1, 1000) AS i")
    connection.execute("SELECT count(*) FROM seen")  # asks whether its creator has committed
    connection.execute("DROP TABLE seen")

    assert read(connection, BY_NAME["pg_stat_slru"])[hits] > before[hits]


def groups(connection: psycopg.Connection, application: str) -> list[SessionGroup]:
    statement = find_statement(sessions.NAME, connection.info.server_version)
    assert statement is not None
    sums = SessionSums()
    sums.add(0.0, connection.pgconn.exec_params(statement.encode(), []), count=1)
    payload = sums.drain()
    found = sessions.COLLECTOR.parse(payload["columns"], payload["rows"])
    return [group for group in found if group.application == application]


def wait_for(connection: psycopg.Connection, expected: SessionGroup) -> None:
    """Until all sessions of the application are in one group: they get there one by one."""
    wait_until(lambda: groups(connection, expected.application), lambda found: found == [expected])


def test_sessions_are_grouped_by_what_they_wait_for(server: ThrowawayCluster, connection: psycopg.Connection) -> None:
    statement = "SELECT pg_sleep(60),\n   'it''s', 4711, '7' AS col1 -- of 'me"
    others = [psycopg.connect(server.conninfo(), application_name="pgtrial/sleepy", autocommit=True) for _ in range(3)]
    for other in others:
        other.pgconn.send_query(statement.encode())
    try:
        wait_for(
            connection,
            SessionGroup(
                backend_type="client backend",
                application="pgtrial/sleepy",
                state="active",
                wait_type="Timeout",
                wait_event="PgSleep",
                query="SELECT pg_sleep(?), ?, ?, ? AS col1",
                sessions=3,
            ),
        )
    finally:
        for other in others:
            other.cancel()
            other.pgconn.get_result()
            other.close()


def test_idle_session_does_nothing(server: ThrowawayCluster, connection: psycopg.Connection) -> None:
    with psycopg.connect(server.conninfo(), application_name="pgtrial/idle", autocommit=True) as other:
        other.execute("SELECT 1")
        wait_for(
            connection,
            SessionGroup(
                backend_type="client backend",
                application="pgtrial/idle",
                state="idle",
                wait_type="Client",
                wait_event="ClientRead",
                query="",
                sessions=1,
            ),
        )


def test_sampler_does_not_see_itself(connection: psycopg.Connection) -> None:
    connection.execute("SET application_name = 'itself'")

    assert groups(connection, "itself") == []
