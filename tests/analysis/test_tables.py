import re

import pytest

from pgtrial.export.tables import ColumnType, Table, describe_columns, tables_of
from pgtrial.findings.findings import Findings


@pytest.fixture(scope="module")
def tables(findings: Findings) -> dict[str, Table]:
    return {table.name: table for table in tables_of(findings)}


def column(table: Table, name: str) -> list[object]:
    place = [each.name for each in table.columns].index(name)
    return [row[place] for row in table.rows]


def test_tables_and_columns_have_names_that_sql_and_python_can_have(tables: dict[str, Table]) -> None:
    for table in tables.values():
        names = [each.name for each in table.columns]
        assert len(set(names)) == len(names), table.name
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in (table.name, *names))
        assert all(each.about for each in table.columns)


def test_every_value_is_of_the_kind_that_its_column_says(tables: dict[str, Table]) -> None:
    kinds = {
        ColumnType.TEXT: str,
        ColumnType.INTEGER: int,
        ColumnType.NUMBER: (int, float),
        ColumnType.TIME: (int, float),
        ColumnType.TRUTH: bool,
    }
    for table in tables.values():
        for row in table.rows:
            assert len(row) == len(table.columns)
            for each, value in zip(table.columns, row, strict=True):
                assert value is None or isinstance(value, kinds[each.kind]), (table.name, each.name, value)
                assert type(value) is not bool or each.kind is ColumnType.TRUTH
                assert not isinstance(value, str) or type(value) is str  # not a member of an enumeration


def test_effects_are_those_of_the_findings(tables: dict[str, Table], findings: Findings) -> None:
    effects = tables["effects"]

    assert column(effects, "ratio") == [each.ratio for each in (*findings.effects, *findings.placebo)]
    assert column(effects, "role").count("placebo") == len(findings.placebo)
    assert set(column(effects, "load")) <= {"4 clients", "all load levels"}
    assert len(tables["block_ratios"].rows) == sum(
        len(each.block_ratios) for each in (*findings.effects, *findings.placebo)
    )


def test_nothing_of_the_findings_is_lost(tables: dict[str, Table], findings: Findings) -> None:
    assert len(tables["runs"].rows) == len(findings.runs)
    assert len(tables["observations"].rows) == len(findings.observations)
    assert len(tables["phases"].rows) == sum(len(run.phases) for run in findings.runs)
    assert len(tables["series"].rows) == sum(len(each.t) for each in findings.series)
    assert len(tables["waits"].rows) == len(findings.waits)
    counts = [count for one in findings.latency_maps for column in one.counts for count in column]
    assert sum(counts) > 0
    assert column(tables["latency_maps"], "count") == [count for count in counts if count]
    assert column(tables["runs"], "started") == [run.started for run in findings.runs]
    assert dict(row[1:] for row in tables["experiment"].rows)["verdict"] == findings.hypothesis.verdict


def test_observations_have_their_units(tables: dict[str, Table]) -> None:
    units = dict(zip(column(tables["observations"], "metric"), column(tables["observations"], "unit"), strict=True))

    assert units["pgbench.tps"] == "1/s"
    assert units["pgbench.latency_p95"] == "s"
    assert units["cost.wal_bytes"] == "B"


def test_columns_of_all_tables_are_described_once(tables: dict[str, Table]) -> None:
    described = describe_columns(tuple(tables.values()))

    assert [row[:2] for row in described.rows] == [
        (table.name, each.name) for table in tables.values() for each in table.columns
    ]
    assert ("effects", "ratio", "number", "ratio", "arm / control") in described.rows
