import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import psycopg
import pytest

from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import HostRestored
from pgtrial.errors import RestoreError, TargetError
from pgtrial.hosts.processes import identify
from pgtrial.knobs.base import KnobContext
from pgtrial.model.change import Change, JournalEntry, Outcome
from pgtrial.postgres.existing import arm_sql, lock_wait, steps
from pgtrial.postgres.existing.address import find_again
from pgtrial.postgres.existing.arm_sql import apply_sql, are_of_others, plan_sql, undo_sql
from pgtrial.postgres.existing.knobs import ServerSql
from pgtrial.postgres.existing.server import control_again
from pgtrial.postgres.existing.steps import Progress
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import VARIABLE
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


@dataclass
class Noted:
    """An entry of a change, with what was noted of it in a file, which outlives a process."""

    before: JournalEntry
    place: Path

    def note(self, got: Mapping[str, str]) -> None:
        part = self.place.with_suffix(".part")
        part.write_text(json.dumps(got))
        part.rename(self.place)

    @property
    def entry(self) -> JournalEntry:
        return replace(self.before, got=json.loads(self.place.read_text()) if self.place.exists() else None)


@pytest.fixture
def noted(shop, tmp_path: Path) -> Callable[[Change], Noted]:
    return lambda change: Noted(before=shop.entry(change), place=tmp_path / f"{len(list(tmp_path.iterdir()))}.json")


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


def test_what_was_applied_in_part_is_undone_as_far_as_it_came(shop, runner, noted):
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX a ON orders (id); CREATE INDEX b ON nowhere (id)", "DROP INDEX b; DROP INDEX a")
    change = runner.run(plan_sql(server, "shop", table))
    journal = noted(change)
    with pytest.raises(TargetError, match=r'arms\.b\.sql\.apply, line 1: relation "nowhere" does not exist'):
        runner.run(apply_sql(server, change, journal.note))
    assert indexes(shop) == {"a"}

    assert runner.run(undo_sql(server.control, journal.entry)).outcome is Outcome.RESTORED
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


@pytest.mark.parametrize(
    ("made", "apply", "undo"),
    [
        ("CREATE INDEX old ON orders (id)", "DROP INDEX old", "CREATE INDEX old ON orders (id)"),
        (
            "ALTER TABLE orders ADD CONSTRAINT positive CHECK (id > 0)",
            "ALTER TABLE orders DROP CONSTRAINT positive",
            "ALTER TABLE orders ADD CONSTRAINT positive CHECK (id > 0)",
        ),
        (
            "ALTER TABLE orders ADD PRIMARY KEY (id)",
            "ALTER TABLE orders DROP CONSTRAINT orders_pkey",
            "ALTER TABLE orders ADD PRIMARY KEY (id)",
        ),
        ("CREATE VIEW few AS SELECT 1", "DROP VIEW few", "CREATE VIEW few AS SELECT 1"),
        (
            "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "DROP FUNCTION one()",
            "CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ),
    ],
)
def test_what_an_undo_makes_again_may_be_there_already(shop, runner, made, apply, undo):
    shop.sql(made, database="shop")
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(apply, undo)))

    # As after a kill before the SQL was applied, after a kill before it was undone, and after one behind that.
    undone = [runner.run(undo_sql(server.control, shop.entry(change)))]
    entry = shop.entry(change, runner.run(apply_sql(server, change)))
    undone += [runner.run(undo_sql(server.control, entry)) for _ in range(2)]

    assert [each.outcome for each in undone] == [Outcome.RESTORED] * 3, undone


def test_what_somebody_has_made_in_place_of_what_an_undo_makes_is_not_taken_for_it(shop, runner):
    shop.sql("CREATE INDEX old ON orders (id)", database="shop")
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("DROP INDEX old", "CREATE INDEX old ON orders (id)")))
    got = runner.run(apply_sql(server, change))
    shop.sql("CREATE INDEX old ON orders (id DESC)", database="shop")

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.FAILED
    assert undone.text == (
        'arms.b.sql.undo: relation "old" already exists. By hand: CREATE INDEX old ON orders (id); '
        "Altered: index public.old."
    )


def test_an_undo_that_a_killed_pgtrial_left_at_work_is_not_done_twice(shop, runner):
    server = runner.run(shop.open())
    slow = "UPDATE orders SET id = id - 1 WHERE pg_sleep(0.02) IS NOT NULL"  # 2 s
    change = runner.run(plan_sql(server, "shop", wanted("UPDATE orders SET id = id + 1", slow)))
    entry = shop.entry(change, runner.run(apply_sql(server, change)))
    working = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND starts_with(query, 'UPDATE orders')"
    killed = get_context("fork").Process(target=lambda: asyncio.run(undo_sql(server.control, entry)))
    killed.start()
    wait_until(lambda: shop.sql(working) == [(1,)])
    killed.kill()
    killed.join()
    assert shop.sql(working) == [(1,)]

    assert runner.run(undo_sql(server.control, entry)).outcome is Outcome.RESTORED
    assert shop.sql("SELECT min(id), max(id) FROM orders", database="shop") == [(1, 100)]


