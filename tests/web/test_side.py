import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.findings import Findings
from pgtrial.web.side import side_by_side
from support import EXPERIMENT, Simulation, write_result_folder


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, Findings]:
    """The same question asked twice, the second time with longer runs and fewer blocks."""
    root = tmp_path_factory.mktemp("two")
    other = Simulation(seed=2, tps={"on": 500.0, "off": 600.0})
    text = (
        EXPERIMENT.replace("blocks = 6", "blocks = 4")
        .replace('name = "commit"', 'name = "again"')
        .replace('"10s"', '"20s"')
    )
    return (
        analyze(write_result_folder(root / "first")),
        analyze(write_result_folder(root / "second", text=text, simulation=other)),
    )


def test_what_differs_between_the_worlds_is_listed_and_nothing_else(two: tuple[Findings, Findings]) -> None:
    world = side_by_side(*two)["world"]

    assert ["load: duration", "10 s per load level", "20 s per load level"] in world
    assert all(first != second for _, first, second in world)
    assert side_by_side(two[0], two[0])["world"] == []


def test_effects_stand_beside_each_other_as_their_own_reports_have_them(two: tuple[Findings, Findings]) -> None:
    found = side_by_side(*two)
    (row,) = (one for one in found["effects"] if (one["arm"], one["what"]) == ("off", "throughput, 4 clients"))
    first, second = row["cells"]

    assert ["experiment", "commit", "again"] in found["facts"]
    assert (first["blocks"], second["blocks"]) == (6, 4)
    assert first["decision"] == second["decision"] == "better"
    assert first["text"] != second["text"]


def test_what_one_does_not_have_is_left_open(two: tuple[Findings, Findings]) -> None:
    first, second = two
    without = second.model_copy(update={"placebo": ()})
    rows = [one for one in side_by_side(first, without)["effects"] if one["arm"] == "placebo"]

    assert rows
    assert all(row["cells"][1] is None for row in rows)


def test_a_time_that_is_none_is_left_out(two: tuple[Findings, Findings]) -> None:
    first, second = two
    late = second.model_copy(update={"experiment": second.experiment.model_copy(update={"started": 1e300})})

    assert ["started", "2026-01-01 00:00 UTC", ""] in side_by_side(first, late)["facts"]
