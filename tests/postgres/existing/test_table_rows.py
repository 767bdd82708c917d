import json
import re
from collections.abc import Iterator

import pytest

from pgtrial.model.change import Outcome
from pgtrial.postgres.existing import table_rows
from pgtrial.postgres.existing.arm_sql import apply_sql, plan_sql, undo_sql
from pgtrial.postgres.existing.table_rows import find_lost_rows, note_rows

# One version: what it sends is in all of them.
pytestmark = pytest.mark.parametrize("each_programs", ["any"], indirect=True, scope="session")

# An immutable function may call what counts how often it was called.
_EVIL = """
    CREATE SEQUENCE called;
    CREATE FUNCTION evil(int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql
        AS $$ BEGIN RETURN pg_catalog.nextval('public.called'); END $$;
    CREATE INDEX evil ON orders ((evil(1)))
"""


@pytest.fixture
def shop(foreign) -> Iterator[object]:
    foreign.sql("CREATE DATABASE shop")
    foreign.sql("CREATE TABLE orders AS SELECT i AS id FROM generate_series(1, 100) AS i", database="shop")
    return foreign


def calls(shop) -> int:
    ((found,),) = shop.sql("SELECT last_value FROM called", database="shop")
    return found


def test_a_function_of_an_index_is_not_called_for_the_rows_of_its_table(shop, runner) -> None:
    shop.sql(_EVIL, database="shop")
    server = runner.run(shop.open())

    before = calls(shop)
    noted = runner.run(note_rows(server.control, "shop", "TRUNCATE orders"))
    assert calls(shop) == before
    shop.sql("TRUNCATE orders", database="shop")

    before = calls(shop)
    lost = runner.run(find_lost_rows(server.control, "shop", noted, {}, {}))
    assert calls(shop) == before
    assert "table public.orders (100 rows before, 0 now; " in lost


def test_a_function_of_an_index_is_not_called_for_a_large_table(shop, runner, monkeypatch) -> None:
    monkeypatch.setattr(table_rows, "_MOST", -1)
    shop.sql(_EVIL, database="shop")
    server = runner.run(shop.open())
    noted = runner.run(note_rows(server.control, "shop", "TRUNCATE orders"))
    shop.sql("TRUNCATE orders", database="shop")

    before = calls(shop)
    lost = runner.run(find_lost_rows(server.control, "shop", noted, {}, {}))

    assert calls(shop) == before
    assert "table public.orders (" in lost
    assert ", 0 now; " in lost


def test_a_view_that_takes_the_name_of_a_table_meanwhile_is_not_read(shop, runner, monkeypatch) -> None:
    shop.sql("CREATE SEQUENCE called", database="shop")
    fetch = table_rows._fetch

    async def swap(connection, query, *parameters):
        if query == table_rows._SIZE:
            shop.sql("ALTER TABLE orders RENAME TO moved", database="shop")
            shop.sql("CREATE VIEW orders AS SELECT nextval('called') AS id", database="shop")
        return await fetch(connection, query, *parameters)

    monkeypatch.setattr(table_rows, "_fetch", swap)
    server = runner.run(shop.open())

    runner.run(note_rows(server.control, "shop", "TRUNCATE orders"))

    assert shop.sql("SELECT is_called FROM called", database="shop") == [(False,)]


def test_rows_that_a_policy_would_hide_are_not_counted_by_half(shop, runner) -> None:
    shop.sql("ALTER TABLE orders OWNER TO maker", database="shop")
    shop.sql(
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY; ALTER TABLE orders FORCE ROW LEVEL SECURITY", database="shop"
    )
    server = runner.run(shop.open("maker"))

    noted = runner.run(note_rows(server.control, "shop", "TRUNCATE orders"))

    (_, _, _, is_counted) = json.loads(noted)["table public.orders"]
    assert not is_counted


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("DROP TABLE orders; SELECT 1 AS data", {"orders"}),
        ('DROP TABLE IF EXISTS "table"', {'"table"'}),
        ("TRUNCATE TABLE drop", {"drop"}),
        ("TRUNCATE orders, public.data", {"orders", "data"}),
        ("DROP SCHEMA s; TRUNCATE data", {"data"}),
    ],
)
def test_a_word_of_sql_is_not_taken_for_a_table(shop, runner, script: str, expected: set[str]) -> None:
    for name in ('"table"', '"drop"', "data"):
        shop.sql(f"CREATE TABLE {name} (id int)", database="shop")
    server = runner.run(shop.open())

    noted = runner.run(note_rows(server.control, "shop", script))

    assert set(json.loads(noted)) == {f"table public.{name}" for name in expected}


@pytest.mark.parametrize(
    ("made", "script"),
    [
        (
            (
                "ALTER TABLE orders ADD PRIMARY KEY (id); CREATE TABLE goods (id int REFERENCES orders); "
                "CREATE TABLE bills (id int REFERENCES orders); INSERT INTO goods VALUES (1), (2), (3)"
            ),
            "TRUNCATE orders CASCADE",
        ),
        ("CREATE TABLE goods () INHERITS (orders); INSERT INTO goods VALUES (101)", "TRUNCATE orders"),
    ],
    ids=["that refer to it", "that inherit from it"],
)
def test_tables_that_are_emptied_with_another_and_stay_so_are_told(shop, runner, made: str, script: str) -> None:
    shop.sql(made, database="shop")
    server = runner.run(shop.open())
    wanted = {
        "arm": "b",
        "apply": script,
        "undo": "INSERT INTO orders SELECT generate_series(1, 100)",
        "extensions": "",
        "apply_name": "apply",
        "undo_name": "undo",
        "extensions_name": "extensions",
    }
    change = runner.run(plan_sql(server, "shop", wanted))
    got = runner.run(apply_sql(server, change))

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.CHANGED, undone.text
    assert re.search(r"table public\.goods \([^(]*, 0 now; file ", undone.text), undone.text
    assert "public.orders" not in undone.text
    assert "public.bills" not in undone.text