def test_an_undo_that_leaves_something_says_what(shop, runner):
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX a ON orders (id); CREATE INDEX b ON orders (id)", "DROP INDEX a")
    change = runner.run(plan_sql(server, "shop", table))
    got = runner.run(apply_sql(server, change))

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.CHANGED
    assert undone.text == (
        'Undone, but the database "shop" is not as before. Left over: index public.b. '
        "What is left over may be somebody else's: who was connected meanwhile is not known."
    )


def test_an_undo_that_adds_a_column_anew_has_not_restored_it(shop, runner):
    shop.sql("ALTER TABLE orders ADD note text", database="shop")
    server = runner.run(shop.open())
    table = wanted("ALTER TABLE orders DROP note", "ALTER TABLE orders ADD note text")
    change = runner.run(plan_sql(server, "shop", table))
    got = runner.run(apply_sql(server, change))

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.CHANGED
    assert "Values are lost" in undone.text
    assert "note of table public.orders" in undone.text


@pytest.mark.parametrize("made", ["TABLE by_app (n int PRIMARY KEY)", "VIEW of_app AS SELECT 1"])
def test_what_others_have_made_meanwhile_is_not_left_over_by_the_arm(shop, runner, made):
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("CREATE INDEX a1 ON orders (id)", "DROP INDEX a1")))
    got = runner.run(apply_sql(server, change))
    shop.sql(f"CREATE {made}", database="shop")

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.RESTORED
    assert undone.text.startswith("Made meanwhile by others, or by the load: ")


@pytest.mark.usefixtures("each_programs")
@pytest.mark.parametrize(
    ("added", "apply", "expected"),
    [
        ("table app.by_app", "CREATE INDEX x ON app.orders (id)", True),
        ("index app.by_app_pkey", "CREATE INDEX x ON app.orders (id)", True),
        ("function app.f(integer, text)", "CREATE INDEX x ON app.orders (id)", True),
        ('table "App"."Of.Others"', "CREATE INDEX x ON app.orders (id)", True),
        ("function app.f(app.size)", "CREATE FUNCTION app.f(app.SIZE) RETURNS int RETURN 1", False),
        ('function app.twice(app."Size")', "CREATE FUNCTION twice(x int) RETURNS int RETURN 1", False),
        ("function app.f1(other.size)", "CREATE FUNCTION f1 (anyelement) RETURNS int RETURN 1", False),
        ("index app.x", "CREATE INDEX X ON app.orders (id)", False),
        ("index app.orders_id_idx", "CREATE INDEX ON app.orders (id)", False),
        ('table app."By ""App"""', 'CREATE TABLE app."By ""App""" (n int)', False),
        (f"index app.{'x' * 63}", "CREATE INDEX ON app.orders (id)", False),
        ('index "My.App"."Order Lines_id_idx"', 'CREATE INDEX ON "My.App"."Order Lines" (id)', False),
        ('index app."a ""b""_id_idx"', 'CREATE INDEX ON app."a ""b""" (id)', False),
        ('index app."a"""', 'CREATE INDEX "a""" ON app.orders (id)', False),
        ('sequence app."Order_Lines_id_seq"', 'ALTER TABLE "Order_Lines" ADD id serial', False),
        ('index app."Other Lines_id_idx"', 'CREATE INDEX ON "Order Lines" (id)', True),
        ('index app."Order Lines_id_idx"', "CREATE INDEX ON U&\"Order!0020Lines\" UESCAPE '!' (id)", False),
        ('index app."By Day_ccnew1"', 'REINDEX TABLE CONCURRENTLY "Order Lines"', False),
        ("table app.by_app", "DO 'BEGIN EXECUTE ''CREATE TABLE by_'' || ''app ()''; END'", False),
        ("table app.by_app", "SELECT make_all()", False),
        ("extension hstore", "CREATE INDEX x ON app.orders (id)", False),
        ("cast from public.a to integer", "CREATE INDEX x ON app.orders (id)", False),
    ],
)
def test_what_an_arm_may_have_made_is_not_taken_for_that_of_others(added, apply, expected):
    before = {"table app.orders": "1"}
    script = {"apply": apply, "undo": ""}

    assert are_of_others(before, {**before, added: "2"}, [script]) is expected
    assert not are_of_others(before, {added: "2"}, [script])
    assert not are_of_others(before, {"table app.orders": "3", added: "2"}, [script])


@pytest.mark.parametrize(("schema", "table"), [("public", "lines"), ('"My.Shop"', '"Order ""Lines"""')])
def test_what_an_index_that_could_not_be_built_leaves_is_the_arms_own(shop, runner, noted, schema, table) -> None:
    shop.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}", database="shop")
    shop.sql(f"CREATE TABLE {schema}.{table} AS SELECT 1 AS id FROM generate_series(1, 2)", database="shop")
    server = runner.run(shop.open())
    apply = f"CREATE UNIQUE INDEX CONCURRENTLY ON {schema}.{table} (id)"
    change = runner.run(plan_sql(server, "shop", wanted(apply, "DROP INDEX IF EXISTS by_id")))
    journal = noted(change)
    with pytest.raises(TargetError, match="could not create unique index"):
        runner.run(apply_sql(server, change, journal.note))

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    invalid = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
    ((name,),) = shop.sql(invalid, database="shop")
    assert undone.outcome is Outcome.CHANGED, undone
    assert f"Left over: index {name if '.' in name else f'public.{name}'}." in undone.text


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


