"""The statements that read extensions, on a server of every version there is that comes with them."""

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgtrial.collectors import pg_buffercache, pg_stat_statements, pg_wait_sampling, relations
from pgtrial.collectors.base import by_column, find_statement, in_schema
from support import wait_until
from support.libpq import ask, execute

pytestmark = pytest.mark.pg


def payload_of(connection: "psycopg.Connection[Any]", name: str, *parameters: bytes) -> dict[str, Any]:
    statement = find_statement(name, connection.info.server_version)
    assert statement is not None
    ((schema,),) = connection.execute(
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = %s",
        [name.removesuffix("_texts")],
    ).fetchall()
    columns, rows = execute(connection, in_schema(statement, schema), *parameters)
    return {"columns": columns, "rows": rows}


def test_statements_are_counted_with_the_literals_of_their_texts_replaced(extended: Any) -> None:
    extended.need("pg_stat_statements")
    with extended.connect() as connection:
        connection.execute("CREATE TABLE goods AS SELECT generate_series(1, 5000) AS i")
        for number in (1, 2, 3):
            connection.execute(f"SELECT count(*) FROM goods WHERE i > {number}")
        connection.execute("DO $$ BEGIN PERFORM 'a secret'; END $$")
        connection.execute("CREATE ROLE nobody_yet PASSWORD 'a secret'")
        counts = list(pg_stat_statements.parse_counts(payload_of(connection, "pg_stat_statements", b"shop")))
        texts = pg_stat_statements.parse_texts(payload_of(connection, "pg_stat_statements_texts", b"shop"))
        elsewhere = payload_of(connection, "pg_stat_statements", b"postgres")
        connection.execute("DROP TABLE goods")
        connection.execute("DROP ROLE nobody_yet")

    found = {texts[one.queryid]: one for one in counts}
    one = found["SELECT count(*) FROM goods WHERE i > ?"]
    assert (one.calls, one.rows) == (3, 3)
    assert one.exec_time > 0
    assert one.shared_blks_hit > 0
    (made,) = [one for text, one in found.items() if text.startswith("CREATE TABLE goods")]
    assert made.wal_bytes > 0
    assert {"DO ?", "CREATE ROLE nobody_yet PASSWORD ?"} <= set(found)
    assert "secret" not in str(texts)
    assert {one.queryid for one in pg_stat_statements.parse_counts(elsewhere)}.isdisjoint(texts)


def test_what_runs_inside_of_a_function_is_not_counted_twice(extended: Any) -> None:
    extended.need("pg_stat_statements")
    with extended.connect() as connection:
        connection.execute("SET pg_stat_statements.track = 'all'")
        connection.execute("CREATE FUNCTION inner_one() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1 + 4711; END'")
        connection.execute("DO 'BEGIN PERFORM inner_one(); END'")
        texts = pg_stat_statements.parse_texts(payload_of(connection, "pg_stat_statements_texts", b"shop"))

    assert not [text for text in texts.values() if text.startswith("SELECT inner_one")]


def test_buffers_of_the_database_are_counted_by_relation(extended: Any) -> None:
    extended.need("pg_buffercache")
    with extended.connect() as connection:
        connection.execute("CREATE TABLE cached AS SELECT generate_series(1, 50000) AS i")
        connection.execute("CREATE INDEX cached_index ON cached (i)")
        connection.execute("SET enable_seqscan = off")
        connection.execute("SELECT FROM cached WHERE i = 1")  # building an index goes round the buffers
        ((pages,),) = connection.execute("SELECT pg_relation_size('cached', 'main') / 8192").fetchall()
        payload = payload_of(connection, "pg_buffercache")
        connection.execute("DROP TABLE cached")

    found = {(sample.metric, sample.object): sample.value for sample in pg_buffercache.COLLECTOR.follow()(0.0, payload)}
    # All of its pages, and a few of its other forks.
    assert pages <= found["pg_buffercache.buffers", "cached"] <= pages + 10
    assert found["pg_buffercache.dirty", "cached"] > 0
    assert found["pg_buffercache.buffers", "cached_index"] > 0
    assert found["pg_buffercache.buffers", "pg_class"] > 0
    assert "pg_database" not in {about for _, about in found}  # of all databases


def test_tables_have_sizes_and_dead_rows(extended: Any) -> None:
    with extended.connect() as connection:
        connection.execute("CREATE TABLE wares AS SELECT i, 'x' AS name FROM generate_series(1, 5000) AS i")
        connection.execute("CREATE INDEX ON wares (i)")
        connection.execute("DELETE FROM wares WHERE i <= 2000")

        def sizes() -> dict[tuple[str, str], float]:
            readings = by_column(relations.NAME, *ask(connection, relations.NAME))
            return {(metric, about): value for metric, about, value in readings}

        try:
            found = wait_until(sizes, lambda found: found.get(("relations.dead_rows", "wares")))
        finally:
            connection.execute("DROP TABLE wares")

    assert found["relations.dead_rows", "wares"] == 2000
    assert found["relations.live_rows", "wares"] == 3000
    assert found["relations.table_bytes", "wares"] > 100_000
    assert found["relations.index_bytes", "wares"] > 50_000


def test_waits_of_the_loads_sessions_are_counted_also_after_their_end(
    extended: Any, executing: Callable[..., Any]
) -> None:
    extended.need("pg_wait_sampling")
    follower = pg_wait_sampling.COLLECTOR.follow()
    latest: dict[tuple[str, str], float] = {}

    def read(sessions: bytes) -> bytes:
        """Read once; the sessions that are there, for the next reading."""
        payload = payload_of(connection, "pg_wait_sampling", sessions, b"pgtrial:own/")
        latest.update({(s.metric, s.object): s.value for s in follower(time.monotonic(), payload)})
        pid, is_there = payload["columns"].index("pid"), payload["columns"].index("is_there")
        return ("{" + ",".join({row[pid] for row in payload["rows"] if row[is_there] == "t"}) + "}").encode()

    sleep = ("pg_wait_sampling.count", "Timeout/PgSleep")
    with extended.connect() as connection:
        statement, conninfo = "SELECT pg_sleep(60)", extended.cluster.conninfo("shop")
        with (
            executing(statement, conninfo, application_name="pgtrial:own/sleepy") as load,
            executing(statement, conninfo, application_name="pgtrial:other/sleepy"),
        ):
            sessions, deadline = b"{}", time.monotonic() + 10
            while latest.get(sleep, 0) < 10:
                assert time.monotonic() < deadline, latest
                sessions = read(sessions)
            assert sessions == f"{{{load.info.backend_pid}}}".encode()
        before = latest[sleep]
        ended, deadline = sessions, time.monotonic() + 10
        while ended != b"{}":
            assert time.monotonic() < deadline
            ended = read(sessions)

    assert latest[sleep] >= before
    assert latest["pg_wait_sampling.period", ""] == 0.01
    assert {event for metric, event in latest if metric.endswith("count")} <= {
        "Timeout/PgSleep",
        "Client/ClientRead",
        "/",
    }
