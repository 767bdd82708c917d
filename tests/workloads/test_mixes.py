"""What the shipped scenarios do to a real server, in every version and protocol."""

from pathlib import Path

import psycopg
import pytest

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.postgres.connect import execute_script
from pgtrial.workloads.scenarios import scenarios_of, setup_sql

TRANSACTIONS = 10


def experiment(mix):
    return Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "dataset": {"scale": 1},
            "workload": {"mix": mix},
            "arms": {"a": {}, "b": {}},
        }
    )


@pytest.fixture
def prepared(server):
    """A server after the set-up of the mixes, with no history and no balance."""
    for name, script in setup_sql(experiment("oltp"), Path()):
        server.runner.run(execute_script(server.cluster.conninfo("postgres"), script, name=name))
    server.execute("TRUNCATE pgbench_history")
    server.execute("UPDATE pgbench_accounts SET abalance = 0 WHERE abalance <> 0")
    return server


def run(server, folder, mix, name, *, protocol="simple", end=";"):
    (scenario,) = (s for s in scenarios_of(experiment(mix), Path()) if s.name == name)
    script = folder / f"{name}.sql"
    script.write_text(scenario.script.rstrip().removesuffix(";") + end + "\n")
    status, _, stderr = server.pgbench(
        ["-n", "-t", str(TRANSACTIONS), "-c", "1", "-M", protocol, "-D", "scale=1", "-f", f"{script}@1"]
    )
    assert (status, stderr) == (0, "")


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize(("mix", "rows"), [("oltp", 10), ("olap", 1)])
def test_an_insert_adds_its_rows_in_one_transaction(prepared, tmp_path, mix, rows, protocol):
    run(prepared, tmp_path, mix, "insert", protocol=protocol)

    by_transaction = prepared.query("SELECT xmin::text, count(*) FROM pgbench_history GROUP BY 1")
    assert [count for _, count in by_transaction] == [rows] * TRANSACTIONS
    (fitting,) = prepared.query("""
        SELECT count(*), count(DISTINCT reference)
        FROM pgbench_history
        JOIN pgbench_accounts USING (aid, bid)
        JOIN pgbench_tellers USING (tid, bid)
        WHERE pgbench_history.mtime > now() - INTERVAL '1 minute'
    """)
    assert fitting == (rows * TRANSACTIONS, rows * TRANSACTIONS), (
        "each row's account, teller and branch belong together"
    )


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
@pytest.mark.parametrize(("mix", "accounts"), [("oltp", 10), ("olap", 1)])
def test_an_update_changes_its_accounts_in_one_transaction(prepared, tmp_path, mix, accounts, protocol):
    run(prepared, tmp_path, mix, "update", protocol=protocol)

    by_transaction = prepared.query("SELECT xmin::text, count(*) FROM pgbench_accounts WHERE abalance <> 0 GROUP BY 1")
    # An account may be drawn twice, and the change of a transaction, which all its accounts share, may be by zero; both
    # are rare.
    assert (TRANSACTIONS - 1) * accounts - 4 <= sum(count for _, count in by_transaction) <= TRANSACTIONS * accounts
    assert len(by_transaction) >= TRANSACTIONS - 1
    assert max(count for _, count in by_transaction) == accounts


@pytest.mark.parametrize("mix", ["oltp", "olap"])
def test_an_update_passes_over_accounts_that_another_session_holds(prepared, tmp_path, mix):
    with psycopg.connect(prepared.cluster.conninfo("postgres")) as other:
        other.execute("SELECT aid FROM pgbench_accounts FOR UPDATE")
        run(prepared, tmp_path, mix, "update")

    assert prepared.query("SELECT count(*) FROM pgbench_accounts WHERE abalance <> 0") == [(0,)]


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_the_oltp_read_returns_one_row(prepared, tmp_path, protocol):
    # \gset complains about any other number.
    run(prepared, tmp_path, "oltp", "read", protocol=protocol, end=" \\gset")


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared"])
def test_the_olap_read_runs_in_every_protocol(prepared, tmp_path, protocol):
    run(prepared, tmp_path, "olap", "read", protocol=protocol)


def test_the_olap_read_reports_accounts_and_seven_days_of_history_by_branch(prepared):
    prepared.execute(
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES "
        "(1, 1, 7, 5, now() - INTERVAL '1 day'), (1, 1, 7, 6, now()), (2, 1, 8, -1, now()), "
        "(2, 1, 9, 1000, now() - INTERVAL '8 days')",
    )
    prepared.execute("UPDATE pgbench_accounts SET abalance = 1 WHERE aid <= 50")
    read = next(s.script for s in scenarios_of(experiment("olap"), Path()) if s.name == "read")

    (row,) = prepared.query(read)

    assert row[:2] == (1, 100_000)
    assert (row[2], float(row[3])) == (50, 0.0005)
    assert row[4:7] == (3, 10, 2), "the change of eight days ago is left out"
    assert (row[8] - row[7]).days == 1


def test_a_branch_without_history_is_in_the_olap_report(prepared):
    read = next(s.script for s in scenarios_of(experiment("olap"), Path()) if s.name == "read")

    (row,) = prepared.query(read)

    assert row[4:] == (None,) * 5


def test_the_set_up_makes_an_indexed_column_and_removes_foreign_keys_and_may_run_again(prepared):
    prepared.execute(
        "ALTER TABLE pgbench_history ADD CONSTRAINT pgbench_history_aid_fkey "
        "FOREIGN KEY (aid) REFERENCES pgbench_accounts",
    )
    ((name, script),) = setup_sql(experiment("olap"), Path())

    prepared.runner.run(execute_script(prepared.cluster.conninfo("postgres"), script, name=name))

    assert prepared.query("SELECT count(*) FROM pg_constraint WHERE conrelid = 'pgbench_history'::regclass") == [(0,)]
    (index,) = prepared.query("SELECT indexdef FROM pg_indexes WHERE tablename = 'pgbench_history'")
    assert index[0].endswith("(reference)")