def sums(shop) -> tuple[object, ...]:
    (found,) = shop.sql("SELECT min(id), max(id), count(*) FROM orders", database="shop")
    return found


def killed_at(work: Callable[[], Awaitable[object]], step: int) -> bool:
    """Whether a process that does the work was killed at this step; of fewer it comes to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            _count_steps(step)
            asyncio.run(work())
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    return status != 0


def _count_steps(last: int) -> None:
    """This process ends at a step: before and after each statement, and each note, there is one."""
    step = 0

    def count() -> None:
        nonlocal step
        step += 1
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    execute, note = psycopg.AsyncConnection.execute, Noted.note

    async def execute_counted(*positional, **named):
        count()
        result = await execute(*positional, **named)
        count()
        return result

    def note_counted(*positional):
        count()
        note(*positional)
        count()

    psycopg.AsyncConnection.execute = execute_counted  # type: ignore[method-assign]
    Noted.note = note_counted  # type: ignore[method-assign]


TWICE = "BEGIN; UPDATE orders SET id = id + 1; SET LOCAL work_mem = '1MB'; UPDATE orders SET id = id * 2; COMMIT"
UNDONE = """
    -- first what was done last
    UPDATE orders SET id = id / 2;
    DROP INDEX CONCURRENTLY IF EXISTS nothing;
    UPDATE orders SET id = id - 1;
