import importlib.util
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgtrial.export import xlsx
from pgtrial.export.tables import ColumnType, describe_columns, tables_of
from pgtrial.export.xlsx import head_of, render_xlsx
from pgtrial.safe_text import make_visible


def _load(name: str):
    """A module beside this one; what pytest imports by its path does not find its neighbours."""
    found = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


workbook = _load("workbook")
Workbook = workbook.Workbook


def shorten(findings):
    """With few of the points that the report draws: writing and reading thousands of cells takes most of the time."""
    distributions = [one for one in findings.distributions if one.scenario is None and one.load_level == "all"]
    return findings.model_copy(update={"series": findings.series[:1], "distributions": tuple(distributions)})


@pytest.fixture(scope="session")
def sample(sample):
    return shorten(sample)


@pytest.fixture(scope="module")
def content(sample) -> bytes:
    return render_xlsx(sample)


@pytest.fixture(scope="module")
def book(content):
    return Workbook(content)


@pytest.fixture(scope="module")
def hostile_book(hostile):
    return Workbook(render_xlsx(shorten(hostile)))


def test_there_is_a_sheet_for_each_table_and_one_that_explains_the_columns(book, sample):
    tables = tables_of(sample)
    names = [each.name.replace("_", " ") for each in (*tables, describe_columns(tables))]

    assert list(book.sheets) == names
    assert all(len(name) <= 31 for name in book.sheets)


def test_every_value_reads_back_with_its_own_type(book, sample):
    for each in tables_of(sample):
        cells = book.sheets[each.name.replace("_", " ")]
        for row, values in enumerate(each.rows, start=1):
            for place, (column, value) in enumerate(zip(each.columns, values, strict=True)):
                check_cell(cells.get((row, place)), column.kind, value)


def check_cell(cell, kind: ColumnType, value: object) -> None:
    if value is None or value == "":
        assert cell is None or cell.value == ""
    elif kind is ColumnType.TEXT:
        assert (cell.kind, cell.value) == ("s", make_visible(value, keep="\n"))
    elif kind is ColumnType.TRUTH:
        assert (cell.kind, cell.value) == ("b", value)
    elif kind is ColumnType.TIME:
        moment = datetime(1899, 12, 30, tzinfo=UTC) + timedelta(days=cell.value)
        assert cell.kind == "n"
        assert abs(moment.timestamp() - value) < 0.01
        assert cell.code == "yyyy-mm-dd hh:mm:ss.000"
    else:
        assert cell.kind == "n"
        assert cell.value == pytest.approx(value, rel=1e-12)


def test_units_stand_in_the_heads_and_numbers_have_formats(book):
    heads = book.table("runs")[0]

    assert heads[8:] == ["started (UTC)", "ended (UTC)", "tps (1/s)", "overhead (s)"]
    assert book.sheets["runs"][1, 10].code == "#,##0.0"
    assert book.sheets["effects"][1, 8].code == "0.0000"
    assert book.sheets["effects"][1, 11].code == "0.0%"


def test_heads_stay_in_sight_and_tables_can_be_filtered(book):
    for name in book.sheets:
        sheet = book.xml(book.parts[name])
        pane = sheet.find(f".//{workbook.MAIN}pane")
        assert (pane.get("ySplit"), pane.get("state")) == ("1", "frozen"), name
        assert sheet.find(f"{workbook.MAIN}autoFilter") is not None, name


def test_no_name_becomes_a_formula_a_link_or_a_number(hostile_book):
    assert not [name for name in hostile_book.archive.namelist() if "externalLink" in name]
    for name, part in hostile_book.parts.items():
        sheet = hostile_book.xml(part)
        assert sheet.find(f".//{workbook.MAIN}f") is None, name
        assert sheet.find(f".//{workbook.MAIN}hyperlink") is None, name
    arms = {cell.value: cell for (_, column), cell in hostile_book.sheets["arms"].items() if column == 0}
    formula = next(cell for value, cell in arms.items() if value.startswith("="))
    assert (formula.kind, formula.is_quoted) == ("s", True)


def test_hidden_characters_are_written_out_everywhere(hostile_book):
    for name in hostile_book.archive.namelist():
        text = hostile_book.archive.read(name).decode()
        assert "\x1b" not in text, name
        assert "\u202e" not in text, name
        assert "_x001B_" not in text, name


def test_an_experiment_in_which_nothing_has_run_has_its_facts(minimal):
    book = Workbook(render_xlsx(minimal))

    assert book.table("experiment")[1] == ["answer", "verdict", "invalid"]


def test_the_same_findings_give_the_same_bytes(content, sample):
    assert render_xlsx(sample) == content


def test_a_text_that_no_cell_can_hold_is_cut(minimal):
    long = minimal.model_copy(
        update={"experiment": minimal.experiment.model_copy(update={"description": "x" * 40_000})}
    )

    book = Workbook(render_xlsx(long))

    longest = max((str(row[2]) for row in book.table("experiment")), key=len)
    assert len(longest) == 32_767
    assert longest.endswith("x…")


def test_a_sheet_says_how_many_rows_it_cannot_hold(sample, monkeypatch):
    monkeypatch.setattr(xlsx, "MOST_ROWS", 5)

    *rows, last = Workbook(render_xlsx(sample)).table("series")

    assert len(rows) == 6
    left_out = len(next(each for each in tables_of(sample) if each.name == "series").rows) - 5
    assert last[0] == f"{left_out} more rows are left out; the formats csv, parquet and jsonl have all"


@pytest.mark.parametrize(("value", "there"), [(math.nan, False), (math.inf, False), (1.5, True)])
def test_what_is_no_number_has_no_cell(sample, value, there):
    runs = (sample.runs[0].model_copy(update={"tps": value}),)

    book = Workbook(render_xlsx(sample.model_copy(update={"runs": runs})))

    assert ((1, 10) in book.sheets["runs"]) == there


def test_a_head_names_its_unit_once():
    from pgtrial.export.tables.base import number, time

    assert head_of(number("latency", "", "s")) == "latency (s)"
    assert head_of(number("sessions", "", "sessions")) == "sessions"
    assert head_of(number("p_value", "", "probability")) == "p value"
    assert head_of(time("started", "")) == "started (UTC)"
