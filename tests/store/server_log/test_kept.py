import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.facts import Kind, read_fact
from pgtrial.store.server_log.kept import keep_entries
from pgtrial.store.server_log.language import PLAIN
from pgtrial.store.server_log.literals import replace_literals, replace_quoted

SECRET = "hunter2"


def keep(*entries: LogEntry, language=PLAIN, since=0.0):
    return list(keep_entries(entries, language, since=since))


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


def test_messages_are_kept_in_english(languages):
    found = keep(
        entry("Dauer: 12.500 ms  Anweisung: SELECT 'ä'"),
        entry("Prozess 7 erlangte ShareLock-Sperre auf Transaktion 733 nach 1000,123 ms"),
        entry("Verklemmung (Deadlock) entdeckt", severity="ERROR"),
        language=languages["de"],
    )

    assert [kept.message for kept in found] == [
        "duration: 12.500 ms  statement: SELECT ?",
        "process 7 acquired ShareLock on Transaktion 733 after 1000.123 ms",
        "deadlock detected",
    ]
    assert [read_fact(kept).kind for kept in found] == [Kind.SLOW_STATEMENT, Kind.LOCK_WAIT, Kind.DEADLOCK]


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
