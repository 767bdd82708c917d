"""A database that was there before: read-only, changed only by permission, undone after a kill; whole experiments."""

import contextlib
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtrial.hosts.operations import Operations
from pgtrial.model.fingerprint import CPU_OWN
from pgtrial.store.journal import Journal
from support import wait_until

TEXT = """
format = 1
experiment = { name = "shop" }
[target]
kind       = "server"
connection = "CONNECTION dbname=postgres"
database   = "shop"
# writes
[dataset]
kind = "existing"
[workload]
scenario = [{ name = "own", file = "own.sql" }]
clients  = 2
rate     = 100
duration = "1s"
warmup   = 0
[arms.plain]
[arms.other.postgresql]
jit = "off"
[design]
blocks = 1
"""
READ = "\\set id random(1, 100)\nSELECT amount FROM orders WHERE id = :id;\n"
# To see that nobody else connects while the load's sessions stay the same.
_LONG_ENOUGH = ('duration = "1s"', 'duration = "5s"')
INDEX = """[arms.other.sql]
apply = "CREATE INDEX by_amount ON orders (amount); CREATE TABLE notes (n int)"
undo = "DROP TABLE notes; DROP INDEX by_amount"
"""
# Everything that a role that may only read could change without being refused.
_WRITTEN = """
    SELECT tup_inserted, tup_updated, tup_deleted, temp_files, conflicts, deadlocks FROM pg_stat_database
    WHERE datname = 'shop'
"""
_CATALOGUE = "SELECT count(*), sum(hashtext(c::text)::int8) FROM pg_class AS c WHERE oid >= 16384"
_CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'"
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE source NOT IN ('client', 'session') ORDER BY name"
pytestmark = pytest.mark.parametrize("each_programs", ["any"], indirect=True, scope="session")


@pytest.fixture
def shop(foreign, caller) -> Iterator[Any]:
    """A database with a table that everybody may read."""
    foreign.set_auto_conf("autovacuum = off\n")  # which would write to catalogues
    foreign.sql("CREATE DATABASE shop")
    foreign.sql("CREATE TABLE orders AS SELECT i AS id, 0 AS amount FROM generate_series(1, 100) AS i", database="shop")
    foreign.sql("GRANT SELECT ON orders TO PUBLIC", database="shop")
    foreign.sql("VACUUM ANALYZE orders", database="shop")
    wait_until(lambda: foreign.sql(_CONNECTED) == [(0,)])  # a session tells what it wrote when it ends
    (caller / "own.sql").write_text(READ)
    yield foreign
    foreign.sql("DROP DATABASE shop WITH (FORCE)")


@pytest.fixture
def write(shop, tmp_path) -> Callable[..., None]:
    def write(*replacements: tuple[str, str], user: str = "boss", more: str = "") -> None:
        text = TEXT.replace("CONNECTION", shop.connection(user))
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "shop.toml").write_text(text + more)

    return write


def objects(shop) -> set[str]:
    rows = shop.sql("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace", database="shop")
    return {name for (name,) in rows}


def state_of(shop) -> dict[str, Any]:
    """All of the database and the server that an experiment could change: counts, rows, catalogue, settings, files."""
    shop.sql("CHECKPOINT")
    ((table,),) = shop.sql("SELECT pg_relation_filepath('orders')", database="shop")
    return {
        "written": shop.sql(_WRITTEN),
        "rows": shop.sql("SELECT * FROM orders ORDER BY id", database="shop"),
        "catalogue": shop.sql(_CATALOGUE, database="shop"),
        "settings": shop.sql(_SETTINGS, database="shop"),
        "configuration": {path.name: path.read_bytes() for path in shop.data.glob("*.conf")},
        "table": (shop.data / table).read_bytes(),
    }


def test_the_sql_of_an_arm_is_refused_listed_and_asked_for(shop, write, pgtrial):
    write(("[arms.other.postgresql]", INDEX + "[arms.other.postgresql]"))
    unsaid = pgtrial("run", "shop.toml")
    write(("[arms.other.postgresql]", INDEX + "[arms.other.postgresql]"), ("# writes", "writes = true"))
    plan = pgtrial("plan", "shop.toml")
    unasked = pgtrial("run", "shop.toml")

    assert unsaid.returncode == 2
    assert 'it changes the database "shop", which is read-only' in unsaid.stderr
    assert "pgtrial copy" in unsaid.stderr
    assert "CREATE INDEX by_amount ON orders (amount);" in plan.stdout
    assert max(map(len, plan.stdout.splitlines())) <= 80
    assert unasked.returncode == 2
    assert "arms.other.sql.apply: CREATE TABLE notes (n int)" in unasked.stderr
    assert objects(shop) == {"orders"}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("UPDATE orders SET amount = 1 WHERE id = 1;", "cannot execute UPDATE in a read-only transaction"),
        ("SET transaction_read_only = off; DELETE FROM orders;", "would let the script write to a read-only database"),
        ("BEGIN READ /* */ WRITE; DELETE FROM orders; END;", "would let the script write to a read-only database"),
        (
            "SELECT set_config('default_trans' || 'action_read_only', 'off', false); INSERT INTO orders VALUES (0, 0);",
            'the load has written to database "shop", which is read-only',
        ),
    ],
    ids=["plainly", "by a setting", "by its transaction", "by a name that it puts together"],
)
def test_a_script_does_not_write_unnoticed(write, pgtrial, tmp_path, script, message):
    write(_LONG_ENOUGH)
    (tmp_path / "own.sql").write_text(f"{script}\n")

    result = pgtrial("run", "shop.toml", "--allow-code")

    assert result.returncode in (1, 2)
    assert message in result.stderr


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE OR REPLACE FUNCTION one() RETURNS int LANGUAGE sql RETURN 1", "Left over: function public.one()."),
        ("COMMENT ON TABLE orders IS 'x'", "Altered: table public.orders."),
        ("COMMENT ON SCHEMA public IS 'x'", "Altered: schema public."),
        ("SELECT nextval('numbers')", "Drawn from: sequence public.numbers."),
    ],
)
def test_a_script_changes_no_object_and_draws_no_number_unnoticed(shop, write, pgtrial, statement, said):
    write(_LONG_ENOUGH)
    shop.sql("CREATE SEQUENCE numbers", database="shop")
    read_write = "SELECT set_config('default_trans' || 'action_read_only', 'off', false)"
    Path("own.sql").write_text(f"{read_write};\n{statement};\n")

    result = pgtrial("run", "shop.toml", "--allow-code")

    assert result.returncode == 1
    assert 'the load has written to database "shop", which is read-only' in result.stderr
    assert said in result.stderr


