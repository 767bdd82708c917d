import threading
from collections.abc import Iterator

import psycopg
import pytest

from pgtrial.errors import TargetError
from pgtrial.model.change import Outcome
from pgtrial.postgres.existing.address import find_again
from pgtrial.postgres.existing.arm_sql import apply_sql, plan_sql, undo_sql
from pgtrial.postgres.existing.server import control_again
from support import wait_until

# One version: what it sends is the user's SQL.
pytestmark = pytest.mark.parametrize("each_programs", ["any"], indirect=True, scope="session")


def wanted(apply: str = "", undo: str = "", extensions: str = "") -> dict[str, str]:
    names = {"apply_name": "arms.b.sql.apply", "undo_name": "arms.b.sql.undo", "extensions_name": "arms.b.extensions"}
    return {"arm": "b", "apply": apply, "undo": undo, "extensions": extensions, **names}


@pytest.fixture
def shop(foreign) -> Iterator[object]:
    foreign.sql("CREATE DATABASE shop")
    foreign.sql("CREATE TABLE orders AS SELECT i AS id FROM generate_series(1, 100) AS i", database="shop")
    return foreign


def indexes(shop) -> set[str]:
    return {
        name for (name,) in shop.sql("SELECT indexname FROM pg_indexes WHERE schemaname = 'public'", database="shop")
    }


def test_sql_is_undone_from_the_journal_alone(shop, runner):
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX a ON orders (id); CREATE INDEX b ON orders (id)", "DROP INDEX a; DROP INDEX b")
    change = runner.run(plan_sql(server, "shop", table))
    got = runner.run(apply_sql(server, change))
    assert indexes(shop) == {"a", "b"}

    entry = shop.entry(change, got)
    again = control_again(server.host, find_again(change.new["server"], {"PGPASSWORD": shop.password}), "")
    undone = runner.run(undo_sql(again, entry))

    assert undone.outcome is Outcome.RESTORED
    assert indexes(shop) == set()
    assert shop.password not in str(change)
    assert runner.run(undo_sql(again, entry)).outcome is Outcome.RESTORED  # as after a kill in the middle of undoing


def test_what_was_applied_in_part_is_undone_as_far_as_it_came(shop, runner):
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX a ON orders (id); CREATE INDEX b ON nowhere (id)", "DROP INDEX b; DROP INDEX a")
    change = runner.run(plan_sql(server, "shop", table))
    with pytest.raises(TargetError, match=r'arms\.b\.sql\.apply, line 1: relation "nowhere" does not exist'):
        runner.run(apply_sql(server, change))

    assert runner.run(undo_sql(server.control, shop.entry(change))).outcome is Outcome.RESTORED
    assert indexes(shop) == set()


def test_a_statement_that_a_killed_pgtrial_left_at_work_is_ended_first(shop, runner):
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("SELECT pg_sleep(600)", "SELECT 1")))
    left = threading.Thread(target=_run_left, args=(shop, change.new["application"]))
    left.start()
    running = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{change.new['application']}'"
    wait_until(lambda: shop.sql(running) == [(1,)])

    undone = runner.run(undo_sql(server.control, shop.entry(change)))
    left.join(timeout=30)

    assert undone.outcome is Outcome.RESTORED
    assert not left.is_alive()


def _run_left(shop, application: str) -> None:
    with (
        psycopg.connect(shop.conninfo(database="shop"), application_name=application) as connection,
        pytest.raises(psycopg.Error, match="terminating connection"),
    ):
        connection.execute("SELECT pg_sleep(600)")


def test_an_undo_that_leaves_something_says_what(shop, runner):
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX a ON orders (id); CREATE INDEX b ON orders (id)", "DROP INDEX a")
    change = runner.run(plan_sql(server, "shop", table))
    got = runner.run(apply_sql(server, change))

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.CHANGED
    assert undone.text == 'Undone, but the database "shop" is not as before. Left over: index public.b.'


def test_an_undo_that_fails_is_open_and_says_what_to_do(shop, runner):
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("CREATE INDEX a ON orders (id)", "SELECT 1 / 0; DROP INDEX a")))
    got = runner.run(apply_sql(server, change))

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.FAILED
    assert undone.text == "arms.b.sql.undo: division by zero. By hand: SELECT 1 / 0; DROP INDEX a;"


def test_an_extension_that_was_there_stays(shop, runner):
    shop.sql("CREATE EXTENSION pg_prewarm", database="shop")
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(extensions="pg_prewarm, pgstattuple")))
    got = runner.run(apply_sql(server, change))
    there = "SELECT count(*) FROM pg_extension WHERE extname IN ('pg_prewarm', 'pgstattuple')"
    assert shop.sql(there, database="shop") == [(2,)]

    assert runner.run(undo_sql(server.control, shop.entry(change, got))).outcome is Outcome.RESTORED
    assert shop.sql("SELECT extname FROM pg_extension WHERE extname LIKE 'pg%'", database="shop") == [("pg_prewarm",)]
