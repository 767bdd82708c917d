"""The mix tpcc-like: what its data, its keys and its transactions are, on a real server of every version."""

import re
from pathlib import Path

import numpy as np
import psycopg
import pytest

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import MIX_SCENARIOS, TPCC
from pgtrial.postgres.connect import execute_script, find_row
from pgtrial.workloads.pgbench import integer_weights
from pgtrial.workloads.scenarios import MIX_SHARES, scenarios_of, setup_sql
from pgtrial.workloads.tpcc import CHECKS, load_sql

TRANSACTIONS = 400
DRAWS = 4000
LINES = range(1, 16)
SIZES = {
    "item": 100_000,
    "warehouse": 1,
    "district": 10,
    "customer": 30_000,
    "history": 30_000,
    "stock": 100_000,
    "orders": 30_000,
    "new_order": 9_000,
}
# Sums of hashes of the rows of one warehouse: the same from every server, and each time.
DIGESTS = {
    "customer": -480136916421554621238,
    "stock": -402775773343052457584,
    "orders": -675876114969280938317,
    "order_line": -528804648458501924925,
}


def experiment(**dataset):
    return Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "dataset": {"scale": 1, **dataset},
            "workload": {"mix": TPCC},
            "arms": {"a": {}, "b": {}},
        }
    )


def script_of(name):
    return next(one.script for one in scenarios_of(experiment(), Path()) if one.name == name)


@pytest.fixture(scope="session")
def loaded(server):
    """The server with one warehouse, with foreign keys, besides the tables of pgbench."""
    conninfo = server.cluster.conninfo("postgres")
    server.runner.run(execute_script(conninfo, load_sql(1, foreign_keys=True), name=TPCC))
    server.execute("VACUUM (ANALYZE)")
    return server


def count_rows(server):
    return {table: server.query(f"SELECT count(*) FROM {table}")[0][0] for table in ("orders", "history")}


def broken(server):
    """Clauses that do not hold, each with what the check says."""
    conninfo = server.cluster.conninfo("postgres")
    rows = {clause: server.runner.run(find_row(conninfo, query)) for clause, query in CHECKS.items()}
    return {clause: row[0] for clause, row in rows.items() if row is not None}


def test_the_shares_are_those_of_the_specification():
    shares = MIX_SHARES[TPCC]

    assert tuple(shares) == MIX_SCENARIOS[TPCC]
    assert integer_weights(tuple(shares.values())) == (45, 43, 4, 4, 4)