_READ_WRITE = "SELECT set_config('default_trans' || 'action_read_only', 'off', false)"


@contextlib.contextmanager
def neighbour(shop, statement: str) -> Iterator[None]:
    """Another client of the database, which does the same again and again."""
    text = f"{statement};\n\\sleep 20 ms\n"
    Path("neighbour.sql").write_text(text)
    pgbench = subprocess.Popen(
        ["pgbench", "-n", "-T", "600", "-f", "neighbour.sql", f"{shop.connection('boss')} dbname=shop"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: shop.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'pgbench'"))
        yield
    finally:
        pgbench.kill()
        pgbench.wait()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE orders SET amount = amount + 1 WHERE id = :client_id + 1", "seen at it: public.orders"),
        ("ALTER TABLE orders SET (fillfactor = :i)", "seen at it: public.orders"),
    ],
    ids=["rows", "an object"],
)
def test_a_load_is_seen_writing_where_others_are_connected_too(shop, write, pgtrial, statement, said):
    write(('duration = "1s"', 'duration = "4s"'))
    lines = ["\\set i random(50, 100)", "BEGIN", statement, "SELECT pg_sleep(0.1)", "END"]
    Path("own.sql").write_text(f"{_READ_WRITE};\n" + lines[0] + "\n" + "".join(f"{line};\n" for line in lines[1:]))

    with neighbour(shop, "SELECT 1"):
        result = pgtrial("run", "shop.toml", "--allow-code")

    assert result.returncode == 1
    assert 'the load has written to database "shop", which is read-only' in result.stderr
    assert said in result.stderr


def test_a_program_is_seen_writing_whatever_its_sessions_call_themselves(shop, write, pgtrial, tmp_path):
    command = 'kind = "command"\ncommand = ["sh", "load.sh"]\nfiles = "load.sh"'
    scenario = 'scenario = [{ name = "own", file = "own.sql" }]'
    write(
        ("# writes", 'settings = "role"'),
        (scenario, command),
        ("rate     = 100\n", ""),
        ('duration = "1s"', 'duration = "4s"'),
        user="nobody_special",
    )
    shop.sql("GRANT UPDATE ON orders TO nobody_special", database="shop")
    writing = "BEGIN; UPDATE orders SET amount = amount + 1 WHERE id = 1; SELECT pg_sleep(0.2); COMMIT"
    (tmp_path / "load.sh").write_text(
        "export PGAPPNAME=shop\n"
        f'while :; do psql -qX -c "{_READ_WRITE}" -c "{writing}" >&2; '
        'echo "{\\"t\\": $(date +%s.%N), \\"latency\\": 0.2}"; done\n'
    )

    with neighbour(shop, "SELECT 1"):
        result = pgtrial("run", "shop.toml", "--allow-code", "--allow-host-changes")

    assert result.returncode == 1
    assert 'the load has written to database "shop", which is read-only' in result.stderr
    assert "seen at it: public.orders" in result.stderr


def test_a_load_that_only_reads_is_not_taken_for_the_neighbour_who_writes(shop, write, pgtrial):
    write(('duration = "1s"', 'duration = "4s"'))
    lines = ("BEGIN", "SELECT txid_current(), count(*) FROM orders", "SELECT pg_sleep(0.1)", "END")
    Path("own.sql").write_text("".join(f"{line};\n" for line in lines))

    with neighbour(shop, "UPDATE orders SET amount = amount + 1 WHERE id = 1"):
        result = pgtrial("run", "shop.toml", "--allow-code")

    assert result.returncode == 0, result.stderr
    (found,) = Path("results").glob("*/findings.json")
    (changed,) = (one for one in json.loads(found.read_text())["caveats"] if one["code"] == "data-changed")
    assert re.search(r"In \d+ looks none of the load's sessions was writing", changed["hint"])


def test_a_load_that_only_reads_is_not_taken_for_neighbours_who_come_for_a_moment(shop, write, pgtrial):
    """As cron's and PHP's do, of whom none need be there when the load begins and ends."""
    write(_LONG_ENOUGH)
    update = "UPDATE orders SET amount = amount + 1 WHERE id = 1"
    repeat = 'while psql -qX -c "$1" "$0"; do sleep 0.4; done'
    coming = subprocess.Popen(
        ["sh", "-c", repeat, f"{shop.connection('boss')} dbname=shop", update],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: shop.sql("SELECT 1 FROM orders WHERE amount > 0", database="shop"))
        result = pgtrial("run", "shop.toml")
    finally:
        coming.kill()
        coming.wait()

    assert result.returncode == 0, result.stderr
    (found,) = Path("results").glob("*/findings.json")
    (changed,) = (one for one in json.loads(found.read_text())["caveats"] if one["code"] == "data-changed")
    assert changed["hint"].endswith("Others have connected to the database meanwhile.")


def test_a_program_gets_a_read_only_session_and_plan_says_what_it_may_do_nevertheless(write, pgtrial, tmp_path):
    command = 'kind = "command"\ncommand = ["sh", "load.sh"]\nfiles = "load.sh"'
    scenario = 'scenario = [{ name = "own", file = "own.sql" }]'
    write(("# writes", 'settings = "role"'), (scenario, command), ("rate     = 100\n", ""))
    failed = '{\\"t\\": $(date +%s.%N), \\"failed\\": true}'
    (tmp_path / "load.sh").write_text(
        f'while :; do psql -qX -c "UPDATE orders SET amount = 1" || echo "{failed}"; sleep 0.1; done\n'
    )

    plan = " ".join(pgtrial("plan", "shop.toml").stdout.split())
    result = pgtrial("run", "shop.toml", "--allow-code", "--allow-host-changes")

    assert "The program may switch that off for itself" in plan
    assert "What the program does in other databases nobody looks at." in plan
    assert result.returncode == 1
    assert "requests of the command failed" in result.stderr
    assert "cannot execute UPDATE in a read-only transaction" in result.stderr


