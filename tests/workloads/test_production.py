"""A load like that of a server: what its texts may be, which statements belong together, and one from end to end."""

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from pgtrial.cli.main import main
from pgtrial.postgres.connect import READ_ONLY, execute
from pgtrial.postgres.production import Column, Load, Statement, Table, read_load
from pgtrial.postgres.production_effects import Effects
from pgtrial.units import format_duration
from pgtrial.workloads.production.draws import DRAWS, told_exponent
from pgtrial.workloads.production.keys import is_fresh
from pgtrial.workloads.production.parameters import read_shape
from pgtrial.workloads.production.record import told_text
from pgtrial.workloads.production.scripts import derive_scripts, write_files
from pgtrial.workloads.production.texts import Refusal, Text, examine
from pgtrial.workloads.production.transactions import tell
from pgtrial.workloads.production.uses import Role, key_of
from support import wait_until
from support.loading import empty_database

INT = "integer"
CUSTOMER = ("public", "customer")
ORDERS = ("public", "orders")
TABLES = {
    CUSTOMER: Table(
        rows=100,
        pages=1,
        columns={"id": Column(type=INT, is_unique=True), "name": Column(type="text")},
        unique=(("id",),),
    ),
    ORDERS: Table(
        rows=1000,
        pages=10,
        columns={
            "id": Column(type=INT, is_unique=True, distinct=1000),
            "customer": Column(type=INT, distinct=50, common=(0.5,), references=(CUSTOMER, "id")),
        },
        unique=(("id",),),
    ),
}


def statement(text: str, parameters: int = 0, *, calls: int = 10, rows: int = 10, time: float = 1.0, refused: str = ""):
    return Statement(
        text=text, calls=calls, rows=rows, hit=30, read=0, time=time, types=(INT,) * parameters, refused=refused
    )


def load_of(*statements: Statement) -> Load:
    return Load(
        statements=statements, tables=TABLES, path=("public",), effects=Effects(functions=frozenset({"wipe"})), hidden=0
    )


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        (
            "SELECT * FROM orders o JOIN customer c ON c.id = o.customer WHERE o.id = $1 AND c.name LIKE $2 LIMIT $3",
            [(Role.EQUAL, ORDERS, "id"), (Role.LIKE, CUSTOMER, "name"), (Role.LIMIT, None, "")],
        ),
        ("SELECT 1 FROM orders WHERE $1 <= id AND id < $2", [(Role.LOW, ORDERS, "id"), (Role.HIGH, ORDERS, "id")]),
        ("INSERT INTO orders VALUES ($1,$2)", [(Role.NEW, ORDERS, "id"), (Role.NEW, ORDERS, "customer")]),
        (
            'UPDATE "orders" SET customer=$1 WHERE id IN ($2)',
            [(Role.SET, ORDERS, "customer"), (Role.EQUAL, ORDERS, "id")],
        ),
        ("SELECT 1 FROM orders WHERE id = ANY($1::int[])", [(Role.ANY, ORDERS, "id")]),
        ("SELECT 1 FROM elsewhere WHERE id = $1", [(Role.OTHER, None, "")]),
        ("SELECT 1 FROM (SELECT * FROM orders) AS o WHERE o.customer = $1", [(Role.EQUAL, ORDERS, "customer")]),
        ("SELECT 1 FROM (SELECT id AS who FROM orders) o WHERE who = $1", [(Role.EQUAL, ORDERS, "id")]),
        ("SELECT 1 FROM (SELECT o.* FROM customer c, orders o) t (a, b) WHERE t.b = $1", [(Role.OTHER, None, "")]),
        ("SELECT 1 FROM (SELECT count(*) AS id FROM orders) AS o WHERE o.id = $1", [(Role.OTHER, None, "")]),
        ("SELECT 1 FROM (SELECT o.id AS id FROM elsewhere AS o) AS o WHERE o.id = $1", [(Role.OTHER, None, "")]),
        (
            "WITH o AS (SELECT * FROM orders), c (who) AS (SELECT customer FROM o) SELECT 1 FROM c WHERE who = $1",
            [(Role.EQUAL, ORDERS, "customer")],
        ),
        (
            "WITH orders AS (SELECT id FROM customer) SELECT 1 FROM orders WHERE id = $1",
            [(Role.EQUAL, CUSTOMER, "id")],
        ),
        (
            "SELECT 1 FROM customer c CROSS JOIN LATERAL (SELECT * FROM orders LIMIT $1) x WHERE x.customer > $2",
            [(Role.LIMIT, None, ""), (Role.LOW, ORDERS, "customer")],
        ),
        ("SELECT 1 FROM orders WHERE id = ANY(ARRAY[$1,$2::int])", [(Role.EQUAL, ORDERS, "id")] * 2),
        (
            "SELECT 1 FROM orders WHERE (id, customer) = ($1,$2)",
            [(Role.EQUAL, ORDERS, "id"), (Role.EQUAL, ORDERS, "customer")],
        ),
        (
            "SELECT 1 FROM orders WHERE (customer, id) IN (($1,$2), ($3,$4))",
            [(Role.EQUAL, ORDERS, "customer"), (Role.EQUAL, ORDERS, "id")] * 2,
        ),
        (
            "SELECT 1 FROM orders WHERE (customer, id) > ($1,$2) ORDER BY customer, id LIMIT $3",
            [(Role.BESIDE, ORDERS, "customer"), (Role.BESIDE, ORDERS, "id"), (Role.LIMIT, None, "")],
        ),
        (
            "SELECT 1 FROM orders WHERE (customer, id) < ($1,$2)",
            [(Role.HIGH, ORDERS, "customer"), (Role.BESIDE, ORDERS, "id")],
        ),
        (
            "UPDATE orders SET (customer, id) = ($1, 5) WHERE id = $2",
            [(Role.SET, ORDERS, "customer"), (Role.EQUAL, ORDERS, "id")],
        ),
        ("SELECT 1 FROM orders JOIN unnest($1::int[]) AS w (id) ON w.id = orders.id", [(Role.ANY, ORDERS, "id")]),
        ("SELECT 1 FROM orders WHERE customer IN (SELECT unnest($1::int[]))", [(Role.ANY, ORDERS, "customer")]),
        ("SELECT unnest($1::int[]) FROM orders", [(Role.OTHER, None, "")]),
        ("INSERT INTO orders (customer) SELECT * FROM unnest($1::int[])", [(Role.ANY, ORDERS, "customer")]),
        (  # each row would need a key of its own
            "INSERT INTO orders (customer, id) SELECT * FROM unnest($1::int[], $2::int[])",
            [(Role.OTHER, None, "")] * 2,
        ),
        (
            "INSERT INTO orders (id, customer) SELECT v.a, v.b FROM (VALUES ($1,$2)) v (b, a)",
            [(Role.NEW, ORDERS, "customer"), (Role.NEW, ORDERS, "id")],
        ),
        ("SELECT $1::int AS asked, id FROM orders WHERE id = $1", [(Role.EQUAL, ORDERS, "id")]),
        ("SELECT 1 FROM orders WHERE ($1::int IS NULL OR customer = $1::int)", [(Role.EQUAL, ORDERS, "customer")]),
        (
            "UPDATE orders o SET customer = v.c FROM (VALUES ($1::int,$2::int),($3,$4)) v (id, c) WHERE v.id = o.id",
            [(Role.EQUAL, ORDERS, "id"), (Role.SET, ORDERS, "customer")] * 2,
        ),
        (  # two rows with one new key
            "UPDATE orders o SET id = v.c FROM (VALUES ($1::int,$2::int)) v (c, id) WHERE v.id = o.id",
            [(Role.OTHER, None, ""), (Role.EQUAL, ORDERS, "id")],
        ),
        (
            """MERGE INTO orders o USING (VALUES ($1::int,$2::int)) v (id, c) ON o.id = v.id
            WHEN MATCHED THEN UPDATE SET customer = v.c || 'x' WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.c)""",
            [(Role.EQUAL, ORDERS, "id"), (Role.OTHER, None, "")],
        ),
        ("this is no SQL ( $1", [(Role.OTHER, None, "")]),
    ],
)
def test_a_parameter_is_of_the_column_that_it_meets(text, uses):
    found = read_shape(statement(text, len(uses)), load_of()).uses

    assert [(use.role, use.table, use.column) for use in found] == uses


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("(customer, id) = ($1,$2)", 1),
        ("(customer, id) IN (($1,$2))", 1),
        ("(customer, id) IN (($1,$2),($3,$4))", 2),
        ("customer = ANY(ARRAY[$1,$2])", 2),
        ("(customer, id) > ($1,$2) ORDER BY customer, id LIMIT $3", 1),
        ("o.customer = $1 AND EXISTS (SELECT o.id FROM customer o WHERE o.id = $2)", 2),  # one name of two tables
    ],
)
def test_what_is_compared_together_is_drawn_of_one_row(condition, rows):
    asked = statement(f"SELECT o.id FROM orders o WHERE {condition}", condition.count("$"))
    load = load_of(asked)

    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup

    assert setup.count("USING (n)") == rows


def test_arrays_of_new_rows_have_as_many_elements_as_a_call_has_rows():
    asked = statement("INSERT INTO orders (customer) SELECT * FROM unnest($1::int[])", calls=10, rows=70)
    asked = replace(asked, types=("integer[]",))
    load = replace(load_of(asked), tables={**TABLES, ORDERS: replace(TABLES[ORDERS], width=60_000)})

    files = write_files(derive_scripts(load, with_values=False), load, DRAWS[0])

    assert "ROWS BETWEEN 6 PRECEDING" in files.setup
    assert "generate_series(1, 500)" in files.setup  # of 7 * 60 kB, which are no more than 80 calls in 32 MB