def test_data_and_shares_need_not_be_written():
    experiment = Experiment.model_validate(
        {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": TPCC}, "arms": {"a": {}, "b": {}}}
    )

    assert experiment.dataset.kind == TPCC
    assert experiment.workload.share == "transactions"
    assert setup_sql(experiment, Path()) == ()


def test_the_data_are_those_of_the_specification_and_the_same_each_time_on_each_version(server):
    conninfo = server.cluster.conninfo("postgres")
    script = f"CREATE SCHEMA again;\nSET search_path = again;\n{load_sql(1, foreign_keys=False)}"
    try:
        server.runner.run(execute_script(conninfo, script, name=TPCC))
        with psycopg.connect(conninfo, options="-c TimeZone=UTC -c search_path=again") as connection:

            def ask(query):
                return connection.execute(query).fetchone()

            sizes = {table: ask(f"SELECT count(*) FROM {table}")[0] for table in SIZES}
            digests = {
                table: int(ask(f"SELECT sum(hashtextextended(t::text, 0)) FROM {table} AS t")[0]) for table in DIGESTS
            }
            orders = ask("SELECT count(DISTINCT (o_d_id, o_c_id)), min(o_ol_cnt), max(o_ol_cnt) FROM orders")
            waiting = ask("SELECT count(*) FROM orders WHERE o_carrier_id IS NULL")
            original = [ask("SELECT avg((s_data LIKE '%ORIGINAL%')::integer) FROM stock")[0]]
            original += ask("SELECT avg((i_data LIKE '%ORIGINAL%')::integer) FROM item")
            bad_credit = ask("SELECT avg((c_credit = 'BC')::integer) FROM customer")
            lengths = ask("SELECT min(length(c_data)), max(length(c_data)) FROM customer")
            places = ask("SELECT min(length(s_dist_10)), count(DISTINCT s_dist_10) FROM stock")
            names = ask("SELECT count(DISTINCT c_last) FROM customer WHERE c_d_id = 3 AND c_id <= 1000")
    finally:
        server.execute("DROP SCHEMA again CASCADE")

    assert sizes == SIZES
    assert orders == (30_000, 5, 15)
    assert waiting == (9_000,)
    assert all(0.09 < share < 0.11 for share in (*original, *bad_credit))
    assert (lengths, places, names) == ((300, 500), (24, 100_000), (1000,))
    assert digests == DIGESTS


def test_last_names_are_made_of_the_digits_of_a_number(loaded):
    assert loaded.query("SELECT tpcc_last_name(371), tpcc_last_name(40), tpcc_last_name(999)") == [
        ("PRICALLYOUGHT", "BARPRESBAR", "EINGEINGEING")
    ]


def draw(server, folder, name, columns, *, scale=20):
    """What pgbench draws for the variables of a scenario, without its statements."""
    sets = "\n".join(line for line in script_of(name).splitlines() if line.startswith("\\set "))
    server.execute("DROP TABLE IF EXISTS drawn")
    server.execute(f"CREATE TABLE drawn ({', '.join(f'{column} integer' for column in columns)})")
    values = ", ".join(f":{column}" for column in columns)
    script = folder / "draw.sql"
    script.write_text(f"{sets}\nINSERT INTO drawn VALUES ({values});\n")
    options = ["-n", "-t", str(DRAWS), "-c", "1", "--random-seed=7", "-D", f"scale={scale}", "-f", str(script)]
    status, _, stderr = server.pgbench(options)
    assert status == 0, stderr
    drawn = server.query("SELECT * FROM drawn")
    return {column: np.array([row[place] for row in drawn]) for place, column in enumerate(columns)}


def nurand(a, low, high, constant, *, draws=1_000_000):
    """Draws as clause 2.1.6 of the specification defines them."""
    rng = np.random.default_rng(11)
    mixed = rng.integers(0, a, draws, endpoint=True) | rng.integers(low, high, draws, endpoint=True)
    return (mixed + constant) % (high - low + 1) + low


def assert_alike(drawn, oracle):
    """Kolmogorov-Smirnov, two samples, at 0.001."""
    places = np.union1d(drawn, oracle)
    apart = np.searchsorted(np.sort(drawn), places, "right") / len(drawn)
    apart -= np.searchsorted(np.sort(oracle), places, "right") / len(oracle)
    assert np.max(np.abs(apart)) < 1.95 * np.sqrt(1 / len(drawn) + 1 / len(oracle))


def assert_share(drawn, share):
    """Within five standard errors of a binomial share."""
    assert abs(np.mean(drawn) - share) < 5 * np.sqrt(share * (1 - share) / len(drawn))


def test_items_and_customers_of_orders_are_drawn_as_the_specification_says(server, tmp_path):
    lines = [f"{name}{line}" for name in ("item", "from", "quantity") for line in LINES]
    drawn = draw(server, tmp_path, "new-order", ["w_id", "d_id", "c_id", "lines", "unknown", *lines])

    items = np.concatenate([drawn[f"item{line}"] for line in LINES])
    assert items.min() >= 1
    assert items.max() <= 100_000
    assert_alike(items, nurand(8191, 1, 100_000, 7911))
    assert_alike(drawn["c_id"], nurand(1023, 1, 3000, 259))
    assert (drawn["lines"].min(), drawn["lines"].max()) == (5, 15)
    assert_share(drawn["unknown"] > 0, 0.01)
    assert set(drawn["unknown"] - drawn["lines"]) <= {0, *-np.unique(drawn["lines"])}, "it is the last one, or none"
    others = np.concatenate([drawn[f"from{line}"] - drawn["w_id"] for line in LINES])
    assert_share(others != 0, 0.01)
    suppliers = np.concatenate([drawn[f"from{line}"] for line in LINES])
    assert (suppliers.min(), suppliers.max()) == (1, 20)
    assert set(np.concatenate([drawn[f"quantity{line}"] for line in LINES])) == set(range(1, 11))


def test_customers_who_pay_are_drawn_as_the_specification_says(server, tmp_path):
    columns = ["w_id", "d_id", "c_w_id", "c_d_id", "c_id", "name", "by_name", "cents"]
    drawn = draw(server, tmp_path, "payment", columns)

    assert_share(drawn["c_w_id"] != drawn["w_id"], 0.15)
    at_home = drawn["c_w_id"] == drawn["w_id"]
    assert np.all(drawn["c_d_id"][at_home] == drawn["d_id"][at_home])
    assert_share(drawn["by_name"] <= 60, 0.6)
    assert_alike(drawn["name"], nurand(255, 0, 999, 205))
    assert (drawn["name"].min() >= 0, drawn["name"].max() <= 999) == (True, True)
    assert_alike(drawn["c_id"], nurand(1023, 1, 3000, 259))
    assert 100 <= drawn["cents"].min() <= drawn["cents"].max() <= 500_000


def test_the_names_that_are_looked_for_are_as_far_from_those_of_the_load_as_allowed():
    """Clause 2.1.6.1: the constants differ by 65 to 119, but not by 96 or 112."""
    (run,) = re.findall(r"\\set name .*\+ (\d+)\) % 1000", script_of("payment"))
    (load,) = re.findall(r"0, 999\)\) \+ (\d+)\) % 1000", load_sql(1, foreign_keys=False))

    assert abs(int(run) - int(load)) in set(range(65, 120)) - {96, 112}


def test_with_one_warehouse_nothing_comes_from_another_one(server, tmp_path):
    drawn = draw(server, tmp_path, "payment", ["c_w_id"], scale=1)
    assert set(drawn["c_w_id"]) == {1}
    drawn = draw(server, tmp_path, "new-order", [f"from{line}" for line in LINES], scale=1)
    assert set(np.concatenate(list(drawn.values()))) == {1}


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_the_data_are_consistent_after_the_load(loaded, tmp_path, protocol):
    before = count_rows(loaded)
    options = ["-n", "-t", str(TRANSACTIONS), "-c", "4", "-M", protocol, "-D", "scale=1", "--random-seed=5"]
    weights = integer_weights(tuple(MIX_SHARES[TPCC].values()))
    for name, weight in zip(MIX_SCENARIOS[TPCC], weights, strict=True):
        (tmp_path / f"{name}.sql").write_text(script_of(name))
        options += ["-f", f"{tmp_path / name}.sql@{weight}"]

    status, out, stderr = loaded.pgbench(options)

    assert status == 0, stderr
    assert broken(loaded) == {}
    done = dict(zip(MIX_SCENARIOS[TPCC], map(int, re.findall(r" - (\d+) transactions \(", out)), strict=True))
    after = count_rows(loaded)
    assert after["history"] - before["history"] == done["payment"]
    rolled_back = done["new-order"] - (after["orders"] - before["orders"])
    assert 0 <= rolled_back <= 0.03 * done["new-order"]
    ((delivered,),) = loaded.query("SELECT count(*) FROM orders WHERE o_carrier_id IS NOT NULL")
    assert loaded.query("SELECT sum(c_delivery_cnt) + 21000 FROM customer") == [(delivered,)]
    assert loaded.query("SELECT sum(s_order_cnt) FROM stock") == loaded.query(
        "SELECT count(*) FROM order_line WHERE ol_o_id > 3000"
    )
    assert loaded.query("SELECT min(s_quantity) >= 10, max(s_quantity) <= 100 FROM stock") == [(True, True)]


@pytest.mark.parametrize(
    ("statement", "clauses", "says"),
    [
        (
            "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_id = 3",
            {"3.3.2.1", "3.3.2.9"},
            "warehouse 1 has W_YTD",
        ),
        ("UPDATE warehouse SET w_ytd = w_ytd - 0.01", {"3.3.2.1", "3.3.2.8"}, "warehouse 1 has W_YTD"),
        ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 7", {"3.3.2.2"}, "district 7 of warehouse 1"),
        (
            "DELETE FROM new_order WHERE no_d_id = 2 AND no_o_id = 2990",
            {"3.3.2.3"},
            "district 2 of warehouse 1",
        ),
        (
            "DELETE FROM order_line WHERE ol_d_id = 10 AND ol_o_id = 1 AND ol_number = 1",
            {"3.3.2.4"},
            "district 10 of warehouse 1",
        ),
    ],
)
def test_what_is_inconsistent_is_found_and_named(loaded, statement, clauses, says):
    with psycopg.connect(loaded.cluster.conninfo("postgres")) as connection:
        connection.execute(statement)
        rows = {clause: connection.execute(query).fetchone() for clause, query in CHECKS.items()}
        connection.rollback()

    found = {clause: row[0] for clause, row in rows.items() if row is not None}
    assert set(found) == clauses
    assert found[min(clauses)].startswith(says)
