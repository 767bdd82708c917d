import csv
import io
import math
import subprocess
import sys

import pytest

from pgtrial.export.csv import render_csv, safe_text
from pgtrial.export.tables import ColumnType, Table, tables_of
from pgtrial.export.tables.base import integer, number, table, text, time, truth
from pgtrial.safe_text import make_visible


def read(source: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(source, newline="")))


def test_every_table_reads_back_as_it_is(sample):
    for each in tables_of(sample):
        rows = read(render_csv(each))

        assert rows[0] == [column.name for column in each.columns]
        assert len(rows) == len(each.rows) + 1
        for cells, row in zip(rows[1:], each.rows, strict=True):
            check_row(each, cells, row)


def check_row(each: Table, cells: list[str], row: tuple[object, ...]) -> None:
    for column, cell, value in zip(each.columns, cells, row, strict=True):
        if value is None:
            assert cell == ""
        elif column.kind in (ColumnType.NUMBER, ColumnType.INTEGER):
            assert float(cell) == value
        elif column.kind is ColumnType.TEXT:
            assert cell.removeprefix("'") == make_visible(str(value))


def test_times_are_utc_and_what_is_not_known_is_empty():
    columns = [time("at", ""), truth("is_so", ""), number("x", ""), integer("n", ""), text("name", "")]
    made = table("t", "", columns, [(1_768_900_000.1234, True, math.nan, 3, "a"), (None, False, None, None, None)])

    assert render_csv(made) == ("at,is_so,x,n,name\r\n2026-01-20T09:06:40.123Z,true,,3,a\r\n,false,,,\r\n")


@pytest.mark.parametrize(
    "name",
    ["=cmd|'/C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", "  =1", "\r=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"],
)
def test_a_text_that_begins_like_a_formula_has_an_apostrophe_before_it(name):
    cell = read(render_csv(table("t", "", [text("name", "")], [(name,)])))[1][0]

    assert cell == "'" + make_visible(name) or not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))


def test_a_negative_number_stays_one():
    assert render_csv(table("t", "", [number("x", "")], [(-1.5,)])) == "x\r\n-1.5\r\n"


def test_hidden_characters_are_written_out_and_each_row_is_a_line(hostile):
    for each in tables_of(hostile):
        rendered = render_csv(each)

        assert rendered.count("\r\n") == len(each.rows) + 1
        assert "\x1b" not in rendered
        assert "\u202e" not in rendered
    assert safe_text("\x1b[31mred") == r"\x1b[31mred"


def test_the_format_is_rendered_without_a_server_or_statistics():
    code = (
        "import sys; from pgtrial.export import csv, jsonl, prometheus; "
        "sys.exit(any(name in sys.modules for name in ('psycopg', 'asyncio', 'scipy', 'vl_convert')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
