import csv
import io
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.postgres.existing.log_formats import CSV_COLUMNS, has_time, parse_csv, parse_text, prefix_pattern
from pgtrial.store.server_log.entry import LogEntry

DEFAULT = "%m [%p] "
DEBIAN = "%m [%p] %q%u@%d "
T = datetime(2026, 11, 21, 22, 42, 31, 123000, tzinfo=UTC).timestamp()
NOW = "2026-11-21 22:42:31.123 UTC"


def parse(text: str, prefix: str = DEFAULT, **options):
    options = {"zone": None, **options}
    return list(parse_text(text.splitlines(), prefix=prefix, **options))


def test_a_message_has_time_process_and_severity():
    (entry,) = parse(f"{NOW} [4711] LOG:  checkpoint starting: time")

    assert (entry.t, entry.pid, entry.severity, entry.message) == (T, 4711, "LOG", "checkpoint starting: time")


def test_further_lines_belong_to_the_text_before_them():
    found = parse(
        f"{NOW} [12] ERROR:  syntax error at end of input\n"
        "\tsecond line\n"
        f"{NOW} [12] DETAIL:  one\n"
        "\t  two\n"
        f"{NOW} [12] HINT:  not kept\n"
        "\tnot kept either\n"
        f"{NOW} [12] STATEMENT:  SELECT 1\n"
        "\t\n"
        "\tFROM t\n"
        f"{NOW} [13] LOG:  next"
    )

    assert [entry.message for entry in found] == ["syntax error at end of input\nsecond line", "next"]
    assert found[0].detail == "one\n  two"
    assert found[0].statement == "SELECT 1\n\nFROM t"


def test_lines_of_other_programs_are_left_out():
    found = parse(
        "half a line, of before the beginning\n"
        f"{NOW} [12] LOG:  one\n"
        "cp: cannot stat 'x': No such file or directory\n"
        "\ta line after it\n"
        f"{NOW} [12] LOG:  two"
    )

    assert [entry.message for entry in found] == ["one", "two"]


def test_what_another_process_adds_does_not_belong_to_the_message():
    found = parse(f"{NOW} [12] ERROR:  one\n{NOW} [99] DETAIL:  of another\n\tfurther\n{NOW} [99] LOG:  two")

    assert (found[0].message, found[0].detail, found[1].message) == ("one", "", "two")


@pytest.mark.parametrize("word", ["FEHLER", "ОШИБКА", "ERREUR", "错误", "TÕRGE"])
def test_lines_in_another_language_are_entries_without_a_sqlstate(word):
    found = parse(
        f"{NOW} [12] 22012 {word}:  x\n{NOW} [12] 22012 ПОДРОБНОСТИ:  y\n\tz\n{NOW} [13] 00000 LOG:  next",
        "%m [%p] %e ",
    )

    assert [(each.severity, each.message) for each in found] == [(word, "x"), ("ПОДРОБНОСТИ", "y\nz"), ("LOG", "next")]
    assert [each.sqlstate for each in found] == ["", "", "00000"]


def test_processes_that_are_no_sessions_end_the_prefix_at_its_q():
    found = parse(f"{NOW} [1] LOG:  a\n{NOW} [2] alice@sales ERROR:  b\n{NOW} [3] [unknown]@[unknown] LOG:  c", DEBIAN)

    assert [entry.database for entry in found] == ["", "sales", ""]
    assert [entry.message for entry in found] == ["a", "b", "c"]


def test_names_may_hold_blanks_and_what_looks_like_a_severity():
    prefix = "%m [%p] app=%a,db=%d "
    line = f"{NOW} [1] app=psql ERROR: x,db=my db LOG:  message: with ERROR:  in it"

    (entry,) = parse(line, prefix)

    assert (entry.application, entry.database, entry.severity) == ("psql ERROR: x", "my db", "LOG")
    assert entry.message == "message: with ERROR:  in it"


def test_a_prefix_that_ends_in_a_name_does_not_take_it_for_a_severity():
    (entry,) = parse(f"{NOW} my app ERROR:  x", "%m %a ")

    assert (entry.application, entry.severity) == ("my app", "ERROR")


def test_the_sqlstate_is_read_from_the_prefix_or_from_a_verbose_log():
    (by_prefix,) = parse(f"{NOW} [1] 40P01 ERROR:  deadlock detected", "%m [%p] %e ")
    (verbose,) = parse(f"{NOW} [1] ERROR:  40P01: deadlock detected\n{NOW} [1] LOCATION:  f, x.c:1", verbose=True)
    (terse,) = parse(f"{NOW} [1] ERROR:  40P01: a message of somebody's own")

    assert (by_prefix.sqlstate, by_prefix.message) == ("40P01", "deadlock detected")
    assert (verbose.sqlstate, verbose.message) == ("40P01", "deadlock detected")
    assert (terse.sqlstate, terse.message) == ("", "40P01: a message of somebody's own")


@pytest.mark.parametrize(
    ("prefix", "beginning", "zone"),
    [
        ("%n [%p] ", f"{T:.3f} [7] ", None),
        ("%m [%p] ", "2026-11-21 23:42:31.123 CET [7] ", ZoneInfo("Europe/Berlin")),
        ("%m:%r:%u@%d:[%p]:", f"{NOW}:10.0.0.1(54321):u@d:[7]:", None),
        ("%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ", f"{NOW} [7]: [3-1] user=,db=,app=,client= ", None),
        ("<%t %s> %c %l %v %x %P%p %Q %i%% ", f"<2026-11-21 22:42:31 UTC {NOW}> 6b01.48 9 3/4 0 7 -1 idle% ", None),
        ("%m [%5p] %-20a|%b ", f"{NOW} [    7] psql                |client backend ", None),
        ("%Z%m %p %", f"{NOW} 7 ", None),
    ],
)
def test_prefixes_of_all_kinds_are_understood(prefix, beginning, zone):
    (entry,) = parse(f"{beginning}ERROR:  x: y", prefix, zone=zone)

    assert entry.t == pytest.approx(T, abs=0.2)
    assert (entry.pid, entry.severity, entry.message) == (7, "ERROR", "x: y")