"""


def test_an_undo_of_data_that_is_killed_at_any_step_is_done_once(shop, runner, noted) -> None:
    server, before = runner.run(shop.open()), sums(shop)
    step, is_killed = 0, True
    while is_killed:
        step += 1
        change = runner.run(plan_sql(server, "shop", wanted(TWICE, UNDONE)))
        journal = noted(change)
        journal.note(runner.run(apply_sql(server, change, journal.note)))
        assert sums(shop) != before
        entry = journal.entry
        is_killed = killed_at(lambda entry=entry, note=journal.note: undo_sql(server.control, entry, note), step)

        undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

        assert (step, undone.outcome, sums(shop)) == (step, Outcome.RESTORED, before), undone
    assert step > 20


def test_sql_that_is_killed_at_any_step_is_undone_if_it_was_committed(shop, runner, noted) -> None:
    server, before, seen = runner.run(shop.open()), sums(shop), set()
    step, is_killed = 0, True
    while is_killed:
        step += 1
        change = runner.run(plan_sql(server, "shop", wanted(TWICE, UNDONE)))
        journal = noted(change)
        is_killed = killed_at(lambda change=change, note=journal.note: apply_sql(server, change, note), step)
        if not is_killed:
            break
        seen.add(sums(shop))

        undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

        assert (step, undone.outcome, sums(shop)) == (step, Outcome.RESTORED, before), undone
    assert before in seen
    assert step > 10


def test_what_failed_before_anything_was_committed_is_not_undone(shop, runner, noted) -> None:
    shop.sql("ALTER TABLE orders ADD CHECK (id <= 100)", database="shop")
    server, before = runner.run(shop.open()), sums(shop)
    change = runner.run(
        plan_sql(server, "shop", wanted("UPDATE orders SET id = id + 1", "UPDATE orders SET id = id - 1"))
    )
    journal = noted(change)
    with pytest.raises(TargetError, match="violates check constraint"):
        runner.run(apply_sql(server, change, journal.note))

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED
    assert sums(shop) == before


def test_data_of_which_only_a_part_was_changed_are_left_to_who_knows_them(shop, runner, noted) -> None:
    server = runner.run(shop.open())
    apply = "UPDATE orders SET id = id + 1; UPDATE nowhere SET id = id + 1"
    change = runner.run(plan_sql(server, "shop", wanted(apply, "UPDATE orders SET id = id - 1; ANALYZE orders")))
    journal = noted(change)
    with pytest.raises(TargetError, match="nowhere"):
        runner.run(apply_sql(server, change, journal.note))
    after = sums(shop)

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.FAILED
    assert undone.text.startswith("Only some of the statements of arms.b.sql.apply were committed, and their undo ")
    assert "By hand: UPDATE orders SET id = id - 1; ANALYZE orders; With BEGIN and COMMIT" in undone.text
    assert sums(shop) == after


def test_an_undo_that_failed_goes_on_behind_what_it_has_done(shop, runner, noted) -> None:
    server, before = runner.run(shop.open()), sums(shop)
    undo = "UPDATE orders SET id = id - 1; SELECT 1 / (SELECT count(*) FROM orders WHERE id = 100 AND id < 0)"
    change = runner.run(plan_sql(server, "shop", wanted("UPDATE orders SET id = id + 1", undo)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    undone = [runner.run(undo_sql(server.control, journal.entry, journal.note)) for _ in range(2)]

    assert {each.outcome for each in undone} == {Outcome.FAILED}
    assert {re.sub(" By hand: .*", "", each.text) for each in undone} == {"arms.b.sql.undo: division by zero."}
    assert all(" By hand: SELECT 1 / (" in each.text for each in undone)
    assert sums(shop) == before


@pytest.mark.parametrize(
    ("undo", "begun", "told"),
    [
        ("CALL undo_in_parts()", Progress(at=0), 'how far "CALL undo_in_parts();" came, since it commits by itself'),
        (
            "BEGIN; UPDATE orders SET id = 1; COMMIT AND CHAIN; UPDATE orders SET id = 2; COMMIT",
            Progress(at=0),
            "since it commits by itself",
        ),
        (
            "UPDATE orders SET id = id - 1",
            Progress(at=0, transaction=str(2**62)),
            f"was committed: the server does not know its transaction {2**62}",
        ),
    ],
)
def test_what_nobody_knows_is_told_and_left(shop, runner, undo: str, begun: Progress, told: str) -> None:
    server, before = runner.run(shop.open()), sums(shop)
    change = runner.run(plan_sql(server, "shop", wanted("SELECT 1", undo)))
    got = {"applied": "wholly", "undoing": begun.to_text()}

    undone = runner.run(undo_sql(server.control, shop.entry(change, got)))

    assert undone.outcome is Outcome.FAILED
    assert undone.text.startswith("It is not known ")
    assert told in undone.text
    assert undone.text.endswith(f"Look, and do by hand what is left of: {undo};")
    assert sums(shop) == before


def test_a_procedure_that_commits_by_itself_undoes(shop, runner, noted) -> None:
    body = "BEGIN UPDATE orders SET id = id - 2; COMMIT; UPDATE orders SET id = id + 1; COMMIT; END"
    shop.sql(f"CREATE PROCEDURE undo_in_parts() LANGUAGE plpgsql AS '{body}'", database="shop")
    server, before = runner.run(shop.open()), sums(shop)
    apply, undo = "UPDATE orders SET id = id + 1", "CALL undo_in_parts(); VACUUM orders"
    change = runner.run(plan_sql(server, "shop", wanted(apply, undo)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED
    assert sums(shop) == before


def test_an_undo_that_does_not_commit_has_undone_nothing(shop, runner) -> None:
    server = runner.run(shop.open())
    change = runner.run(
        plan_sql(server, "shop", wanted("UPDATE orders SET id = id + 1", "BEGIN; UPDATE orders SET id = id - 1"))
    )
    entry = shop.entry(change, runner.run(apply_sql(server, change)))

    undone = runner.run(undo_sql(server.control, entry))

    assert undone.outcome is Outcome.FAILED
    assert undone.text.startswith("arms.b.sql.undo: the transaction that it begins is not committed. By hand: BEGIN; ")


def test_what_an_older_pgtrial_has_left_is_undone(shop, runner) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("CREATE INDEX a ON orders (id)", "DROP INDEX a")))
    runner.run(apply_sql(server, change))
    older = replace(
        change,
        old={name: value for name, value in change.old.items() if name != "rows"},
        new={name: value for name, value in change.new.items() if name != "steps"},
    )

    assert runner.run(undo_sql(server.control, shop.entry(older))).outcome is Outcome.RESTORED
    assert indexes(shop) == set()


def test_extensions_of_sql_that_was_not_applied_are_dropped_and_no_more(shop, runner, noted) -> None:
    server, before = runner.run(shop.open()), sums(shop)
    table = wanted("UPDATE nowhere SET id = 1", "UPDATE orders SET id = id - 1", extensions="pg_prewarm")
    change = runner.run(plan_sql(server, "shop", table))
    journal = noted(change)
    with pytest.raises(TargetError, match="nowhere"):
        runner.run(apply_sql(server, change, journal.note))
    shop.sql("CREATE VIEW warm AS SELECT pg_prewarm('orders')", database="shop")

    undone = [runner.run(undo_sql(server.control, journal.entry, journal.note)) for _ in range(2)]
    shop.sql("DROP VIEW warm", database="shop")
    undone.append(runner.run(undo_sql(server.control, journal.entry, journal.note)))

    assert [each.outcome for each in undone] == [Outcome.FAILED, Outcome.FAILED, Outcome.RESTORED], undone
    assert undone[1].text.endswith('By hand: DROP EXTENSION IF EXISTS "pg_prewarm";')
    assert sums(shop) == before


def test_what_an_undo_has_set_for_its_session_is_set_again_in_the_next(shop, runner, noted) -> None:
    for statement in ("CREATE SCHEMA stock", "CREATE TABLE stock.goods AS SELECT 7 AS price"):
        shop.sql(statement, database="shop")
    server = runner.run(shop.open())
    apply, undo = "UPDATE stock.goods SET price = 8", "SET search_path = stock; UPDATE goods SET price = 7"
    change = runner.run(plan_sql(server, "shop", wanted(apply, undo)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))
    shop.sql("ALTER TABLE stock.goods ADD CONSTRAINT held CHECK (price = 8)", database="shop")

    held = runner.run(undo_sql(server.control, journal.entry, journal.note))
    shop.sql("ALTER TABLE stock.goods DROP CONSTRAINT held", database="shop")
    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert held.outcome is Outcome.FAILED
    assert held.text.endswith("By hand: SET search_path = stock; UPDATE goods SET price = 7;")
    assert undone.outcome is Outcome.RESTORED
    assert shop.sql("SELECT price FROM stock.goods", database="shop") == [(7,)]


def test_what_an_undo_has_made_for_its_session_alone_is_not_gone_on_without(shop, runner, noted) -> None:
    server = runner.run(shop.open())
    undo = "CREATE TEMP TABLE kept AS SELECT 1 AS id; UPDATE orders SET id = id / (SELECT id - 1 FROM kept)"
    change = runner.run(plan_sql(server, "shop", wanted("UPDATE orders SET id = id + 1", undo)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    texts = [runner.run(undo_sql(server.control, journal.entry, journal.note)).text for _ in range(2)]

    assert texts[0].startswith("arms.b.sql.undo: division by zero")
    assert texts[1].startswith("It is not known what the rest does without that which")


@pytest.mark.parametrize("undo", ["UPDATE ordres SET id = id - 1", "UPDATE orders SET id = nothing(id)"])
def test_an_undo_of_data_that_finds_nothing_has_undone_nothing(shop, runner, noted, undo: str) -> None:
    server, before = runner.run(shop.open()), sums(shop)
    change = runner.run(plan_sql(server, "shop", wanted("UPDATE orders SET id = id + 1", undo)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.FAILED
    assert "does not exist" in undone.text
    assert sums(shop) != before


def test_a_step_that_was_passed_over_is_not_taken_when_the_rest_is_tried_again(shop, runner, noted) -> None:
    """It would drop what the rest has put back."""
    server = runner.run(shop.open())
    apply = "CREATE INDEX a ON orders (id); CREATE INDEX b ON nowhere (id)"
    undo = "DROP INDEX b; DROP INDEX a; CREATE INDEX b ON orders (id); ALTER TABLE nowhere ALTER id SET NOT NULL, ADD 5"
    change = runner.run(plan_sql(server, "shop", wanted(apply, undo)))
    journal = noted(change)
    with pytest.raises(TargetError, match="nowhere"):
        runner.run(apply_sql(server, change, journal.note))

    outcomes = [runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome for _ in range(2)]

    assert outcomes == [Outcome.FAILED, Outcome.FAILED]  # its last statement has a fault
    assert indexes(shop) == {"b"}


@pytest.mark.parametrize(
    ("apply", "undo"),
    [
        (
            "CREATE TABLE items AS TABLE orders; ALTER TABLE nowhere RENAME TO x; ALTER TABLE items RENAME TO y",
            'DROP TABLE public."orders"; ALTER TABLE items RENAME TO orders',
        ),
        ("ALTER TABLE orders ADD a int; ALTER TABLE nowhere ADD b int", "ALTER TABLE orders DROP COLUMN id"),
        *(
            (f"CREATE TABLE items (); ALTER TABLE nowhere RENAME TO x; CREATE TABLE {name} ()", f"DROP TABLE {name}")
            for name in ('"My.Shop"."Order, Lines"', '"My.Shop" . "Order, Lines"', '"a ""b"""', 'items, "a ""b"""')
        ),
    ],
)
def test_what_was_there_is_not_dropped_where_only_a_part_was_applied(shop, runner, noted, apply, undo) -> None:
    for made in ('SCHEMA "My.Shop"', 'TABLE "My.Shop"."Order, Lines" ()', 'TABLE "a ""b""" ()'):
        shop.sql(f"CREATE {made}", database="shop")
    server, before = runner.run(shop.open()), sums(shop)
    change = runner.run(plan_sql(server, "shop", wanted(apply, undo)))
    journal = noted(change)
    with pytest.raises(TargetError, match="nowhere"):
        runner.run(apply_sql(server, change, journal.note))

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.FAILED
    assert "drops what was there: which of it fits, only you can tell" in undone.text
    assert sums(shop) == before