def test_no_hook_runs_before_settings_of_the_whole_server_are_refused(shop, write, pgtrial, tmp_path):
    """That one of a library's settings is the whole server's only the server can tell."""
    shop.set_auto_conf("shared_preload_libraries = 'pg_stat_statements'\n")
    shop.run(*shop.ctl("restart"))
    hook = f'[hooks]\nbefore_dataset = ["touch", "{tmp_path}/touched"]\n'
    write(('jit = "off"', '"pg_stat_statements.save" = "off"'), more=hook)

    result = pgtrial("run", "shop.toml", "--allow-code")

    assert result.returncode == 2
    assert "pg_stat_statements.save = off for the whole server" in result.stderr
    assert not (tmp_path / "touched").exists()


def test_a_hook_may_start_the_server_that_is_not_there(shop, write, pgtrial, tmp_path):
    start = ["sh", "-c", " ".join(shlex.quote(word) for word in shop.start) + " >/dev/null 2>&1"]
    write(more=f"[hooks]\nbefore_dataset = {json.dumps(start)}\n")
    shop.stop()

    result = pgtrial("run", "shop.toml", "--allow-code")

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("user", ["nobody_special", "watcher", "boss"])
def test_a_planner_setting_needs_no_right_and_nobody_else_feels_it(shop, write, pgtrial, user):
    write(user=user)
    before = state_of(shop)

    checked = pgtrial("check", "shop.toml", "--connect", "--no-host")
    result = pgtrial("run", "shop.toml")

    assert "database     shop, 1 table\n" in checked.stdout  # none of the system's
    assert "The experiment can run there." in checked.stdout
    assert result.returncode == 0, result.stderr
    assert state_of(shop) == before
    assert "was written to during" not in result.stdout


def test_the_server_under_test_is_no_other_program(shop, write, pgtrial, tmp_path):
    """Its role does not know where the data lie, whose lock file would name its first process."""
    (tmp_path / "own.sql").write_text("SELECT count(*) FROM generate_series(1, 200000);\n")
    write(("rate     = 100\n", ""), user="nobody_special")

    result = pgtrial("run", "shop.toml")

    assert result.returncode == 0, result.stderr
    (folder,) = (tmp_path / "results").iterdir()
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as state:
        rows = state.execute("SELECT value FROM fingerprint WHERE name = ? AND moment = 'after'", [CPU_OWN]).fetchall()
    assert len(rows) == 2
    assert all(float(value) > 0.5 for (value,) in rows)  # s; the load's own is some hundredths of it


def test_what_the_load_may_write_is_counted(shop, write, pgtrial, tmp_path):
    write(("# writes", "writes = true"))
    (tmp_path / "own.sql").write_text("INSERT INTO orders VALUES (0, 0);\n")

    result = pgtrial("run", "shop.toml", "--allow-writes")

    assert result.returncode == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert re.search(r"public\.orders \(\d+ inserted\)", words), words


@pytest.mark.parametrize("way", ["restore", "resume"])
def test_what_a_killed_pgtrial_has_applied_is_pending_and_undone(shop, write, pgtrial, tmp_path, way):
    write(
        ("[arms.other.postgresql]", INDEX + "[arms.other.postgresql]"),
        ("# writes", "writes = true"),
        ('duration = "1s"', 'duration = "5s"'),  # long enough to be killed in the middle
    )
    command = [sys.executable, "-m", "pgtrial", "run", "shop.toml", "--allow-writes", "-q"]
    with subprocess.Popen(command) as process:
        wait_until(lambda: bool(list(tmp_path.glob("results/*/runs/*-other-*/pgbench"))))
        wait_until(lambda: "notes" in objects(shop))
        process.kill()
    (folder,) = tmp_path.glob("results/*")

    pending = pgtrial("status", str(folder))
    undone = pgtrial("restore") if way == "restore" else pgtrial("resume", str(folder), "--allow-writes")

    assert 'SQL of arm "other" in database "shop"' in " ".join(pending.stdout.split())
    assert undone.returncode == 0, undone.stderr
    assert objects(shop) == {"orders"}
    assert "not put back" not in pgtrial("status", str(folder)).stdout


def test_an_undo_that_forgets_something_fails_before_anything_is_measured(shop, write, pgtrial, tmp_path):
    forgets = INDEX.replace("DROP TABLE notes; ", "")
    write(("[arms.other.postgresql]", forgets + "[arms.other.postgresql]"), ("# writes", "writes = true"))

    result = pgtrial("run", "shop.toml", "--allow-writes")

    assert result.returncode == 1
    assert 'the undo of arm "other" does not put the database back as it was' in result.stderr
    assert "Left over: table public.notes." in result.stderr
    assert not list(tmp_path.glob("results/*"))


# Nobody waits long for a lock, and looks at once at who has it.
HURRIED = """
import sys
from pgtrial.cli.main import main
from pgtrial.postgres.existing import arm_sql, lock_wait
arm_sql.LOCK_TIMEOUT, arm_sql.UNDOING, lock_wait.PAUSE, lock_wait._LOOK = 1500, 3.0, 0.1, 0.1
sys.exit(main(sys.argv[1:]))
"""


