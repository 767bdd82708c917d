"""Tables as JSON lines: one object per row, which names its table."""

import json
import math
from collections.abc import Iterable

from pgtrial.export.csv import format_time
from pgtrial.export.tables import ColumnType, Table, Value


def render_jsonl(tables: Iterable[Table]) -> str:
    """All rows of all tables, in ASCII. Numbers are in base units, times in UTC; null is what is not known."""
    return "".join(
        json.dumps(
            {
                "table": table.name,
                **{column.name: _value(value, column.kind) for value, column in zip(row, table.columns, strict=True)},
            },
            allow_nan=False,
        )
        + "\n"
        for table in tables
        for row in table.rows
    )


def _value(value: Value, kind: ColumnType) -> Value:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return format_time(float(value)) if kind is ColumnType.TIME else value