def test_what_a_part_has_made_is_dropped(shop, runner, noted) -> None:
    server = runner.run(shop.open())
    apply = "CREATE TABLE extra (id int); ALTER TABLE nowhere ADD b int"
    change = runner.run(plan_sql(server, "shop", wanted(apply, "DROP TABLE IF EXISTS extra CASCADE")))
    journal = noted(change)
    with pytest.raises(TargetError, match="nowhere"):
        runner.run(apply_sql(server, change, journal.note))

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED
    assert shop.sql("SELECT to_regclass('extra')::text", database="shop") == [(None,)]


def test_what_a_failed_index_has_left_is_dropped(shop, runner, noted) -> None:
    shop.sql("INSERT INTO orders VALUES (1)", database="shop")
    server = runner.run(shop.open())
    table = wanted("CREATE UNIQUE INDEX CONCURRENTLY once ON orders (id)", "DROP INDEX once")
    change = runner.run(plan_sql(server, "shop", table))
    journal = noted(change)
    with pytest.raises(TargetError, match="could not create unique index"):
        runner.run(apply_sql(server, change, journal.note))
    assert indexes(shop) == {"once"}

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.RESTORED
    assert indexes(shop) == set()


def test_a_number_is_not_asked_of_a_server_that_was_started_again(shop, runner, noted) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("SELECT 1", "UPDATE orders SET id = id")))
    journal = noted(change)
    got = runner.run(apply_sql(server, change, journal.note))
    ((number,),) = shop.sql("SELECT pg_current_xact_id()::text", database="shop")  # of a transaction of somebody else
    begun = Progress(at=0, transaction=number, server="2026-01-01 00:00:00+00", of=1)
    journal.note({**got, "undoing": begun.to_text()})

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.FAILED
    assert "was committed: the server was started again since" in undone.text


