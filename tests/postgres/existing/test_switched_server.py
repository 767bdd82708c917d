"""An existing server that is switched back and forth under a load, as a user has it done; and what guards it."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from pgtrial.engine.guardrails import asking
from support import wait_until

TEXT = """
format = 1
experiment = { name = "switched" }
[target]
kind       = "server"
connection = "CONNECTION dbname=postgres"
settings   = "server"
[dataset]
scale = 1
[hypothesis]
expect = "worse"
margin = "5%"
[workload]
clients  = 2
duration = "3s"
warmup   = 0
scenario = [{ name = "sleep", file = "sleep.sql" }]
[arms.plain]
[arms.slow.postgresql]
work_mem = "7MB"
[guardrails]
p99 = "5s"
errors = "50%"
active = 25
[design]
method = "switchback"
slice  = "1500ms"
blocks = 3
"""
# Half as many by construction, as what else a transaction takes is little beside it.
SLEEP = "SELECT pg_sleep(CASE current_setting('work_mem') WHEN '7MB' THEN 0.040 ELSE 0.020 END);\n"
EXAMPLE = Path(__file__).parents[3] / "examples/switchback"
HAND_MADE = "# kept by hand\nmaintenance_work_mem = '65MB'\n"
_CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(CASE%' AND state = 'active'"
on_one = pytest.mark.parametrize("each_programs", ["any"], indirect=True, scope="session")


@pytest.fixture
def seal_work() -> None:
    """As much as for a user: another process reads what one has written, and takes as much for it."""


@pytest.fixture
def write(foreign, caller) -> Callable[..., None]:
    """Write the experiment."""
    foreign.set_auto_conf(HAND_MADE)

    def write(*replacements: tuple[str, str], script: str = SLEEP) -> None:
        text = TEXT.replace("CONNECTION", foreign.connection())
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        (caller / "switched.toml").write_text(text)
        (caller / "sleep.sql").write_text(script)

    return write


def query(folder: Path, sql: str) -> list[tuple[object, ...]]:
    (state,) = folder.glob("results/*/state.sqlite")
    db = sqlite3.connect(state)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


@on_one
def test_a_known_effect_is_found_on_a_server_that_is_switched_and_is_as_before(foreign, write, pgtrial, tmp_path):
    write()
    refused = pgtrial("run", "switched.toml")
    planned = pgtrial("plan", "switched.toml")
    result = pgtrial("run", "switched.toml", "--allow-host-changes")

    assert refused.returncode == 2
    assert "work_mem = 7MB for the whole server" in refused.stderr
    assert "is switched back and forth by ALTER SYSTEM" in " ".join(planned.stdout.split())
    assert result.returncode == 0, result.stderr
    assert foreign.auto_conf.read_text() == HAND_MADE
    assert foreign.shown("work_mem") == "4MB"
    (file,) = tmp_path.glob("results/*/findings.json")
    found = json.loads(file.read_text())
    (effect,) = [
        one
        for one in found["effects"]
        if (one["metric"], one["load_level"], one["scenario"]) == ("pgbench.tps", "all", None)
    ]
    assert found["experiment"]["method"] == "switchback"
    assert 0.4 < effect["ratio"] < 0.65
    rows = query(
        tmp_path,
        "SELECT DISTINCT slot.arm, value FROM setting JOIN run ON run.id = setting.run"
        " JOIN slot ON slot.number = run.slot WHERE name = 'work_mem'",
    )
    assert sorted(rows) == [("plain", "4MB"), ("slow", "7MB")]
    turns = query(
        tmp_path,
        "SELECT slot.arm FROM slice JOIN run ON run.id = slice.run JOIN slot ON slot.number = run.slot"
        " WHERE slot.block = 1 ORDER BY slice.started",
    )
    assert turns == turns[::-1]
    assert len(turns) >= 4


@on_one
def test_a_load_that_writes_is_found_out_while_pgtrial_itself_looks_after_the_server(foreign, write, pgtrial):
    """Its own sessions, for a look or a switch, are in the database that the load may only read."""
    foreign.sql("CREATE DATABASE shop")
    foreign.sql("CREATE SEQUENCE numbers", database="shop")
    write(
        ("dbname=postgres", "dbname=shop"),
        ('settings   = "server"', 'settings   = "server"\ndatabase = "shop"'),
        ("scale = 1", 'kind = "existing"'),
        ('duration = "3s"', 'duration = "9s"'),
        ('"1500ms"', '"4500ms"'),
        ("blocks = 3", "blocks = 1"),
        script="SELECT set_config('default_trans' || 'action_read_only', 'off', false);\n"
        f"SELECT nextval('numbers');\n{SLEEP}",
    )
    result = pgtrial("run", "switched.toml", "--allow-host-changes", "--allow-code")

    assert result.returncode == 1, result.stdout + result.stderr
    assert 'the load has written to database "shop", which is read-only' in " ".join(result.stderr.split())
    assert "Drawn from: sequence public.numbers." in " ".join(result.stderr.split())
    assert foreign.auto_conf.read_text() == HAND_MADE


@on_one
def test_a_breach_puts_everything_back_and_ends_it_for_who_resumes_it_too(foreign, write, pgtrial, tmp_path):
    # 20 clients can do 66 a second with the arm, and 200 come.
    write(
        ('p99 = "5s"', 'p99 = "150ms"'),
        ("clients  = 2", "clients  = 20\nrate = 200"),
        ('duration = "3s"', 'duration = "20s"'),
        ('"1500ms"', '"10s"'),
        script=SLEEP.replace("0.040", "0.300").replace("0.020", "0.010"),
    )
    result = pgtrial("run", "switched.toml", "--allow-host-changes")
    runs = query(tmp_path, "SELECT state, reason FROM run")
    (folder,) = tmp_path.glob("results/*")
    left = pgtrial("restore")
    resumed = pgtrial("resume", str(folder), "--allow-host-changes")

    assert result.returncode == 1, result.stdout + result.stderr
    assert "a guardrail was breached: the 99th percentile of the load is" in " ".join(result.stderr.split())
    assert foreign.auto_conf.read_text() == HAND_MADE
    assert foreign.shown("work_mem") == "4MB"
    assert {state for state, _ in runs} == {"invalid"}
    assert len(runs) == 2
    assert left.returncode == 0
    assert "restored" not in left.stdout
    assert len(query(tmp_path, "SELECT 1 FROM run")) == 2, resumed.stdout + resumed.stderr


@on_one
@pytest.mark.parametrize(
    "intervene",
    [
        "ALTER SYSTEM SET work_mem = '2MB'",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(CASE%'",
    ],
    ids=["a setting", "a load that fails"],
)
def test_who_intervenes_ends_it_for_good(foreign, write, pgtrial, tmp_path, intervene):
    write(('duration = "3s"', 'duration = "30s"'), ('"1500ms"', '"5s"'))

    def act() -> None:
        wait_until(lambda: foreign.sql(_CLIENTS) == [(2,)])
        wait_until(lambda: "work_mem = '7MB'" in foreign.auto_conf.read_text())
        foreign.sql(intervene)

    with ThreadPoolExecutor() as threads:
        acting = threads.submit(act)
        result = pgtrial("run", "switched.toml", "--allow-host-changes")
        acting.result()
    (folder,) = tmp_path.glob("results/*")
    pgtrial("resume", str(folder), "--allow-host-changes")
    content = foreign.auto_conf.read_text()

    assert result.returncode == 1, result.stdout + result.stderr
    assert "the switching has ended: " in result.stderr
    assert [state for (state,) in query(tmp_path, "SELECT state FROM run")] == ["invalid", "invalid"]
    assert ("2MB" in content) is intervene.startswith("ALTER")
    assert "7MB" not in content


@on_one
def test_what_a_killed_pgtrial_left_switched_is_restored(foreign, write, pgtrial):
    write(('duration = "3s"', 'duration = "30s"'), ('"1500ms"', '"5s"'))
    with subprocess.Popen(
        [sys.executable, "-m", "pgtrial", "run", "switched.toml", "--allow-host-changes", "-q"]
    ) as process:
        # Of two clients: what is tried before the first block has one, and another change in the journal.
        wait_until(lambda: foreign.sql(_CLIENTS) == [(2,)])
        wait_until(lambda: "work_mem = '7MB'" in foreign.auto_conf.read_text())
        process.kill()
    again = pgtrial("run", "switched.toml", "--allow-host-changes")
    restored = pgtrial("restore")

    assert again.returncode == 1
    assert "pgtrial restore" in again.stderr
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert "server_switch: work_mem of the server at" in restored.stdout
    assert foreign.auto_conf.read_text() == HAND_MADE
    assert foreign.shown("work_mem") == "4MB"


@on_one
@pytest.mark.parametrize(
    ("replacement", "said"),
    [
        (('[guardrails]\np99 = "5s"\nerrors = "50%"\nactive = 25\n', ""), "the file has no [guardrails]"),
        (('settings   = "server"\n', ""), "sessions keep the settings that they begin with"),
    ],
)
def test_only_a_files_own_word_has_a_server_switched(foreign, write, pgtrial, replacement, said):
    write(replacement)
    result = pgtrial("run", "switched.toml", "--allow-host-changes")

    assert result.returncode == 2
    assert said in " ".join(result.stderr.split())
    assert foreign.auto_conf.read_text() == HAND_MADE


ORDERS = """
CREATE TABLE orders AS SELECT i AS id, i % 100 AS customer, i % 7 AS amount, DATE '2026-02-01' + i % 28 AS ordered
FROM generate_series(1, 20000) AS i
"""


@on_one
def test_the_example_runs_on_a_server_with_its_database(foreign, write, pgtrial, tmp_path):
    write()
    foreign.sql("CREATE DATABASE shop")
    foreign.sql(ORDERS, database="shop")
    text = (EXAMPLE / "experiment.toml").read_text()
    for old, new in (
        ('"service=shop"', f'"{foreign.connection()}"'),
        ('"12min"', '"3s"'),
        ('"2min"', '"1500ms"'),
        ("blocks = 6", "blocks = 2"),
        ("rate     = 5 ", "rate     = 50 "),
        ("= 40 ", "= 25 "),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / "example.toml").write_text(text)
    (tmp_path / "report.sql").write_text((EXAMPLE / "report.sql").read_text())

    result = pgtrial("run", "example.toml", "--allow-host-changes")

    assert result.returncode == 0, result.stderr
    assert foreign.auto_conf.read_text() == HAND_MADE
    assert {state for (state,) in query(tmp_path, "SELECT state FROM run")} == {"done"}


@pytest.mark.parametrize(("user", "may_see"), [("boss", True), ("watcher", True), ("nobody_special", False)])
def test_the_server_is_asked_what_others_feel(foreign, runner, user, may_see):
    with foreign.connect() as one, foreign.connect() as other:
        one.execute("BEGIN")
        one.execute("ROLLBACK")
        before = runner.run(asking(foreign.conninfo(user))())
        other.execute("SELECT 1")

    assert before.may_see is may_see
    assert (before.standbys, before.lag) == ((), None)
    assert before.committed > 0
    assert before.active <= 1


@pytest.fixture
def standby(foreign) -> Iterator[Path]:
    """Data and socket of a standby of the server."""
    place, programs = foreign.folder / "standby", foreign.programs
    reached = ("-h", str(foreign.folder), "-p", str(foreign.port), "-U", "boss")
    copied = ("-D", str(place), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
    try:
        foreign.run(*foreign.as_owner, str(programs.path("pg_basebackup")), *copied, *reached)
        with (place / "postgresql.conf").open("a") as conf:
            conf.write(f"listen_addresses = ''\nunix_socket_directories = '{place}'\n")
        pg_ctl = [*foreign.as_owner, str(programs.path("pg_ctl")), "-D", str(place), "-s", "-w"]
        foreign.run(*pg_ctl, "start", "-l", str(foreign.folder / "standby.log"))
        try:
            yield place
        finally:
            foreign.run(*pg_ctl, "stop", "-m", "immediate")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@on_one
def test_a_standby_that_stops_replaying_is_seen_to_fall_behind(foreign, runner, standby):
    ask = asking(foreign.conninfo())
    wait_until(lambda: runner.run(ask()).standbys)
    foreign.sql("CREATE DATABASE shop")
    with psycopg.connect(f"host={standby} port={foreign.port} user=boss dbname=postgres", autocommit=True) as other:
        other.execute("SELECT pg_wal_replay_pause()")
        foreign.sql("CREATE TABLE t AS SELECT 1", database="shop")
        wait_until(lambda: runner.run(ask()).lag, lambda lag: lag is not None and lag > 0.5)
        other.execute("SELECT pg_wal_replay_resume()")
        foreign.sql("INSERT INTO t VALUES (2)", database="shop")
        wait_until(lambda: runner.run(ask()).lag, lambda lag: lag is not None and lag < 0.5)


@on_one
def test_what_only_receives_wal_is_no_standby(foreign, runner):
    place = foreign.folder / "received"
    command = [str(foreign.programs.path("pg_receivewal")), "-D", str(place), "-h", str(foreign.folder)]
    foreign.run(*foreign.as_owner, "mkdir", str(place))
    with subprocess.Popen([*foreign.as_owner, *command, "-p", str(foreign.port), "-U", "boss"]) as process:
        try:
            wait_until(
                lambda: foreign.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == [(1,)]
            )
            seen = runner.run(asking(foreign.conninfo())())
        finally:
            process.terminate()
    shutil.rmtree(place)

    assert (seen.standbys, seen.lag) == ((), None)
