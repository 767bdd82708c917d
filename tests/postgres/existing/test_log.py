"""The log of a server that is somebody else's, in each way that it can be written and read."""

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import psycopg
import pytest

from pgtrial.analysis.log_pairing import pair_entries
from pgtrial.hosts.processes import find_server_children
from pgtrial.postgres.existing.log import keep_since, mark_log
from pgtrial.postgres.existing.log_place import LogFormat, LogPlace, find_log, log_caveats, missing_from
from pgtrial.store.server_log.facts import LogEventKind, read_fact
from pgtrial.store.server_log.stored import read_log
from support import PATIENCE

COLLECTOR = "logging_collector = on\nlog_filename = 'server-%H%M%S'\n"
LOUD = "log_checkpoints = on\nlog_lock_waits = on\nlog_temp_files = 0\nlog_autovacuum_min_duration = 0\n"
SECRET = "hunter2"


def restart(foreign, conf: str) -> None:
    """With these settings in postgresql.auto.conf."""
    foreign.write_auto_conf(conf)
    foreign.run(*foreign.ctl("restart"))


def do_things(foreign) -> None:
    with foreign.connect() as connection:
        connection.execute("CHECKPOINT")
        connection.execute("SET work_mem = '64kB'")
        connection.execute("SELECT count(*) FROM (SELECT i FROM generate_series(1, 20000) AS i ORDER BY -i) AS s")
        connection.execute(f"SET log_min_duration_statement = 0; SELECT '{SECRET}', 7")  # type: ignore[call-overload]
        with contextlib.suppress(psycopg.errors.DivisionByZero):
            connection.execute(f"SELECT 1 / 0 -- {SECRET}")  # type: ignore[call-overload]


def keep(foreign, runner, path, *, user="boss", elsewhere=False) -> list[str]:
    """Kinds of what was logged between two moments, with the codes of errors."""
    server = runner.run(foreign.open(user, elsewhere=elsewhere))
    foreign.sql("CHECKPOINT")
    with contextlib.suppress(psycopg.Error):
        foreign.sql("SELECT nothing_of_before")
    mark = runner.run(mark_log(server))
    assert mark is not None
    begun = time.time()
    do_things(foreign)
    runner.run(keep_since(server, mark, path))

    assert SECRET not in path.read_text()
    events = list(pair_entries(1, read_log(path, None), is_own=lambda _: False))
    assert all(begun - 2 <= event.start <= event.end <= time.time() + 2 for event in events)
    return sorted({f"{event.kind} {event.object}".strip() for event in events})


EXPECTED = ["checkpoint", "error 22012", "slow statement", "temporary file"]


