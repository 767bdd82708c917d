"""The generated documents and the shipped examples agree with the models."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.fields import render_schema
from pgtrial.findings.catalogue import ENTRIES
from pgtrial.knobs import KnobTables
from pgtrial.knobs.fio import FileWork
from pgtrial.knobs.values import Table
from support.experiments import load_experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    found = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_page_that_is_written_from_the_code_is_up_to_date(generator: ModuleType) -> None:
    written = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in generator.PAGES}

    stale = [name for name, render in generator.PAGES.items() if render() != written[name]]
    assert stale == [], "make pages writes them"


def test_the_page_of_the_caveats_has_all_of_the_catalogue(generator: ModuleType) -> None:
    told = {code for table in generator.CAVEAT_TABLES.values() for code in table}

    assert {code for code, entry in ENTRIES.items() if entry.when} - told == set()


def test_the_tables_of_the_statistics_are_those_that_were_measured(generator: ModuleType) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text()

    assert page == generator.render_statistics(page)
    table = page.partition("## What an audit found")[2].partition("\n## ")[0]
    assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][1:] == [
        f"| {number}" for number in range(1, 26)
    ]


def all_tables(model: type[Table] = Table) -> set[type[Table]]:
    below = model.__subclasses__()
    return set(below).union(*map(all_tables, below))


def test_the_reference_page_has_every_table_once(generator: ModuleType) -> None:
    shown = [model for _, model in generator.TABLES]

    # The file itself and what several tables have in common have no heading; a list of hosts is another file.
    others = {table for table in all_tables() if table.__module__.startswith("pgtrial.fleet.")}
    assert set(shown) == all_tables() - {Experiment, KnobTables, FileWork} - others
    assert len(shown) == len(set(shown))


def test_every_key_has_a_description() -> None:
    for model in all_tables():
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name}"


def test_the_schema_allows_what_the_file_allows() -> None:
    schema = json.loads(render_schema())
    duration = schema["$defs"]["WorkloadTable"]["properties"]["duration"]

    assert {form["type"] for form in duration["anyOf"]} == {"string", "number"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.toml")), ids=lambda path: path.stem)
def test_every_example_is_without_error(path: Path) -> None:
    assert load_experiment(path).experiment.experiment.name


def test_the_first_example_is_what_init_writes() -> None:
    shipped = ROOT / "src" / "pgtrial" / "cli" / "example.toml"

    assert (ROOT / "examples" / "first.toml").read_text() == shipped.read_text()