@pytest.mark.parametrize(
    ("condition", "role", "is_age"),
    [
        ("made > now() - $1", Role.LOW, True),
        ("made < CURRENT_TIMESTAMP - ($1)::interval", Role.HIGH, True),
        ("localtimestamp - $1 <= made", Role.LOW, True),
        ("made > current_date - $1::int", Role.LOW, True),
        ("made > $1", Role.LOW, False),
        ("made + $1 > now()", Role.OTHER, False),
        ("now() - $1 > now()", Role.OTHER, False),
    ],
)
def test_the_age_of_rows_is_that_of_their_column(condition, role, is_age):
    made = {"made": Column(type="timestamp with time zone", distinct=1000)}
    table = replace(TABLES[ORDERS], columns={**TABLES[ORDERS].columns, **made})
    asked = replace(
        statement(f"SELECT count(*) FROM orders WHERE customer = $2 AND {condition}"),
        types=(INT if "::int " in f"{condition} " else "interval", INT),
    )
    load = replace(load_of(asked), tables={**TABLES, ORDERS: table})

    use = read_shape(asked, load).uses[0]
    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup

    assert (use.role, use.is_age) == (role, is_age)
    assert bool(re.search(r"now\(\) - r0_[01]\.c\d|current_date - r0_[01]\.c\d::date", setup)) == is_age
    if role is not Role.OTHER:  # the width is a guess, so it is turned first
        assert re.findall(r"SET pgtrial_workload.s001_(\w+)", setup) == ["width", "keys"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT 1 \\! touch /tmp/x", "backslash"),
        ("SELECT 1; DROP TABLE orders", "several"),
        ("SELECT wipe($1)", "calls wipe"),
        ('SELECT "wipe" ( $1 )', "calls wipe"),
        ("SELECT 1 FROM orders WHERE int4range($1, $2) @> id", "ends of a range"),
        ("SELECT 1 FROM orders WHERE day <@ DateRange( $1::date , $2::date)", "ends of a range"),
        ("SELECT 'Alice'", "values"),
        ("SELECT $$Alice$$ FROM orders", "values"),
        ("SELECT 1 FROM orders WHERE id = 4711 AND customer = $1", "values"),
        ("SELECT 1 FROM orders WHERE id = 47", "values"),
        ('SELECT 1 AS ":v0_1"', "colon"),
        ("COPY orders FROM STDIN", "COPY"),
        ("CREATE ROLE alice PASSWORD 'secret'", "no query"),
        ("Alice was here", "no query"),
        (f"SELECT {'$1, ' * 300} $1", "255"),
        (f"SELECT {' ' * 200_000} 1", "longer"),
        ("SELECT * FROM pg_stat_activity", "about itself"),
        ("SELECT tableoid, oid, castsource FROM pg_cast c", "about itself"),
        ("select pg_get_partkeydef($1)", "about itself"),
    ],
)
def test_what_pgbench_must_not_send_is_left_out(text, reason):
    found = examine(statement(text), load_of(), with_values=False)

    assert isinstance(found, Refusal)
    assert reason in found.reason
    assert "Alice" not in found.command + found.reason


@pytest.mark.parametrize(
    ("text", "fresh"),
    [
        ("INSERT INTO event (day, kind) VALUES ($1, $2)", []),  # the server numbers them
        ("INSERT INTO event (id, day) VALUES ($1, $2)", ["id"]),  # no partition has any new day
        ("INSERT INTO event VALUES ($1, $2, $3)", ["id"]),
        ("INSERT INTO daily (day, n) VALUES ($1, $2)", []),
    ],
)
def test_what_makes_a_new_row_unique_is_a_column_of_which_there_are_new_values(text, fresh):
    days = {"day": Column(type="date"), "n": Column(type=INT)}
    events = {"id": Column(type="bigint"), "day": Column(type="date"), "kind": Column(type="text")}
    tables = {
        ("public", "event"): Table(rows=100, pages=1, columns=events, unique=(("id", "day"),)),
        ("public", "daily"): Table(rows=100, pages=1, columns=days, unique=(("day",),)),
    }
    load = replace(load_of(), tables=tables)
    uses = read_shape(statement(text, text.count("$")), load).uses

    assert [use.column for use in uses if is_fresh(use, load)] == fresh


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("INSERT INTO daily (day, n) VALUES ($1, $2)", "a new row needs a value of daily (day) that no row has"),
        ("INSERT INTO daily (day, n) VALUES ($1, $2) ON CONFLICT (day) DO UPDATE SET n = $3", ""),
        ("INSERT INTO daily (n) VALUES ($1)", ""),
        ("INSERT INTO country (code) VALUES ($1)", "a new row needs a value of country (code) that no row has"),
        ("INSERT INTO basket (customer, orders) VALUES ($1, $2)", "needs a value of basket (customer, orders)"),
        ("INSERT INTO basket (customer) VALUES ($1)", ""),
        ("UPDATE daily SET mood = $1", "no value is known for the type of a parameter"),
    ],
)
def test_a_row_that_would_break_a_constraint_is_left_out(text, left_out):
    days = {"day": Column(type="date"), "n": Column(type=INT), "mood": Column(type="mood", nulls=1)}
    basket = {
        "customer": Column(type=INT, references=(CUSTOMER, "id")),
        "orders": Column(type=INT, references=(ORDERS, "id")),
    }
    tables = {
        **TABLES,
        ("public", "daily"): Table(rows=100, pages=1, columns=days, unique=(("day",),)),
        ("public", "country"): Table(
            rows=100, pages=1, columns={"code": Column(type="character(2)")}, unique=(("code",),)
        ),
        ("public", "basket"): Table(rows=100, pages=1, columns=basket, unique=(("customer", "orders"),)),
    }
    asked = replace(statement(text, text.count("$")), types=("mood",) if "mood" in text else (INT,) * text.count("$"))

    plan = derive_scripts(replace(load_of(asked), tables=tables), with_values=False)

    assert [each.reason for each in plan.left_out] == [] if not left_out else left_out in plan.left_out[0].reason
    assert len(plan.scripts) == (not left_out)


def test_a_value_of_a_type_that_is_not_known_is_never_missing():
    moods = {"id": Column(type=INT, is_unique=True), "mood": Column(type="mood", nulls=0.5)}
    table = ("public", "mind")
    asked = replace(statement("UPDATE mind SET mood = $1 WHERE id = $2"), types=("mood", INT))
    load = replace(load_of(asked), tables={table: Table(rows=100, pages=1, columns=moods)})

    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup

    assert """, (SELECT "mood" FROM "public"."mind" WHERE "mood" IS NOT NULL LIMIT 1)::text, '')""" in setup


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("42P01", "search_path"),
        ("42501", "USAGE"),
        ("42P18", "lost something"),
        ("42601", "lost something when its constants were replaced"),
    ],
)
def test_it_is_told_why_the_server_does_not_understand_a_text(state, reason):
    found = examine(statement("SELECT id FROM orders", refused=state), load_of(), with_values=False)

    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_comments_stay_on_the_server_and_slices_are_no_variables():
    text = (
        "SELECT /* alice@example.com /* nested */ */ name[$1:$2] -- bob\n FROM customer\n WHERE id IN ($3 /*, ... */)"
    )
    found = examine(statement(text), load_of(), with_values=False)

    assert isinstance(found, Text)
    filled = found.fill(lambda number: f":v{number}")
    assert filled == "SELECT name[:v1 : :v2] FROM customer WHERE id IN (:v3 )"


def test_sizes_of_types_are_no_values():
    assert isinstance(
        examine(statement("SELECT $1::varchar(255), $2::numeric(12, 2)"), load_of(), with_values=False), Text
    )


def test_statements_that_are_called_as_often_as_there_were_commits_are_transactions():
    told = tell([1000, 500, 999, 500, 4000, 4001], commits=1501, joined=lambda *_: True)

    assert told.groups == ((0, 2), (1, 3))
    assert told.explained == 1500


def test_of_choices_that_explain_all_commits_the_one_of_statements_with_a_common_table_is_taken():
    """Two transactions, each of two statements and as frequent as the other, and others that are so by chance."""
    calls, tables = [150, 150, 150, 150, 150, 93, 93, 132, 129, 87, 87], "aabbcdefghi"

    told = tell(calls, commits=300, joined=lambda one, other: tables[one] == tables[other])

    assert told.groups == ((0, 1), (2, 3))
    assert told.explained == 300


def test_statements_with_no_common_table_are_transactions_where_nothing_else_is_as_frequent():
    assert tell([100, 100, 7], commits=100, joined=lambda *_: False).groups == ((0, 1),)


def test_statements_whose_tables_refer_to_each_other_are_joined():
    made = statement("INSERT INTO customer (name) VALUES ($1) RETURNING id", 1, calls=150)
    refers = statement("INSERT INTO orders (customer) VALUES ($1)", 1, calls=150)
    event = Table(rows=9, pages=1, columns={"id": Column(type=INT, is_unique=True)})
    asked = [statement(f"SELECT {what} FROM event WHERE id = $1", 1, calls=150) for what in ("id", "id + id")]
    load = load_of(made, refers, *asked, statement("COMMIT", calls=300))

    derived = derive_scripts(replace(load, tables={**TABLES, EVENT: event}), with_values=False)

    assert [[member.statement for member in script.members] for script in derived.scripts] == [[made, refers], asked]
    assert derived.told.explained == 300


@pytest.mark.parametrize("calls", [10, 4, 1])
def test_without_commits_every_statement_is_alone(calls):
    """However near to none the calls are."""
    assert tell([calls, calls, calls], commits=0, joined=lambda *_: True).groups == ()


def begun(*begins: str) -> tuple[list[str], str]:
    """How the transactions of the scripts begin where they began so, 10 times each; and what is said of them."""
    pair = [statement("SELECT id FROM orders"), statement("SELECT name FROM customer")]
    commits = statement("COMMIT", calls=10 * len(begins))
    load = load_of(*[replace(each, calls=10 * len(begins)) for each in pair], *map(statement, begins), commits)
    derived = derive_scripts(load, with_values=False)
    scripts = write_files(derived, load, DRAWS[0]).scripts
    told = derived.told
    return [line for text in scripts.values() for line in text.splitlines() if line.startswith("BEGIN")], told_text(
        told.explained, told.commits, derived.levels
    )


