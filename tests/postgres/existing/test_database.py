import dataclasses
import json
import threading

import psycopg
import pytest

from pgtrial.errors import PreflightError, TargetError
from pgtrial.hosts.local import LocalHost
from pgtrial.model.change import Outcome
from pgtrial.postgres.connect import execute
from pgtrial.postgres.existing import database
from pgtrial.postgres.existing.address import find_again
from pgtrial.postgres.existing.database import (
    apply_database,
    check_may_create,
    data_database,
    plan_database,
    run_database,
    undo_database,
)
from pgtrial.postgres.existing.rights import probe_rights
from pgtrial.postgres.existing.server import control_again
from support import wait_until

TOKEN = "12ab34cd"
# What does not depend on the server's version.
on_one = pytest.mark.parametrize("each_programs", ["any"], indirect=True)


def databases(foreign):
    return {name for (name,) in foreign.sql("SELECT datname FROM pg_database WHERE NOT datistemplate")} - {"postgres"}


@pytest.mark.parametrize("user", ["boss", "maker"])
def test_databases_of_our_own_are_made_copied_and_dropped(foreign, runner, user):
    server = runner.run(foreign.open(user))
    data = runner.run(plan_database(server, data_database(TOKEN), template=None))
    runner.run(apply_database(server, data))
    runner.run(execute(server.conninfo(data_database(TOKEN)), "CREATE TABLE t AS SELECT generate_series(1, 1000) AS i"))
    for _ in range(2):
        run = runner.run(plan_database(server, run_database(TOKEN), template=data_database(TOKEN)))
        got = runner.run(apply_database(server, run))

        assert got == {**run.new, "left_out": "[]"}
        assert foreign.sql("SELECT count(*) FROM t", database=run_database(TOKEN), user=user) == [(1000,)]
        assert runner.run(undo_database(server.control, foreign.entry(run, got))).outcome is Outcome.RESTORED
        assert databases(foreign) == {data_database(TOKEN)}
    assert data.name == f'database "pgtrial_{TOKEN}_data" of the server at 127.0.0.1:{foreign.port}'
    assert (data.old_text, data.new_text) == ("none", "an empty one")
    assert runner.run(undo_database(server.control, foreign.entry(data))).outcome is Outcome.RESTORED
    assert runner.run(undo_database(server.control, foreign.entry(data))).outcome is Outcome.ALREADY
    assert databases(foreign) == set()


def test_a_database_in_use_is_dropped_all_the_same(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))

    with psycopg.connect(foreign.conninfo("maker", run_database(TOKEN))) as left:
        assert runner.run(undo_database(server.control, foreign.entry(change))).outcome is Outcome.RESTORED
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")


def test_a_database_is_dropped_while_autovacuum_is_at_work_in_it(foreign, runner):
    foreign.set_auto_conf("autovacuum = off\n")  # its launcher begins anew below
    server = runner.run(foreign.open("maker"))  # who may not end its workers
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))
    name = run_database(TOKEN)
    foreign.sql("CREATE TABLE large AS SELECT i FROM generate_series(1, 100000) AS i", database=name)
    foreign.sql("DELETE FROM large", database=name)
    foreign.set_auto_conf(
        "autovacuum_naptime = 1\nautovacuum_vacuum_cost_delay = 100\nautovacuum_vacuum_cost_limit = 1\n"
    )
    at_work = f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND backend_type = 'autovacuum worker'"
    wait_until(lambda: foreign.sql(at_work))

    with psycopg.connect(foreign.conninfo("maker", name)):
        undone = runner.run(undo_database(server.control, foreign.entry(change)))

    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")


def test_a_database_whose_drop_was_broken_off_is_dropped(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))
    # As an interrupted DROP DATABASE leaves it, whose backend ends where it is altered then.
    foreign.sql(f"UPDATE pg_database SET datconnlimit = -2 WHERE datname = '{run_database(TOKEN)}'")

    undone = runner.run(undo_database(server.control, foreign.entry(change)))

    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")
    assert databases(foreign) == set()


@pytest.fixture
def granted(foreign, request):
    """A role that maker is a member of."""
    foreign.sql(f"GRANT {request.param} TO maker")
    yield
    foreign.sql(f"REVOKE {request.param} FROM maker")


@on_one
@pytest.mark.parametrize("granted", ["pg_signal_backend", "watcher"], indirect=True)
def test_others_sessions_are_ended_by_who_may(foreign, runner, granted):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))

    with foreign.connect(user="watcher", database=run_database(TOKEN)) as other:
        undone = runner.run(undo_database(server.control, foreign.entry(change)))
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")

    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")


@on_one
@pytest.mark.parametrize("granted", ["nobody_special", "pg_signal_backend", "boss"], indirect=True)
def test_a_session_that_the_role_may_not_end_may_end_itself(foreign, runner, granted):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))
    closed = f"SELECT 1 FROM pg_database WHERE datname = '{run_database(TOKEN)}' AND NOT datallowconn"

    with foreign.connect(user="boss", database=run_database(TOKEN)) as other:  # a monitor that looks at each database
        leaver = threading.Thread(target=lambda: (wait_until(lambda: foreign.sql(closed)), other.close()))
        leaver.start()
        undone = runner.run(undo_database(server.control, foreign.entry(change)))
        leaver.join()

    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")


