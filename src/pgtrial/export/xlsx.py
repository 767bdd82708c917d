"""Findings as a spreadsheet: a sheet per table with real numbers and times.

Every text is written as a text, so no name can become a formula, a link or a number.
"""

import io
import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import xlsxwriter

from pgtrial.export.tables import Column, ColumnType, Table, Value, describe_columns, tables_of
from pgtrial.findings.findings import Findings
from pgtrial.safe_text import make_visible

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

MOST_ROWS = 1_048_574  # of a sheet, without its head and the row that says what is left out
_LONGEST_TEXT = 32_767  # characters of a cell
_WIDEST = 60  # characters of a column
_FORMULA_STARTS = ("=", "+", "-", "@")  # of texts that would become formulas where a cell is typed again
_MEASURED_ROWS = 200  # that decide how wide a column is

_NUMBER_FORMATS = {
    "s": "0.000000",
    "1/s": "#,##0.0",
    "B": "#,##0",
    "B/s": "#,##0",
    "ratio": "0.0000",
    "share": "0.0%",
    "probability": "0.0000",
    "sessions": "0.000",
}
_KIND_FORMATS = {ColumnType.INTEGER: "0", ColumnType.TIME: "yyyy-mm-dd hh:mm:ss.000", ColumnType.TEXT: "@"}
_UNIT_LABELS = {"ratio": "", "probability": "", "share": "%"}
_EPOCH = datetime(1970, 1, 1)  # without a zone, as a spreadsheet has it; heads say UTC


def render_xlsx(findings: Findings) -> bytes:
    """The workbook; the same findings give the same bytes. Of what a sheet cannot hold, its last row says how much.

    Rows wait in temporary files and not in memory.
    """
    out = io.BytesIO()
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
    }
    with xlsxwriter.Workbook(out, options) as workbook:
        workbook.set_properties(
            {
                "title": make_visible(findings.experiment.name),
                "subject": "PostgreSQL experiment",
                "comments": f"Made by pgtrial {make_visible(findings.pgtrial_version)}",
                "created": _EPOCH + timedelta(seconds=findings.experiment.ended or 0),
            }
        )
        styles = _Styles(workbook)
        tables = tables_of(findings)
        for table in (*tables, describe_columns(tables)):
            _write_table(workbook, styles, table)
    return out.getvalue()


class _Styles:
    """The workbook's cell formats, each made once."""

    def __init__(self, workbook: "Workbook") -> None:
        self.head = workbook.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
        self.text = workbook.add_format({"num_format": "@"})
        self.quoted = workbook.add_format({"num_format": "@", "quote_prefix": True})
        self.plain = workbook.add_format({})
        codes = dict.fromkeys((*_NUMBER_FORMATS.values(), *_KIND_FORMATS.values()))
        self._numbers: dict[str, Format] = {code: workbook.add_format({"num_format": code}) for code in codes}

    def of(self, column: Column) -> "Format":
        code = _KIND_FORMATS.get(column.kind) or _NUMBER_FORMATS.get(column.unit)
        return self._numbers[code] if code else self.plain


def head_of(column: Column) -> str:
    """The column's name with its unit: "latency (s)", "started (UTC)"."""
    unit = "UTC" if column.kind is ColumnType.TIME else _UNIT_LABELS.get(column.unit, column.unit)
    name = column.name.replace("_", " ")
    return f"{name} ({unit})" if unit and unit != name else name


def _write_table(workbook: "Workbook", styles: _Styles, table: Table) -> None:
    sheet = workbook.add_worksheet(table.name.replace("_", " "))
    rows = table.rows[:MOST_ROWS]
    for place, column in enumerate(table.columns):
        sheet.write_string(0, place, head_of(column), styles.head)
        sheet.set_column(place, place, _width(column, [row[place] for row in rows[:_MEASURED_ROWS]]))
    places = [(place, column.kind, styles.of(column)) for place, column in enumerate(table.columns)]
    for number, row in enumerate(rows, start=1):
        for place, kind, style in places:
            _write_cell(sheet, number, place, value=row[place], kind=kind, style=style, styles=styles)
    if left_out := len(table.rows) - len(rows):
        words = f"{left_out} more rows are left out; the formats csv, parquet and jsonl have all"
        sheet.write_string(len(rows) + 1, 0, words, styles.text)
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(rows), len(table.columns) - 1)


def _write_cell(
    sheet: "Worksheet", row: int, place: int, *, value: Value, kind: ColumnType, style: "Format", styles: _Styles
) -> None:
    """Nothing where the value is not known."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return
    if kind is ColumnType.TEXT:
        _write_text(sheet, row, place, str(value), styles)
    elif kind is ColumnType.TRUTH:
        sheet.write_boolean(row, place, bool(value), style)
    elif kind is ColumnType.TIME:
        sheet.write_datetime(row, place, _EPOCH + timedelta(milliseconds=round(float(value) * 1000)), style)
    else:
        sheet.write_number(row, place, float(value), style)


def _write_text(sheet: "Worksheet", row: int, place: int, text: str, styles: _Styles) -> None:
    shown = make_visible(text, keep="\n")
    if len(shown) > _LONGEST_TEXT:
        shown = shown[: _LONGEST_TEXT - 1] + "…"
    style = styles.quoted if shown.lstrip().startswith(_FORMULA_STARTS) else styles.text
    sheet.write_string(row, place, shown, style)


def _width(column: Column, values: list[Value]) -> float:
    """Characters that the head and the first values take, within limits."""
    if column.kind is ColumnType.TIME:
        return 22
    longest = max((len(str(value)) for value in values if isinstance(value, str)), default=0)
    return float(min(_WIDEST, max(10, longest + 2, len(column.name) + 3)))