@pytest.mark.parametrize(
    ("begins", "line", "said"),
    [
        (["BEGIN"], "BEGIN;", ""),
        (["BEGIN ISOLATION LEVEL SERIALIZABLE"], "BEGIN ISOLATION LEVEL SERIALIZABLE;", ""),
        (
            ["begin transaction isolation level\n repeatable read, read only;"],
            "BEGIN ISOLATION LEVEL REPEATABLE READ;",
            "",
        ),
        (["START TRANSACTION ISOLATION LEVEL SERIALIZABLE", READ_ONLY], "BEGIN ISOLATION LEVEL SERIALIZABLE;", ""),
        (
            ["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE"],
            "BEGIN;",
            "10 of 20 began with ISOLATION LEVEL SERIALIZABLE, and none of the scripts does",
        ),
        (
            ["BEGIN ISOLATION LEVEL $1"],
            "BEGIN;",
            "10 of 10 began with an ISOLATION LEVEL that the server does not tell",
        ),
    ],
)
def test_transactions_begin_as_all_did_or_it_is_said(begins, line, said):
    lines, told = begun(*begins)

    assert lines == [line]
    assert said in told
    assert ("began with" in told) == bool(said)


def test_rows_of_a_call_tell_how_much_keys_with_more_rows_are_preferred():
    table = TABLES[ORDERS]
    told = [told_exponent(table, table.columns["customer"], load_of(), rows) for rows in (0.1, 10, 255, 499, 600)]
    assert told[0] == 0  # fewer than all keys alike would find
    assert told[1] == pytest.approx(0, abs=0.02)  # 100 customers, also those without an order, have ten on average
    assert told[2] == pytest.approx(1, abs=0.03)  # as rows have it: 1000 * (0.5² + 0.5² / 49)
    assert 1.5 < told[3] < told[4]  # nearly always the one that has half of them
    assert told_exponent(table, table.columns["id"], load_of(), 1) is None

    asked = statement("SELECT * FROM orders WHERE customer = $1", 1, calls=10, rows=100)
    load = load_of(asked)
    files = write_files(derive_scripts(load, with_values=False), load, DRAWS[0])
    assert files.how["s001"] == (("$1: equal orders.customer, rows to the power of 0",),)
    assert "SET pgtrial_workload.s001_keys = '0';" in files.setup
    assert 'SELECT r."id" AS c0, coalesce(f.rows, 0) AS rows FROM "public"."customer" AS r' in files.setup


def test_a_transaction_is_about_one_row_and_its_new_key_comes_from_the_server():
    parts = [
        statement("INSERT INTO orders (customer) VALUES ($1) RETURNING id", 1),
        statement("UPDATE customer SET name = upper(name) WHERE id = $1", 1),
        statement("SELECT name FROM customer WHERE id = $1 FOR UPDATE", 1),
    ]
    load = load_of(*parts, statement("BEGIN"), statement("COMMIT"))
    files = write_files(derive_scripts(load, with_values=False), load, DRAWS[0])

    assert files.scripts["s001.sql"].splitlines()[2:] == [
        "BEGIN;",
        "SELECT name FROM customer WHERE id = :v0_1 FOR UPDATE;",
        "UPDATE customer SET name = upper(name) WHERE id = :v0_1;",
        "INSERT INTO orders (customer) VALUES (:v0_1) RETURNING id;",
        "COMMIT;",
    ]
    # Of customers each is there once; orders tell which of them order most.
    assert files.how["s001"][0] == ("$1: new row orders.customer, as rows have it",)
    assert files.how["s001"][1] == ("$1: new row orders.customer, as rows have it, the same as of another statement",)


@pytest.mark.parametrize(
    ("returned", "is_taken"),
    [
        ('id, customer::text, 1 AS "aB"', True),
        ("id, customer || $2", False),
        ("id, now()", False),
        ("id, *", False),
        ('id, customer AS "a b"', False),
    ],
)
def test_a_row_of_which_pgbench_can_name_each_value_gives_a_key(returned, is_taken):
    """It ends all of a load where it cannot: of ``?column?`` it makes no variable."""
    text = f"INSERT INTO orders (customer) VALUES ($1) RETURNING {returned}"

    assert read_shape(statement(text, text.count("$")), load_of()).returned[:1] == ((("id", "id"),) if is_taken else ())


@pytest.mark.parametrize(
    ("text", "width", "count"),
    [
        ("INSERT INTO doc (name, body) VALUES ($1, $2)", 2**15, 1024),
        ("UPDATE doc SET body = $1 WHERE id = $2", 2**30, 500),
        ("UPDATE doc SET body = $1 WHERE id = $2", 100, 20_000),
        ("UPDATE doc SET body = $1 WHERE id = $2", 0, 20_000),  # nothing tells
        ("UPDATE doc SET name = $1 WHERE id = $2", 2**15, 20_000),
        ("SELECT id FROM doc WHERE body = $1", 2**15, 20_000),
    ],
)
def test_of_long_values_there_are_fewer(text, width, count):
    columns = {
        "id": Column(type=INT, is_unique=True),
        "name": Column(type="text", is_indexed=True),
        "body": Column(type="text"),
    }
    table = Table(rows=1000, pages=10, columns=columns, unique=(("id",),), width=width)
    asked = replace(statement(text), types=("text", INT if "id = $2" in text else "text")[: text.count("$")])
    load = replace(load_of(asked), tables={("public", "doc"): table})

    for draw in DRAWS:
        files = write_files(derive_scripts(load, with_values=False), load, draw)
        assert {int(each) for each in re.findall(r"generate_series\(1, (\d+)\)", files.setup)} == {count}
        assert re.search(rf"^\\set n random\w*\(1, {count}[,)]", files.scripts["s001.sql"])


@pytest.mark.parametrize(
    ("text", "parameters", "how"),
    [
        ("SELECT name FROM customer WHERE id = $1 AND name = $2 FOR UPDATE", 2, "equal customer.id, as rows have it"),
        ("SELECT id FROM orders WHERE customer = $1", 1, "equal orders.customer, rows to the power of 0"),  # as counted
    ],
)
def test_what_tells_more_of_a_key_than_new_rows_do_decides(text, parameters, how):
    parts = [statement(text, parameters), statement("INSERT INTO orders (customer) VALUES ($1)", 1)]
    load = load_of(*parts, statement("BEGIN"), statement("COMMIT"))

    said = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).how["s001"]

    assert said[0][0] == f"$1: {how}"
    assert said[1] == (f"$1: {how}, the same as of another statement",)


SCHEMA = """
CREATE EXTENSION pg_stat_statements;
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, "odd "" \\! name" int);
INSERT INTO customer SELECT n, 'planted ' || n, 7654321 FROM generate_series(1, 500) AS n;
CREATE TABLE orders (id serial PRIMARY KEY, customer int NOT NULL REFERENCES customer, note text);
INSERT INTO orders (customer, note) SELECT 1 + n % 100, 'planted' FROM generate_series(1, 2000) AS n;
CREATE INDEX ON orders (customer);
CREATE FUNCTION wipe(int) RETURNS int LANGUAGE sql AS 'DELETE FROM orders WHERE id = -$1 RETURNING 1';
VACUUM ANALYZE;
"""
READ = "\\set c random(1, 100)\nSELECT * FROM orders WHERE customer = :c /* planted */;\n"
WRITE = """\\set c random(1, 500)
BEGIN;
UPDATE customer SET name = 'planted anew' WHERE id = :c;
INSERT INTO orders (customer, note) VALUES (:c, 'planted');
COMMIT;
"""
# The server keeps the constants of these: it has read them before its counts were reset.
PREPARED = (
    "SELECT note FROM orders WHERE customer = 8675309 AND id = %s",
    "SELECT note FROM orders WHERE customer < 86753e3 AND note <> 'planted' AND id = %s",
)
ONCE = "SELECT wipe(7654321); CREATE ROLE planted PASSWORD 'planted'; COPY (SELECT 'planted') TO STDOUT"


@pytest.fixture(scope="module")
def shop(programs, runner_of_file, run_cluster, tmp_path_factory):
    """A server with a load of our own, and a copy of its database."""
    settings = {"shared_preload_libraries": "pg_stat_statements"}
    with run_cluster(programs, runner_of_file, settings=settings) as cluster:
        folder = tmp_path_factory.mktemp("shop")
        run = Psql(cluster, programs)
        for name in ("shop", "copy"):
            run.psql("postgres", f"CREATE DATABASE {name}")
            run.psql(name, *SCHEMA.strip().split(";\n"))
        with psycopg.connect(run.dsn("shop"), autocommit=True) as connection:
            for text in (*PREPARED, "SELECT pg_stat_statements_reset()", *PREPARED):
                connection.execute(text, (1,) if "%s" in text else None, prepare=True)
        (folder / "read.sql").write_text(READ)
        (folder / "write.sql").write_text(WRITE)
        run.pgbench("shop", "-t", "300", "-f", f"{folder}/read.sql@3", "-f", f"{folder}/write.sql@1")
        run.psql("shop", *ONCE.split("; "))
        yield run


@pytest.fixture(scope="module")
def runner_of_file():
    import asyncio

    with asyncio.Runner() as runner:
        yield runner


