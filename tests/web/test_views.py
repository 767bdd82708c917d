import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.engine.folder import lock_folder
from pgtrial.engine.live.view import ArmView, LiveFile
from pgtrial.findings.findings import Findings
from pgtrial.model.arm import Role
from pgtrial.web.folders import Shelf
from pgtrial.web.views import describe, describe_view, side_by_side
from support import EXPERIMENT, Simulation, write_result_folder
from support.live import make_estimate, make_view

VIEW = make_view(
    [
        ArmView(
            name=name,
            role=role,
            is_at_work=name == "off",
            runs_done=2,
            tps_now=1000.0,
            p95_now=0.005,
            tps=(1000.0, None, 900.0),
            p95=(0.005,),
            waits=(("CPU", 3.0), ("IO:WALSync", 1.0)),
        )
        for name, role in (("on", Role.CONTROL), ("off", Role.CANDIDATE), ("placebo", Role.PLACEBO))
    ],
    make_estimate(1.5, 1.4, 1.6),
    run=8,
    block=3,
    spent=3.0,
    length=11.0,
    tps=1000.0,
    remaining=100.0,
    share_done=0.4,
)


def test_words_and_figures_are_ready_to_be_shown() -> None:
    found = describe_view(VIEW)

    assert found["progress"] == ["run 8 of 18", "block 3", "arm off", "measure 4 clients 3/11 s", "1 k tps"]
    assert (found["done"], found["left"]) == ("40.0 %", "1 min 40 s left")
    assert [arm["colour"] for arm in found["arms"]] == ["#0072B2", "#D55E00", "#8A8A8A"]
    assert found["arms"][0]["waits"][0] == {"label": "CPU", "share": 0.75, "text": "75.0 %"}
    assert found["estimate"]["text"].replace("\u00a0", " ") == (
        "off against on, throughput: +50.0 % (95 % interval +40.0 % to +60.0 %) after 3 blocks; margin ±5 %"
    )
    assert json.loads(json.dumps(found, allow_nan=False))


def test_hostile_texts_come_out_visible() -> None:
    arm = replace(VIEW.arms[0], name="<script>\x1b[2J", waits=(("\u202e", 1.0),))
    found = describe_view(replace(VIEW, arms=(arm,)))

    assert found["arms"][0]["name"] == "<script>\\x1b[2J"
    assert found["arms"][0]["waits"][0]["label"] == "\\u202e"


@pytest.mark.parametrize("locked", [True, False])
def test_what_a_killed_pgtrial_left_is_not_shown(tmp_path: Path, locked: bool) -> None:
    folder = write_result_folder(tmp_path / "first", runs=7)
    LiveFile(folder=folder).write(VIEW)
    shelf = Shelf(root=tmp_path)
    with lock_folder(folder) if locked else contextlib.nullcontext():
        (place,) = shelf.places()
        found = describe(place, shelf.summary(place))

    assert (found["live"] is not None) == locked
    assert found["experiment"]["state"] == ("running" if locked else "interrupted")


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
    assert (first["decision"], second["decision"]) == ("better", "inconclusive")  # four blocks decide nothing
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
