import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.errors import StoreError
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import LogEventKind, read_fact, replace_literals, replace_quoted
from pgtrial.store.server_log.stored import keep_entries, parse_entries, read_log, write_log

T = datetime(2026, 11, 21, 22, 42, 31, 123000, tzinfo=UTC).timestamp()
NOW = "2026-11-21 22:42:31.123 UTC"
# As a server of 15.18 wrote them, but for the last.
JSON = r"""
{"timestamp":"2026-11-21 19:53:51.699 UTC","pid":18690,"session_id":"6b01f6c8.4902","line_num":1,"session_start":"2026-11-21 19:53:44 UTC","txid":0,"error_severity":"LOG","message":"checkpoint starting: immediate force wait","backend_type":"checkpointer","query_id":0}
{"timestamp":"2026-11-21 19:54:06.147 UTC","pid":18764,"session_id":"6b01f6de.494c","line_num":1,"session_start":"2026-11-21 19:54:06 UTC","vxid":"8/3","txid":31203,"error_severity":"LOG","message":"automatic analyze of table \"template1.pg_catalog.pg_type\"\navg read rate: 31.771 MB/s, avg write rate: 6.250 MB/s\nbuffer usage: 1009 hits, 61 misses, 12 dirtied\nsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.01 s","backend_type":"autovacuum worker","query_id":0}
{"timestamp":"2026-11-21 19:54:06.147 UTC","pid":18764,"error_sev
"""  # noqa: E501  # captured
SECRET = "hunter2"


# --- The file --------------------------------------------------------------------------------------------------------


def test_lines_of_json_are_entries():
    start, analyze = parse_entries(JSON.splitlines(), None)

    assert start.t == datetime(2026, 11, 21, 19, 53, 51, 699000, tzinfo=UTC).timestamp()
    assert (start.pid, start.severity, start.backend_type) == (18690, "LOG", "checkpointer")
    assert start.message == "checkpoint starting: immediate force wait"
    assert analyze.message.split("\n")[2] == "buffer usage: 1009 hits, 61 misses, 12 dirtied"


@pytest.mark.parametrize("line", ["", "{}", "[]", "1", '{"timestamp":5}', f'{{"timestamp":"{NOW}","pid":"x"', "\x00"])
def test_what_is_no_entry_of_json_is_left_out(line):
    assert list(parse_entries([line], None)) == []


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    st.builds(
        LogEntry,
        t=st.integers(0, 4_000_000_000_000).map(lambda milliseconds: milliseconds / 1000),
        pid=st.none() | st.integers(1, 4_000_000),
        severity=st.sampled_from(["LOG", "ERROR", "TÕRGE"]),
        sqlstate=st.sampled_from(["", "40001"]),
        database=_TEXT,
        application=_TEXT,
        backend_type=st.sampled_from(["", "checkpointer"]),
        message=_TEXT,
        detail=_TEXT,
        statement=_TEXT,
    )
)
def test_an_entry_that_is_written_is_read_back(tmp_path_factory, entry):
    path = tmp_path_factory.mktemp("log") / "server.jsonl"
    write_log([entry, entry], path)

    first, second = read_log(path, None)

    assert first == second
    assert first.t == pytest.approx(entry.t, abs=1e-3)
    assert first == LogEntry(**{name: getattr(entry, name) for name in LogEntry.__slots__} | {"t": first.t})


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = tmp_path / "server.jsonl"
    write_log([LogEntry(t=T, message="a\rb\u2028c\x85d\ne")], path)

    assert path.read_bytes().count(b"\n") == 1
    assert [entry.message for entry in read_log(path, None)] == ["a\rb\u2028c\x85d\ne"]


def test_bytes_that_are_no_text_do_not_stop_the_reading(tmp_path):
    path = tmp_path / "server.jsonl"
    line = json.dumps({"timestamp": NOW, "error_severity": "LOG", "message": "§"}, ensure_ascii=False)
    path.write_bytes(line.encode("latin-1") + b"\n")

    (entry,) = read_log(path, None)

    assert entry.message == "\ufffd"


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(StoreError, match="nowhere"):
        list(read_log(tmp_path / "nowhere", None))
    with pytest.raises(StoreError, match="nowhere"):
        write_log([], tmp_path / "nowhere" / "x")


# --- What is kept of the log of a server that others use too --------------------------------------------------------