class Psql:
    def __init__(self, cluster, programs) -> None:
        self.cluster, self.programs = cluster, programs

    def dsn(self, database: str) -> str:
        return self.cluster.conninfo(database)

    def psql(self, database: str, *commands: str) -> str:
        words = [word for command in commands for word in ("-c", command)]
        return self._run("psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-d", self.dsn(database), *words)

    def pgbench(self, database: str, *words: str) -> str:
        return self._run("pgbench", "-n", *words, self.dsn(database))

    def dump(self, database: str, to: Path) -> None:
        self._run("pg_dump", "--format=custom", f"--file={to}", self.dsn(database))

    def _run(self, program: str, *words: str) -> str:
        found = self.programs.path(program)
        return subprocess.run([found, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def written(shop, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "load"
    assert main(["workload", shop.dsn("shop"), "--output", str(folder)]) == 0
    return folder


def test_it_is_said_for_how_long_the_server_has_counted(shop, tmp_path, capsys):
    """A mean of weeks is held against a load of a minute."""
    began = "SELECT extract(epoch FROM now() - stats_reset) FROM pg_stat_statements_info"
    least = float(shop.psql("shop", began))
    assert main(["workload", shop.dsn("shop"), "--output", str(tmp_path / "load")]) == 0

    said = capsys.readouterr().out
    counted = json.loads((tmp_path / "load" / "workload.json").read_text())["counted_for"]
    assert least <= counted <= float(shop.psql("shop", began))
    assert f"its counts are of {format_duration(counted)}" in said


def test_no_value_leaves_the_server(written):
    texts = {path: path.read_text() for path in written.rglob("*") if path.is_file()}

    assert len(texts) > 8
    planted = re.compile(r"planted|7654321|8675309|86753e3")
    assert [path for path, text in texts.items() if planted.search(text)] == []
    left_out = json.loads(texts[written / "workload.json"])["left_out"]
    assert [each["statements"] for each in left_out if "values stay on the server" in each["reason"]] == [2]


def test_a_parameter_that_meets_a_view_is_one_of_its_rows(shop):
    shop.psql("postgres", "CREATE DATABASE views")
    shop.psql(
        "views",
        "CREATE EXTENSION pg_stat_statements",
        "CREATE TABLE booking AS SELECT n AS id, n % 10 AS place FROM generate_series(1, 1000) AS n",
        "CREATE UNIQUE INDEX ON booking (place, (id + 0))",
        "CREATE TABLE stay (id int PRIMARY KEY, room int, is_open bool, EXCLUDE (room WITH =, (id + 1) WITH =))",
        "CREATE UNIQUE INDEX ON stay (room) WHERE is_open",
        "CREATE VIEW all_of_them AS SELECT * FROM booking",
        "CREATE VIEW open AS SELECT id AS number, place FROM all_of_them WHERE place < 5",
        # Immutable by its own word, so that whoever plans the view executes it.
        "CREATE FUNCTION owned() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'planned'; END $$",
        "CREATE VIEW trap AS SELECT id FROM booking WHERE place = owned()",
        "CREATE MATERIALIZED VIEW kept AS SELECT * FROM booking",
        "ANALYZE",
        "SELECT count(*) FROM open JOIN kept USING (place) WHERE number = 3 AND kept.id = 4",
    )

    load = asyncio.run(read_load(shop.dsn("views")))

    (asked,) = [each for each in load.statements if "JOIN kept" in each.text]
    open_, kept = ("public", "open"), ("public", "kept")
    uses = read_shape(asked, load).uses
    assert [(use.role, use.table, use.column) for use in uses] == [
        (Role.EQUAL, open_, "number"),
        (Role.EQUAL, kept, "id"),
    ]
    assert load.tables["public", "booking"].unique == (("place", "id"),)
    stay = load.tables["public", "stay"]
    assert (sorted(stay.unique), stay.conditions) == ([("id",), ("room",)], {"is_open"})
    assert stay.excluded == ((("room", "id"), ("room",)),)
    assert load.tables[open_].pages == 0
    assert load.tables[open_].rows == 1000  # of the table below it
    assert load.tables["public", "trap"].rows == 1000
    assert "planned" not in shop.cluster.log.read_text()
    assert (load.tables[kept].rows, load.tables[kept].columns["place"].distinct) == (1000, 10)
    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup
    assert 'FROM "public"."open"' in setup


def test_what_the_role_may_not_use_or_see_is_told(shop):
    shop.psql("postgres", "CREATE DATABASE closed", "CREATE ROLE reader LOGIN IN ROLE pg_read_all_stats")
    shop.psql(
        "closed",
        "CREATE EXTENSION pg_stat_statements",
        "CREATE SCHEMA app",
        "CREATE SCHEMA other",
        "CREATE TABLE app.deal AS SELECT n AS id FROM generate_series(1, 100) AS n",
        "CREATE TABLE other.deed AS SELECT n AS id FROM generate_series(1, 100) AS n",
        "GRANT USAGE ON SCHEMA other TO reader",
        "ANALYZE",
        "SELECT id FROM app.deal WHERE id = 1",
        "SET search_path = app; SELECT count(*) FROM deal WHERE id = 1",
        "SELECT id FROM other.deed WHERE id = 1",
    )

    load = asyncio.run(read_load(f"{shop.dsn('closed')} user=reader"))

    refused = {each.text: each.refused for each in load.statements if "WHERE id = $1" in each.text}
    assert sorted(refused.values()) == ["", "42501", "42P01"]
    assert load.unseen == 2
    assert "of 2 analysed tables" in derive_scripts(load, with_values=False).unseen_text()
    shop.psql("closed", "GRANT pg_read_all_data TO reader")
    load = asyncio.run(read_load(f"{shop.dsn('closed')} user=reader"))
    assert (load.unseen, derive_scripts(load, with_values=False).unseen_text()) == (0, "")


def test_a_text_that_lost_its_grammar_is_written_in_another_way(shop):
    shop.psql("postgres", "CREATE DATABASE grammar")
    shop.psql(
        "grammar",
        "CREATE EXTENSION pg_stat_statements",
        "CREATE TABLE visit (id int, at timestamp, note text, on_day date)",
        "SELECT id FROM visit WHERE extract(day FROM at) = 3 AND id = 4",
        "SELECT id FROM visit WHERE at > now() - interval '3 days'",
        "SELECT id FROM visit WHERE at > timestamp with time zone '2020-01-01' AND at < DATE '2020-02-01'",
        "SELECT id FROM visit WHERE at < now() - interval '3' day",
        "SELECT id FROM visit WHERE on_day >= current_date - 7 AND id <> 5",
        "SELECT id FROM visit WHERE on_day BETWEEN current_date - 7 AND current_date + 1",
        "SELECT id FROM visit WHERE date(current_date - 1) = on_day",
    )
    mixed = "SELECT id FROM visit WHERE id IN (id - {0}, id + {0}) AND at > now() - {1} AND at < now() + {1}"
    with psycopg.connect(shop.dsn("grammar"), autocommit=True) as connection:  # whose types the texts have not
        connection.execute(mixed.format("%(days)s", "%(age)s"), {"days": 1, "age": timedelta(1)})
        connection.execute("SELECT id FROM visit WHERE at <= now() - %s", (timedelta(3),))

    load = asyncio.run(read_load(shop.dsn("grammar")))

    found = {each.text: (each.types, each.refused) for each in load.statements if "FROM visit" in each.text}
    assert found == {
        'SELECT id FROM visit WHERE "extract"($1, at) = $2 AND id = $3': (("text", "numeric", INT), ""),
        "SELECT id FROM visit WHERE at > now() - $1::interval": (("interval",), ""),
        "SELECT id FROM visit WHERE at > $1::timestamp with time zone AND at < $2::DATE": (
            ("timestamp with time zone", "date"),
            "",
        ),
        "SELECT id FROM visit WHERE at < now() - interval $1 day": ((), "42601"),
        "SELECT id FROM visit WHERE on_day >= current_date - $1::int AND id <> $2": ((INT, INT), ""),
        "SELECT id FROM visit WHERE on_day BETWEEN current_date - $1::int AND current_date + $2::int": ((INT, INT), ""),
        "SELECT id FROM visit WHERE date(current_date - $1::int) = on_day": ((INT,), ""),
        "SELECT id FROM visit WHERE at <= now() - $1::interval": (("interval",), ""),
        mixed.format("$1", "$2"): ((), "42P18"),
    }
    (asked,) = [each for each in load.statements if '"extract"' in each.text]
    assert [use.word for use in read_shape(asked, load).uses] == ["day", "", ""]


def test_no_sample_is_drawn_of_a_view():
    asked = statement("SELECT * FROM orders WHERE id = $1 AND customer = $2", 2)
    load = load_of(asked)
    large = replace(TABLES[ORDERS], rows=1e9)
    setups = []
    for table in (large, replace(large, pages=0)):
        load = replace(load, tables={**TABLES, ORDERS: table})
        setups.append(write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup)

    of_table, of_view = ("TABLESAMPLE" in setup for setup in setups)
    assert (of_table, of_view) == (True, False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("SELECT id FROM customer WHERE name LIKE $1 ESCAPE $2", "''"),
        ("SELECT id FROM customer WHERE id = $1 AND now() AT TIME ZONE $2 < now()", "'UTC'"),
        ("SELECT timezone($2, now()) FROM customer WHERE id = $1", "'UTC'"),
        ("SELECT date_trunc('day', now(), $2) FROM customer WHERE id = $1", "'UTC'"),
        ("SELECT date_trunc($2, now()) FROM customer WHERE id = $1", "'day'"),
        ("SELECT date_part($2::text, now()) FROM customer WHERE id = $1", "'day'"),
    ],
)
def test_what_only_some_words_can_be_is_one_of_them(text, value):
    asked = replace(statement(text), types=("text" if "LIKE" in text else INT, "text"))
    load = load_of(asked)

    found = write_files(derive_scripts(load, with_values=True), load, DRAWS[0])

    assert f"coalesce(({value})::text" in found.setup
    assert read_shape(asked, load).uses[0].table == CUSTOMER


def test_a_constant_with_a_line_break_is_in_no_line_of_a_set_up():
    """With "--values" constants stay, and each statement of a set-up is one line."""
    asked = replace(statement("SELECT id FROM thing WHERE name = 'a\nb' || $1"), types=("text",))
    columns = {"id": Column(type=INT, is_unique=True), "name": Column(type="text")}
    load = replace(load_of(asked), tables={("public", "thing"): Table(rows=4, pages=1, columns=columns)})

    (use,) = read_shape(asked, load).uses
    plain = read_shape(replace(asked, text=asked.text.replace("\n", "-")), load).uses[0]

    assert (use.role, plain.role) == (Role.OTHER, Role.EQUAL)


@pytest.mark.parametrize(
    ("condition", "type_", "role"),
    [
        ("name <> $1", "text", Role.BESIDE),
        ("$1 IS DISTINCT FROM name", "text", Role.BESIDE),
        ("tags <@ $1", "text[]", Role.BESIDE),
        ("at <-> $1 < at <-> at", "point", Role.BESIDE),
        ("name ~* $1", "text", Role.PATTERN),
        ("NOT name SIMILAR TO $1", "text", Role.PATTERN),
        ("tags @> $1", "text[]", Role.PART),
        ("tags && $1", "text[]", Role.PART),
        ("data @> $1", "jsonb", Role.PART),
        ("name || $1 = name", "text", Role.OTHER),
        ("id + $1 = id", INT, Role.OTHER),
        ("span @> $1", "date", Role.OTHER),
        ("is_new AND $1", "boolean", Role.OTHER),
    ],
)
def test_an_operator_meets_a_value_of_the_column(served, condition, type_, role):
    """None of which ends a statement: of a text that is a pattern, too, only what every pattern may have."""
    columns = {
        "id": Column(type=INT, is_unique=True), "name": Column(type="character varying(20)"),
        "tags": Column(type="text[]"), "at": Column(type="point"), "data": Column(type="jsonb"),
        "span": Column(type="daterange"), "is_new": Column(type="boolean"),
    }  # fmt: skip
    asked = replace(statement(f"SELECT id FROM thing WHERE {condition}"), types=(type_,))
    if condition.startswith("name"):
        columns["name"] = Column(type="text")
    place = ("public", "thing")
    load = replace(load_of(asked), tables={place: Table(rows=4, pages=1, columns=columns)})
    (use,) = read_shape(asked, load).uses
    assert use.role is role
    assert (use.table == place) == (role is not Role.OTHER)
    files = write_files(derive_scripts(load, with_values=False), load, DRAWS[0])

    async def run(conninfo: str) -> None:
        made = ", ".join(f"{name} {column.type}" for name, column in columns.items())
        await execute(conninfo, f"CREATE TABLE thing ({made})")
        await execute(
            conninfo,
            "INSERT INTO thing VALUES (1, '(*[', '{a,b}', '(1,2)', '{\"a\": 1}'), (2, 'x', '{}', NULL, '[1]'), "
            "(3, 'y', NULL, NULL, '2')",
        )
        for line in files.setup.splitlines()[1:]:
            await execute(conninfo, line)
        text = asked.text.replace("$1", f"p.v0_1::{type_}")
        await execute(conninfo, f"{text.replace('thing', 'thing, pgtrial_workload.s001 AS p')}")

    with empty_database(served) as conninfo:
        asyncio.run(run(conninfo))


@pytest.mark.parametrize(
    "condition",
    [
        "name = $2 || $1",
        "name = ($1 || $2)::text",
        "name = 'user' || $1",
        "name = 'user' || $1 || '.x'",
        "name = 'oo' || $1 || 'o'",
        "lower(name) = $1 || '.x'",
        "name LIKE $1 || $2",
        "name LIKE $2 || $1 || $3",
        "name LIKE 'user' || $1 || '%'",
        "tags @> ARRAY[$2 || $1]",
        "tags @> ARRAY['tag' || $1]::text[]",
        "tags @> ARRAY[$1, $2]",
        "ARRAY[$1] && tags",
        "$1 = ANY(tags)",
    ],
)
def test_a_text_of_a_parameter_and_constants_is_a_value_of_the_column(served, condition):
    """Of the statement's constants the server has made parameters, mostly; then one of them is all of the value."""
    types = ("text",) * len(set(re.findall(r"\$\d", condition)))
    asked = replace(statement(f"SELECT id FROM thing WHERE {condition}"), types=types)
    columns = {"id": Column(type=INT, is_unique=True), "name": Column(type="text"), "tags": Column(type="text[]")}
    load = replace(load_of(asked), tables={("public", "thing"): Table(rows=80, pages=1, columns=columns)})
    files = write_files(derive_scripts(load, with_values=True), load, DRAWS[0])
    called = re.sub(r"\$(\d)", r"p.v0_\1", condition)

    with empty_database(served) as conninfo, psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE thing (id int, name text, tags text[])")
        connection.execute(
            "INSERT INTO thing SELECT n, CASE WHEN n % 2 = 0 THEN 'user' || n || '.x' ELSE 'bob' || n END, "
            "CASE n % 4 WHEN 0 THEN ARRAY['tag' || n, 'odd'] WHEN 1 THEN '{}' END FROM generate_series(1, 80) AS n "
            "UNION ALL VALUES (81, 'oo', NULL::text[]), (82, 'oo-o', NULL)"  # one is too short to begin and end so
        )
        for line in files.setup.splitlines()[1:]:
            connection.execute(line)
        drawn = connection.execute(
            f"SELECT count(*) > 0, bool_and(EXISTS (SELECT FROM thing WHERE {called})) FROM pgtrial_workload.s001 AS p"
            " WHERE p.n <= 200"
        ).fetchone()

    assert drawn == (True, True)


@pytest.mark.parametrize(
    ("condition", "types"),
    [
        ("name = name || $1", ("text",)),
        ("name = 'n' || $1", (INT,)),
        ("name > 'n' || $1", ("text",)),
        ("id = 1 ORDER BY name || $1", ("text",)),
        ("tags = ARRAY[$1]", ("text",)),
        ("$1 = ANY(name)", ("text",)),
    ],
)
def test_a_text_that_says_of_no_column_what_it_is_is_drawn_by_its_type(condition, types):
    asked = replace(statement(f"SELECT id FROM customer WHERE {condition}"), types=types)

    assert [use.role for use in read_shape(asked, load_of(asked)).uses] == [Role.OTHER]


def test_a_part_of_a_key_is_not_taken_for_the_key():
    text = "SELECT id FROM customer WHERE name = 'user' || $1"
    asked = replace(statement(text), types=("text",))
    unique = {CUSTOMER: replace(TABLES[CUSTOMER], columns={"name": Column(type="text", is_unique=True)})}
    load = replace(load_of(asked), tables=unique)
    (use,) = read_shape(asked, load).uses

    assert (use.role, use.before, key_of(use, load)) == (Role.EQUAL, "user", None)


EVENT = ("public", "event")
EVENTS = Table(
    rows=1200,
    pages=10,
    columns={
        "id": Column(type=INT, is_unique=True, is_indexed=True, distinct=1200, sequence=("public", "event_id_seq")),
        "customer": Column(type=INT, distinct=100),
        "kind": Column(type="text", distinct=3),
    },
    unique=(("id",),),
)
MAKE_EVENTS = (
    "CREATE TABLE event (id serial PRIMARY KEY, customer int, kind text)",
    (
        "INSERT INTO event (customer, kind) SELECT n % 100, CASE n % 3 WHEN 0 THEN 'cart' ELSE 'view' END "
        "FROM generate_series(1, 1000) AS n"
    ),
    "INSERT INTO event (customer, kind) SELECT 7, 'pay' FROM generate_series(1, 200) AS n",
)


def drawn_of(served, asked: Statement, question: str, *settings: str) -> list[tuple]:
    """The answer to a question about the parameters that the set-up draws, after some settings."""
    load = replace(load_of(asked), tables={EVENT: EVENTS})
    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup.splitlines()[1:]
    changed = [next((each for each in settings if each.startswith(line[: line.find("=")])), line) for line in setup]
    assert not set(settings) - set(changed)

    with empty_database(served) as conninfo, psycopg.connect(conninfo, autocommit=True) as connection:
        for line in (*MAKE_EVENTS, *changed):
            connection.execute(line)
        return connection.execute(question).fetchall()


def test_new_rows_are_as_those_that_were_written_while_counting(served):
    """What an application writes today is as what it wrote last, and not as what it wrote over the years."""
    new = "INSERT INTO event (customer, kind) VALUES ($1, $2)"
    asked = replace(statement(new, calls=200, rows=200), types=(INT, "text"))

    assert drawn_of(served, asked, "SELECT DISTINCT v0_1, v0_2 FROM pgtrial_workload.s001") == [("7", "pay")]
    more = replace(asked, calls=700, rows=700)
    ((old,),) = drawn_of(served, more, "SELECT count(DISTINCT v0_1) FROM pgtrial_workload.s001")
    assert old == 100


@pytest.mark.parametrize(
    ("only", "kinds"), [(0, {"view", "cart", "pay"}), (1, {"view"}), (2, {"cart"}), (3, {"pay"}), (4, {"pay"})]
)
@pytest.mark.parametrize(
    "key",
    [
        ("customer = $1 AND kind = $2", (INT, "text"), "v0_2"),
        ("kind = $1 AND customer = $2", ("text", INT), "v0_1"),
    ],
)
def test_a_statement_may_ask_for_one_state_only(served, key, only, kinds):
    """The states are numbered from the most common one on, and the last is that of higher numbers, too."""
    condition, types, kind = key
    asked = replace(statement(f"SELECT id FROM event WHERE {condition} LIMIT 1"), types=types)

    turned = f"SET pgtrial_workload.s001_only = '{only}';"
    found = drawn_of(served, asked, f"SELECT DISTINCT {kind} FROM pgtrial_workload.s001", turned)

    assert {state for (state,) in found} == kinds


@pytest.mark.parametrize(
    ("condition", "types"),
    [("kind = $1", ("text",)), ("customer = $1", (INT,)), ("customer = $1 AND kind > $2", (INT, "text"))],
)
def test_a_key_of_one_column_has_no_states(condition, types):
    asked = replace(statement(f"SELECT id FROM event WHERE {condition} LIMIT 1"), types=types)
    load = replace(load_of(asked), tables={EVENT: EVENTS})

    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup

    assert "s001_keys" in setup
    assert "s001_only" not in setup


ACCOUNT = ("public", "account")
ACCOUNTS = Table(
    rows=400,
    pages=4,
    columns={
        "id": Column(type=INT, is_unique=True, distinct=400),
        "place": Column(type=INT, distinct=20),
        "number": Column(type=INT, distinct=20),
        "balance": Column(type=INT, distinct=400),
    },
    unique=(("id",), ("place", "number")),
)
MAKE_ACCOUNTS = (
    "CREATE TABLE account (id int, place int, number int, balance int)",
    "INSERT INTO account SELECT n, n / 20, n % 20, 500 + n FROM generate_series(0, 399) AS n",
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("UPDATE account SET balance = balance - $1 WHERE id = $2 AND balance >= $1", 1000),
        ("UPDATE account SET balance = balance - $1 WHERE id = $2 AND balance >= $3", 1000),
        ("UPDATE account SET balance = balance - $1 WHERE id = $2 AND balance >= $3", 700),
        ("UPDATE account SET number = number WHERE id = $1 AND balance >= $2", 1000),
        ("DELETE FROM account WHERE id = $1 AND balance < $2", 0),
        ("SELECT id FROM account WHERE balance > $1 AND id = $2 LIMIT 21", 900),
        ("SELECT id FROM account WHERE place = $1 AND number = $2 AND balance BETWEEN $3 AND $4", 300),
        ("SELECT count(*) FROM account AS a WHERE a.id = $1 AND a.balance > $2", 1000),
    ],
)
def test_a_range_beside_a_key_keeps_the_row_in_as_many_calls_as_found_it(served, text, rows):
    """Of two rows that have nothing to do with each other, one would hardly ever be in the range of the other."""
    numbers = len(set(re.findall(r"\$\d", text)))
    asked = statement(text, numbers, calls=1000, rows=rows)
    load = replace(load_of(asked), tables={ACCOUNT: ACCOUNTS})
    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup.splitlines()[1:]
    condition = re.sub(r"\$(\d)", r"p.v0_\1::int", text.partition(" WHERE ")[2].partition(" LIMIT")[0])

    with empty_database(served) as conninfo, psycopg.connect(conninfo, autocommit=True) as connection:
        for line in (*MAKE_ACCOUNTS, *setup):
            connection.execute(line)
        found = connection.execute(
            f"SELECT avg((EXISTS (SELECT FROM account AS a WHERE {condition.replace('account.', 'a.')}))::int),"
            " max(v0_1::int) FROM pgtrial_workload.s001 AS p"
        ).fetchone()

    assert found is not None
    assert float(found[0]) == pytest.approx(rows / 1000, abs=0.02)
    if "$3" in text and "SET balance" in text:  # what is taken away is little: an account is not empty soon
        assert found[1] == 1


def test_where_a_unique_index_has_some_rows_only_a_range_beside_its_key_has_several():
    asked = statement("SELECT id FROM account WHERE place = $1 AND number = $2 AND balance > $3", 3)
    load = replace(load_of(asked), tables={ACCOUNT: replace(ACCOUNTS, conditions=frozenset(["balance"]))})

    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup

    assert "s001_width" in setup


def test_a_key_that_a_range_beside_it_ties_to_a_row_is_that_of_the_whole_transaction():
    parts = [
        statement("SELECT balance FROM account WHERE id = $1", 1),
        statement("UPDATE account SET number = number WHERE id = $1 AND balance >= $2", 2),
    ]
    load = replace(load_of(*parts, statement("BEGIN"), statement("COMMIT")), tables={ACCOUNT: ACCOUNTS})

    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup

    assert "coalesce((r1_0.c0)::text" in setup.partition(" AS v0_1")[0]


POST = ("public", "post")
POSTS = Table(
    rows=300,
    pages=9,
    columns={
        "id": Column(type=INT, is_unique=True, distinct=300),
        "state": Column(type="text", distinct=3),
        "data": Column(type="jsonb", distinct=300),
        "other": Column(type="jsonb", distinct=300),
    },
    unique=(("id",),),
    expressions=("lower(state), (data ->> 'it''s ref'::text)", "((other -> 'a'::text))::text, (other -> 'b'::text)"),
    predicates=("((state)::text = 'ready'::text)", "(state <> 'done'::text)"),
)


@pytest.mark.parametrize(
    ("condition", "types", "found"),
    [
        ("data->>$2 = $1", ("text", "text"), 1),
        ("lower(data->>$1) = lower($2)", ("text", "text"), 1),
        ("data->>$1 IN ($2, $3)", ("text",) * 3, 2),
    ],
)
def test_the_key_of_a_document_is_that_of_an_index(served, condition, types, found):
    """The server has made a parameter of it, and no value of a document is found by another one."""
    asked = replace(statement(f"SELECT id FROM post WHERE {condition}"), types=types)
    load = replace(load_of(asked), tables={POST: POSTS})
    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup.splitlines()[1:]
    called = re.sub(r"\$(\d)", r"p.v0_\1", condition)

    with empty_database(served) as conninfo, psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE post (id int, data jsonb)")
        connection.execute(
            """INSERT INTO post SELECT n, jsonb_build_object('it''s ref', 'r' || n) FROM generate_series(1, 299) AS n
            UNION ALL SELECT 300, '[]'"""
        )
        for line in setup:
            connection.execute(line)
        ((rows,),) = connection.execute(
            f"SELECT avg((SELECT count(*) FROM post WHERE {called})) FROM pgtrial_workload.s001 AS p WHERE n <= 200"
        )

    assert float(rows) == pytest.approx(found, abs=0.05)


@pytest.mark.parametrize(
    ("text", "is_left_out"),
    [
        ("SELECT id FROM post WHERE other->$1 = $2", True),  # two keys have an index
        ("SELECT id FROM post WHERE data->$1 = $2", False),  # the table is read whatever the key is
        ("SELECT id FROM post WHERE data->$1->>$2 = $3", False),
        ("SELECT count(*) FROM post GROUP BY other->$1", True),
        ("SELECT other->>$1 FROM post WHERE id = $2", False),
    ],
)
def test_a_statement_that_finds_rows_by_a_key_of_documents_that_nothing_tells_is_left_out(text, is_left_out):
    asked = replace(statement(text), types=("text",) * len(set(re.findall(r"\$\d", text))))

    derived = derive_scripts(replace(load_of(asked), tables={POST: POSTS}), with_values=False)

    assert [each.reason for each in derived.left_out] == ["the key of a document is not known"] * is_left_out


@pytest.mark.parametrize(
    ("lock", "how"), [("FOR UPDATE SKIP LOCKED", "$1: 'ready'"), ("", "$1: equal post.state, rows to the power of 1")]
)
def test_a_queue_takes_what_is_in_its_partial_index(lock, how):
    asked = replace(statement(f"SELECT id FROM post WHERE state = $1 ORDER BY id LIMIT $2 {lock}"), types=("text", INT))
    load = replace(load_of(asked), tables={POST: POSTS})

    said = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).how["s001"]

    assert said[0][0] == how


