"""Findings as tables, for exports and notebooks."""

from collections.abc import Callable

from pgtrial.export.tables.base import Column, ColumnType, Table, Value, table, text
from pgtrial.export.tables.causes import cause_tables
from pgtrial.export.tables.experiment import (
    arms_table,
    caveats_table,
    differences_table,
    experiment_table,
    facts_table,
    phases_table,
    runs_table,
    settings_table,
    time_table,
)
from pgtrial.export.tables.results import (
    block_ratios_table,
    curve_table,
    distributions_table,
    effects_table,
    latency_maps_table,
    metric_values_table,
    metrics_table,
    observations_table,
    page_tables,
    series_table,
    waits_table,
)
from pgtrial.findings.findings import Findings

__all__ = ["TABLES", "Column", "ColumnType", "Table", "Value", "cause_tables", "describe_columns", "tables_of"]

# In the order in which a reader wants them; those of the causes and of huge pages stand before the record of the runs.
_ANSWER: tuple[Callable[[Findings], Table], ...] = (
    experiment_table,
    effects_table,
    block_ratios_table,
    curve_table,
    waits_table,
    metrics_table,
)
_RECORD: tuple[Callable[[Findings], Table], ...] = (
    caveats_table,
    arms_table,
    runs_table,
    phases_table,
    time_table,
    settings_table,
    facts_table,
    differences_table,
    observations_table,
    metric_values_table,
    distributions_table,
    latency_maps_table,
    series_table,
)
TABLES = (*_ANSWER, *_RECORD)  # that every findings have


def tables_of(findings: Findings) -> tuple[Table, ...]:
    """Every table of the findings, also one without rows; those of causes and of huge pages where there are any."""
    return (
        *(make(findings) for make in _ANSWER),
        *cause_tables(findings),
        *page_tables(findings),
        *(make(findings) for make in _RECORD),
    )


def describe_columns(tables: tuple[Table, ...]) -> Table:
    """A table of the columns of other tables: their meaning and unit."""
    columns = (
        text("table", "table"),
        text("column", "column"),
        text("kind", "text, integer, number, time or truth (yes or no)"),
        text("unit", "base unit of its numbers"),
        text("meaning", "what it says"),
    )
    rows = (
        (each.name, column.name, column.kind, column.unit or None, column.about)
        for each in tables
        for column in each.columns
    )
    return table("columns", "What the columns of the other tables mean", columns, rows)
