"""A log is replayed to a real server, whose own answers and log tell what became of it."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import pytest

from pgtrial.workloads.replay import play as playing
from pgtrial.workloads.replay import waits
from pgtrial.workloads.replay.arrivals import Arrivals
from pgtrial.workloads.replay.log import read_log
from pgtrial.workloads.replay.play import play

DATABASE = "postgres"
TABLES = """
DROP TABLE IF EXISTS shelf, told, part CASCADE;
CREATE TABLE shelf (item int PRIMARY KEY, n int);
CREATE TABLE told (at timestamptz DEFAULT clock_timestamp(), what text)
"""


# What wait4() says is the parent's, where that has more.
WITH_MEMORY = """
import sys
from pathlib import Path
from pgtrial.cli.main import main
status = main(sys.argv[1:])
print(Path("/proc/self/status").read_text(), file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture
def tables(server):
    for statement in TABLES.split(";"):
        server.execute(statement)
    return server


def start(server, path, *options):
    """Where the test says nothing of its lag, it may have any: the machine may have other things to do."""
    return subprocess.Popen(
        [sys.executable, "-m", "pgtrial", "replay", str(path), "--most-lag", "60000", *options],
        env={**os.environ, **server.cluster.environment(DATABASE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def replay(server, path, *options):
    """(status, lines, what was said)"""
    with start(server, path, *options) as process:
        out, said = process.communicate(timeout=60)
    return process.returncode, [json.loads(line) for line in out.splitlines()], said


def play_here(server, sessions, *, tell):
    arrivals = Arrivals(len(sessions))
    conninfo = server.cluster.conninfo(DATABASE)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(arrivals)) as runner:
        return runner.run(
            play(sessions, conninfo=conninfo, speed=1, tell=tell, stop=asyncio.Event(), arrivals=arrivals)
        )


def due_times(lines):
    return sorted(line["t"] - line["latency"] for line in lines[1:])


def test_statements_are_sent_when_they_are_due_in_their_sessions(tables, write_log) -> None:
    rows = [
        (number / 10, f"s{number % 3}", f"statement: INSERT INTO told (what) SELECT '{number} ' || pg_backend_pid()")
        for number in range(15)
    ]

    status, lines, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert lines[0] == {"ready": True}
    assert len(lines) == 16
    told = tables.query("SELECT extract(epoch FROM at)::float8, what FROM told ORDER BY at")
    numbers, pids = zip(*(what.split() for _, what in told), strict=True)
    # Sessions that are 100 ms apart may come in another order where the machine has other things to do.
    of_session = [[int(number) for number in numbers if int(number) % 3 == session] for session in range(3)]
    assert of_session == [list(range(session, 15, 3)) for session in range(3)]
    assert len({(int(number) % 3, pid) for number, pid in zip(numbers, pids, strict=True)}) == 3
    dues = due_times(lines)
    assert dues == pytest.approx([dues[0] + number / 10 for number in range(15)], abs=1e-4)
    assert all(at >= due for (at, _), due in zip(told, dues, strict=True))
    assert all(line["latency"] >= line["lag"] >= 0 for line in lines[1:])


def test_ten_times_as_fast_statements_are_due_in_a_tenth_of_the_time(tables, write_log) -> None:
    rows = [(number, "a", f"statement: INSERT INTO told (what) VALUES ('{number}')") for number in range(3)]

    status, lines, said = replay(tables, write_log(rows), "--speed", "10")

    assert status == 0, said
    dues = due_times(lines)
    assert dues == pytest.approx([dues[0], dues[0] + 0.1, dues[0] + 0.2], abs=1e-4)


def test_a_statement_waits_for_the_row_and_not_for_the_clock(tables, write_log) -> None:
    """The insert takes longer than in the log; what followed it there follows it here."""
    tables.execute(
        "CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(0.4); RETURN NEW; END'"
    )
    tables.execute("CREATE TRIGGER slow BEFORE INSERT ON shelf FOR EACH ROW EXECUTE FUNCTION pause()")
    rows = [
        (0.0, "a", "statement: BEGIN"),
        (0.01, "a", "statement: INSERT INTO shelf VALUES (17, 1)"),
        (0.02, "a", "statement: COMMIT"),
        (0.05, "b", "statement: UPDATE shelf SET n = n + 1 WHERE item = 17"),
    ]

    status, lines, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert tables.query("SELECT n FROM shelf") == [(2,)]
    assert "1 waited for another session, 0 of them in vain" in said
    # The wait is part of its latency, since it was due, and no lag of the replay.
    update = max(lines[1:], key=lambda line: line["t"])
    assert update["latency"] > 0.3
    assert update["lag"] < update["latency"] - 0.3


@pytest.mark.parametrize("schema", ["", "public."])
def test_a_row_with_a_reference_waits_for_what_it_refers_to(tables, write_log, schema) -> None:
    tables.execute("CREATE TABLE part (shelf int REFERENCES shelf)")
    rows = [
        (0.0, "a", "statement: SELECT pg_sleep(0.4)"),
        (0.01, "a", "statement: INSERT INTO shelf VALUES (17, 1)"),
        (0.02, "b", f"statement: INSERT INTO {schema}part VALUES (17)"),
    ]

    status, lines, said = replay(tables, write_log(rows))

    assert (status, sum("differs" in line for line in lines)) == (0, 0), said
    assert "1 waited for another session, 0 of them in vain" in said


MORE = """
DROP TABLE IF EXISTS days CASCADE;
CREATE TABLE days (day int, n int) PARTITION BY RANGE (day);
CREATE TABLE week PARTITION OF days FOR VALUES FROM (0) TO (100);
CREATE VIEW goods AS SELECT item, n FROM shelf;
CREATE VIEW public.cheap AS SELECT * FROM goods WHERE n < 100
"""


@pytest.mark.parametrize(
    ("insert", "update", "asked"),
    [
        ("public.shelf", "shelf", "shelf WHERE item = 17"),
        ("shelf", "public.cheap", "shelf WHERE item = 17"),
        ("cheap", "shelf", "shelf WHERE item = 17"),
        ("week", "days", "days WHERE day = 17"),
        ("days", "public.week", "days WHERE day = 17"),
    ],
)
def test_a_row_is_the_same_by_whatever_name_its_table_has(tables, write_log, insert, update, asked) -> None:
    for statement in MORE.split(";"):
        tables.execute(statement)
    rows = [
        (0.0, "a", f"statement: INSERT INTO {insert} SELECT 17, 0 FROM pg_sleep(0.4)"),
        (0.01, "b", f"statement: UPDATE {update} SET n = 77 WHERE {asked.partition(' WHERE ')[2]}"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert tables.query(f"SELECT n FROM {asked}") == [(77,)]
    assert "1 waited for another session, 0 of them in vain" in said


def test_who_asked_for_a_row_first_gets_it_first(tables, write_log) -> None:
    """The sleep takes longer than in the log, so that what follows it in its session is late."""
    tables.execute("INSERT INTO shelf VALUES (17, 0)")
    rows = [
        (0.0, "b", "statement: BEGIN"),
        (0.0, "b", "statement: SELECT pg_sleep(0.4)"),
        (0.01, "b", "statement: UPDATE shelf SET n = 1 WHERE item = 17"),
        (0.01, "a", "statement: UPDATE shelf SET n = 2 WHERE item = 17"),
        (0.02, "b", "statement: COMMIT"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "1 waited for another session, 0 of them in vain" in said


def test_whoever_is_waited_for_does_not_wait(tables, write_log, monkeypatch) -> None:
    """In the log b had the row first; here a has it, in a way that the log does not tell, and b waits for its lock."""
    monkeypatch.setattr(waits, "_PATIENCE", 3600.0)
    tables.execute("INSERT INTO shelf VALUES (17, 0)")
    rows = [
        (0.0, "a", "statement: BEGIN"),
        (0.01, "a", "statement: UPDATE shelf SET n = n + 1 WHERE item = 10 + 7"),
        (0.1, "b", "statement: BEGIN"),
        (0.11, "b", "statement: UPDATE shelf SET n = n * 10 WHERE item = 17"),
        (0.2, "b", "statement: COMMIT"),
        (0.3, "a", "statement: UPDATE shelf SET n = n + 2 WHERE item = 17"),
        (0.4, "a", "statement: COMMIT"),
    ]
    lines: list[dict] = []
    sessions = read_log(write_log(rows)).sessions

    played = play_here(tables, sessions, tell=lines.append)

    assert (played.statements, played.differ.total(), played.waits, played.given_up) == (7, 0, 1, 1)
    assert tables.query("SELECT n FROM shelf") == [(30,)]
    # The time that it lost is the replay's own.
    assert max(line["lag"] for line in lines[1:]) > 0.002


BEHIND = [
    (0.0, "a", "statement: SELECT pg_sleep(0.5)"),
    (0.01, "a", "statement: INSERT INTO shelf VALUES (17, 1)"),
    (0.02, "b", "statement: UPDATE shelf SET n = n + 1 WHERE item = 17"),
]


def test_the_order_holds_however_far_the_server_falls_behind(tables, write_log, monkeypatch) -> None:
    monkeypatch.setattr(waits, "_PATIENCE", 0.01)

    played = play_here(tables, read_log(write_log(BEHIND)).sessions, tell=list)

    assert (played.waits, played.given_up) == (1, 0)
    assert tables.query("SELECT n FROM shelf") == [(2,)]


def test_a_wait_that_the_server_knows_nothing_of_ends(tables, write_log, monkeypatch) -> None:
    """As behind a pooler, which tells a process of its own."""
    monkeypatch.setattr(waits, "_PATIENCE", 0.01)
    monkeypatch.setattr("psycopg.ConnectionInfo.backend_pid", 0)

    played = play_here(tables, read_log(write_log(BEHIND)).sessions, tell=list)

    assert (played.waits, played.given_up) == (1, 1)


def test_a_statement_that_was_cancelled_is_cancelled_again(tables, write_log) -> None:
    """It holds no locks for longer than in the log, and the time that it was given is no latency of the server."""
    tables.execute("INSERT INTO shelf VALUES (17, 0)")
    rows = [
        (0.0, "a", "statement: BEGIN"),
        (0.01, "a", "statement: UPDATE shelf SET n = 1 WHERE item = 17"),
        (0.02, "a", "statement: SELECT pg_sleep(50)"),
        (0.22, "a", "canceling statement due to user request", "ERROR", "", "SELECT pg_sleep(50)", "SELECT"),
        (0.23, "a", "statement: ROLLBACK"),
        (0.24, "b", "statement: UPDATE shelf SET n = n + 2 WHERE item = 17"),
    ]

    status, lines, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert [sorted(line) for line in lines[1:] if "latency" not in line] == [["cancelled", "t"]]
    assert max(line.get("latency", 0) for line in lines[1:]) < 45
    assert "replayed 5 statements, 0 with another outcome" in said
    assert "1 were cancelled after as long as in the log; their latencies are not counted" in said
    assert tables.query("SELECT n FROM shelf") == [(2,)]


def test_a_statement_that_ends_before_it_would_be_cancelled_differs_and_the_next_goes_on(tables, write_log) -> None:
    rows = [
        (0.0, "a", "statement: SELECT 1"),
        (5.0, "a", "canceling statement due to statement timeout", "ERROR", "", "SELECT 1", "SELECT"),
        (0.1, "a", "statement: SELECT pg_sleep(0.2)"),
    ]

    status, lines, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert ["differs" in line for line in lines[1:]] == [True, False]


def test_what_was_refused_before_it_began_aborts_its_transaction_again(tables, write_log) -> None:
    text = "SELECT n FROM shelf WHERE item = $1::int"
    rows = [
        (0.0, "a", "statement: BEGIN"),
        (0.1, "a", f"execute <unnamed>: {text}", "LOG", "parameters: $1 = '3'"),
        (0.2, "a", 'invalid input syntax for type integer: "x"', "ERROR", "", text, "BIND"),
        (0.3, "a", "statement: INSERT INTO shelf VALUES (1, 1)"),
        (0.3, "a", "current transaction is aborted", "ERROR", "", "INSERT INTO shelf VALUES (1, 1)", "INSERT"),
        (0.4, "a", "statement: COMMIT"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "replayed 5 statements, 0 with another outcome" in said
    assert tables.query("SELECT * FROM shelf") == []


@pytest.mark.parametrize("options", [(), ("--allow-code",)])
def test_a_program_is_started_only_where_that_is_allowed(tables, write_log, options) -> None:
    """The log's author may not have had the right to, as the replay's role has."""
    copy = "COPY told (what) FROM PROGRAM 'echo started'"
    rows = [
        (0.0, "a", "statement: SELECT 1"),
        (0.1, "a", f"statement: {copy}"),
        (0.1, "a", "permission denied to COPY to or from an external program", "ERROR", "", copy),
    ]

    status, _, said = replay(tables, write_log(rows), *options)

    assert status == 0, said
    assert tables.query("SELECT what FROM told") == ([("started",)] if options else [])
    assert ("left out 1 of the statements: code" in said) is not bool(options)


def test_results_are_thrown_away_as_they_come(tables, write_log) -> None:
    text = "SELECT repeat('x', 100) FROM generate_series(1, 2000000)"
    rows = [
        (0.0, "a", f"statement: {text}"),
        (0.0, "b", f"execute <unnamed>: {text} WHERE $1 = 1", "LOG", "parameters: $1 = '1'"),
    ]

    done = subprocess.run(
        [sys.executable, "-c", WITH_MEMORY, "replay", "--most-lag", "60000", str(write_log(rows))],
        env={**os.environ, **tables.cluster.environment(DATABASE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert [list(json.loads(line)) for line in done.stdout.splitlines()[1:]] == [["t", "latency", "lag"]] * 2
    used = int(done.stderr.split("VmHWM:")[1].split()[0]) * 1024
    assert used < 200e6  # a libpq that keeps them has some 300 MB for each


def test_a_session_goes_on_after_a_copy_whose_data_the_log_does_not_have(tables, write_log) -> None:
    rows = [
        # Comments in comments, which only the server reads.
        (0.0, "a", "statement: SELECT 1; /* /* */ */ COPY told FROM STDIN"),
        (0.1, "a", "statement: SELECT 1; /* /* */ */ COPY (SELECT 1) TO STDOUT"),
        (0.2, "a", "statement: INSERT INTO told (what) VALUES ('after')"),
    ]

    status, lines, said = replay(tables, write_log(rows), "--most-differ", "50")

    assert status == 0, said
    assert ["differs" in line for line in lines[1:]] == [True, False, False]
    assert tables.query("SELECT what FROM told") == [("after",)]


def test_what_copy_sends_is_taken_and_what_follows_it_goes_on(tables, write_log) -> None:
    rows = [
        (0.0, "a", "statement: COPY (SELECT * FROM generate_series(1, 100000)) TO STDOUT; SELECT 1"),
        (0.1, "a", "statement: COPY (SELECT 1 / (n - 5) FROM generate_series(1, 10) AS n) TO STDOUT"),
        (
            0.1,
            "a",
            "division by zero",
            "ERROR",
            "",
            "COPY (SELECT 1 / (n - 5) FROM generate_series(1, 10) AS n) TO STDOUT",
        ),
        (0.2, "a", "statement: INSERT INTO told (what) VALUES ('after')"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "replayed 3 statements, 0 with another outcome" in said
    assert tables.query("SELECT what FROM told") == [("after",)]


PREPARED = "INSERT INTO told (what) SELECT concat_ws(' ', name, from_sql, statement) FROM pg_prepared_statements"


def test_what_a_driver_prepared_is_prepared_once_under_its_name(tables, write_log) -> None:
    select = "execute user:by-id: SELECT n FROM shelf WHERE item = 1"
    rows = [
        *(
            (
                number / 100,
                "a",
                "execute S_1: INSERT INTO shelf VALUES ($1, $2)",
                "LOG",
                f"parameters: $1 = '{number}', $2 = '1'",
            )
            for number in range(3)
        ),
        (0.1, "a", select),
        (0.2, "a", select),
        (0.3, "a", f"statement: {PREPARED}"),
        (0.4, "a", 'statement: DEALLOCATE "S_1"'),
        *((0.5, "a", select.replace("item = 1", f"item = {number}")) for number in (2, 3, 2)),
        (0.6, "a", f"statement: {PREPARED}"),
        (0.7, "a", "statement: DISCARD ALL"),
        (0.8, "a", select),
        (0.8, "a", select),
        (0.9, "a", f"statement: {PREPARED}"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "replayed 15 statements, 0 with another outcome" in said
    assert tables.query("SELECT item FROM shelf ORDER BY 1") == [(0,), (1,), (2,)]
    by_id = "user:by-id f SELECT n FROM shelf WHERE item = 1"
    assert sorted(what for (what,) in tables.query("SELECT what FROM told")) == sorted(
        [
            "S_1 f INSERT INTO shelf VALUES ($1, $2)",
            *(by_id,) * 3,
            "pgtrial 1 f SELECT n FROM shelf WHERE item = 2",
        ]
    )


def test_a_row_of_other_types_is_sent_without_what_is_prepared(tables, write_log) -> None:
    text = "execute s: INSERT INTO told (what) SELECT $1 / 2"
    rows = [
        (number / 10, "a", text, "LOG", f"parameters: $1 = '{value}'") for number, value in enumerate(("5", "1.5", "7"))
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "replayed 3 statements, 0 with another outcome" in said
    assert [float(what) for (what,) in tables.query("SELECT what FROM told ORDER BY at")] == [2, 0.75, 3]


def test_prepared_statements_that_get_lost_are_said_to_be_a_poolers(tables, write_log) -> None:
    rows = [(number / 10, "a", "execute s: SELECT 1") for number in range(2)]
    # What the replay does not know of, as if another session had the connection.
    rows += [(0.3, "a", "statement: SELECT 1; DEALLOCATE s")]
    rows += [(0.4 + number / 10, "a", "execute s: SELECT 1") for number in range(3)]

    status, _, said = replay(tables, write_log(rows))

    assert status != 0
    assert "3 of 6 statements ended otherwise than in the log (3 26000)" in said
    assert "PgBouncer does from 1.21 on" in " ".join(said.split())


def test_what_failed_to_be_prepared_in_a_transaction_is_prepared_later(tables, write_log) -> None:
    named = "execute s: INSERT INTO shelf VALUES (17, 1)"
    rows = [
        (0.0, "a", "statement: BEGIN"),
        (0.1, "a", "statement: SELECT 1 / 0"),
        (0.1, "a", "division by zero", "ERROR", "", "SELECT 1 / 0", "SELECT"),
        (0.2, "a", named),
        (0.2, "a", "current transaction is aborted", "ERROR", "", "INSERT INTO shelf VALUES (17, 1)", "INSERT"),
        (0.3, "a", "statement: ROLLBACK"),
        (0.4, "a", named),
        (0.5, "a", "statement: DEALLOCATE s"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "replayed 6 statements, 0 with another outcome" in said
    assert tables.query("SELECT * FROM shelf") == [(17, 1)]


def test_texts_are_sent_in_the_encoding_of_their_session(tables, write_log) -> None:
    rows = [
        (0.0, "a", "statement: SET NAMES 'LATIN1'"),
        (0.1, "a", "statement: INSERT INTO told (what) VALUES ('größe')"),
        (0.2, "a", "execute <unnamed>: INSERT INTO told (what) VALUES ($1)", "LOG", "parameters: $1 = 'maß'"),
        (0.3, "a", "statement: SET client_encoding = SQL_ASCII"),
        (0.4, "a", "statement: INSERT INTO told (what) VALUES ('für')"),
        (0.5, "a", "statement: SET client_encoding = LATIN1"),
        (0.6, "a", "statement: INSERT INTO told (what) VALUES ('5 €')"),
        (0.7, "a", "statement: RESET client_encoding"),
        (0.8, "a", "statement: INSERT INTO told (what) VALUES ('6 €')"),
    ]

    status, _, said = replay(tables, write_log(rows), "--most-differ", "20")

    assert status == 0, said
    assert "1 with another outcome than in the log (1 22P05)" in said
    assert [what for (what,) in tables.query("SELECT what FROM told ORDER BY at")] == ["größe", "maß", "für", "6 €"]


def test_only_what_ends_otherwise_than_in_the_log_differs(tables, write_log) -> None:
    tables.execute("INSERT INTO shelf VALUES (1, 1)")
    rows = [
        (0.0, "a", "statement: INSERT INTO shelf VALUES (1, 1)"),
        (0.0, "a", "duplicate key value", "ERROR", "", "INSERT INTO shelf VALUES (1, 1)"),
        (0.1, "a", "statement: INSERT INTO shelf VALUES (1, 2)"),
        (0.2, "a", "execute <unnamed>: INSERT INTO shelf VALUES ($1, $2)", "LOG", "parameters: $1 = '2', $2 = NULL"),
        (0.3, "a", "statement: SELECT 1"),
        (0.3, "a", "division by zero", "ERROR", "", "SELECT 1"),
    ]

    status, lines, said = replay(tables, write_log(rows), "--most-differ", "50")

    assert status == 0, said
    assert ["differs" in line for line in lines[1:]] == [False, True, False, True]
    assert "replayed 4 statements, 2 with another outcome than in the log (1 23505, 1 without an error)" in said
    assert tables.query("SELECT * FROM shelf ORDER BY item") == [(1, 1), (2, None)]


def test_what_the_server_cannot_do_is_a_failure_and_what_hangs_on_data_is_none(tables, write_log) -> None:
    """An arm whose slowest statements are cut off is not to look faster by it."""
    tables.execute("INSERT INTO shelf VALUES (1, 1)")
    rows = [
        (0.0, "a", "statement: SET statement_timeout = '50ms'"),
        (0.1, "a", "statement: SELECT pg_sleep(60)"),
        (0.2, "b", "statement: SELECT 1 / n - 1 FROM shelf"),
        (0.3, "b", "statement: INSERT INTO shelf VALUES (1, 1)"),
        (0.4, "c", "statement: SELECT pg_terminate_backend(pg_backend_pid())"),
        (0.5, "d", "statement: SET statement_timeout = '50ms'"),
        (0.6, "d", "statement: SELECT pg_sleep(61)"),
        (0.7, "d", "canceling statement due to statement timeout", "ERROR", "", "SELECT pg_sleep(61)"),
        (0.8, "e", "statement: BEGIN"),
        (0.81, "e", "statement: SET LOCAL statement_timeout = '50ms'"),
        (0.82, "e", "statement: SELECT pg_sleep(62)"),
        (0.83, "e", "statement: SELECT 3"),
        (0.84, "e", "statement: ROLLBACK"),
        (1.0, "e", "statement: SELECT lastval()"),
    ]

    status, lines, said = replay(tables, write_log(rows), "--most-differ", "50")

    assert status == 0, said
    assert [next(iter({"failed", "differs"} & set(line)), "") for line in lines[1:]] == [
        "",
        "failed",
        "",
        "differs",
        "failed",
        "",
        "",
        "",
        "",
        "failed",
        "failed",  # the transaction is aborted by it
        "",
        "differs",
    ]
    assert "replayed 13 statements, 4 of which the server failed (2 57014, 1 08006, 1 25P02), 2 with another" in said


def test_what_sessions_do_to_each_other_is_a_request_that_differs(tables, write_log) -> None:
    """It takes its time, and another moment would have spared it."""
    codes = ("40001", "40P01", "55P03")
    rows = [
        (number / 10, "a", f"statement: DO $$BEGIN RAISE SQLSTATE '{code}'; END$$") for number, code in enumerate(codes)
    ]
    rows += [(0.4, "b", "statement: BEGIN"), (0.5, "b", "statement: DO $$BEGIN RAISE SQLSTATE '40P01'; END$$")]
    rows += [(0.6, "b", "statement: SELECT 1"), (0.7, "b", "statement: ROLLBACK")]

    status, lines, said = replay(tables, write_log(rows), "--most-differ", "90")

    assert status == 0, said
    assert [sorted(line) for line in lines[1:]] == [
        *[["lag", "latency", "t"]] * 5,
        ["differs", "t"],  # the transaction is aborted
        ["lag", "latency", "t"],
    ]
    assert "replayed 7 statements, 5 with another outcome than in the log (2 40P01, 1 40001, 1 55P03, 1 25P02)" in said


def test_it_begins_when_the_sessions_of_its_beginning_are_connected(tables, write_log, monkeypatch) -> None:
    """To connect hundreds takes its time, which is no lag of theirs."""
    connect = playing.connect

    @asynccontextmanager
    async def late(*words, **options):
        await asyncio.sleep(1.5 if options.get("as_user") else 0)
        async with connect(*words, **options) as connection:
            yield connection

    monkeypatch.setattr(playing, "connect", late)
    lines: list[dict] = []

    play_here(
        tables,
        read_log(write_log([(0.0, "a", "statement: SELECT 1"), (0.3, "b", "statement: SELECT 2")])).sessions,
        tell=lines.append,
    )

    assert list(lines[0]) == ["ready"]
    assert all(line["latency"] < 0.5 for line in lines[1:])


def test_a_log_in_which_the_first_is_due_late_begins_with_it(tables, write_log) -> None:
    """A statement may seem to have begun before the one before it in its session."""
    sessions = read_log(write_log([(0.0, "a", "statement: SELECT 1"), (0.0, "b", "statement: SELECT 2")])).sessions
    for session in sessions:
        session.statements[0].due = 3600.0
    lines: list[dict] = []

    play_here(tables, sessions, tell=lines.append)

    assert [next(iter(line)) for line in lines] == ["ready", "t", "t"]
    assert all(line["latency"] < 0.5 for line in lines[1:])


@pytest.mark.parametrize(("failures", "fails"), [(2, False), (40, True)])
def test_more_than_a_share_of_them_may_not_differ(tables, write_log, failures, fails) -> None:
    """One per cent of 100 is one; four standard deviations are four more."""
    rows = [(number / 1000, "a", "statement: SELECT 1") for number in range(100 - failures)]
    rows += [(0.5, "a", "statement: SELECT * FROM nowhere")] * failures

    status, lines, said = replay(tables, write_log(rows))

    assert (status == 1) is fails, said
    assert sum("differs" in line for line in lines) == failures
    assert f"{failures} with another outcome than in the log ({failures} 42P01)" in said
    assert ("40 of 100 statements ended otherwise than in the log (40 42P01)" in said) is fails


def test_parameters_have_types_where_the_statement_needs_them(tables, write_log) -> None:
    """As drivers send them that say the types, of which a log tells nothing."""
    sent = [
        ("SELECT $1 + $2", "$1 = '1', $2 = '2'"),
        ("SELECT abs($1)", "$1 = '-1'"),
        ("SELECT $1 / 2 FROM shelf LIMIT 1", "$1 = '1'"),
        ("SELECT $1 / 2 FROM shelf LIMIT 1", "$1 = '1.5'"),
        ("SELECT date_trunc($1, $2)", "$1 = 'day', $2 = '2026-01-01 00:00:00'"),
        ("SELECT count(*) FROM shelf WHERE item = $1 LIMIT $2", "$1 = '5', $2 = '1'"),
        ("SELECT $1 || $2", "$1 = 'a', $2 = NULL"),
        ("INSERT INTO told (at, what) VALUES ($1, $2)", "$1 = '2026-01-01 00:00:00+00', $2 = '7'"),
        ("SELECT * FROM made_later WHERE a = $1", "$1 = '7'"),
    ]
    rows = [(0.0, "a", "statement: CREATE TABLE made_later (a text)")]
    rows += [(0.1, "a", f"execute <unnamed>: {text}", "LOG", f"parameters: {told}") for text, told in sent]

    status, _, said = replay(tables, write_log(rows))

    tables.execute("DROP TABLE made_later")
    assert status == 0, said
    assert "replayed 10 statements, 0 with another outcome" in said
    assert tables.query("SELECT what FROM told WHERE at = '2026-01-01 00:00:00+00'") == [("7",)]


def test_how_far_it_fell_behind_the_log_is_told(tables, write_log) -> None:
    """Here by a server that is slower, which is no lag of the replay."""
    rows = [(0.0, "a", "statement: SELECT pg_sleep(0.5)"), *[(0.1, "a", "statement: SELECT 1")] * 5]

    status, lines, said = replay(tables, write_log(rows))

    assert status == 0, said
    found = re.search(r"99 % were sent within (\d+\.\d) ms of when they were due", said)
    assert found is not None, said
    assert float(found[1]) > 350
    assert all(line["lag"] < line["latency"] - 0.35 for line in lines[1:])


@pytest.mark.parametrize(("most", "fails"), [("1", False), ("0", True)])
def test_one_statement_is_too_many_only_where_none_may_differ(tables, write_log, most, fails) -> None:
    rows = [(0.0, "a", "statement: SELECT * FROM nowhere")]

    status, _, said = replay(tables, write_log(rows), "--most-differ", most)

    assert (status == 1) is fails, said


def test_a_replay_that_has_no_time_left_refuses_its_figures(tables, write_log) -> None:
    """All are due at once, and the server takes no time for them."""
    rows = [(0.0, f"s{number % 16}", "statement: SELECT 1") for number in range(2400)]

    status, lines, said = replay(tables, write_log(rows), "--most-lag", "20")

    assert len(lines) == 2401
    assert status == 1, said
    assert "their times are its own, and not the server's" in said


def test_what_the_replay_loses_in_one_session_is_its_lag_in_the_others(tables, write_log) -> None:
    lines: list[dict] = []

    def tell(line) -> None:
        lines.append(line)
        time.sleep(0.01)

    rows = [(0.0, f"s{number % 4}", "statement: SELECT 1") for number in range(40)]

    played = play_here(tables, read_log(write_log(rows)).sessions, tell=tell)

    last = lines[-1]
    assert last["latency"] > 0.38
    assert last["lag"] > last["latency"] / 2
    assert played.busy > 0.5


def test_what_one_session_loses_is_lag_of_another_that_waits_for_it(tables, write_log) -> None:
    """The row is free when the insert has been answered, and not when the replay gets round to see that."""
    lines: list[dict] = []

    def tell(line) -> None:
        lines.append(line)
        if len(lines) == 2:
            time.sleep(0.5)

    rows = [
        (0.0, "c", "statement: SELECT 1"),
        (0.0, "a", "statement: INSERT INTO shelf VALUES (17, 1)"),
        (0.05, "b", "statement: UPDATE shelf SET n = n + 1 WHERE item = 17"),
    ]

    play_here(tables, read_log(write_log(rows)).sessions, tell=tell)

    update = max(lines[1:], key=lambda line: line["t"])
    assert update["latency"] > 0.4
    assert update["lag"] > 0.3


def test_several_statements_in_one_text_are_sent_as_they_are(tables, write_log) -> None:
    text = "statement: INSERT INTO shelf VALUES (1, 1); UPDATE shelf SET n = 7; SELECT n FROM shelf"

    status, lines, said = replay(tables, write_log([(0, "a", text)]))

    assert (status, "differs" in lines[1]) == (0, False), said
    assert tables.query("SELECT n FROM shelf") == [(7,)]


def test_a_session_goes_on_after_copy_and_what_cannot_be_parsed(tables, write_log) -> None:
    copy = "/* load */ COPY shelf FROM STDIN"
    rows = [
        (0.0, "a", f"statement: {copy}"),
        (0.1, "a", "statement: BEGIN"),
        (0.2, "a", 'syntax error at or near "SELEC"', "ERROR", "", "SELEC 1", "idle in transaction"),
        (0.3, "a", "statement: SELECT 1"),
        (0.3, "a", "current transaction is aborted", "ERROR", "", "SELECT 1", "SELECT"),
        (0.4, "a", "statement: COMMIT"),
        (0.5, "a", "statement: INSERT INTO shelf VALUES (1, 1)"),
    ]

    status, _, said = replay(tables, write_log(rows))

    assert status == 0, said
    assert "replayed 5 statements, 0 with another outcome" in said
    assert tables.query("SELECT * FROM shelf") == [(1, 1)]


def test_a_signal_ends_it(tables, write_log) -> None:
    path = write_log([(0, "a", "statement: SELECT 1"), (3000, "a", "statement: SELECT 2")])
    with start(tables, path) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        assert "latency" in json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0, said
    assert "replayed 1 statements" in said
    assert "Traceback" not in said


def test_it_ends_when_nobody_reads_its_lines_any_more(tables, write_log) -> None:
    path = write_log(
        [(0, "a", "statement: SELECT 1"), (1, "a", "statement: SELECT 2"), (3000, "a", "statement: SELECT 3")]
    )
    with start(tables, path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline()) == {"ready": True}
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=60) != 0

    assert "Traceback" not in said


def test_a_signal_ends_one_that_waits_for_others(tables, write_log) -> None:
    """No exception of a session is left for asyncio to complain of."""
    rows = [
        (0.0, "a", "statement: INSERT INTO shelf SELECT 17, 1 FROM pg_sleep(60)"),
        (0.1, "b", "statement: UPDATE shelf SET n = n + 1 WHERE item = 17"),
        (0.2, "c", "statement: SELECT 1"),
    ]
    with start(tables, write_log(rows)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)

    assert "latency" in json.loads(lines[1])
    assert process.returncode == 0, said
    assert "replayed 1 statements" in said
    assert "never retrieved" not in said


@pytest.mark.parametrize(
    ("dsn", "reason"), [("the shop", "is not a connection string"), ("password=secret", "no password")]
)
def test_a_dsn_that_is_none_is_wrong_usage(tables, write_log, dsn, reason) -> None:
    status, lines, said = replay(tables, write_log([(0, "a", "statement: SELECT 1")]), "--dsn", dsn)

    assert (status, lines) == (2, [])
    assert reason in said
    assert "secret" not in said


def test_a_server_that_is_not_there_is_an_error(tables, write_log, tmp_path) -> None:
    path = write_log([(0, "a", "statement: SELECT 1")])

    status, lines, said = replay(tables, path, "--dsn", f"host={tmp_path}")

    assert (status, lines) == (1, [])
    assert "cannot connect to the server" in said
