import math
import tomllib

import pytest

from pgtrial.design.calibration import (
    FEWEST_BLOCKS,
    CalibrationPlan,
    plan_calibration,
    refit,
    slice_text,
)
from pgtrial.design.method_case import HostFacts
from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment

FACTS = HostFacts(local=True, cores=((0,), (1,), (2,), (3,)), memory_available=16 * 1024**3)
TEXT = """\
format = 1
[experiment]
name = "x"
[target]
[dataset]
scale = 5
[workload]
mix = "select-only"
duration = "30s"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "64MB"
"""


def plan(text: str = TEXT, *, budget: float, facts: HostFacts | None = FACTS) -> CalibrationPlan:
    return plan_calibration(Experiment.model_validate(tomllib.loads(text)), facts, budget=budget)


def labels(found: CalibrationPlan) -> list[str]:
    return [one.label for one in found.candidates]


def test_with_time_every_valid_method_is_calibrated_in_two_portions_of_opposite_order() -> None:
    found = plan(budget=7200)
    names = [part.name for part in found.parts]

    assert labels(found) == ["blocks", "interleaved-5s", "interleaved-1s", "interleaved-500ms", "duet"]
    assert names[:2] == ["blocks-1", "interleaved-5s-1"]
    assert names[-2:] == ["interleaved-5s-2", "blocks-2"]
    assert found.refused == {}


@pytest.mark.parametrize("budget", [600, 900, 1800, 7200])
def test_every_method_has_enough_blocks_and_all_fit_into_the_budget(budget: float) -> None:
    found = plan(budget=budget)

    assert math.fsum(part.seconds for part in found.parts) <= budget
    for one in found.candidates:
        assert sum(part.blocks for part in found.parts if part.candidate == one) >= FEWEST_BLOCKS
        assert one.duration == int(one.duration)


def test_runs_are_as_long_as_the_file_wants_them_or_as_the_budget_allows() -> None:
    assert {(one.duration, one.warmup) for one in plan(budget=4 * 3600).candidates} == {(30, None)}

    blocks = plan(budget=1200).candidates[0]
    assert blocks.duration < 30
    assert blocks.warmup == 2.0  # in proportion it would be less, of the 6 s that "auto" may take


def test_where_time_is_short_slices_are_given_up_before_methods() -> None:
    found = plan(budget=400)

    assert labels(found) == ["blocks", "interleaved-1s", "duet"]
    assert found.refused == dict.fromkeys(
        ["interleaved-5s", "interleaved-500ms"], "there is no time for it in the budget"
    )


def test_a_budget_that_is_too_small_is_refused_with_one_that_is_enough() -> None:
    with pytest.raises(SpecError) as caught:
        plan(budget=60)

    assert caught.value.message.startswith("a budget of 1 min is too small to calibrate blocks, interleaved-1s")
    minutes = int(caught.value.hint.removeprefix("Give --budget ").partition("min")[0])
    assert plan(budget=60 * minutes).parts


def test_what_is_not_valid_for_the_experiment_is_not_calibrated() -> None:
    swappiness = TEXT.replace("[arms.b.postgresql]", '[arms.b.sysctl]\n"vm.swappiness" = 1\n[arms.b.postgresql]')
    found = plan(swappiness, budget=1800)

    assert labels(found) == ["blocks"]
    assert set(found.refused) == {"interleaved", "duet"}
    assert "vm.swappiness" in found.refused["interleaved"]


def test_slices_that_do_not_fit_into_the_files_duration_are_not_calibrated() -> None:
    found = plan(TEXT.replace("30s", "4s"), budget=3600)

    assert "interleaved-5s" not in labels(found)
    assert found.refused["interleaved-5s"] == "it needs runs of 10 s, and those of the file have 4 s"


def test_a_duet_needs_two_cpus() -> None:
    one_cpu = HostFacts(local=True, cores=((0,),), memory_available=None)

    assert "duet" in plan(budget=1800, facts=one_cpu).refused


def test_blocks_are_refitted_to_the_time_that_is_left() -> None:
    assert refit(100, prepare=20, block=9, fewest=3) == 8
    assert refit(10, prepare=20, block=9, fewest=3) == 3
    assert refit(1e9, prepare=1, block=1, fewest=3) == 1000


def test_slices_are_written_as_in_a_file() -> None:
    assert [slice_text(seconds) for seconds in (0.25, 1.0, 2.5)] == ["250ms", "1s", "2.5s"]
