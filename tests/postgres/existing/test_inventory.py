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


FUNCTION = "FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
TRIGGER = "TRIGGER tr BEFORE UPDATE ON orders FOR EACH ROW"
PARTS = """CREATE TABLE parts (d int) PARTITION BY RANGE (d);
    CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (2)"""
FOREIGN_KEY = "ADD CONSTRAINT fk FOREIGN KEY (i) REFERENCES customers"
OF_ORDERS = "Altered: table public.orders."


@pytest.mark.parametrize(
    ("made", "changed", "said"),
    [
        (
            f"CREATE TABLE customers (i int PRIMARY KEY); ALTER TABLE orders {FOREIGN_KEY} ON DELETE CASCADE NOT VALID",
            f"ALTER TABLE orders DROP CONSTRAINT fk; ALTER TABLE orders {FOREIGN_KEY} NOT VALID",
            OF_ORDERS,
        ),
        (
            "ALTER TABLE orders ADD CONSTRAINT u UNIQUE (i, t) DEFERRABLE",
            "ALTER TABLE orders DROP CONSTRAINT u; ALTER TABLE orders ADD CONSTRAINT u UNIQUE (i, t)",
            "Altered: index public.u, table public.orders.",
        ),
        (PARTS, "ALTER TABLE parts DETACH PARTITION part", "Altered: table public.part."),
        (
            PARTS,
            "DROP TABLE part; CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (3)",
            "Altered: table public.part.",
        ),
        (
            "CREATE TABLE child () INHERITS (orders)",
            "ALTER TABLE child NO INHERIT orders",
            "Altered: table public.child.",
        ),
        (
            f"CREATE {FUNCTION}; CREATE {TRIGGER} WHEN (NEW.i > 5) EXECUTE FUNCTION fires()",
            f"DROP TRIGGER tr ON orders; CREATE {TRIGGER} EXECUTE FUNCTION fires()",
            OF_ORDERS,
        ),
        (
            f"CREATE {FUNCTION}; CREATE {TRIGGER} EXECUTE FUNCTION fires(1)",
            f"DROP TRIGGER tr ON orders; CREATE {TRIGGER} EXECUTE FUNCTION fires(2)",
            OF_ORDERS,
        ),
        (
            f"CREATE TABLE customers (i int PRIMARY KEY); ALTER TABLE orders {FOREIGN_KEY} NOT VALID",
            "ALTER TABLE orders DISABLE TRIGGER ALL",
            OF_ORDERS,
        ),
        ("GRANT UPDATE (t) ON orders TO watcher", "REVOKE UPDATE (t) ON orders FROM watcher", OF_ORDERS),
        ("SELECT", 'ALTER TABLE orders ALTER t TYPE text COLLATE "POSIX"', OF_ORDERS),
        (
            "ALTER TABLE orders ALTER t SET STORAGE EXTERNAL",
            "ALTER TABLE orders ALTER t SET STORAGE EXTENDED",
            OF_ORDERS,
        ),
        ("ALTER TABLE orders ALTER t SET (n_distinct = 7)", "ALTER TABLE orders ALTER t RESET (n_distinct)", OF_ORDERS),
        (
            "ALTER TABLE orders ADD g int GENERATED ALWAYS AS (7) STORED",
            "ALTER TABLE orders ALTER g DROP EXPRESSION",
            OF_ORDERS,
        ),
        (
            "ALTER TABLE orders SET (toast.autovacuum_enabled = off)",
            "ALTER TABLE orders RESET (toast.autovacuum_enabled)",
            OF_ORDERS,
        ),
        ("CREATE PUBLICATION p FOR TABLE orders", "ALTER PUBLICATION p DROP TABLE orders", "Altered: publication p."),
        (
            "CREATE PUBLICATION p FOR TABLE orders WHERE (i > 5)",
            "ALTER PUBLICATION p SET TABLE orders",
            "Altered: publication p.",
        ),
        (
            "CREATE PUBLICATION p FOR TABLES IN SCHEMA public",
            "ALTER PUBLICATION p DROP TABLES IN SCHEMA public",
            "Altered: publication p.",
        ),
        (
            "CREATE UNIQUE INDEX x ON orders (i, t) NULLS NOT DISTINCT",
            "DROP INDEX x; CREATE UNIQUE INDEX x ON orders (i, t)",
            "Altered: index public.x.",
        ),
        (
            'CREATE INDEX x ON orders (t COLLATE "C")',
            "DROP INDEX x; CREATE INDEX x ON orders (t)",
            "Altered: index public.x.",
        ),
        (
            "CREATE INDEX x ON orders (i) INCLUDE (t)",
            "DROP INDEX x; CREATE INDEX x ON orders (i, t)",
            "Altered: index public.x.",
        ),
        (
            "CREATE FUNCTION f(a int) RETURNS int STRICT LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "Altered: function public.f(integer).",
        ),
        (
            "CREATE FUNCTION f(a int DEFAULT 1) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE OR REPLACE FUNCTION f(a int DEFAULT 2) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "Altered: function public.f(integer).",
        ),
        (
            "CREATE AGGREGATE a (int) (SFUNC = int4pl, STYPE = int, INITCOND = '0')",
            "CREATE OR REPLACE AGGREGATE a (int) (SFUNC = int4pl, STYPE = int, INITCOND = '1')",
            "Altered: function public.a(integer).",
        ),
        ("CREATE SEQUENCE s INCREMENT 10", "ALTER SEQUENCE s INCREMENT 1", "Altered: sequence public.s."),
        ("CREATE SEQUENCE s OWNED BY orders.i", "ALTER SEQUENCE s OWNED BY NONE", "Altered: sequence public.s."),
        (
            """CREATE FOREIGN DATA WRAPPER w; CREATE SERVER fs FOREIGN DATA WRAPPER w;
            CREATE FOREIGN TABLE ft (a text) SERVER fs OPTIONS (filename '/a')""",
            "ALTER FOREIGN TABLE ft OPTIONS (SET filename '/b')",
            "Altered: table public.ft.",
        ),
        (
            "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER fs FOREIGN DATA WRAPPER w OPTIONS (host 'a')",
            "ALTER SERVER fs OPTIONS (SET host 'b')",
            "Altered: foreign server fs.",
        ),
        (
            "CREATE RULE r AS ON DELETE TO orders WHERE OLD.i < 5 DO INSTEAD NOTHING",
            "DROP RULE r ON orders; CREATE RULE r AS ON DELETE TO orders DO INSTEAD NOTHING",
            OF_ORDERS,
        ),
        ("COMMENT ON SCHEMA public IS 'x'", "COMMENT ON SCHEMA public IS 'y'", "Altered: schema public."),
        (
            "ALTER TABLE orders ADD CONSTRAINT k CHECK (i > 0); COMMENT ON CONSTRAINT k ON orders IS 'x'",
            "COMMENT ON CONSTRAINT k ON orders IS NULL",
            OF_ORDERS,
        ),
        ("ALTER TABLE orders REPLICA IDENTITY FULL", "ALTER TABLE orders REPLICA IDENTITY DEFAULT", OF_ORDERS),
        ("ALTER TABLE orders ENABLE ROW LEVEL SECURITY", "ALTER TABLE orders DISABLE ROW LEVEL SECURITY", OF_ORDERS),
        (
            "CREATE POLICY p ON orders USING (i < 7)",
            "DROP POLICY p ON orders; CREATE POLICY p ON orders USING (i < 8)",
            OF_ORDERS,
        ),
        (
            "CREATE STATISTICS s ON i, t FROM orders",
            "ALTER STATISTICS s SET STATISTICS 7",
            "Altered: statistics public.s.",
        ),
        (
            "CREATE TYPE pair AS (a int, b int)",
            "ALTER TYPE pair ALTER ATTRIBUTE b TYPE text",
            "Altered: type public.pair.",
        ),
        ("CREATE DOMAIN d AS text DEFAULT 'a'", "ALTER DOMAIN d SET DEFAULT 'b'", "Altered: type public.d."),
        (
            "CREATE TEXT SEARCH CONFIGURATION c (COPY = pg_catalog.simple)",
            "ALTER TEXT SEARCH CONFIGURATION c DROP MAPPING FOR word",
            "Altered: text search configuration public.c.",
        ),
        ("SELECT", "REVOKE TEMPORARY ON DATABASE shop FROM PUBLIC", "Altered: database shop."),
    ],
)
def test_an_undo_that_makes_something_otherwise_is_no_undo(shop, runner, made, changed, said):
    shop.sql(made, database="shop")
    control = runner.run(shop.open("nobody_special")).control
    before = runner.run(read_catalogue(control, "shop"))
    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == ""
    shop.sql(changed, database="shop")

    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == said