def test_an_undo_that_gets_no_lock_says_who_has_it_and_is_finished_by_restore(shop, write, pgtrial, tmp_path):
    write(
        ("[arms.other.postgresql]", INDEX + "[arms.other.postgresql]"),
        ("# writes", "writes = true"),
        ('duration = "1s"', 'duration = "5s"'),  # long enough for somebody to come in the middle
    )
    command = [sys.executable, "-c", HURRIED, "run", "shop.toml", "--allow-writes"]
    with (
        psycopg.connect(shop.conninfo(database="shop"), application_name="their app") as reader,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process,
    ):
        wait_until(lambda: bool(list(tmp_path.glob("results/*/runs/*-other-*/pgbench"))))
        reader.execute("SELECT count(*) FROM orders")
        said = " ".join(process.communicate(timeout=120)[1].split())
    left = objects(shop)
    restored = pgtrial("restore")

    assert process.returncode == 6, said
    assert '(their app, idle in transaction, "SELECT count(*) FROM orders") holds AccessShareLock on table' in said
    assert 'When it is free, finish with "pgtrial restore". By hand: DROP INDEX by_amount;' in said
    assert said.count("waits for a lock and is tried again") <= 1
    assert left == {"orders", "by_amount"}
    assert restored.returncode == 0, restored.stderr
    assert objects(shop) == {"orders"}


def test_an_undo_that_makes_a_table_again_empty_fails_before_anything_is_measured(shop, write, pgtrial, tmp_path):
    arm = """[arms.other.sql]
apply = "DROP TABLE history; CREATE INDEX by_amount ON orders (amount)"
undo = "DROP INDEX by_amount; CREATE TABLE history (id int)"
"""
    write(("[arms.other.postgresql]", arm + "[arms.other.postgresql]"), ("# writes", "writes = true"))
    shop.sql("CREATE TABLE history AS SELECT i AS id FROM generate_series(1, 77) AS i", database="shop")

    result = pgtrial("run", "shop.toml", "--allow-writes")

    assert result.returncode == 1
    assert 'the undo of arm "other" does not put the database back as it was' in result.stderr
    assert "Rows are lost of tables that" in result.stderr
    assert "table public.history (77 rows before, 0 now; " in result.stderr
    assert not list(tmp_path.glob("results/*"))


def test_a_table_that_the_load_or_others_have_made_costs_no_verdict(shop, write, pgtrial, tmp_path):
    arm = INDEX.replace("; CREATE TABLE notes (n int)", "").replace("DROP TABLE notes; ", "")
    write(("[arms.other.postgresql]", f"{arm}[arms.other.postgresql]"), ("# writes", "writes = true"))
    (tmp_path / "own.sql").write_text("CREATE TABLE IF NOT EXISTS of_app (n int);\nSELECT 1;\n")

    result = pgtrial("run", "shop.toml", "--allow-writes")

    assert result.returncode == 0, result.stderr
    (found,) = tmp_path.glob("results/*/findings.json")
    (changed,) = (one for one in json.loads(found.read_text())["caveats"] if one["code"] == "catalogue-changed")
    assert "Left over: table public.of_app." in json.dumps(changed)
    assert objects(shop) == {"orders", "of_app"}


def test_all_rights_that_are_lacking_are_told_at_once(shop, write, pgtrial):
    write(('jit = "off"', 'log_statement = "all"\nautovacuum_naptime = "33s"'), user="nobody_special")

    result = pgtrial("run", "shop.toml", "--allow-host-changes")

    assert result.returncode == 1
    assert "lacks 4 rights" in result.stderr
    assert 'GRANT SET ON PARAMETER log_statement TO "nobody_special";' in result.stderr
    assert 'connected to database "postgres"' in result.stderr
    assert "pg_read_binary_file" not in result.stderr
    assert pgtrial("check", "shop.toml", "--connect", "--no-host").returncode == 1


def test_a_load_without_room_is_told_by_check_and_not_begun(shop, write, pgtrial):
    write(("clients  = 2", "clients  = 24"))
    with shop.connect(), shop.connect(), shop.connect():
        checked = pgtrial("check", "shop.toml", "--connect", "--no-host")
        result = pgtrial("run", "shop.toml")

    assert checked.returncode == 1
    assert "28 connections are needed, and the server has" in checked.stdout
    assert result.returncode == 1
    assert "28 connections are needed, and the server has" in result.stderr
    assert not list(Path("results").glob("*/runs/*"))


def test_an_extension_that_the_server_lacks_is_told_by_check(write, pgtrial):
    arm = '[arms.other.extensions]\ncreate = ["plpgsql", "no_such_one"]'
    write(("[arms.other.postgresql]", f"{arm}\n[arms.other.postgresql]"), ("# writes", "writes = true"))

    checked = pgtrial("check", "shop.toml", "--connect", "--no-host")

    assert checked.returncode == 1
    assert 'the server has no extension "no_such_one", which arms.other.extensions.create creates' in checked.stdout


SCRIPT = """\\set id random(1, 100)
SELECT orders.amount FROM orders JOIN stock.goods USING (id) WHERE id = :id;
SELECT sum(amount) FROM (WITH orders AS (SELECT 1 AS amount) SELECT amount FROM orders) AS local;
UPDATE secret SET amount = 1 WHERE id = :id;
INSERT INTO "Notes" (note) VALUES ('x');
"""


@pytest.mark.parametrize("writes", [True, False])
def test_all_rights_on_tables_that_are_lacking_are_told_at_once(shop, write, pgtrial, tmp_path, writes):
    for statement in (
        "CREATE SCHEMA stock",
        "CREATE TABLE stock.goods AS SELECT * FROM orders",
        "CREATE TABLE secret AS SELECT * FROM orders",
        'CREATE TABLE "Notes" (id serial, note text)',
    ):
        shop.sql(statement, database="shop")
    (tmp_path / "own.sql").write_text(SCRIPT)
    write(*((("# writes", "writes = true"),) if writes else ()), user="nobody_special")
    words = (*(("--allow-writes",) if writes else ()),)

    result = pgtrial("run", "shop.toml", *words)
    checked = pgtrial("check", "shop.toml", "--connect", "--no-host")
    grants = re.findall(r"GRANT .*?(?=;)", result.stderr)
    for grant in grants:
        shop.sql(grant, database="shop")
    allowed = pgtrial("run", "shop.toml", *words)

    assert result.returncode == 1
    assert f"lacks {5 if writes else 3} rights" in result.stderr
    assert 'connected to database "shop"' in result.stderr
    assert set(grants) == {
        'GRANT USAGE ON SCHEMA "stock" TO "nobody_special"',
        'GRANT SELECT ON TABLE "stock"."goods" TO "nobody_special"',
        *(
            (
                'GRANT SELECT, UPDATE ON TABLE "public"."secret" TO "nobody_special"',
                'GRANT INSERT ON TABLE "public"."Notes" TO "nobody_special"',
                'GRANT USAGE ON SEQUENCE "public"."Notes_id_seq" TO "nobody_special"',
            )
            if writes
            else ('GRANT SELECT ON TABLE "public"."secret" TO "nobody_special"',)
        ),
    }
    assert checked.returncode == 1
    assert all(grant in " ".join(checked.stdout.split()) for grant in grants)
    if writes:
        assert allowed.returncode == 0, allowed.stderr
    else:
        assert "cannot execute UPDATE in a read-only transaction" in allowed.stderr