def test_what_indexes_compute_is_read(shop):
    shop.psql("shop", "CREATE TABLE part (a jsonb, b text)")
    shop.psql("shop", "CREATE INDEX ON part ((a ->> 'x'), lower(b)) WHERE b = 'open'")

    found = asyncio.run(read_load(shop.dsn("shop"))).tables["public", "part"]

    assert found.expressions == ("(a ->> 'x'::text), lower(b)",)
    assert found.predicates == ("(b = 'open'::text)",)


def test_what_was_left_out_is_said(written):
    record = json.loads((written / "workload.json").read_text())

    reasons = " ".join(each["reason"] for each in record["left_out"])
    assert "it calls wipe" in reasons
    assert "COPY has data of its own" in reasons
    assert record["transactions"]["explained"] == record["transactions"]["commits"] > 0


def test_every_file_passes_the_check(shop, written, tmp_path, capsys):
    folder = Path(shutil.copytree(written, tmp_path / "load"))
    shop.dump("shop", folder / "copy.dump")
    for draw in DRAWS:
        assert main(["check", "--no-host", str(folder / f"{draw.name}.toml")]) == 0, capsys.readouterr().err


def test_values_leave_the_server_if_that_is_asked_for(shop, tmp_path):
    folder = tmp_path / "load"
    shop.psql("shop", "ANALYZE")
    assert main(["workload", shop.dsn("shop"), "--output", str(folder), "--values"]) == 0

    setup = (folder / "rows" / "setup.sql").read_text()
    assert "planted" in setup
    shop.psql("copy", *[line.rstrip(";") for line in setup.splitlines() if not line.startswith("--")])
    shop.psql("copy", "DROP SCHEMA pgtrial_workload CASCADE")


