"""Waiting sessions and their chains: from captured rows, and on a server of every version there is."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from pgtrial.collectors import pg_locks
from pgtrial.collectors.base import find_statement
from pgtrial.collectors.pg_locks import longest_chain
from pgtrial.postgres.throwaway import ThrowawayCluster
from support import wait_until
from support.libpq import ask

COLUMNS = ["pid", "object", "blockers"]


def parse(*rows: Sequence[str | None]) -> dict[tuple[str, str], float]:
    return {(r.metric, r.object): r.value for r in pg_locks.COLLECTOR.parse(COLUMNS, rows)}


def test_nobody_waits_is_a_reading_of_zero() -> None:
    assert parse() == {("pg_locks.waiting", ""): 0, ("pg_locks.chain", ""): 0}


def test_sessions_are_counted_by_what_they_wait_for() -> None:
    assert parse(
        ["11", "transactionid/ShareLock", "{10}"],
        ["12", "tuple/ExclusiveLock", "{11}"],
        ["13", "tuple/ExclusiveLock", "{11,12}"],
        ["14", "tuple/ExclusiveLock", None],  # beyond those whose blockers are asked for
        ["15", "relation/AccessShareLock", "{}"],  # has got its lock meanwhile
    ) == {
        ("pg_locks.waiting", "transactionid/ShareLock"): 1,
        ("pg_locks.waiting", "tuple/ExclusiveLock"): 3,
        ("pg_locks.waiting", "relation/AccessShareLock"): 1,
        ("pg_locks.chain", ""): 4,  # 13, 12, 11, 10
    }


@pytest.mark.parametrize(
    ("blockers", "length"),
    [
        ({}, 0),
        ({"2": ["1"]}, 2),
        ({"2": ["1"], "3": ["1"], "4": ["1"]}, 2),
        ({"2": ["1"], "3": ["2"], "4": ["3"]}, 4),
        ({"2": ["0"]}, 2),  # of a prepared transaction
        ({"1": ["2"], "2": ["1"]}, 2),  # a deadlock that is not found yet
    ],
)
def test_chain_ends_with_whom_nobody_keeps_waiting(blockers: dict[str, list[str]], length: int) -> None:
    assert longest_chain(blockers) == length


def test_queue_of_fifty_is_followed_in_no_time() -> None:
    everybody = [str(number) for number in range(51)]

    assert longest_chain({pid: everybody[:number] for number, pid in enumerate(everybody) if number}) == 51


def read(connection: psycopg.Connection) -> dict[tuple[str, str], float]:
    columns, rows = ask(connection, pg_locks.NAME)
    assert columns == COLUMNS
    return parse(*rows)


@pytest.mark.pg
def test_row_that_several_want_is_a_chain(
    server: ThrowawayCluster, connection: psycopg.Connection, executing: Callable[..., Any]
) -> None:
    connection.execute("CREATE TABLE wanted AS SELECT 1 AS i")
    try:
        with ExitStack() as stack:
            first = stack.enter_context(psycopg.connect(server.conninfo()))
            first.execute("UPDATE wanted SET i = 2")
            for _ in range(2):
                stack.enter_context(executing("UPDATE wanted SET i = 3", server.conninfo()))
            found = wait_until(lambda: read(connection), lambda found: found["pg_locks.chain", ""] >= 3)
            assert sum(value for (metric, _), value in found.items() if metric == "pg_locks.waiting") == 2
            assert found["pg_locks.waiting", "transactionid/ShareLock"] == 1
        wait_until(lambda: read(connection), lambda found: found == parse())
    finally:
        connection.execute("DROP TABLE wanted")


@pytest.mark.pg
def test_lock_table_is_not_read_while_nobody_waits(connection: psycopg.Connection) -> None:
    statement = find_statement("pg_locks", connection.info.server_version)
    plan = connection.pgconn.exec_(f"EXPLAIN (ANALYZE, COSTS off, TIMING off) {statement}".encode())
    text = "\n".join((plan.get_value(row, 0) or b"").decode() for row in range(plan.ntuples))

    assert "pg_lock_status" in text
    (scan,) = [line for line in text.splitlines() if "pg_lock_status" in line]
    assert "never executed" in scan
