import csv
import io
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.errors import StoreError
from pgtrial.store.server_log.csv_lines import COLUMNS, parse_csv
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.file import read_log, write_log
from pgtrial.store.server_log.json_lines import parse_json

T = datetime(2026, 11, 21, 22, 42, 31, 123000, tzinfo=UTC).timestamp()
NOW = "2026-11-21 22:42:31.123 UTC"
# As a server of 15.18 wrote them, but for the last.
JSON = r"""
{"timestamp":"2026-11-21 19:53:51.699 UTC","pid":18690,"session_id":"6b01f6c8.4902","line_num":1,"session_start":"2026-11-21 19:53:44 UTC","txid":0,"error_severity":"LOG","message":"checkpoint starting: immediate force wait","backend_type":"checkpointer","query_id":0}
{"timestamp":"2026-11-21 19:54:06.147 UTC","pid":18764,"session_id":"6b01f6de.494c","line_num":1,"session_start":"2026-11-21 19:54:06 UTC","vxid":"8/3","txid":31203,"error_severity":"LOG","message":"automatic analyze of table \"template1.pg_catalog.pg_type\"\navg read rate: 31.771 MB/s, avg write rate: 6.250 MB/s\nbuffer usage: 1009 hits, 61 misses, 12 dirtied\nsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.01 s","backend_type":"autovacuum worker","query_id":0}
{"timestamp":"2026-11-21 19:54:06.147 UTC","pid":18764,"error_sev
"""  # noqa: E501  # captured
ROW = {
    "log_time": NOW,
    "database_name": "sales",
    "process_id": "4711",
    "error_severity": "FEHLER",
    "sql_state_code": "40P01",
    "message": 'Verklemmung "entdeckt", oder\nnicht',
    "detail": "a,b",
    "query": "SELECT 'x\ny'",
    "application_name": "pgbench",
    "backend_type": "client backend",
    "query_id": "0",
}


def as_csv(*rows: dict[str, str]) -> str:
    """As csvlog.c writes: texts in quotation marks, doubled inside."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
    writer.writerows(rows)
    return text.getvalue()


def test_lines_of_json_are_entries():
    start, analyze = parse_json(JSON.splitlines(), None)

    assert start.t == datetime(2026, 11, 21, 19, 53, 51, 699000, tzinfo=UTC).timestamp()
    assert (start.pid, start.severity, start.backend_type) == (18690, "LOG", "checkpointer")
    assert start.message == "checkpoint starting: immediate force wait"
    assert analyze.message.split("\n")[2] == "buffer usage: 1009 hits, 61 misses, 12 dirtied"


@pytest.mark.parametrize("line", ["", "{}", "[]", "1", '{"timestamp":5}', f'{{"timestamp":"{NOW}","pid":"x"', "\x00"])
def test_what_is_no_entry_of_json_is_left_out(line):
    assert list(parse_json([line], None)) == []


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
        message='Verklemmung "entdeckt", oder\nnicht',
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