def test_an_arm_whose_settings_change_what_names_mean_is_the_servers_to_judge(shop, write, pgtrial, tmp_path):
    """Where its sessions find the tables elsewhere, and may read them, nothing is refused."""
    for statement in (
        "CREATE TABLE hidden AS SELECT * FROM orders",
        "CREATE SCHEMA stock",
        "GRANT USAGE ON SCHEMA stock TO PUBLIC",
        "CREATE TABLE stock.hidden AS SELECT * FROM orders",
        "GRANT SELECT ON stock.hidden TO PUBLIC",
    ):
        shop.sql(statement, database="shop")
    (tmp_path / "own.sql").write_text("SELECT count(*) FROM hidden;\n")
    paths = '[arms.plain.postgresql]\nsearch_path = "stock"\n'
    write(("[arms.plain]", paths), ('jit = "off"', 'jit = "off"\nsearch_path = "stock"'), user="nobody_special")

    result = pgtrial("run", "shop.toml")

    assert result.returncode == 0, result.stderr


def test_a_copy_takes_the_writes_and_the_original_none(shop, write, pgtrial, tmp_path):
    write(("[arms.other.postgresql]", INDEX + "[arms.other.postgresql]"))
    before = shop.sql(_WRITTEN), shop.sql(_CATALOGUE, database="shop")

    with shop.connect(database="shop"):
        connected = pgtrial("copy", "shop.toml")
    wait_until(lambda: shop.sql(_CONNECTED) == [(0,)])
    copied = pgtrial("copy", "shop.toml")
    result = pgtrial("run", "shop-copy.toml", "--allow-writes")
    again = pgtrial("copy", "shop.toml", "-o", "another.toml")

    assert connected.returncode == 1
    assert "boss: 1" in connected.stderr
    assert "--dump" in connected.stderr
    assert copied.returncode == 0, copied.stderr
    assert result.returncode == 0, result.stderr
    assert 'database "shop_copy" already exists' in again.stderr
    assert (shop.sql(_WRITTEN), shop.sql(_CATALOGUE, database="shop")) == before


@pytest.mark.parametrize("way", [(), ("--dump", "shop.dump")], ids=["on the server", "a dump"])
def test_the_file_of_a_copy_in_another_directory_finds_the_scripts(shop, write, pgtrial, tmp_path, way):
    write()
    (tmp_path / "elsewhere").mkdir()

    copied = pgtrial("copy", "shop.toml", "-o", "elsewhere/copy.toml", *way)
    checked = pgtrial("check", "elsewhere/copy.toml", "--no-host", "--allow-files", str(tmp_path))

    assert copied.returncode == 0, copied.stderr
    assert f"--allow-files {tmp_path}" in copied.stdout
    assert checked.returncode == 0, checked.stderr


def test_the_file_of_a_copy_is_not_written_elsewhere_where_a_name_may_be_something_else(shop, write, pgtrial, tmp_path):
    write(more='# see "own.sql"\n')
    (tmp_path / "elsewhere").mkdir()

    copied = pgtrial("copy", "shop.toml", "-o", "elsewhere/copy.toml")

    assert copied.returncode == 2
    assert 'cannot name "own.sql" from another directory' in copied.stderr
    assert shop.sql(_IS_OPEN) == []


# The server waits with a copy that pgtrial has begun.
_HELD_UP = """
    SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgtrial%' AND wait_event_type = 'Lock'
"""
_IS_OPEN = "SELECT datallowconn FROM pg_database WHERE datname = 'shop_copy'"


@contextlib.contextmanager
def a_copy(shop, catalogue: str) -> Iterator["subprocess.Popen[str]"]:
    """``pgtrial copy``, held up where the server is to write to a table of its catalogue, until the end."""
    command = [sys.executable, "-m", "pgtrial", "copy", "shop.toml"]
    with shop.connect() as other, other.transaction():
        other.execute(f"LOCK TABLE pg_catalog.{catalogue} IN EXCLUSIVE MODE")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                wait_until(lambda: shop.sql(_HELD_UP) == [(1,)])
                yield process
            finally:
                process.kill()


@pytest.mark.parametrize("catalogue", ["pg_database", "pg_shdescription"])
def test_a_copy_that_was_killed_is_found_and_dropped(shop, write, pgtrial, catalogue):
    write()
    with a_copy(shop, catalogue) as process:
        process.kill()
    wait_until(lambda: shop.sql(_IS_OPEN) == [(False,)])  # the server has gone on with it

    again = pgtrial("copy", "shop.toml")
    status = pgtrial("status")
    listed = pgtrial("restore", "--dry-run")
    restored = pgtrial("restore")
    there = shop.sql(_IS_OPEN)
    anew = pgtrial("copy", "shop.toml")

    assert again.returncode == 1
    assert 'database "shop_copy" of the server at' in again.stderr
    assert 'is a copy of "shop" that was not finished' in again.stderr
    assert 'Run "pgtrial restore"' in again.stderr
    assert status.stdout.startswith("Left by a pgtrial that has ended, for ")
    assert '\n  database "shop_copy" of the server at' in status.stdout
    assert 'a copy of "shop" → none, to be restored' in listed.stdout
    assert restored.returncode == 0, restored.stderr
    assert 'a copy of "shop" → none, restored' in restored.stdout
    assert there == []
    assert anew.returncode == 0, anew.stderr
    assert shop.sql(_IS_OPEN) == [(True,)]
    assert "nothing to restore" in pgtrial("restore").stdout


