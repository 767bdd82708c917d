import ast
import importlib
import math
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pgtrial.collectors
from pgtrial.collectors import COLLECTORS, WATCHED, Collector
from pgtrial.collectors.base import (
    ConsoleCollector,
    FileCollector,
    ProcessCollector,
    QueryCollector,
    Reading,
    find_statement,
    in_schema,
)

FOLDER = Path(pgtrial.collectors.__file__).parent
SQL = sorted(path.name for path in (FOLDER / "sql").iterdir())
SUPPORTED = (120022, 130023, 140023, 150018, 160014, 170010, 180004)  # by a watch; experiments begin with 15

IO = QueryCollector(name="io", metrics=())
EVERY = tuple({collector.name: collector for collector in (*COLLECTORS, *WATCHED)}.values())
QUERIES = {c.name for c in EVERY if not isinstance(c, FileCollector | ProcessCollector | ConsoleCollector)}


def declared_by_module() -> dict[str, list[Collector]]:
    modules = {
        path.stem: importlib.import_module(f"pgtrial.collectors.{path.stem}") for path in FOLDER.glob("[!_]*.py")
    }
    names = ("COLLECTOR", "COLLECTORS", "STALLS", "WATCHED")
    found = {name: [getattr(module, each, ()) for each in names] for name, module in modules.items()}
    return {
        name: [one for some in several for one in (some if isinstance(some, tuple) else (some,))]
        for name, several in found.items()
    }


def test_every_collector_of_a_module_is_registered_once() -> None:
    declared = [collector for found in declared_by_module().values() for collector in found]

    assert sorted(map(id, declared)) == sorted(map(id, {*COLLECTORS, *WATCHED}))
    assert len({*COLLECTORS}) == len(COLLECTORS)
    assert len({*WATCHED}) == len(WATCHED)


def test_every_parser_of_a_file_of_the_kernel_is_tested_on_captured_text() -> None:
    """As far as one can see: a test here imports its module."""
    wanted = {name for name, found in declared_by_module().items() if any(isinstance(c, FileCollector) for c in found)}

    assert sorted(wanted - imported_by_tests()) == []


def imported_by_tests() -> set[str]:
    """Modules of pgtrial.collectors that another test of this folder imports."""
    tests = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    imports = [
        node
        for path in tests
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module is not None
    ]
    package = pgtrial.collectors.__name__
    modules = {name.name for node in imports if node.module == package for name in node.names}
    return modules | {str(node.module).removeprefix(f"{package}.") for node in imports}


def test_names_of_collectors_and_of_metrics_are_unique() -> None:
    names = [collector.name for collector in {*COLLECTORS, *WATCHED}]
    metrics = [metric for collector in COLLECTORS for metric in collector.metrics]
    counts = Counter(metric.name for metric in metrics)

    assert len(set(names)) == len(names)
    # The versions of control groups have different files for the same metric, which is then the same in all.
    assert {name.partition(".")[0] for name, count in counts.items() if count > 1} == {"cgroup"}
    assert len(set(metrics)) == len(counts)


def test_metrics_are_in_base_units() -> None:
    assert {metric.unit for collector in COLLECTORS for metric in collector.metrics} == {"", "s", "B"}


@pytest.mark.parametrize("name", SQL)
def test_every_statement_belongs_to_a_collector(name: str) -> None:
    match = re.fullmatch(r"(?P<collector>\w+)\.pg(?P<major>\d+)\.sql", name)

    assert match is not None
    assert match["collector"] in QUERIES
    assert 12 <= int(match["major"]) <= 18


@pytest.mark.parametrize("version_num", SUPPORTED)
def test_every_query_has_a_statement_for_every_version_that_has_its_view(version_num: int) -> None:
    without = {name for name in QUERIES if find_statement(name, version_num) is None}

    began = {"pg_stat_io": 16, "pg_stat_wal": 14, "pg_stat_slru": 13, "pg_stat_progress_analyze": 13}
    missing = {name for name, major in began.items() if version_num // 10000 < major}
    # No watch reads it.
    assert without - {"pg_buffercache"} == missing
    assert ("pg_buffercache" in without) == (version_num < 150000)


def test_a_statement_of_an_older_version_asks_for_nothing_that_came_later() -> None:
    later = {
        "toplevel": 14,
        "waitstart": 14,
        "query_id,": 14,
        "session_time": 14,
        "total_exec_time": 13,
        "pg_stat_wal": 14,
    }
    for name in QUERIES:
        for version_num in SUPPORTED:
            text = find_statement(name, version_num) or ""
            assert not [word for word, major in later.items() if word in text and version_num // 10000 < major], name


def test_newest_statement_not_above_the_server_wins() -> None:
    texts = {version: find_statement("pg_stat_wal", version) for version in (150000, 170099, 180000, 990000)}

    assert texts[150000] == texts[170099]
    assert "wal_write" in (texts[170099] or "")
    assert "wal_write" not in (texts[180000] or "")
    assert texts[990000] == texts[180000]


def test_server_older_than_every_statement_has_none() -> None:
    assert find_statement("pg_stat_wal", 130023) is None


def test_extension_may_lie_in_any_schema() -> None:
    text = find_statement("pg_stat_statements", 150018)
    assert text is not None

    assert 'FROM "of DBAs".pg_stat_statements(' in in_schema(text, '"of DBAs"')
    assert "@extschema@" not in in_schema(text, "public")


def test_null_is_no_reading() -> None:
    assert list(IO.parse(["reads", "writes"], [[None, "0"]])) == [Reading("io.writes", "", 0.0)]


def test_rows_are_told_apart_by_their_object() -> None:
    readings = list(IO.parse(["reads", "object"], [["1", "wal"], ["2", "relation"]]))

    assert readings == [Reading("io.reads", "wal", 1.0), Reading("io.reads", "relation", 2.0)]


@given(
    st.dictionaries(st.text("abcdefg", min_size=1), st.none() | st.integers(0, 2**63), min_size=1),
    st.randoms(use_true_random=False),
)
def test_order_of_columns_does_not_matter(row: dict[str, int | None], random: Random) -> None:
    columns = random.sample(list(row), len(row))

    readings = IO.parse(columns, [[None if row[name] is None else str(row[name]) for name in columns]])

    found = {reading.metric: reading.value for reading in readings}
    assert found.keys() == {f"io.{name}" for name, value in row.items() if value is not None}
    assert all(math.isclose(found[f"io.{name}"], value) for name, value in row.items() if value is not None)