def test_a_copy_is_loaded_as_the_original(shop, written, capsys):
    assert main(["workload", shop.dsn("copy"), "--check", str(written), "--seconds", "2", "--allow-writes"]) == 0

    said, meanwhile = capsys.readouterr()
    assert [line.partition(":")[0] for line in said.splitlines()[1:5]] == ["rows", "keys", "hot", "nearest"]
    at_work = [line.partition(":")[0] for line in meanwhile.splitlines() if "it is sent for 2 s" in line]
    assert at_work[:4] == ["rows", "keys", "hot", "nearest"]
    assert re.match(r"s\d+: keys ", said)  # a look-up by a column that is not unique
    assert "failed" not in said
    truth = (written / "truth.md").read_text()
    line = next(line for line in truth.splitlines() if "| SELECT * FROM orders WHERE customer" in line)
    shares = [float(part.strip(" %")) for part in line.split("|")[3:5]]
    assert shares[0] == pytest.approx(shares[1], abs=10)  # of a few hundred calls
    assert not shop.psql("copy", "SELECT 1 FROM pg_namespace WHERE nspname = 'pgtrial_workload'")
    assert shop.psql("copy", "SELECT count(*) FROM orders") == shop.psql("copy", "SELECT 2000")  # as it was
    assert not shop.psql("copy", "SELECT 1 FROM pg_database WHERE datname LIKE 'pgtrial%'")