def test_a_lock_is_taken_before_the_snapshot_and_nowhere_in_vain(shop, runner, noted) -> None:
    server, before = runner.run(shop.open()), sums(shop)
    apply = "BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE orders; UPDATE orders SET id = id + 1; COMMIT"
    change = runner.run(plan_sql(server, "shop", wanted(apply, "UPDATE orders SET id = id - 1")))
    runner.run(apply_sql(server, change, noted(change).note))
    assert sums(shop) != before
    change = runner.run(plan_sql(server, "shop", wanted("LOCK TABLE orders", "SELECT 1")))

    with pytest.raises(TargetError, match="can only be used in transaction blocks"):
        runner.run(apply_sql(server, change, noted(change).note))


def test_steps_that_another_version_counted_otherwise_are_left(shop, runner, noted) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("SELECT 1", "SELECT 1; SELECT 2")))
    journal = noted(change)
    got = runner.run(apply_sql(server, change, journal.note))
    journal.note({**got, "undoing": Progress(done=frozenset((0,)), of=3).to_text()})

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.FAILED
    assert "this version of pgtrial tells them apart otherwise" in undone.text


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a lock, and looks at once at who has it."""
    monkeypatch.setattr(arm_sql, "LOCK_TIMEOUT", 1500)
    monkeypatch.setattr(arm_sql, "APPLYING", 3.0)
    monkeypatch.setattr(arm_sql, "UNDOING", 3.0)
    monkeypatch.setattr(lock_wait, "PAUSE", 0.1)
    monkeypatch.setattr(lock_wait, "_LOOK", 0.1)


@contextmanager
def reading(shop) -> Iterator[psycopg.Connection]:
    """A transaction of somebody else that has read the table, and stays open."""
    with psycopg.connect(shop.conninfo(database="shop"), application_name="their app") as connection:
        connection.execute("SELECT count(*) FROM orders WHERE id <> 4711")
        yield connection


INDEXED = ("CREATE INDEX a ON orders (id)", "DROP INDEX a")


def test_an_undo_does_not_keep_others_waiting_and_is_done_when_the_lock_is_free(shop, runner, noted, hurried) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(*INDEXED)))
    journal, told = noted(change), []
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    with reading(shop) as reader:

        def hear(text: str) -> None:
            told.append(text)
            reader.rollback()

        undone = runner.run(undo_sql(server.control, journal.entry, journal.note, hear))

    assert undone.outcome is Outcome.RESTORED
    assert indexes(shop) == set()
    assert len(told) == 1
    assert told[0].startswith('"DROP INDEX a;" waits for a lock and is tried again. Process ')
    assert told[0].endswith(
        '(their app, idle in transaction, "SELECT count(*) FROM orders WHERE id <> …") '
        "holds AccessShareLock on table public.orders."
    )


def test_an_undo_that_gets_no_lock_is_left_for_later(shop, runner, noted, hurried) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(*INDEXED)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    with reading(shop):
        undone = runner.run(undo_sql(server.control, journal.entry, journal.note))
    assert undone.outcome is Outcome.FAILED
    assert re.fullmatch(
        r'arms\.b\.sql\.undo: "DROP INDEX a;" got no lock within 3 s\. '
        r'Process \d+ \(their app, idle in transaction, "SELECT count\(\*\) FROM orders WHERE id <> …"\) '
        r"holds AccessShareLock on table public\.orders\. "
        r'When it is free, finish with "pgtrial restore"\. By hand: DROP INDEX a;',
        undone.text,
    ), undone.text
    assert indexes(shop) == {"a"}

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED
    assert indexes(shop) == set()


class Clock:
    """What time it is for who waits for a lock."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_an_undo_is_patient_as_a_whole_and_not_with_each_statement(shop, runner, noted, hurried, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(lock_wait, "time", clock)
    shop.sql("CREATE TABLE goods (id int)", database="shop")
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX a ON orders (id); CREATE INDEX b ON goods (id)", "DROP INDEX a; DROP INDEX b")
    change = runner.run(plan_sql(server, "shop", table))
    journal, told = noted(change), []
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    with reading(shop) as reader, psycopg.connect(shop.conninfo(database="shop")) as other:
        other.execute("TABLE goods")

        def hear(text: str) -> None:
            told.append(text)
            clock.now += 2.95  # of 3 s
            reader.rollback()

        undone = runner.run(undo_sql(server.control, journal.entry, journal.note, hear))

    assert undone.outcome is Outcome.FAILED
    assert [text.partition(" waits")[0] for text in told] == ['"DROP INDEX a;"']
    assert indexes(shop) == {"b"}