def test_what_the_server_goes_on_with_is_ended(shop, write, pgtrial):
    write()
    with a_copy(shop, "pg_database") as process:
        process.kill()
        process.wait()
        restored = pgtrial("restore")
        assert shop.sql(_HELD_UP) == [(0,)]

    assert restored.returncode == 0, restored.stderr
    assert 'a copy of "shop" → none, already as before' in restored.stdout
    assert shop.sql(_IS_OPEN) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_copy_that_is_broken_off_leaves_nothing(shop, write, pgtrial, tmp_path, number):
    write()
    with a_copy(shop, "pg_database") as process:
        busy = pgtrial("copy", "shop.toml")
        status = pgtrial("status")
        process.send_signal(number)
        process.communicate()

    assert process.returncode == 130
    assert "is being made by another pgtrial, process" in busy.stderr
    assert status.stdout.startswith(f"Process {process.pid} is at work, for ")
    assert '\n  database "shop_copy" of the server at' in status.stdout
    assert shop.sql(_IS_OPEN) == []
    assert "nothing to restore" in pgtrial("restore").stdout
    assert not (tmp_path / "shop-copy.toml").exists()


def parts(folder: Path) -> list[str]:
    """What there is of a dump that is not whole."""
    return [each.name for each in sorted(folder.glob(".shop.dump-*/*"))]


@contextlib.contextmanager
def a_dump(shop) -> Iterator["subprocess.Popen[bytes]"]:
    """``pgtrial copy --dump``, held up when pg_dump has begun, until the end."""
    command = [sys.executable, "-m", "pgtrial", "copy", "shop.toml", "--dump", "shop.dump"]
    waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_dump' AND wait_event_type = 'Lock'"
    with shop.connect(database="shop") as other, other.transaction():
        other.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        with subprocess.Popen(command) as process:
            try:
                wait_until(lambda: shop.sql(waits) == [(1,)])
                yield process
            finally:
                process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_dump_that_is_broken_off_leaves_nothing(shop, write, pgtrial, tmp_path, number):
    write()
    with a_dump(shop) as process:
        status = pgtrial("status")
        process.send_signal(number)
        process.wait()

    assert process.returncode == 130
    said = " ".join(status.stdout.split())
    assert said.startswith(f"Process {process.pid} is at work, for ")
    assert f'"{tmp_path}/shop.dump" from none to a dump of database "shop"' in said
    assert list(tmp_path.glob("*shop.dump*")) == []
    assert "nothing to restore" in pgtrial("restore").stdout
    assert not (tmp_path / "shop-copy.toml").exists()


@pytest.fixture
def killed_dump(shop, write, tmp_path) -> str:
    """The hidden directory of a ``pgtrial copy --dump`` that was killed."""
    write()
    with a_dump(shop) as process:
        process.kill()
    (directory,) = tmp_path.glob(".shop.dump-*")
    return str(directory)


def test_what_a_killed_dump_has_left_is_told_and_removed(killed_dump, pgtrial, tmp_path):
    status = pgtrial("status")
    listed = pgtrial("restore", "--dry-run")
    kept = parts(tmp_path)
    restored = pgtrial("restore")

    said = f'"{tmp_path}/shop.dump" a dump of database "shop" → none'
    assert 'from none to a dump of database "shop"' in " ".join(status.stdout.split())
    assert f"{said}, to be restored" in listed.stdout
    assert kept == ["shop.dump"]
    assert restored.returncode == 0, restored.stderr
    assert f"{said}, restored" in restored.stdout
    assert not Path(killed_dump).exists()
    assert "nothing to restore" in pgtrial("restore").stdout


def test_the_next_dump_removes_what_a_killed_one_has_left(killed_dump, pgtrial, tmp_path, caplog):
    made = pgtrial("copy", "shop.toml", "--dump", "another.dump")

    assert made.returncode == 0, made.stderr
    said = f'removed what a pgtrial that was killed had left of a dump of database "shop" at "{tmp_path}/shop.dump"'
    assert said in caplog.text
    assert (tmp_path / "another.dump").is_file()
    assert not Path(killed_dump).exists()
    assert "nothing to restore" in pgtrial("restore").stdout


def test_what_another_machine_may_be_writing_only_restore_removes(killed_dump, pgtrial, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Operations, "boot_id", lambda _: "of another machine, or of its next start")
    made = pgtrial("copy", "shop.toml", "--dump", "another.dump")
    kept = parts(tmp_path)
    restored = pgtrial("restore")

    assert made.returncode == 0, made.stderr
    assert kept == ["shop.dump"]
    assert 'Where that is over, "pgtrial restore" removes what is left of it.' in caplog.text
    assert restored.returncode == 0, restored.stderr
    assert not Path(killed_dump).exists()


@pytest.mark.parametrize("is_restoring", [True, False])
def test_what_the_next_dump_cannot_remove_does_not_hinder_it(killed_dump, pgtrial, tmp_path, caplog, is_restoring):
    (Path(killed_dump) / "precious").write_text("")

    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(Journal.open(write=True))
        if is_restoring:
            stack.enter_context(journal.restoring())
        made = pgtrial("copy", "shop.toml", "--dump", "another.dump")

    assert made.returncode == 0, made.stderr
    assert ("Directory not empty" in caplog.text) is not is_restoring
    assert (tmp_path / "another.dump").is_file()
    assert Path(killed_dump, "precious").exists()


@pytest.mark.parametrize("place", ["missing/a.dump", "shop.toml/a.dump", "x" * 256, b"\xff.dump", "/proc/a.dump"])
def test_a_dump_that_cannot_be_there_leaves_nothing_to_undo(write, pgtrial, place):
    write()

    refused = pgtrial("copy", "shop.toml", "--dump", os.fsdecode(place))

    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert "bug" not in refused.stderr
    assert "nothing to restore" in pgtrial("restore").stdout