def test_without_a_time_there_is_no_entry():
    assert not has_time("[%p] %%m ")
    assert has_time("[%p] %-30m")
    assert parse("[12] ERROR:  x", "[%p] ") == []


# --- Any prefix -----------------------------------------------------------------------------------------------------

_NAME = st.text(st.characters(categories=["L"]), min_size=1, max_size=6)
_SEPARATOR = st.text(st.sampled_from(" |<>()=,;_/@#"), min_size=1, max_size=3)
_LETTERS = "audrhbiLpPtmnecslvxQ"


def printed(letter: str, data: st.DataObject, *, is_session: bool) -> str:
    """What elog.c prints for an escape."""
    if letter in "audrhLi":
        return data.draw(_NAME) if is_session else ""
    return {
        "b": "client backend" if is_session else "checkpointer",
        "p": "4711",
        "P": "" if data.draw(st.booleans()) else "4710",
        "t": "2026-11-21 22:42:31 UTC",
        "m": NOW,
        "n": f"{T:.3f}",
        "e": "40P01",
        "c": "6b01f6c8.48ff",
        "l": "17",
        "s": "2026-11-20 01:02:03 UTC",
        "v": "3/4" if is_session else "",
        "x": "0",
        "Q": "-123",
    }[letter]


@given(
    letters=st.lists(st.sampled_from(_LETTERS), min_size=1, max_size=8),
    padding=st.sampled_from(["", "", "12", "-12"]),
    stops_at=st.integers(0, 8),
    is_session=st.booleans(),
    severity=st.sampled_from(["ERROR", "LOG", "PANIC"]),
    data=st.data(),
)
def test_a_line_with_any_prefix_is_read_back(*, letters, padding, stops_at, is_session, severity, data):
    """Prefixes whose escapes are parted by something, as they have to be for a reader as well."""
    prefix, line = "%m ", f"{NOW} "
    stopped = False
    for i, letter in enumerate([*letters, "p"]):
        if i == stops_at:
            prefix += "%q"
            stopped = not is_session
        separator = data.draw(_SEPARATOR)
        prefix += f"%{padding}{letter}{separator}"
        value = printed(letter, data, is_session=is_session)
        width = abs(int(padding or 0))
        value = value.ljust(width) if padding.startswith("-") else value.rjust(width)
        line += "" if stopped else f"{value}{separator}"

    entries = parse(f"{line}{severity}:  the message: 1\n\tand more", prefix)

    assert len(entries) == 1
    (entry,) = entries
    assert entry.t == pytest.approx(T, abs=1e-4)
    assert entry.severity == severity
    assert entry.message == "the message: 1\nand more"
    if not stopped:
        assert entry.pid == 4711
        if "e" in letters:
            assert entry.sqlstate == "40P01"


@given(st.text(max_size=30))
def test_any_text_is_a_prefix(prefix):
    re.compile(prefix_pattern(prefix))

    assert parse("nothing of a log", prefix) == []


# --- CSV ------------------------------------------------------------------------------------------------------------

ROW = {
    "log_time": NOW,
    "database_name": "sales",
    "process_id": "4711",
    "error_severity": "ERROR",
    "sql_state_code": "40P01",
    "message": 'deadlock "detected", or\nnot',
    "detail": "a,b",
    "query": "SELECT 'x\ny'",
    "application_name": "pgbench",
    "backend_type": "client backend",
    "query_id": "0",
}


def as_csv(*rows: dict[str, str]) -> str:
    """As csvlog.c writes: texts in quotation marks, doubled inside."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n", restval="")
    writer.writerows(rows)
    return text.getvalue()


def test_a_record_of_csv_may_have_several_lines():
    text = as_csv(ROW, {**ROW, "message": "second", "error_severity": "LOG"})

    first, second = parse_csv(text.splitlines(), None)

    assert first == LogEntry(
        t=T,
        pid=4711,
        severity="ERROR",
        sqlstate="40P01",
        database="sales",
        application="pgbench",
        backend_type="client backend",
        message='deadlock "detected", or\nnot',
        detail="a,b",
        statement="SELECT 'x\ny'",
    )
    assert (second.severity, second.message) == ("LOG", "second")


def test_csv_that_begins_in_the_middle_of_a_record_is_read_from_the_next_on():
    text = as_csv(ROW, {**ROW, "message": "second"})

    found = list(parse_csv(text[60:].splitlines(), None))

    assert [entry.message for entry in found][-1] == "second"


def test_csv_without_columns_that_came_later_is_read():
    text = as_csv({**ROW, "message": "m"}).rstrip("\n").rpartition(",")[0]

    (entry,) = parse_csv(text.splitlines(), None)

    assert entry.message == "m"


@pytest.mark.parametrize("text", ["", "a,b,c", f"{NOW},", f'{NOW},"', f"{NOW},{','.join('x' * 30)}"])
def test_what_is_no_record_of_csv_is_left_out(text):
    assert [entry for entry in parse_csv(text.splitlines(), None) if entry.message != "x"] == []


def test_a_text_too_long_for_csv_costs_its_own_record_only():
    found = list(parse_csv(as_csv({**ROW, "message": "x" * 200_000}, {**ROW, "message": "y"}).splitlines(), None))

    assert [entry.message for entry in found] == ["y"]