def test_the_time_in_which_an_undo_works_is_not_counted_as_waiting(shop, runner, noted, hurried, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(lock_wait, "time", clock)
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(*INDEXED)))
    change = replace(change, old={**change.old, "undo": "SELECT 1; DROP INDEX a"})
    journal, told = noted(change), []
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    def work(got: Mapping[str, str]) -> None:
        progress = Progress.from_text(got["undoing"])
        clock.now += 1000.0 if progress.at == 0 else 0.0
        journal.note(got)

    with reading(shop) as reader:

        def hear(text: str) -> None:
            told.append(text)
            reader.rollback()

        undone = runner.run(undo_sql(server.control, journal.entry, work, hear))

    assert clock.now >= 1000.0
    assert undone.outcome is Outcome.RESTORED, undone.text
    assert [text.partition(" waits")[0] for text in told] == ['"DROP INDEX a;"']


def test_what_is_dropped_beside_others_is_given_a_whole_wait_to_the_end(
    shop, runner, noted, hurried, monkeypatch
) -> None:
    monkeypatch.setattr(arm_sql, "UNDOING", 0.0)
    given = []

    async def take(*args, longest: int) -> Progress:
        given.append(longest)
        return await steps.take(*args, longest=longest)

    monkeypatch.setattr(lock_wait, "take", take)
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(INDEXED[0], "DROP INDEX CONCURRENTLY a")))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))
    given.clear()

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED
    assert given == [steps.LOCK_TIMEOUT]


def test_an_undo_that_got_no_lock_is_not_tried_again_at_the_end(shop, runner, tmp_path, hurried, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    server, told, events = runner.run(shop.open()), [], []
    own = identify(os.getpid())
    assert own is not None
    with Journal.open(write=True) as journal:
        changes = HostChanges(
            journal=journal,
            host=server.host,
            folder=tmp_path,
            knobs=(ServerSql(server=server, database="shop", say=told.append),),
            owner=own,
            tell=events.append,
        )
        context = KnobContext(host=server.host, token="x", directory="/")
        runner.run(changes.make(context, {ServerSql.name: wanted(*INDEXED)}, run=1))
        errors, waited = [], []
        with reading(shop):
            for _ in range(2):
                with pytest.raises(RestoreError) as failed:
                    runner.run(changes.undo())
                errors.append(failed.value)
                waited.append(len(told))
        (record,) = journal.open_entries()

    assert waited[0] == waited[1] > 0
    assert len([event for event in events if isinstance(event, HostRestored)]) == 1
    assert errors[0].detail == errors[1].detail
    assert 'finish with "pgtrial restore"' in errors[1].detail
    assert record.outcome is Outcome.FAILED


def test_what_gets_no_lock_is_not_applied(shop, runner, noted, hurried) -> None:
    shop.sql("CREATE INDEX a ON orders (id)", database="shop")
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("DROP INDEX a", "CREATE INDEX a ON orders (id)")))
    journal, told = noted(change), []

    with reading(shop):
        with pytest.raises(TargetError, match=r"arms\.b\.sql\.apply, line 1: canceling .* lock timeout") as failed:
            runner.run(apply_sql(server, change, journal.note, told.append))
        undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert "their app, idle in transaction" in failed.value.detail
    assert told
    assert undone.outcome is Outcome.RESTORED
    assert indexes(shop) == {"a"}


def test_an_index_that_is_built_beside_others_waits_for_them_longer(shop, runner, noted, hurried, monkeypatch) -> None:
    monkeypatch.setattr(steps, "LOCK_TIMEOUT", 500)  # as the session has it
    server = runner.run(shop.open())
    table = wanted("CREATE INDEX CONCURRENTLY a ON orders (id)", "DROP INDEX a")
    change = runner.run(plan_sql(server, "shop", table))
    journal = noted(change)
    waits = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND query ~ '^CREATE INDEX' AND now() - query_start > interval '1 s'"
    )

    with psycopg.connect(shop.conninfo(database="shop")) as writer:
        writer.execute("INSERT INTO orders VALUES (0)")

        def let_go() -> None:
            wait_until(lambda: shop.sql(waits) == [(1,)])
            writer.rollback()

        letting = threading.Thread(target=let_go)
        letting.start()
        journal.note(runner.run(apply_sql(server, change, journal.note)))
        letting.join(timeout=30)
    assert indexes(shop) == {"a"}

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED


def test_an_apply_that_is_broken_off_while_it_waits_is_cancelled_on_the_server(shop, runner, noted) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted("TRUNCATE orders", "SELECT 1")))
    journal = noted(change)
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = 'TRUNCATE orders'"

    async def break_off() -> None:
        task = asyncio.create_task(apply_sql(server, change, journal.note))
        while await asyncio.to_thread(shop.sql, waits) != [(1,)]:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with reading(shop):
        runner.run(break_off())
        assert shop.sql(waits) == [(0,)]
        undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.RESTORED
    assert sums(shop) == (1, 100, 100)


def test_limits_of_the_role_do_not_cut_an_arms_sql(shop, runner, noted) -> None:
    limits = ["statement_timeout", "idle_in_transaction_session_timeout"]
    if shop.programs.major >= 17:
        limits.append("transaction_timeout")
    for limit in limits:
        shop.sql(f"ALTER DATABASE shop SET {limit} = '200ms'")
    server = runner.run(shop.open())
    slow = "BEGIN; UPDATE orders SET id = id {} 1; SELECT pg_sleep(0.5); COMMIT"
    change = runner.run(plan_sql(server, "shop", wanted(slow.format("+"), slow.format("-"))))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))
    assert sums(shop) == (2, 101, 100)

    assert runner.run(undo_sql(server.control, journal.entry, journal.note)).outcome is Outcome.RESTORED
    assert sums(shop) == (1, 100, 100)