@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_not_the_directory_of_a_killed_dump_is_left(killed_dump, pgtrial, tmp_path, is_link):
    # Somebody who may write beside the dump has what is left seem to be another directory of the user's.
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "shop.dump").write_text("the only one")
    Path(killed_dump).rename(tmp_path / "aside")
    if is_link:
        Path(killed_dump).symlink_to(precious)
    else:
        precious.rename(killed_dump)
    restored = pgtrial("restore")

    assert restored.returncode == 0, restored.stderr
    assert "changed by somebody else" in restored.stdout
    assert f'"{killed_dump}" is not the directory that pgtrial made; it is left as it is.' in restored.stdout
    assert Path(killed_dump, "shop.dump").read_text() == "the only one"
    assert (tmp_path / "aside" / "shop.dump").exists()
    assert "nothing to restore" in pgtrial("restore").stdout


def test_what_is_left_of_a_dump_keeps_no_experiment_away(killed_dump, pgtrial, tmp_path):
    result = pgtrial("run", "shop.toml")

    assert result.returncode == 0, result.stderr
    assert parts(tmp_path) == ["shop.dump"]


def test_what_has_the_name_of_a_copy_is_told(shop, write, pgtrial, tmp_path):
    write()
    shop.sql("CREATE DATABASE shop_copy OID 4000000000 ALLOW_CONNECTIONS false")
    unfinished = pgtrial("copy", "shop.toml")
    shop.sql("DROP DATABASE shop_copy")
    made = pgtrial("copy", "shop.toml")
    whole = pgtrial("copy", "shop.toml", "-o", "another.toml")
    shop.sql("COMMENT ON DATABASE shop_copy IS NULL")
    foreign = pgtrial("copy", "shop.toml", "-o", "another.toml")

    assert "It takes no connections, and has an identifier" in unfinished.stderr
    assert '"pgtrial restore" drops it' in unfinished.stderr
    assert made.returncode == 0, made.stderr
    assert 'says that it is a copy, which "pgtrial copy" has made' in whole.stderr
    for refused in (unfinished, whole, foreign):
        assert refused.returncode == 1
        assert 'database "shop_copy" already exists' in refused.stderr
        assert "dropdb shop_copy" in refused.stderr
    assert "detail" not in foreign.stderr


def test_a_copy_is_made_while_autovacuum_is_at_work(shop, write, pgtrial):
    write()
    shop.sql("CREATE TABLE large AS SELECT i FROM generate_series(1, 300000) AS i", database="shop")
    shop.sql("DELETE FROM large", database="shop")
    wait_until(lambda: shop.sql(_CONNECTED) == [(0,)])
    shop.set_auto_conf("autovacuum_naptime = 1\nautovacuum_vacuum_cost_delay = 100\nautovacuum_vacuum_cost_limit = 1\n")
    wait_until(lambda: shop.sql(f"{_CONNECTED} AND backend_type = 'autovacuum worker'") != [(0,)])

    copied = pgtrial("copy", "shop.toml")
    shop.sql("DROP DATABASE IF EXISTS shop_copy")

    assert copied.returncode == 0, copied.stderr


def test_a_copy_is_open_to_the_same_roles_and_has_the_same_settings_as_the_original(shop, write, pgtrial):
    write()
    shop.sql("REVOKE ALL ON DATABASE shop FROM PUBLIC")
    shop.sql("GRANT CONNECT ON DATABASE shop TO pg_monitor WITH GRANT OPTION")
    shop.sql("""ALTER DATABASE shop SET search_path TO "$user", public, 'a b'""")
    shop.sql("ALTER DATABASE shop SET work_mem = '7MB'")
    shop.sql("ALTER ROLE boss IN DATABASE shop SET random_page_cost = 1.5")

    copied = pgtrial("copy", "shop.toml")

    assert copied.returncode == 0, copied.stderr
    assert _who_and_what(shop, "shop_copy") == _who_and_what(shop, "shop")
    assert len(_who_and_what(shop, "shop")) == 5


def _who_and_what(server, database):
    grants = "SELECT unnest(datacl)::text, datdba::regrole::text, datallowconn::text FROM pg_database WHERE datname"
    settings = (
        "SELECT unnest(setconfig), setrole::text, '' FROM pg_db_role_setting, pg_database d WHERE setdatabase = d.oid"
    )
    return sorted(server.sql(f"{grants} = '{database}'") + server.sql(f"{settings} AND datname = '{database}'"))


def test_a_role_that_may_not_connect_is_told_the_grant(shop, write, pgtrial):
    write(user="nobody_special")
    shop.sql("REVOKE CONNECT ON DATABASE shop FROM PUBLIC")

    result = pgtrial("check", "shop.toml", "--connect")

    assert result.returncode == 1
    assert 'GRANT CONNECT ON DATABASE "shop" TO "nobody_special".' in " ".join(result.stdout.split())


def test_names_with_quotation_marks_stand_in_grants_as_sql_has_them(shop, write, pgtrial, tmp_path):
    shop.sql('CREATE ROLE "a ""b" LOGIN')
    (tmp_path / "pgpass").write_text("", encoding="utf-8")
    socket = f"host={shop.folder} port={shop.port} user='a \\\"b'"
    try:
        write((shop.connection("boss"), socket))
        told = " ".join(pgtrial("check", "shop.toml", "--connect", "--no-host").stdout.split())
    finally:
        shop.sql('DROP ROLE "a ""b"')

    assert 'GRANT pg_monitor TO "a ""b" gives' in told


@pytest.mark.parametrize("name", ["a=b", "postgresql://c", "d 'e' \\f"])
def test_a_database_whose_name_looks_like_a_connection_is_reached(shop, write, pgtrial, tmp_path, name):
    shop.sql(f'CREATE DATABASE "{name}" TEMPLATE shop')
    write(('database   = "shop"', f"database = {json.dumps(name)}"))

    result = pgtrial("run", "shop.toml", "-q")
    dumped = pgtrial("copy", "shop.toml", "--dump", "shop.dump")

    assert result.returncode == 0, result.stderr
    assert dumped.returncode == 0, dumped.stderr


