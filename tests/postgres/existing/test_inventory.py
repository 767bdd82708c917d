import contextlib

import pytest

from pgtrial.engine.target.existing import since_first_begun
from pgtrial.postgres.existing.inventory import (
    compare_catalogues,
    compare_data,
    read_catalogue,
    read_inventory,
)
from pgtrial.store.state import State
from support import wait_until


@pytest.fixture
def shop(foreign):
    foreign.sql("CREATE DATABASE shop")
    foreign.sql("CREATE TABLE orders (i int PRIMARY KEY, t text)", database="shop")
    foreign.sql("INSERT INTO orders SELECT i, 'x' FROM generate_series(1, 100) AS i", database="shop")
    return foreign


def test_what_is_left_or_missing_is_named_with_its_schema(shop, runner):
    control = runner.run(shop.open()).control
    before = runner.run(read_catalogue(control, "shop"))
    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == ""

    shop.sql("CREATE TABLE lines (i int PRIMARY KEY)", database="shop")
    shop.sql("CREATE FUNCTION f(int) RETURNS int LANGUAGE sql RETURN 1", database="shop")
    shop.sql("CREATE SCHEMA s", database="shop")
    after = runner.run(read_catalogue(control, "shop"))

    assert compare_catalogues(before, after) == (
        "Left over: function public.f(integer), index public.lines_pkey, schema s, table public.lines."
    )
    assert compare_catalogues(after, before).startswith("No longer there: function public.f(integer), ")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE orders ADD COLUMN n int",
        "ALTER TABLE orders ALTER COLUMN t SET STATISTICS 7",
        "ALTER TABLE orders SET (fillfactor = 50)",
        "ALTER TABLE orders ADD CONSTRAINT c CHECK (i > 0)",
        "ALTER TABLE orders OWNER TO watcher",
        "GRANT SELECT ON orders TO PUBLIC",
        "CREATE POLICY few ON orders USING (i < 7)",
        "COMMENT ON COLUMN orders.t IS 'a text'",
    ],
)
def test_a_table_that_was_altered_is_named(shop, runner, statement):
    control = runner.run(shop.open()).control
    before = runner.run(read_catalogue(control, "shop"))
    shop.sql(statement, database="shop")

    said = compare_catalogues(before, runner.run(read_catalogue(control, "shop")))
    assert said.startswith("Altered: ")
    assert said.endswith("table public.orders.")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TYPE mood AS ENUM ('good')", "Left over: type public.mood."),
        ("ALTER TYPE size ADD VALUE 'huge'", "Altered: type public.size."),
        ("ALTER DOMAIN positive DROP CONSTRAINT p", "Altered: type public.positive."),
        (
            "CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_catalog.int4eq)",
            "Left over: operator public.===(integer,integer).",
        ),
        ("CREATE CAST (size AS int) WITH INOUT", "Left over: cast from public.size to integer."),
        ('CREATE COLLATION c FROM "C"', "Left over: collation public.c."),
        (
            "CREATE TEXT SEARCH CONFIGURATION s (COPY = pg_catalog.simple)",
            "Left over: text search configuration public.s.",
        ),
        ("CREATE PUBLICATION p FOR TABLE orders", "Left over: publication p."),
        (
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO watcher",
            "Left over: default privileges of boss in schema public for r.",
        ),
    ],
)
def test_what_is_no_table_is_compared_too(shop, runner, statement, said):
    shop.sql("CREATE TYPE size AS ENUM ('small')", database="shop")
    shop.sql("CREATE DOMAIN positive AS int CONSTRAINT p CHECK (VALUE > 0)", database="shop")
    control = runner.run(shop.open()).control
    before = runner.run(read_catalogue(control, "shop"))
    shop.sql(statement, database="shop")

    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == said


@pytest.mark.parametrize(
    ("made", "kind", "name"),
    [
        ("CREATE VIEW few AS SELECT i FROM orders", "VIEW", "few"),
        ("CREATE MATERIALIZED VIEW few AS SELECT i FROM orders", "MATERIALIZED VIEW", "few"),
        ("CREATE TABLE other (i int PRIMARY KEY, t text DEFAULT 'x')", "TABLE", "other"),
        ("CREATE STATISTICS s ON i, t FROM orders", "STATISTICS", "s"),
        ("CREATE TYPE mood AS ENUM ('good', 'bad')", "TYPE", "mood"),
    ],
)
def test_what_is_dropped_and_made_again_is_no_difference(shop, runner, made, kind, name):
    shop.sql(made, database="shop")
    control = runner.run(shop.open()).control
    before = runner.run(read_catalogue(control, "shop"))
    shop.sql(f"DROP {kind} {name}", database="shop")
    without = runner.run(read_catalogue(control, "shop"))
    shop.sql(made, database="shop")

    assert compare_catalogues(before, without).startswith("No longer there: ")
    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == ""


