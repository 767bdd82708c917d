import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import LogEventKind, find_state, is_timed, read_end, read_fact, split_duration


def fact(message: str, **entry):
    return read_fact(LogEntry(**{"t": 0.0, "severity": "LOG", "message": message, **entry}))


# --- Checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("checkpoint starting: time", "time"),
        ("checkpoint starting: wal", "wal"),
        ("checkpoint starting: immediate force wait", "immediate force wait"),
        ("checkpoint starting: shutdown immediate", "shutdown immediate"),
        ("checkpoint starting: immediate force wait flush-all", "immediate force wait flush-all"),
        ("checkpoint starting: fast force wait", "fast force wait"),
        ("restartpoint starting: time", "time"),
        ("Checkpoint beginnt: wal", "wal"),
        ("начата контрольная точка: time", "time"),
        ("début du checkpoint : immediate force wait", "immediate force wait"),
        ("チェックポイント開始: time", "time"),
        ("检查点开始：time", "time"),
    ],
)
def test_the_reason_of_a_checkpoint_is_read_in_any_language(message, reason):
    found = fact(message, backend_type="checkpointer")

    assert (found.kind, found.object, found.is_over) == (LogEventKind.CHECKPOINT, reason, False)


def test_only_the_time_makes_a_timed_checkpoint():
    assert is_timed("time")
    assert is_timed("time flush-all")
    assert not any(is_timed(reason) for reason in ("wal", "immediate force wait", "", "shutdown"))


# As servers of 15.18 and 18.4 wrote them, and what the formats of the catalogues print.
ENDS = {
    "15": "checkpoint complete: wrote 9250 buffers (56.5%); 0 WAL file(s) added, 1 removed, 4 recycled; write=0.092 s, "
    "sync=0.005 s, total=0.101 s; sync files=10, longest=0.002 s, average=0.001 s; distance=73111 kB, "
    "estimate=73112 kB",
    "16": "checkpoint complete: wrote 9250 buffers (56.5%); 0 WAL file(s) added, 1 removed, 4 recycled; write=0.092 s, "
    "sync=0.005 s, total=0.101 s; sync files=10, longest=0.002 s, average=0.001 s; distance=73111 kB, "
    "estimate=73112 kB; lsn=0/2A000028, redo lsn=0/29FFFF10",
    "18": "restartpoint complete: wrote 9250 buffers (56.5%), wrote 3 SLRU buffers; 0 WAL file(s) added, 1 removed, "
    "4 recycled; write=0.092 s, sync=0.005 s, total=0.101 s; sync files=10, longest=0.002 s, average=0.001 s; "
    "distance=73111 kB, estimate=73112 kB; lsn=0/2A000028, redo lsn=0/29FFFF10",
}
NUMBERS = {
    "buffers": 9250,
    "WAL files added": 0,
    "WAL files removed": 1,
    "WAL files recycled": 4,
    "write seconds": 0.092,
    "sync seconds": 0.005,
    "total seconds": 0.101,
    "sync files": 10,
    "distance bytes": 73111 * 1024,
}


@pytest.mark.parametrize("version", ENDS)
def test_the_numbers_of_a_checkpoint_are_read_in_every_version(version):
    found = fact(ENDS[version], backend_type="checkpointer")

    expected = NUMBERS | ({"SLRU buffers": 3} if version == "18" else {})
    assert (found.kind, found.is_over, found.numbers) == (LogEventKind.CHECKPOINT, True, pytest.approx(expected))


RUSSIAN = (
    "контрольная точка завершена: записано буферов: 9250 (56.5%); добавлено файлов WAL 0, удалено: 1, переработано: 4; "
    "запись=0.092 сек., синхр.=0.005 сек., всего=0.101 сек.; синхронизировано_файлов=10, самая_долгая_синхр.=0.002 "
    "сек., средняя=0.001 сек.; расстояние=73111 КБ, ожидалось=73112 КБ"
)
GERMAN = (
    "Checkpoint komplett: 9250 Puffer geschrieben (56,5%); 0 WAL-Datei(en) hinzugefügt, 1 entfernt, 4 "
    "wiederverwendet; Schreiben=0,092 s, Sync=0,005 s, gesamt=0,101 s; sync. Dateien=10, längste=0,002 s, "
    "Durchschnitt=0,001 s; Entfernung=73111 kB, Schätzung=73112 kB"
)


@pytest.mark.parametrize("message", [RUSSIAN, GERMAN])
def test_the_numbers_of_a_checkpoint_are_read_in_other_languages(message):
    assert fact(message, severity="СООБЩЕНИЕ").numbers == pytest.approx(NUMBERS)