def test_a_dsn_that_is_none_is_wrong_usage(tmp_path, capsys):
    assert main(["workload", "garbage", "--output", str(tmp_path / "load")]) == 2
    assert "it is not a connection string of libpq" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_copy_behind(shop, written, tmp_path, number):
    folder = shutil.copytree(written, tmp_path / "load")
    words = ["workload", shop.dsn("copy"), "--check", str(folder), "--seconds", "600", "--allow-writes"]
    command = [sys.executable, "-m", "pgtrial", *words]
    made = "SELECT 1 FROM pg_stat_activity WHERE datname LIKE 'pgtrial%' AND query LIKE '%orders%'"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: shop.psql("postgres", made) or process.poll() is not None, bool)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 130, said
    assert not shop.psql("postgres", "SELECT 1 FROM pg_database WHERE datname LIKE 'pgtrial%'")
    assert not shop.psql("postgres", made)


def test_a_dial_of_somebody_else_is_checked(shop, written, tmp_path, capsys):
    setup = Path(shutil.copytree(written, tmp_path / "load")) / "rows" / "setup.sql"
    with setup.open("a") as file:
        file.writelines(f"SET pgtrial_workload.s{number:03d}_other = '1';\n" for number in range(1, 6))
    words = ["workload", shop.dsn("copy"), "--check", str(tmp_path / "load"), "--seconds", "1", "--allow-writes"]
    assert main(words) == 2
    assert "has a dial of" in capsys.readouterr().err
    assert not shop.psql("postgres", "SELECT 1 FROM pg_database WHERE datname LIKE 'pgtrial%'")


def test_in_place_the_database_itself_is_written_to(shop, written, tmp_path, capsys):
    folder = shutil.copytree(written, tmp_path / "load")
    shop.psql("postgres", "CREATE DATABASE other TEMPLATE copy")
    words = ["workload", shop.dsn("other"), "--check", str(folder), "--seconds", "1", "--allow-writes", "--in-place"]
    assert main(words) == 0
    assert int(shop.psql("other", "SELECT count(*) FROM orders")) > 2000
    assert not shop.psql("other", "SELECT 1 FROM pg_namespace WHERE nspname = 'pgtrial_workload'")


def test_a_unique_column_that_is_changed_gets_new_values(shop, tmp_path, capsys):
    shop.psql("postgres", "CREATE DATABASE sess")
    shop.psql(
        "sess",
        "CREATE EXTENSION pg_stat_statements",
        "CREATE EXTENSION btree_gist",
        "CREATE TABLE sess (id int PRIMARY KEY, token text UNIQUE, room text, span int4range)",
        "INSERT INTO sess SELECT n, 'token' || n, n::text, '[1,2)' FROM generate_series(1, 200) AS n",
        "ALTER TABLE sess ADD EXCLUDE USING gist (room WITH =, span WITH &&)",
        "VACUUM ANALYZE",
    )
    (tmp_path / "change.sql").write_text(
        "\\set id random(1, 200)\nSELECT 'x' || random() AS token, 'r' || :id AS room \\gset\n"
        "UPDATE sess SET token = :token WHERE id = :id;\n"
        "UPDATE sess SET room = :room, span = '[1,2)' WHERE id = :id;\n"
    )
    shop.pgbench("sess", "-M", "extended", "-t", "50", "-f", f"{tmp_path}/change.sql")
    assert main(["workload", shop.dsn("sess"), "--output", str(tmp_path / "load")]) == 0
    assert "3 statements in 3 scripts" in capsys.readouterr().out

    words = ["--seconds", "1", "--allow-writes", "--in-place"]
    assert main(["workload", shop.dsn("sess"), "--check", str(tmp_path / "load"), *words]) == 0
    assert "failed" not in capsys.readouterr().out
    assert int(shop.psql("sess", "SELECT count(*) FROM sess WHERE token LIKE 'new%' AND room LIKE 'new%'")) > 100


TIED = """
CREATE EXTENSION pg_stat_statements;
CREATE TABLE gen (id serial PRIMARY KEY, mail text, lower_mail text GENERATED ALWAYS AS (lower(mail)) STORED UNIQUE);
INSERT INTO gen (mail) SELECT 'User' || n FROM generate_series(1, 500) AS n;
CREATE TABLE base (id serial PRIMARY KEY, code text UNIQUE NOT NULL, val int);
INSERT INTO base (code, val) SELECT 'code' || n, n FROM generate_series(1, 500) AS n;
CREATE VIEW shown AS SELECT id, code, val FROM base;
CREATE VIEW shown_again AS SELECT val, code FROM shown;
CREATE TABLE product (tenant int, id int, PRIMARY KEY (tenant, id));
INSERT INTO product SELECT t, i FROM generate_series(1, 20) AS t, generate_series(1, 50) AS i;
CREATE TABLE basket (tenant int, basket int, product int, PRIMARY KEY (tenant, basket, product),
    FOREIGN KEY (tenant, product) REFERENCES product);
INSERT INTO basket SELECT t, b, 1 + b % 50 FROM generate_series(1, 20) AS t, generate_series(1, 100) AS b;
CREATE TABLE most (id int PRIMARY KEY, big bigint UNIQUE);
INSERT INTO most SELECT n, n FROM generate_series(1, 500) AS n;
INSERT INTO most VALUES (2147483647, 9223372036854775807);
CREATE TABLE span (id serial PRIMARY KEY, a int, b int, CHECK (a < b));
INSERT INTO span (a, b) SELECT n, n + 1 FROM generate_series(1, 500) AS n;
CREATE DOMAIN area AS box;
CREATE TABLE place (id int, inside area, outline xml);
INSERT INTO place SELECT n, box(point(0, 0), point(n, n)), '<a/>' FROM generate_series(1, 500) AS n;
VACUUM ANALYZE
"""
OF_TIED = """\\set n random(1000, 100000000)
\\set one random(1, 500)
SELECT 'Sent' || :n AS mail, 1 + :one % 20 AS tenant, 1 + :one % 50 AS product, '(0,0),(9,9)' AS corners \\gset
INSERT INTO gen (mail) VALUES (:mail);
INSERT INTO shown (code, val) VALUES (:mail, :one);
INSERT INTO shown_again (val, code) VALUES (:one, 'again' || :mail);
INSERT INTO basket (tenant, basket, product) VALUES (:tenant, :n, :product);
INSERT INTO most (id, big) VALUES (:n, :n);
UPDATE span SET a = :one - 500 WHERE id = :one;
UPDATE span SET a = :one, b = :n WHERE id = :one;
SELECT id FROM place WHERE inside < :corners;
"""


@pytest.fixture(scope="module")
def tied(shop, tmp_path_factory):
    """The load of a database whose columns are tied to each other, and the folder for one like it."""
    folder = tmp_path_factory.mktemp("tied")
    shop.psql("postgres", "CREATE DATABASE tied")
    shop.psql("tied", *TIED.strip().split(";\n"))
    (folder / "tied.sql").write_text(OF_TIED)
    shop.pgbench("tied", "-M", "extended", "-t", "40", "-f", f"{folder}/tied.sql")
    assert main(["workload", shop.dsn("tied"), "--output", str(folder / "load")]) == 0
    return asyncio.run(read_load(shop.dsn("tied"))), folder / "load"


def test_the_catalogue_tells_what_ties_columns_together(tied):
    tables = tied[0].tables

    assert ("mail",) in tables["public", "gen"].unique
    assert tables["public", "shown"].unique == tables["public", "base"].unique
    assert tables["public", "shown"].columns["id"].sequence == ("public", "base_id_seq")
    assert tables["public", "shown_again"].unique == (("code",),)
    assert tables["public", "basket"].columns["product"].joint == (("public", "product"), "id")
    assert (("public", "product"), "id") in tied[0].referred
    assert tables["public", "span"].checks == (("a", "b"),)
    unordered = {
        (name, column)
        for (schema, name), table in tables.items()
        for column, found in table.columns.items()
        if schema == "public" and not found.has_order and not name.startswith("pg_")
    }
    assert unordered == {("place", "inside"), ("place", "outline")}


def test_no_statement_about_columns_that_are_tied_fails(shop, tied, capsys):
    words = ["--seconds", "1", "--allow-writes", "--in-place"]
    assert main(["workload", shop.dsn("tied"), "--check", str(tied[1]), *words]) == 0

    said = "".join(capsys.readouterr())
    assert "fails" not in said
    assert "Failed" not in (tied[1] / "truth.md").read_text()


def test_a_statement_that_fails_is_told_and_the_others_are_sent(shop, written, tmp_path, capsys):
    folder = Path(shutil.copytree(written, tmp_path / "load"))
    shop.psql("postgres", "CREATE DATABASE refusing TEMPLATE copy")
    # As a key that others have, with the row in its DETAIL.
    shop.psql("refusing", "ALTER TABLE customer ADD CHECK (name NOT LIKE 'planted%') NOT VALID")
    words = ["workload", shop.dsn("refusing"), "--check", str(folder), "--seconds", "1", "--allow-writes", "--in-place"]
    assert main(words) == 0

    said, meanwhile = capsys.readouterr()
    error = 'ERROR:  new row for relation "customer" violates check constraint "customer_name_check"'
    told = re.findall(
        r"^  (s\d+) fails, and is not in these figures \((.*)\): (UPDATE .*): (ERROR.*)$", said, re.MULTILINE
    )
    (name,) = {script for script, *_ in told}
    assert [what for _, what, _, _ in told] == [
        *(f"take it out of {draw.name}.toml" for draw in DRAWS),
        "left out of it",
    ]
    assert {why for *_, why in told} == {error}
    truth = (folder / "truth.md").read_text()
    assert truth.count(f"{name} fails, and is not in these figures: UPDATE") == 4
    assert "Failing row" not in said + meanwhile + truth
    assert f"rows: {name} fails, UPDATE" in meanwhile
    assert not re.search(r"blocks of a call within 100 %", said)
    assert name in (folder / "rows.toml").read_text()
    assert name not in (folder / "nearest.toml").read_text()
    assert 'name  = "s' in (folder / "nearest.toml").read_text()