def test_an_object_that_was_made_again_as_it_was_is_no_difference(shop, runner):
    control = runner.run(shop.open()).control
    shop.sql("CREATE INDEX by_t ON orders (t)", database="shop")
    before = runner.run(read_catalogue(control, "shop"))

    shop.sql("DROP INDEX by_t", database="shop")
    shop.sql("CREATE INDEX by_t ON orders (t)", database="shop")
    shop.sql("ALTER TABLE orders ADD COLUMN n int", database="shop")
    shop.sql("ALTER TABLE orders DROP COLUMN n", database="shop")

    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == ""


def test_what_was_written_is_counted_by_table_whoever_looks(shop, runner):
    control = runner.run(shop.open("nobody_special")).control
    before = runner.run(read_inventory(control, "shop"))
    assert compare_data(before, runner.run(read_inventory(control, "shop", catalogue=False))) == ""

    shop.sql("INSERT INTO orders SELECT i, 'x' FROM generate_series(101, 1500) AS i", database="shop")
    shop.sql("UPDATE orders SET t = 'y' WHERE i <= 3", database="shop")
    # A session's counts are there when it has ended, a moment after its client has.
    wait_until(lambda: "updated" in compare_data(before, runner.run(read_inventory(control, "shop", catalogue=False))))
    after = runner.run(read_inventory(control, "shop", catalogue=False))

    said = compare_data(before, after)
    assert said.startswith("Rows of tables: public.orders (1,400 inserted, 3 updated). The database is ")
    shop.sql("TRUNCATE orders", database="shop")
    emptied = runner.run(read_inventory(control, "shop", catalogue=False))
    assert "public.orders (rewritten or emptied as a whole)" in compare_data(after, emptied)


def test_what_was_written_before_a_kill_is_counted_after_the_resume(shop, runner, tmp_path):
    control = runner.run(shop.open("nobody_special")).control
    with contextlib.closing(State.create(tmp_path)) as state:
        since_first_begun(state, runner.run(read_inventory(control, "shop")))
    shop.sql("INSERT INTO orders SELECT i, 'x' FROM generate_series(101, 150) AS i", database="shop")
    shop.sql("CREATE TABLE of_others (i int)", database="shop")

    with contextlib.closing(State.open(tmp_path, write=True)) as state:
        resumed = since_first_begun(state, runner.run(read_inventory(control, "shop")))

    def now():
        return runner.run(read_inventory(control, "shop"))

    said = wait_until(lambda: compare_data(resumed, now()), lambda said: "inserted" in said)
    assert said.startswith("Rows of tables: public.orders (50 inserted).")
    assert compare_catalogues(resumed.catalogue, now().catalogue) == ""


def test_sessions_of_others_are_counted(shop, runner):
    control = runner.run(shop.open("nobody_special")).control

    assert runner.run(read_inventory(control, "shop")).others == 0
    with shop.connect(database="shop"):
        assert runner.run(read_inventory(control, "shop")).others == 1


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT lo_create(0) FROM generate_series(1, 3)", "pg_largeobject_metadata (3 inserted)"),
        ("SELECT lo_from_bytea(0, 'x')", "pg_largeobject (1 inserted); pg_largeobject_metadata (1 inserted)"),
        ("VACUUM orders", "public.orders (vacuumed)"),
        ("ANALYZE orders", "public.orders (analyzed)"),
        ("REINDEX TABLE orders", "Built anew: index public.orders_pkey."),
        ("CLUSTER orders USING orders_pkey", "public.orders (rewritten or emptied as a whole)"),
    ],
)
def test_what_a_read_only_transaction_may_do_is_seen_too(shop, runner, statement, said):
    control = runner.run(shop.open("nobody_special")).control
    before = runner.run(read_inventory(control, "shop"))

    shop.sql(statement, database="shop")

    wait_until(lambda: said in compare_data(before, runner.run(read_inventory(control, "shop", catalogue=False))))