@pytest.mark.parametrize(
    "message",
    [
        "checkpoint complete: wrote 9250 buffers (56.5%)",
        "1 (2.0%) 3 4 5 9.000 0.005 0.101 10 0.002 0.001 73111 73112",  # writing takes longer than all
        f"{ENDS['15']}\nsecond line",
        "checkpoints are occurring too frequently (8 seconds apart)",
        "",
    ],
)
def test_numbers_of_another_shape_are_no_checkpoint(message):
    assert read_end(message) is None


def test_a_session_cannot_pass_for_the_checkpointer():
    assert fact(ENDS["15"], backend_type="client backend") is None
    assert fact("statement: x: time", backend_type="client backend") is None


# --- Vacuum and analyze ---------------------------------------------------------------------------------------------

# As a server of 15.18 wrote it.
VACUUM_15 = """automatic aggressive vacuum of table "template1.pg_catalog.pg_class": index scans: 1
pages: 2 removed, 14 remain, 14 scanned (100.00% of total)
tuples: 17 removed, 410 remain, 3 are dead but not yet removable
removable cutoff: 31240, which was 4 XIDs old when operation ended
new relfrozenxid: 31240, which is 30524 XIDs ahead of previous value
index scan not needed: 0 pages from table (0.00% of total) had 0 dead item identifiers removed
avg read rate: 23.916 MB/s, avg write rate: 3.986 MB/s
buffer usage: 44 hits, 6 misses, 1 dirtied
WAL usage: 4 records, 1 full page images, 8452 bytes
system usage: CPU: user: 0.25 s, system: 0.04 s, elapsed: 1.07 s"""
# With the lines that 18 has changed.
VACUUM_18 = (
    VACUUM_15.replace("scanned (100.00% of total)", "scanned (100.00% of total), 5 eagerly scanned")
    .replace("6 misses", "6 reads")
    .replace("8452 bytes", "8452 bytes, 0 buffers full")
)
VACUUM_NUMBERS = {
    "index scans": 1,
    "pages removed": 2,
    "tuples removed": 17,
    "tuples not removable": 3,
    "blocks hit": 44,
    "blocks read": 6,
    "blocks dirtied": 1,
    "WAL records": 4,
    "WAL full page images": 1,
    "WAL bytes": 8452,
    "CPU seconds": 0.29,
    "seconds": 1.07,
}


@pytest.mark.parametrize("message", [VACUUM_15, VACUUM_18])
def test_a_vacuum_is_read_by_table(message):
    found = fact(message, backend_type="autovacuum worker")

    assert (found.kind, found.object) == (LogEventKind.AUTOVACUUM, "template1.pg_catalog.pg_class")
    assert found.numbers == pytest.approx(VACUUM_NUMBERS)


@pytest.mark.parametrize("kind", ["vacuum of", "vacuum to prevent wraparound of"])
def test_vacuums_of_all_kinds_are_read(kind):
    found = fact(f'automatic {kind} table "a.b.c": index scans: 0')

    assert (found.kind, found.object, found.numbers) == (LogEventKind.AUTOVACUUM, "a.b.c", {"index scans": 0})


def test_an_analyze_is_read_by_table():
    found = fact(
        'automatic analyze of table "my db.public.odd.name"\nbuffer usage: 1009 hits, 61 misses, 12 dirtied\n'
        "system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.01 s"
    )

    assert (found.kind, found.object) == (LogEventKind.AUTOANALYZE, "my db.public.odd.name")
    assert found.numbers["seconds"] == pytest.approx(0.01)


# --- The rest -------------------------------------------------------------------------------------------------------


def test_temporary_files_have_a_size():
    found = fact('temporary file: path "base/pgsql_tmp/pgsql_tmp4711.0", size 140000000')

    assert (found.kind, found.numbers) == (LogEventKind.TEMPORARY_FILE, {"bytes": 140_000_000})