_WARM = "SELECT count(*) FROM pg_extension WHERE extname = 'pg_prewarm'"


@contextmanager
def at_work_on_an_extension(shop, statement: str) -> Iterator[psycopg.Connection]:
    """A transaction of somebody else that stays open."""
    with psycopg.connect(shop.conninfo(database="shop"), application_name="their app") as connection:
        connection.execute(statement)
        yield connection


def test_an_extension_is_created_and_dropped_when_the_lock_is_free(shop, runner, noted, hurried) -> None:
    server, told = runner.run(shop.open()), []
    change = runner.run(plan_sql(server, "shop", wanted(extensions="pg_prewarm")))
    journal = noted(change)

    with at_work_on_an_extension(shop, "CREATE EXTENSION pg_prewarm") as other:

        def hear(text: str) -> None:
            told.append(text)
            other.rollback()

        journal.note(runner.run(apply_sql(server, change, journal.note, hear)))
    assert shop.sql(_WARM, database="shop") == [(1,)]
    with at_work_on_an_extension(shop, "COMMENT ON EXTENSION pg_prewarm IS 'x'") as other:
        undone = runner.run(undo_sql(server.control, journal.entry, journal.note, hear))

    assert undone.outcome is Outcome.RESTORED
    assert shop.sql(_WARM, database="shop") == [(0,)]
    assert [text.partition(" waits")[0] for text in told] == [
        '"CREATE EXTENSION "pg_prewarm";"',
        '"DROP EXTENSION IF EXISTS "pg_prewarm";"',
    ]
    assert "their app" in told[0]
    assert told[1].endswith("on extension pg_prewarm.")


def test_an_extension_that_gets_no_lock_is_not_created(shop, runner, noted, hurried) -> None:
    server, told = runner.run(shop.open()), []
    change = runner.run(plan_sql(server, "shop", wanted(*INDEXED, extensions="pg_prewarm")))
    journal = noted(change)

    with at_work_on_an_extension(shop, "CREATE EXTENSION pg_prewarm") as other:
        with pytest.raises(TargetError, match=r"arms\.b\.extensions, line 1: canceling .* lock timeout") as failed:
            runner.run(apply_sql(server, change, journal.note, told.append))
        other.rollback()
        undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert told
    assert "their app" in failed.value.detail
    assert undone.outcome is Outcome.RESTORED
    assert indexes(shop) == set()


_AGAIN = "CREATE TABLE orders (id int)"
_KEPT = "CREATE TABLE kept AS TABLE orders; DROP TABLE orders"
_HIDDEN = (
    "DO $$ BEGIN EXECUTE 'DROP TABLE ' || 'or' || 'ders'; EXECUTE 'CREATE TABLE ' || 'or' || 'ders (id int)'; END $$"
)


@pytest.mark.parametrize(
    ("script", "lost"),
    [
        (("DROP TABLE orders", _AGAIN), "100 rows before, 0 now"),
        (
            (_KEPT, f"{_AGAIN}; INSERT INTO orders SELECT id FROM kept LIMIT 3; DROP TABLE kept"),
            "100 rows before, 3 now",
        ),
        (("TRUNCATE orders", "SELECT 1"), "100 rows before, 0 now"),
        ((_HIDDEN, "SELECT 1"), "rows before not counted, 0 now"),
    ],
    ids=["dropped", "a part was kept", "emptied", "by a name that is put together"],
)
def test_an_undo_that_makes_a_table_again_without_its_rows_has_not_restored_it(
    shop, runner, noted, script, lost
) -> None:
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(*script)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert undone.outcome is Outcome.CHANGED
    assert undone.text.startswith('Undone, but the database "shop" is not as before. Rows are lost of tables that ')
    assert f"table public.orders ({lost}; " in undone.text


@pytest.mark.parametrize(
    ("made", "script"),
    [
        ("SELECT", (_KEPT, f"{_AGAIN}; INSERT INTO orders SELECT id FROM kept; DROP TABLE kept")),
        ("TRUNCATE orders", ("DROP TABLE orders", _AGAIN)),
        (
            "SELECT",
            (
                "ALTER TABLE orders RENAME TO kept; CREATE TABLE orders (id bigint)",
                "DROP TABLE orders; ALTER TABLE kept RENAME TO orders",
            ),
        ),
        ("SELECT", ("VACUUM FULL orders; CREATE TABLE t (); DROP TABLE t", "SELECT 1")),
    ],
    ids=["filled again", "it was empty", "it was another one", "rewritten"],
)
def test_a_table_that_has_its_rows_again_is_restored(shop, runner, noted, made, script) -> None:
    shop.sql(made, database="shop")
    server = runner.run(shop.open())
    change = runner.run(plan_sql(server, "shop", wanted(*script)))
    journal = noted(change)
    journal.note(runner.run(apply_sql(server, change, journal.note)))

    undone = runner.run(undo_sql(server.control, journal.entry, journal.note))

    assert (undone.outcome, undone.text) == (Outcome.RESTORED, "")