def test_a_load_of_which_nothing_can_be_sent_is_an_error(shop, written, tmp_path, capsys):
    folder = Path(shutil.copytree(written, tmp_path / "load"))
    for script in folder.glob("*/s*.sql"):
        if script.stem != "setup":
            script.write_text("SELECT 1 / 0;\n")
    words = ["workload", shop.dsn("copy"), "--check", str(folder), "--seconds", "1", "--allow-writes"]
    assert main(words) == 1

    said = capsys.readouterr().err
    assert "no script of the load can be sent to this database" in said
    assert "s001: SELECT 1 / 0: ERROR:  division by zero" in said
    assert not shop.psql("postgres", "SELECT 1 FROM pg_database WHERE datname LIKE 'pgtrial%'")


def test_the_copy_of_a_check_that_was_killed_is_dropped_by_restore(shop, written, tmp_path, capsys):
    folder = shutil.copytree(written, tmp_path / "load")
    of_pgtrial = "SELECT datname FROM pg_database WHERE datname LIKE 'pgtrial%'"
    words = ["workload", shop.dsn("copy"), "--check", str(folder), "--seconds", "60", "--allow-writes"]
    with subprocess.Popen([sys.executable, "-m", "pgtrial", *words]) as check:
        try:
            wait_until(lambda: shop.psql("postgres", of_pgtrial))
        finally:
            check.kill()
    assert main(["restore"]) == 0
    assert not shop.psql("postgres", of_pgtrial)
    assert not shop.psql("copy", "SELECT 1 FROM pg_namespace WHERE nspname = 'pgtrial_workload'")


def test_without_the_right_to_copy_another_way_is_told(shop, written, tmp_path, capsys):
    folder = shutil.copytree(written, tmp_path / "load")
    shop.psql("postgres", "CREATE ROLE plain LOGIN")
    dsn = f"{shop.dsn('copy')} user=plain"
    assert main(["workload", dsn, "--check", str(folder), "--seconds", "1", "--allow-writes"]) == 1
    said = capsys.readouterr().err
    assert "permission denied to create database" in said
    assert "--in-place" in said


def test_settings_that_the_role_may_not_give_a_copy_are_told_once(shop, written, tmp_path, capsys):
    folder = shutil.copytree(written, tmp_path / "load")
    shop.psql("postgres", "CREATE DATABASE held", "CREATE ROLE holder LOGIN CREATEDB", "GRANT pg_monitor TO holder")
    shop.psql("held", "CREATE EXTENSION pg_stat_statements", "ALTER DATABASE held SET log_statement = 'all'")
    shop.psql("postgres", "ALTER DATABASE held OWNER TO holder")

    main(["workload", f"{shop.dsn('held')} user=holder", "--check", str(folder), "--seconds", "1", "--allow-writes"])

    said = "".join(capsys.readouterr())
    assert said.count("Copies lack settings of the original, which your role may not give them: log_statement\n") == 1


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("rows/s001.sql", "\\setshell x touch victim\n", "a shell command"),
        ("rows/setup.sql", "COPY (SELECT 1) TO PROGRAM 'touch victim';\n", "a shell command of the server"),
        ("keys/setup.sql", "ALTER ROLE postgres PASSWORD 'x';\n", "what concerns the whole server"),
        ("hot/s001.sql", "SELECT pg_terminate_backend(1);\n", "what concerns the whole server"),
    ],
)
def test_scripts_of_somebody_else_execute_nothing(file, line, said, shop, written, tmp_path, capsys):  # noqa: PLR0917
    folder = Path(shutil.copytree(written, tmp_path / "load"))
    with (folder / file).open("a") as script:
        script.write(line)

    assert main(["workload", shop.dsn("copy"), "--check", str(folder), "--seconds", "1", "--allow-writes"]) == 2
    assert f"{file}, line" in (told := capsys.readouterr().err)
    assert said in told
    assert not [*tmp_path.rglob("victim")]


@pytest.mark.parametrize(
    "change",
    [
        {"scripts": []},
        {"scripts": "x"},
        {"scripts": [{"name": "../../victim", "calls": 1, "statements": []}]},
        {"transactions": None},
        {"seconds": "NaN"},
        {"hidden": -1},
        {"left_out": [1]},
    ],
)
def test_a_record_of_somebody_else_is_checked(change, shop, written, tmp_path, capsys):
    folder = Path(shutil.copytree(written, tmp_path / "load"))
    record = json.loads((folder / "workload.json").read_text())
    (folder / "workload.json").write_text(json.dumps({**record, **change}))

    assert main(["workload", shop.dsn("copy"), "--check", str(folder), "--seconds", "1", "--allow-writes"]) == 2
    assert f'cannot read "{folder}/workload.json"' in capsys.readouterr().err


def test_what_is_written_of_a_check_goes_through_no_link(shop, written, tmp_path, capsys):
    folder = Path(shutil.copytree(written, tmp_path / "load", ignore=shutil.ignore_patterns("nearest*")))
    (tmp_path / "elsewhere").mkdir()
    (folder / "nearest").symlink_to(tmp_path / "elsewhere")

    assert main(["workload", shop.dsn("copy"), "--check", str(folder), "--seconds", "1", "--allow-writes"]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert [*(tmp_path / "elsewhere").iterdir()] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--check", "{folder}"], "writes to the database"),
        (["--check", "{empty}", "--allow-writes"], "workload.json"),
        (["--output", "{folder}"], "already exists"),
        ([], "--output"),
    ],
)
def test_bad_input_is_an_error_of_its_own(words, said, shop, written, tmp_path, capsys):  # noqa: PLR0917
    filled = [word.format(folder=written, empty=tmp_path) for word in words]

    assert main(["workload", shop.dsn("copy"), *filled]) == 2
    assert said in capsys.readouterr().err


def test_a_server_that_is_not_there_is_told_of_the_command(tmp_path, capsys):
    assert main(["workload", f"host={tmp_path} dbname=shop", "--output", str(tmp_path / "load")]) == 1
    said = capsys.readouterr().err
    assert "cannot connect to the server of the command" in said
    assert "[target]" not in said


def test_a_server_that_counts_no_statements_is_an_error(shop, tmp_path, capsys):
    assert main(["workload", shop.dsn("postgres"), "--output", str(tmp_path / "load")]) == 1
    assert "no pg_stat_statements" in capsys.readouterr().err
    assert not (tmp_path / "load").exists()


def test_a_server_that_has_not_loaded_what_counts_statements_is_told_so(served, tmp_path, capsys):
    with empty_database(served) as conninfo:
        asyncio.run(execute(conninfo, "CREATE EXTENSION pg_stat_statements"))
        assert main(["workload", conninfo, "--output", str(tmp_path / "load")]) == 1

    said = capsys.readouterr().err
    assert "the server has not loaded pg_stat_statements" in said
    assert "shared_preload_libraries" in said


MAKE_PARTS = """
CREATE TABLE part (id bigserial, k int, b text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2) PARTITION BY HASH (id);
CREATE TABLE part_2a PARTITION OF part_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_2b PARTITION OF part_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO part (k, b) SELECT 1 + (n % 4 = 0)::int, (n % 50)::text FROM generate_series(1, 8000) AS n;
CREATE TABLE whole (id bigserial PRIMARY KEY, k int, b text);
INSERT INTO whole SELECT * FROM part;
CREATE TABLE parent (id int, b text); CREATE TABLE child () INHERITS (parent);
INSERT INTO child SELECT id, b FROM whole;
CREATE VIEW view_of_part AS SELECT * FROM part;
CREATE TABLE keyed (id int PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE keyed_0 PARTITION OF keyed FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE refers (id int REFERENCES keyed);
CREATE TABLE gone (id int, b text) PARTITION BY LIST (id); CREATE TABLE gone_1 PARTITION OF gone FOR VALUES IN (1);
INSERT INTO gone SELECT 1, n::text FROM generate_series(1, 90) AS n;
ANALYZE gone; DROP TABLE gone_1;
CREATE EXTENSION pg_stat_statements;
ANALYZE part_1; ANALYZE part_2a; ANALYZE part_2b; ANALYZE whole; ANALYZE child
"""


def test_a_partitioned_table_is_as_one_that_is_not(shop):
    """Autovacuum analyses its partitions only; nobody has analysed it."""
    new = "INSERT INTO {} (k, b) VALUES ($1, $2)"
    with empty_database(shop.cluster) as conninfo:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for line in MAKE_PARTS.strip().split(";"):
                connection.execute(line)
        load, with_values = (asyncio.run(read_load(conninfo, with_values=each)) for each in (False, True))

    part, whole = load.tables["public", "part"], load.tables["public", "whole"]
    assert part.rows == whole.rows == 8000
    assert part.pages == sum(load.tables["public", f"part_{name}"].pages for name in ("1", "2a", "2b")) > 0
    assert part.columns["b"].distinct == whole.columns["b"].distinct == 50
    assert part.columns["id"].distinct == pytest.approx(8000)
    assert len(part.columns["b"].common) == 50
    assert with_values.tables["public", "whole"].columns["b"].values
    assert with_values.tables["public", "part"].columns["b"].values == ()  # those of one partition are not all
    assert load.tables["public", "parent"].rows == load.tables["public", "view_of_part"].rows == 8000
    assert load.tables["public", "refers"].columns["id"].references == (("public", "keyed"), "id")
    gone = load.tables["public", "gone"]  # whose statistics are still those of the rows that it had
    assert (gone.rows, gone.columns["b"].distinct) == (0, 0)
    asked = (replace(statement(new.format(name)), types=(INT, "text")) for name in ("part", "whole"))
    load = replace(load, statements=tuple(asked))
    setup = write_files(derive_scripts(load, with_values=False), load, DRAWS[0]).setup
    for name in ("part", "whole"):
        assert f'FROM (SELECT * FROM "public"."{name}" ORDER BY "id" DESC LIMIT 100) AS newest' in setup
