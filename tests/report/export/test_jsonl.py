import json
import math

from pgtrial.export.jsonl import render_jsonl
from pgtrial.export.tables import tables_of
from pgtrial.export.tables.base import number, table, time


def test_every_row_is_an_object_that_names_its_table(sample):
    tables = tables_of(sample)

    found = [json.loads(line) for line in render_jsonl(tables).splitlines()]

    assert [row["table"] for row in found] == [each.name for each in tables for _ in each.rows]
    effects = [row for row in found if row["table"] == "effects"]
    assert effects[0]["arm"] == "off"
    assert effects[0]["ratio"] == sample.effects[0].ratio
    assert effects[0]["scenario"] is None


def test_times_are_utc_and_what_is_no_number_is_null():
    made = table("t", "", [time("at", ""), number("x", "")], [(1_768_900_000.5, math.inf), (None, 1.5)])

    assert [json.loads(line) for line in render_jsonl([made]).splitlines()] == [
        {"table": "t", "at": "2026-01-20T09:06:40.500Z", "x": None},
        {"table": "t", "at": None, "x": 1.5},
    ]


def test_lines_are_ascii_whatever_the_names(hostile):
    rendered = render_jsonl(tables_of(hostile))

    assert rendered.isascii()
    assert set(rendered) & {chr(code) for code in range(32)} == {"\n"}
    assert any("\x1b[31m" in row.get("arm", "") for row in map(json.loads, rendered.splitlines()))