def test_killed_before_the_comment_it_is_known_all_the_same(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    foreign.sql(f"CREATE DATABASE {run_database(TOKEN)} OID {change.new['oid']} TEMPLATE template0", user="maker")

    # Another pgtrial, with nothing but the entry and its own environment.
    address = find_again(change.new["server"], {"PGPASSWORD": foreign.password})
    undone = runner.run(undo_database(control_again(LocalHost(), address, ""), foreign.entry(change)))

    assert undone.outcome is Outcome.RESTORED
    assert databases(foreign) == set()


def test_killed_while_it_is_made_nothing_comes_of_it_later(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template="template1"))
    failed: list[psycopg.Error] = []

    def create():
        statement = f'CREATE DATABASE "{run_database(TOKEN)}" OID {change.new["oid"]} TEMPLATE template1'
        with psycopg.connect(f"{foreign.conninfo('maker')} application_name=pgtrial", autocommit=True) as connection:
            try:
                connection.execute(statement)
            except psycopg.Error as err:
                failed.append(err)

    # A copy cannot begin while somebody is connected to the template; so it waits, as a large one would take.
    with psycopg.connect(foreign.conninfo("boss", "template1"), autocommit=True):
        making = threading.Thread(target=create)
        making.start()
        while not foreign.sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE DATABASE \"%'"):
            assert making.is_alive()
        undone = runner.run(undo_database(server.control, foreign.entry(change)))
        making.join()

    assert undone.outcome is Outcome.ALREADY
    assert len(failed) == 1
    assert databases(foreign) == set()


def test_a_database_that_somebody_else_has_made_is_left(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    foreign.sql(f"CREATE DATABASE {run_database(TOKEN)}")

    undone = runner.run(undo_database(server.control, foreign.entry(change)))

    assert undone.outcome is Outcome.CHANGED
    assert databases(foreign) == {run_database(TOKEN)}
    with pytest.raises(TargetError, match=f'database "pgtrial_{TOKEN}" already exists'):
        runner.run(plan_database(server, run_database(TOKEN), template=None))


@on_one
def test_a_database_that_somebody_has_made_his_own_is_left(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))
    foreign.sql(f"COMMENT ON DATABASE {run_database(TOKEN)} IS 'mine now'")

    assert runner.run(undo_database(server.control, foreign.entry(change))).outcome is Outcome.CHANGED
    assert databases(foreign) == {run_database(TOKEN)}


@on_one
def test_a_database_that_cannot_be_dropped_is_a_failure_with_the_statement(foreign, runner):
    server = runner.run(foreign.open("maker"))
    change = runner.run(plan_database(server, run_database(TOKEN), template=None))
    runner.run(apply_database(server, change))
    foreign.sql(f"ALTER DATABASE {run_database(TOKEN)} OWNER TO boss")

    undone = runner.run(undo_database(server.control, foreign.entry(change)))

    assert undone.outcome is Outcome.FAILED
    assert undone.text == (
        f"The server refuses: must be owner of database {run_database(TOKEN)}. "
        f'By hand: DROP DATABASE "{run_database(TOKEN)}";'
    )


@on_one
def test_only_names_of_ours_are_ever_dropped(foreign, runner, monkeypatch):
    server = runner.run(foreign.open())
    monkeypatch.setattr(database, "_NAME", database.re.compile(".*"))
    change = runner.run(plan_database(server, "precious", template=None))
    runner.run(apply_database(server, change))
    monkeypatch.undo()

    assert runner.run(undo_database(server.control, foreign.entry(change))).outcome is Outcome.FAILED
    assert databases(foreign) == {"precious"}


@on_one
def test_on_a_standby_nobody_can_create_a_database(foreign, runner):
    rights = runner.run(probe_rights(runner.run(foreign.open("maker"))))

    check_may_create(rights)
    with pytest.raises(PreflightError, match="the server is a standby, where no database can be created"):
        check_may_create(dataclasses.replace(rights, in_recovery=True))


@on_one
@pytest.mark.parametrize(
    ("user", "left_out"), [("boss", []), ("maker", ['work_mem of role "watcher"', "log_statement"])]
)
def test_sessions_of_a_copy_begin_as_those_of_its_template(foreign, runner, user, left_out):
    server = runner.run(foreign.open(user))
    data = data_database(TOKEN)
    runner.run(apply_database(server, runner.run(plan_database(server, data, template=None))))
    foreign.sql(f"ALTER DATABASE {data} SET search_path = sales, jobs, public")
    foreign.sql(f"ALTER DATABASE {data} SET log_statement = 'all'")  # which not every role may
    foreign.sql(f"ALTER ROLE watcher IN DATABASE {data} SET work_mem = '7MB'")

    got = runner.run(apply_database(server, runner.run(plan_database(server, run_database(TOKEN), template=data))))

    assert foreign.sql("SHOW search_path", database=run_database(TOKEN), user=user) == [("sales, jobs, public",)]
    assert json.loads(got["left_out"]) == left_out
