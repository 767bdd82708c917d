"""Vacuum and analyze at work: from captured rows, and on a server of every version there is."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from pgtrial.collectors.base import QueryCollector
from pgtrial.collectors.progress import COLLECTORS as BOTH
from pgtrial.postgres.throwaway import ThrowawayCluster
from support import wait_until
from support.libpq import ask

COLUMNS = ["database", "relid", "phase", "query"]


def parse(collector: QueryCollector, *rows: Sequence[str | None]) -> dict[str, float]:
    (metric,) = collector.metrics
    readings = list(collector.parse(COLUMNS, rows))
    assert {reading.metric for reading in readings} == {metric.name}
    return {reading.object: reading.value for reading in readings}


@pytest.mark.parametrize("collector", BOTH)
def test_no_worker_is_a_reading_of_zero(collector: QueryCollector) -> None:
    assert parse(collector) == {"": 0}


def test_workers_are_counted_by_relation_and_phase() -> None:
    rows = [
        [None, "16400", "scanning heap", "autovacuum: VACUUM public.t"],
        ["other", "16400", "vacuuming indexes", None],
        [None, "16401", "vacuuming indexes", None],
        [None, "16401", "vacuuming indexes", None],
        [None, None, None, None],  # of another role, whose work may not be seen
    ]

    assert parse(BOTH[0], *rows) == {
        "public.t/scanning heap": 1,
        "other.16400/vacuuming indexes": 1,
        "16401/vacuuming indexes": 2,
        "/": 1,
    }


@pytest.mark.parametrize(
    ("words", "relation"),
    [
        ("autovacuum: VACUUM public.t", "public.t"),
        ("autovacuum: VACUUM ANALYZE public.two words", "public.two words"),
        ("autovacuum: VACUUM public.t (to prevent wraparound)", "public.t"),
        ("autovacuum: VACUUM ANALYZE public.t (to prevent wraparound)", "public.t"),
        ("autovacuum: ANALYZE public.ANALYZE", "public.ANALYZE"),
        ("autovacuum: BRIN summarize public.t 7", "16400"),
    ],
)
def test_relation_is_named_as_autovacuum_does(words: str, relation: str) -> None:
    assert parse(BOTH[1], [None, "16400", "initializing", words]) == {f"{relation}/initializing": 1}


@pytest.fixture
def connection(connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
    connection.execute("CREATE TABLE slow AS SELECT generate_series(1, 30000) AS i")
    yield connection
    connection.execute("DROP TABLE slow")


def read(connection: psycopg.Connection, collector: QueryCollector, database: bytes) -> dict[str, float]:
    columns, rows = ask(connection, collector.name, database)
    assert columns == COLUMNS
    return parse(collector, *rows)


@pytest.mark.pg
@pytest.mark.parametrize("collector", BOTH)
def test_worker_is_seen_with_its_relation_and_phase(
    server: ThrowawayCluster,
    connection: psycopg.Connection,
    executing: Callable[..., Any],
    collector: QueryCollector,
) -> None:
    ((relation,),) = connection.execute("SELECT 'slow'::regclass::oid").fetchall()
    command = "VACUUM slow" if collector is BOTH[0] else "ANALYZE slow"
    slowly = "-c vacuum_cost_delay=100 -c vacuum_cost_limit=1"
    with executing(command, server.conninfo(), options=slowly):
        found = wait_until(lambda: read(connection, collector, b"postgres"), lambda found: "" not in found)
        elsewhere = read(connection, collector, b"shop")

    ((about, count),) = found.items()
    assert (about.partition("/")[0], count) == (str(relation), 1)
    assert about.partition("/")[2]
    assert [name.partition("/")[0] for name in elsewhere] == [f"postgres.{relation}"]
