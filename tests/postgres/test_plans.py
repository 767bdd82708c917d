"""Shapes of plans, of real servers and of what EXPLAIN says."""

import asyncio

import psycopg

from pgtrial.postgres.plans import describe_shape, read_shapes
from pgtrial.postgres.throwaway import ThrowawayCluster


def test_shapes_of_plans_name_steps_indexes_and_tables_and_nothing_is_executed(
    served: ThrowawayCluster, runner: asyncio.Runner
) -> None:
    with psycopg.connect(served.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE planned (a int PRIMARY KEY, b int)")
        connection.execute("INSERT INTO planned SELECT i, i FROM generate_series(1, 5000) i")
        connection.execute("ANALYZE planned")
    statements = [
        ("UPDATE planned SET b = $2 WHERE a = $1", 2),
        ("SELECT count(*) FROM planned WHERE b < 10", 0),
        ("SELECT nothing FROM planned", 0),
        ("DELETE FROM planned", 0),
    ]

    shapes = runner.run(read_shapes(served.conninfo(), statements))

    assert shapes[0] == "Update on planned\n  Index Scan using planned_pkey on planned"
    assert shapes[1] == "Aggregate\n  Seq Scan on planned"
    assert shapes[2:] == [None, "Delete on planned\n  Seq Scan on planned"]
    with psycopg.connect(served.conninfo()) as connection:
        assert connection.execute("SELECT count(*) FROM planned WHERE a = b").fetchone() == (5000,)


def test_strategies_and_parallel_steps_are_part_of_the_shape() -> None:
    plan = {
        "Node Type": "Aggregate",
        "Strategy": "Hashed",
        "Partial Mode": "Finalize",
        "Plans": [{"Node Type": "Seq Scan", "Parallel Aware": True, "Relation Name": "t"}],
    }

    assert describe_shape(plan) == "Hashed Finalize Aggregate\n  Parallel Seq Scan on t"