@pytest.mark.parametrize(
    ("words", "is_over"),
    [
        ("still waiting for {} after", False),
        ("acquired {} after", True),
        ("failed to acquire {} after", True),
        ("avoided deadlock for {} by rearranging queue order after", True),
        ("detected deadlock while waiting for {} after", True),
    ],
)
def test_waits_for_locks_have_mode_and_time(words, is_over):
    lock = "ExclusiveLock on tuple (0,1) of relation 16384 of database 5"
    found = fact(f"process 4711 {words.format(lock)} 1000.123 ms")

    assert (found.kind, found.object, found.text) == (LogEventKind.LOCK_WAIT, "ExclusiveLock", lock)
    assert (found.pid, found.is_over) == (4711, is_over)
    assert found.numbers == pytest.approx({"seconds": 1.000123})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("duration: 1234.500 ms  statement: SELECT 'a', 1.5 FROM t1", "SELECT ?, ? FROM t1"),
        ("duration: 1234.500 ms  execute <unnamed>: UPDATE t SET a = $1", "UPDATE t SET a = $1"),
        ("duration: 1234.500 ms  execute fetch from S_1/C_2: SELECT 1", "SELECT ?"),
        ("duration: 1234.500 ms  bind S_1: SELECT 1", "SELECT ?"),
        ("duration: 1234.500 ms  parse <unnamed>: SELECT 1", "SELECT ?"),
        ('duration: 1234.500 ms  fastpath function call: "lo_open" (OID 952)', "lo_open"),
        ("duration: 1234.500 ms", ""),
    ],
)
def test_slow_statements_have_time_and_text(message, text):
    found = fact(message)

    assert (found.kind, found.text) == (LogEventKind.SLOW_STATEMENT, text)
    assert found.numbers == pytest.approx({"seconds": 1.2345})


def test_a_message_that_only_looks_like_a_duration_is_none():
    assert fact("duration: abc ms") is None
    assert split_duration("checkpoint starting: time") is None
    assert split_duration("duration: 1.0 ms  statement: SELECT 1") == ("duration: 1.0 ms  statement: ", "SELECT 1")


@pytest.mark.parametrize(
    ("severity", "sqlstate", "kind", "about"),
    [
        ("ERROR", "40001", LogEventKind.ERROR, "40001"),
        ("FATAL", "53300", LogEventKind.ERROR, "53300"),
        ("PANIC", "XX000", LogEventKind.ERROR, "XX000"),
        ("ERROR", "40P01", LogEventKind.DEADLOCK, "40P01"),
        ("TÕRGE", "22012", LogEventKind.ERROR, "22012"),
        ("ERROR", "", LogEventKind.ERROR, ""),
    ],
)
def test_errors_are_known_by_their_sqlstate_in_any_language(severity, sqlstate, kind, about):
    found = fact("mingi viga\nteine rida", severity=severity, sqlstate=sqlstate)

    assert (found.kind, found.object, found.text) == (kind, about, "mingi viga")


@pytest.mark.parametrize(("severity", "sqlstate"), [("WARNING", "01000"), ("LOG", "42601"), ("", "")])
def test_what_is_no_error_is_none(severity, sqlstate):
    assert fact("something", severity=severity, sqlstate=sqlstate) is None


@pytest.mark.parametrize("sqlstate", ["00000", ""])
def test_of_other_messages_in_another_language_it_is_known_that_they_are_there(sqlstate):
    assert fact("midagi", severity="LOGI", sqlstate=sqlstate).kind is LogEventKind.OTHER_LANGUAGE


def test_frequent_errors_are_known_by_their_text_where_there_is_no_sqlstate():
    assert find_state("deadlock detected") == "40P01"
    assert find_state('duplicate key value violates unique constraint "t_pkey"') == "23505"
    for whom in (
        "non-replication superuser connections",
        "roles with the SUPERUSER attribute",
        'roles with privileges of the "pg_use_reserved_connections" role',
    ):
        assert find_state(f"remaining connection slots are reserved for {whom}") == "53300"
    assert find_state("something else") == ""
    assert fact("deadlock detected", severity="ERROR").kind is LogEventKind.DEADLOCK


@given(st.text(max_size=200), st.sampled_from(["LOG", "ERROR", ""]))
def test_any_message_is_read_or_left(message, severity):
    found = fact(message, severity=severity)

    if severity == "ERROR":
        assert found.text == message.partition("\n")[0]
    else:
        assert found is None or all(math.isfinite(number) for number in found.numbers.values())


@given(st.sampled_from(["automatic ", "temporary file", "process ", "duration: "]), st.text(max_size=100))
def test_any_message_that_begins_like_a_known_one_is_read_or_left(beginning, message):
    found = fact(beginning + message)

    assert found is None or all(math.isfinite(number) for number in found.numbers.values())


def test_a_process_whose_number_no_kernel_has_is_not_known():
    found = fact(f"process {'9' * 5000} acquired ShareLock on relation 16384 of database 5 after 10.000 ms")

    assert (found.kind, found.pid) == (LogEventKind.LOCK_WAIT, None)
