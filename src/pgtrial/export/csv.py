"""A table as CSV: RFC 4180, base units, times in UTC as ISO 8601, and an empty field for what is not known."""

import csv
import io
import math
import re
from datetime import UTC, datetime, timedelta

from pgtrial.export.tables import ColumnType, Table, Value
from pgtrial.safe_text import make_visible

# A spreadsheet takes a text that begins so for a formula, also behind blanks and in the wide forms of East Asian
# scripts (OWASP, "CSV Injection").
_FORMULA = re.compile("\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]")


def render_csv(table: Table) -> str:
    """The table with a line of column names. Each row is one line, and no text in it is a formula or an escape."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(column.name for column in table.columns)
    for row in table.rows:
        writer.writerow(_cell(value, column.kind) for value, column in zip(row, table.columns, strict=True))
    return out.getvalue()


def format_time(t: float) -> str:
    """ "2026-01-20T10:15:00.123Z" of seconds since the epoch."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(t * 1000))
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def safe_text(text: str) -> str:
    """The text with hidden characters written out, and an apostrophe before what would be a formula."""
    shown = make_visible(text)
    return f"'{shown}" if _FORMULA.match(shown) else shown


def _cell(value: Value, kind: ColumnType) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if kind is ColumnType.TEXT:
        return safe_text(str(value))
    if kind is ColumnType.TRUTH:
        return "true" if value else "false"
    if kind is ColumnType.TIME:
        return format_time(float(value))
    return repr(value)