def test_a_dump_is_made_by_a_connection_with_parameters_that_have_no_variables(shop, write, pgtrial):
    write((shop.connection("boss"), f"{shop.connection('boss')} keepalives_idle=7"))

    dumped = pgtrial("copy", "shop.toml", "--dump", "shop.dump")

    assert dumped.returncode == 0, dumped.stderr


def test_a_dump_is_for_its_owner_alone_and_the_file_names_it(shop, write, pgtrial, tmp_path):
    write()
    shop.sql("ALTER DATABASE shop SET work_mem = '7MB'")
    shop.sql("ALTER ROLE boss IN DATABASE shop SET jit = off")

    with shop.connect(database="shop"):
        result = pgtrial("copy", "shop.toml", "--dump", "shop.dump")

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "shop.dump").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "shop.dump").read_bytes().startswith(b"PGDMP")
    text = (tmp_path / "shop-copy.toml").read_text()
    assert f'load = "{tmp_path / "shop.dump"}"' in text
    assert 'kind = "throwaway"' in text
    assert "connection" not in text
    assert "belong into [target.postgresql]: " in result.stdout
    assert "work_mem = 7MB" in result.stdout
    assert 'jit = off of role "boss"' in result.stdout
    assert not Path(tmp_path / ".shop.dump.part").exists()


def test_a_dump_that_lacks_a_right_says_which_grants_it_takes(shop, write, pgtrial, tmp_path):
    shop.sql("CREATE SEQUENCE hidden", database="shop")
    write(user="nobody_special")

    result = pgtrial("copy", "shop.toml", "--dump", "shop.dump")

    assert result.returncode == 1
    assert "permission denied for sequence hidden" in result.stderr
    assert "GRANT SELECT ON ALL SEQUENCES IN SCHEMA" in result.stderr
    assert list(tmp_path.glob("*.dump*")) == []


_IS_LIKE_IT = (
    "SELECT (pg_encoding_to_char(encoding) = 'LATIN1' AND datcollate = 'C')::int FROM pg_database "
    "WHERE datname = current_database()"
)
_AS_IT_WAS = f'[arms.other.sql]\napply = "SELECT 1 / ({_IS_LIKE_IT})"\nundo = "SELECT 1"\n'


def test_a_dump_becomes_a_database_with_the_originals_encoding_and_collation(shop, write, pgtrial, tmp_path):
    shop.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    shop.sql("CREATE TABLE orders AS SELECT 1 AS id, 'Größe' AS amount", database="latin")
    (tmp_path / "own.sql").write_text("SELECT amount FROM orders;\n")
    more = _AS_IT_WAS + "[arms.other.postgresql]"
    write(('database   = "shop"', 'database   = "latin"'), ("[arms.other.postgresql]", more))
    text = (tmp_path / "shop.toml").read_text()
    loaded = ('kind = "existing"', f'kind = "sql"\nload = "{tmp_path}/latin.dump"')
    (tmp_path / "own.toml").write_text(text.replace('database   = "latin"', "").replace(*loaded))

    dumped = pgtrial("copy", "shop.toml", "--dump", "latin.dump")
    apart = pgtrial("run", "shop-copy.toml", "-q")
    beside = pgtrial("run", "own.toml", "-q", "--allow-writes")

    for result in (dumped, apart, beside):
        assert result.returncode == 0, result.stderr


@pytest.fixture
def trial(shop) -> Iterator[str]:
    """A role with the grants of docs/managed-services.md, and no others."""
    guide = (Path(__file__).parents[3] / "docs/managed-services.md").read_text()
    (grants,) = re.findall(r"```sql\n(.*?)```", guide, re.DOTALL)
    for statement in filter(None, map(str.strip, grants.split(";"))):
        shop.sql(statement.replace("'…'", f"'{shop.password}'"), database="shop")
    yield "trial"
    shop.sql("DROP OWNED BY trial", database="shop")
    shop.sql("DROP ROLE trial")


@pytest.mark.usefixtures("trial")
@pytest.mark.parametrize("method", ['"interleaved"\nslice = "400ms"', '"duet"'], ids=["turns", "duet"])
def test_with_the_grants_of_the_guide_arms_share_a_server_to_a_verdict(shop, write, pgtrial, tmp_path, method):
    script = "SELECT pg_sleep(CASE current_setting('jit') WHEN 'on' THEN 0.02 ELSE 0.005 END), count(*) FROM orders;\n"
    (tmp_path / "own.sql").write_text(script)
    write(
        ("rate     = 100\n", ""),
        ('duration = "1s"', 'duration = "3s"'),
        ("blocks = 1", f"blocks = 6\nmethod = {method}"),
        user="trial",
    )

    checked = pgtrial("check", "shop.toml", "--connect", "--no-host")
    result = pgtrial("run", "shop.toml", "--assert")

    assert "The experiment can run there." in checked.stdout
    assert "GRANT" not in checked.stdout
    assert result.returncode == 0, result.stdout + result.stderr
    assert "SUPPORTED" in result.stdout


def test_a_program_that_knows_no_socket_is_refused_where_a_variable_leads_to_one(shop, write, pgtrial, monkeypatch):
    """A file that says so itself is refused by check alone."""
    load = '[workload]\nkind = "command"\nresults = "go-tpc"\ncommand = ["sh", "tpcc"]\nclients = 2\n'
    begin, end = TEXT.index("[workload]"), TEXT.index("[arms.plain]")
    write(
        (TEXT[begin:end], load),
        (f"host=127.0.0.1 port={shop.port} ", ""),
        ("# writes", "writes = true"),
    )
    monkeypatch.setenv("PGHOST", str(shop.folder))
    monkeypatch.setenv("PGPORT", str(shop.port))

    checked = pgtrial("check", "shop.toml", "--connect", "--no-host")
    result = pgtrial("run", "shop.toml", "--allow-code", "--allow-writes")

    assert "go-tpc cannot reach a server by a Unix socket" in checked.stdout + checked.stderr
    assert "go-tpc cannot reach a server by a Unix socket" in result.stderr
    assert (checked.returncode, result.returncode) == (1, 1)