def keep(*entries: LogEntry, since=0.0):
    return list(keep_entries(entries, since=since))


def entry(message: str, **fields) -> LogEntry:
    return LogEntry(**{"t": 10.0, "pid": 1, "severity": "LOG", "message": message, **fields})


@pytest.mark.parametrize(
    "message",
    [
        f"statement: ALTER ROLE me PASSWORD '{SECRET}'",
        f"connection authorized: user={SECRET} database=sales",
        f"AUDIT: SESSION,1,1,READ,SELECT,,,SELECT '{SECRET}'",
    ],
)
def test_entries_that_tell_nothing_are_left_out(message):
    assert keep(entry(message)) == []


@pytest.mark.parametrize(
    "found",
    [
        entry(f"duration: 12.000 ms  statement: SELECT '{SECRET}', $${SECRET}$$, E'\\'{SECRET}' -- {SECRET}"),
        entry("division by zero", severity="ERROR", statement=f"SELECT 1/0, '{SECRET}' /* {SECRET} */"),
        entry("duplicate key", severity="ERROR", sqlstate="23505", detail=f"Key (email)=({SECRET}) already exists."),
        entry(f'invalid input syntax for type integer: "{SECRET}"', severity="ERROR", sqlstate="22P02"),
        entry(f"Ungültige Eingabesyntax für Typ integer: »{SECRET}«", severity="ERROR", sqlstate="22P02"),
        entry(f"your password is {SECRET}", severity="ERROR", sqlstate="P0001"),
        entry(f"first line\n{SECRET}", severity="ERROR", sqlstate="22000"),
    ],
)
def test_what_users_have_entered_is_not_kept(found):
    (kept,) = keep(found)

    assert SECRET not in repr(kept)
    assert kept.sqlstate == found.sqlstate
    assert read_fact(kept).kind is read_fact(found).kind


def test_entries_of_before_the_beginning_are_left_out():
    message = "checkpoint starting: time"

    assert [kept.t for kept in keep(entry(message), entry(message, t=20.0), since=15.0)] == [20.0]


def test_of_messages_in_another_language_nothing_is_kept_but_that_they_were_there():
    (kept,) = keep(entry(f"продолжительность: 12.5 мс, {SECRET}", severity="СООБЩЕНИЕ", statement=f"SELECT {SECRET}"))

    assert read_fact(kept).kind is LogEventKind.OTHER_LANGUAGE
    assert SECRET not in repr(kept)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 'it''s', 1.5e-3, t1.a2, $1", "SELECT ?, ?, t1.a2, $1"),
        ("SELECT E'a\\'b', U&'x', b'01', 'cut", "SELECT E?, U&?, b?, ?"),
        ("SELECT a-1, 2/3 - 4, b'1', ename'x'", "SELECT a-?, ?/? - ?, b?, ename?"),
        ("SELECT $$a $b$ c$$, $tag$ $$ $tag$ , $q$cut", "SELECT ?, ? , ?"),
        ('SELECT "a ""1"" b", "x\'y" FROM "T 1"', 'SELECT "a ""1"" b", "x\'y" FROM "T 1"'),
        ("SELECT 1 -- 'a\n\tFROM t /* '1' \n */ WHERE x", "SELECT ? FROM t WHERE x"),
        ("", ""),
    ],
)
def test_values_in_statements_become_question_marks(statement, expected):
    assert replace_literals(statement) == expected


def test_texts_in_quotation_marks_of_any_language_become_question_marks():
    assert replace_quoted('relation "a" does not exist') == 'relation "?" does not exist'
    assert replace_quoted("Relation »a« existiert nicht") == 'Relation "?" existiert nicht'
    assert replace_quoted("la relation « a » n'existe pas") == 'la relation "?" n\'existe pas'
    assert replace_quoted("canceling statement 12 of t1\nmore") == "canceling statement ? of t1"


@given(st.text(max_size=300))
def test_any_statement_is_put_on_one_line(statement):
    assert "\n" not in replace_literals(statement)


@given(st.text(st.characters(categories=["L"]), min_size=8, max_size=12), st.text(max_size=20))
def test_no_string_survives(secret, rest):
    statement = f"INSERT INTO t VALUES ('{secret}') " + rest.replace("'", "").replace('"', "")

    assert secret not in replace_literals(statement) or secret in rest