@pytest.mark.parametrize(
    ("column", "changed", "said"),
    [
        ("t", "DROP COLUMN t, ADD COLUMN t text", ""),
        (
            "i",
            "DROP COLUMN i, ADD COLUMN i int",
            " No longer there: index public.orders_pkey. Altered: table public.orders.",
        ),
        ('"a ""b"", c"', 'DROP COLUMN "a ""b"", c", ADD COLUMN "a ""b"", c" int', ""),
    ],
)
def test_a_column_that_was_dropped_and_added_again_has_lost_its_values(shop, runner, column, changed, said):
    shop.sql('ALTER TABLE orders ADD COLUMN "a ""b"", c" int', database="shop")
    control = runner.run(shop.open()).control
    before = runner.run(read_catalogue(control, "shop"))
    shop.sql(f"ALTER TABLE orders {changed}", database="shop")

    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))).startswith(
        "Values are lost, unless something has written them back, of columns that were dropped and added again: "
        f"{column} of table public.orders.{said}"
    )


@pytest.mark.parametrize(
    ("made", "changed"),
    [
        (
            PARTS,
            "ALTER TABLE parts DETACH PARTITION part;ALTER  TABLE parts ATTACH PARTITION part FOR VALUES FROM(1) TO(2)",
        ),
        (
            "ALTER TABLE orders ADD CONSTRAINT k CHECK (i > 0)",
            "ALTER TABLE orders DROP CONSTRAINT k; ALTER TABLE   orders   ADD CONSTRAINT k CHECK ( i > 0 )",
        ),
        ("CREATE INDEX x ON orders (lower(t))", "DROP INDEX x; CREATE  INDEX  x  ON  orders ( lower(t) )"),
        (
            "CREATE VIEW v AS SELECT i FROM orders WHERE i > 5",
            "DROP VIEW v; CREATE  VIEW v AS SELECT i FROM orders WHERE i>5",
        ),
        ("ANALYZE", "GRANT SELECT ON orders TO nobody_special; REVOKE SELECT ON orders FROM nobody_special"),
        ("CREATE SEQUENCE q", "GRANT USAGE ON SEQUENCE q TO PUBLIC; REVOKE USAGE ON SEQUENCE q FROM PUBLIC"),
        (
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1",
            "GRANT EXECUTE ON FUNCTION f TO nobody_special; REVOKE EXECUTE ON FUNCTION f FROM nobody_special",
        ),
    ],
)
def test_how_a_statement_was_written_is_no_difference(shop, runner, made, changed):
    shop.sql(made, database="shop")
    control = runner.run(shop.open()).control
    before = runner.run(read_catalogue(control, "shop"))
    shop.sql(changed, database="shop")

    assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == ""


def test_a_catalogue_is_read_while_somebody_holds_a_lock(shop, runner):
    shop.sql("CREATE INDEX x ON orders (lower(t)) WHERE i > 0; CREATE VIEW v AS SELECT i FROM orders", database="shop")
    control = runner.run(shop.open("nobody_special")).control
    before = runner.run(read_catalogue(control, "shop"))

    with shop.connect(database="shop") as holder, holder.transaction():
        holder.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        assert compare_catalogues(before, runner.run(read_catalogue(control, "shop"))) == ""


def test_reading_a_catalogue_calls_nobodys_functions(shop, runner):
    """A column's value for older rows is of its type, from which somebody may have made a cast to json."""
    shop.sql(
        "CREATE TYPE mood AS ENUM ('a'); "
        "CREATE FUNCTION told(mood) RETURNS json LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$; "
        "CREATE CAST (mood AS json) WITH FUNCTION told(mood); ALTER TABLE orders ADD c mood DEFAULT 'a'",
        database="shop",
    )
    control = runner.run(shop.open()).control

    assert "table public.orders" in runner.run(read_catalogue(control, "shop"))


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