@pytest.mark.parametrize("kind", ["jsonlog", "csvlog", "stderr"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_log_that_the_server_collects_is_read_through_it(foreign, runner, tmp_path, kind, elsewhere):
    restart(foreign, f"{COLLECTOR}{LOUD}log_destination = '{kind}'\nlog_line_prefix = '%m [%p] %q%u@%d %a '\n")
    server = runner.run(foreign.open(elsewhere=elsewhere))

    place = runner.run(find_log(server))
    kinds = keep(foreign, runner, tmp_path / "kept", elsewhere=elsewhere)

    assert (place.format, place.by_host) == (LogFormat(kind), False)
    # A text log has a SQLSTATE only where its prefix has one.
    assert kinds == ([each.replace(" 22012", "") for each in EXPECTED] if kind == "stderr" else EXPECTED)


def errors_in(path) -> list[str]:
    """Codes of the errors that do_things made."""
    codes = [json.loads(line).get("state_code") for line in path.read_text().splitlines()]
    return [code for code in codes if code == "22012"]


def test_the_files_of_a_log_that_was_begun_anew_are_read_one_after_the_other(foreign, runner, tmp_path):
    restart(foreign, f"{COLLECTOR}{LOUD}log_destination = 'jsonlog'\n")
    server = runner.run(foreign.open(elsewhere=True))
    mark = runner.run(mark_log(server))
    for _ in range(2):
        do_things(foreign)
        begin_anew(foreign)
    do_things(foreign)
    foreign.sql("SELECT pg_rotate_logfile()")
    runner.run(keep_since(server, mark, tmp_path / "kept"))

    assert len(errors_in(tmp_path / "kept")) == 3


def begin_anew(foreign) -> Path:
    """Let the collector begin another file: the path of the one before."""
    before = foreign.sql("SELECT pg_current_logfile('jsonlog')")
    deadline = time.monotonic() + PATIENCE
    while foreign.sql("SELECT pg_current_logfile('jsonlog')") == before:
        assert time.monotonic() < deadline
        foreign.sql("SELECT pg_rotate_logfile()")
        time.sleep(0.3)  # the file's name has the second
    return foreign.data / before[0][0]


def test_files_that_were_last_changed_in_the_second_of_the_mark_are_read_from_the_mark_on(foreign, runner, tmp_path):
    """The server tells of that time no more than the second."""
    restart(foreign, f"{COLLECTOR}{LOUD}log_destination = 'jsonlog'\n")
    server = runner.run(foreign.open(elsewhere=True))
    do_things(foreign)
    earlier = begin_anew(foreign)
    error = next(line for line in earlier.read_text().splitlines() if '"22012"' in line)
    entry = json.loads(error)
    entry["timestamp"] = f"2099{entry['timestamp'][4:]}"  # its time does not tell that it was before the mark
    earlier.write_text(json.dumps(entry) + "\n")
    mark = runner.run(mark_log(server))
    do_things(foreign)
    first = begin_anew(foreign)
    do_things(foreign)
    second = begin_anew(foreign)
    do_things(foreign)
    for path in (earlier, first, second):
        os.utime(path, (mark.t, int(mark.t)))
    runner.run(keep_since(server, mark, tmp_path / "kept"))

    assert len({earlier, first, second}) == 3
    assert len(errors_in(tmp_path / "kept")) == 3


def test_a_collector_that_is_late_is_waited_for(foreign, runner, tmp_path, monkeypatch):
    monkeypatch.setattr("pgtrial.postgres.existing.log._LULL", 1.0)
    restart(foreign, f"{COLLECTOR}{LOUD}log_destination = 'jsonlog'\n")
    server = runner.run(foreign.open(elsewhere=True))
    mark = runner.run(mark_log(server))
    (collector,) = [each.pid for each in find_server_children(str(foreign.data)) if "logger" in name_of(each.pid)]
    os.kill(collector, signal.SIGSTOP)
    going_on = threading.Timer(0.2, os.kill, (collector, signal.SIGCONT))
    try:
        do_things(foreign)
        going_on.start()
        runner.run(keep_since(server, mark, tmp_path / "kept"))
    finally:
        os.kill(collector, signal.SIGCONT)

    assert len(errors_in(tmp_path / "kept")) == 1


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0")
    except OSError:
        return ""  # a session that has ended since


def test_a_log_that_nobody_collects_is_read_as_a_file_of_the_machine(foreign, runner, tmp_path):
    restart(foreign, f"{LOUD}log_line_prefix = '%n %p %e '\n")

    place = runner.run(find_log(runner.run(foreign.open())))

    assert (place.format, place.by_host) == (LogFormat.TEXT, True)
    assert keep(foreign, runner, tmp_path / "kept") == EXPECTED


@pytest.fixture
def german(foreign, monkeypatch):
    """The server, started by somebody whose programs speak German."""
    monkeypatch.setenv("LANGUAGE", "de")
    restart(foreign, LOUD)
    yield foreign
    monkeypatch.delenv("LANGUAGE")
    foreign.run(*foreign.ctl("restart"))


def test_of_a_log_in_another_language_it_is_said_what_is_not_known(german, runner, tmp_path):
    server = runner.run(german.open())
    mark = runner.run(mark_log(server))
    do_things(german)
    runner.run(keep_since(server, mark, tmp_path / "kept"))
    kinds = {fact.kind for entry in read_log(tmp_path / "kept", None) if (fact := read_fact(entry))}

    caveats = runner.run(log_caveats(server))

    # Not all programs come with their translations; then the server speaks English.
    if "FEHLER" in german.log:
        assert [caveat.code for caveat in caveats] == ["server-log-language"]
        assert "only checkpoints are known" in caveats[0].text
        assert "lc_messages = 'C'" in caveats[0].hint
        assert "jsonlog" in caveats[0].hint
        assert kinds == {LogEventKind.CHECKPOINT, LogEventKind.OTHER_LANGUAGE}
    else:
        assert caveats == ()
        assert LogEventKind.OTHER_LANGUAGE not in kinds


@pytest.mark.parametrize("kind", ["jsonlog", "csvlog"])
def test_errors_in_another_language_are_known_by_their_sqlstate(german, runner, tmp_path, kind):
    restart(german, f"{COLLECTOR}{LOUD}log_destination = '{kind}'\n")

    kinds = keep(german, runner, tmp_path / "kept")

    assert {"checkpoint", "error 22012"} <= set(kinds)
    for caveat in runner.run(log_caveats(runner.run(german.open()))):
        assert caveat.code == "server-log-language"
        assert "only checkpoints, and errors by their SQLSTATE, are known" in caveat.text
        assert "jsonlog" not in caveat.hint


def test_a_role_that_may_read_files_reads_the_log_and_nobody_is_advised_to_let_it(foreign, runner, tmp_path):
    restart(foreign, f"{COLLECTOR}{LOUD}log_destination = 'jsonlog'\n")
    before = runner.run(log_caveats(runner.run(foreign.open("watcher", elsewhere=True))))
    functions = (
        "pg_current_logfile(text), pg_stat_file(text, boolean), pg_read_binary_file(text, bigint, bigint, boolean)"
    )
    foreign.sql(f"GRANT EXECUTE ON FUNCTION {functions} TO watcher")
    try:
        after = runner.run(log_caveats(runner.run(foreign.open("watcher", elsewhere=True))))
        kinds = keep(foreign, runner, tmp_path / "kept", user="watcher", elsewhere=True)
    finally:
        foreign.sql(f"REVOKE EXECUTE ON FUNCTION {functions} FROM watcher")

    assert [caveat.code for caveat in before] == ["no-server-log"]
    assert "GRANT" not in before[0].hint
    assert after == ()
    assert kinds == EXPECTED


@pytest.mark.parametrize(
    ("conf", "user", "reason"),
    [
        (COLLECTOR, "nobody_special", 'The role "nobody_special" may not ask for the log\'s file.'),
        (COLLECTOR, "watcher", 'The role "watcher" may not read the log\'s file.'),
        ("", "boss", "It goes to stderr, and not to a file that can be read from here."),
        (f"{COLLECTOR}log_line_prefix = '%p '\n", "boss", "Its lines do not say when they were written"),
    ],
)
def test_a_log_out_of_reach_is_said_once_with_the_reason(foreign, runner, conf, user, reason):
    restart(foreign, f"{conf}{LOUD}")
    # Members of pg_monitor may ask for the file since 17.
    foreign.sql("GRANT EXECUTE ON FUNCTION pg_current_logfile(text) TO watcher")
    server = runner.run(foreign.open(user, elsewhere=True))

    (caveat,) = runner.run(log_caveats(server))
    foreign.sql("REVOKE EXECUTE ON FUNCTION pg_current_logfile(text) FROM watcher")

    assert caveat.code == "no-server-log"
    assert reason in caveat.text
    assert runner.run(mark_log(server)) is None


def test_what_the_server_does_not_log_is_said_once(foreign, runner):
    restart(foreign, "log_checkpoints = off\nlog_autovacuum_min_duration = -1\n")

    (caveat,) = runner.run(log_caveats(runner.run(foreign.open())))

    assert caveat.code == "server-log-silent"
    for name in ("log_checkpoints = off", "log_autovacuum_min_duration = -1", "log_lock_waits = off"):
        assert name in caveat.text


def test_autovacuum_that_is_too_short_to_be_logged_is_said(foreign, runner):
    restart(foreign, LOUD.replace("log_autovacuum_min_duration = 0", "log_autovacuum_min_duration = '10min'"))

    (caveat,) = runner.run(log_caveats(runner.run(foreign.open())))

    assert caveat.code == "server-log-silent"
    assert "autovacuum of a table in less than 10 min (log_autovacuum_min_duration)" in caveat.text


def test_reading_the_log_changes_no_setting(foreign, runner, tmp_path):
    restart(foreign, f"{COLLECTOR}{LOUD}")
    query = "SELECT name, setting, source FROM pg_settings WHERE name NOT IN ('application_name') ORDER BY 1"
    before = foreign.sql(query), foreign.auto_conf.read_bytes()

    keep(foreign, runner, tmp_path / "kept")

    assert (foreign.sql(query), foreign.auto_conf.read_bytes()) == before


def test_times_of_a_zone_that_is_not_known_here_are_told():
    settings = {"log_timezone": "Mars/Phobos", "log_autovacuum_min_duration": "0"}
    place = LogPlace(
        format=LogFormat.CSV, path="log", by_host=True, settings=settings, is_english=True, encoding="utf-8"
    )
    (caveat,) = missing_from(place)

    assert caveat.code == "server-log-zone"
    assert 'the zone "Mars/Phobos"' in caveat.text
