from dataclasses import replace
from typing import Any

import pytest

from pgtrial.design.data_size import estimate_data_size
from pgtrial.design.duration import (
    blocks_for_budget,
    blocks_of,
    estimate_run,
    estimate_total,
    warmup_cap,
)
from pgtrial.design.methods import MethodChoice
from pgtrial.errors import SpecError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment


def experiment(**tables: Any) -> Experiment:
    head = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "olap"}, "arms": {"a": {}, "b": {}}}
    return Experiment.model_validate(head | tables)


def test_the_load_is_counted_per_level_with_its_guard() -> None:
    made = experiment(workload={"mix": "olap", "clients": [10, 100], "duration": "60s", "warmup": "10s"})

    run = estimate_run(made, resolve_arms(made))

    assert run.measure == pytest.approx(60 + 1 + 60 + 2)
    assert run.warmup == 10
    assert run.total == run.restore + run.server + run.warmup + run.checkpoint + run.measure


def test_the_total_is_preparation_and_runs() -> None:
    total = estimate_total(made := experiment(design={"placebo": True}), resolve_arms(made), blocks=4)

    assert total.runs == 12
    assert total.total == pytest.approx(total.prepare + 12 * total.run.total)


def test_larger_data_take_longer_to_put_back_and_no_restore_takes_no_time() -> None:
    small, large = experiment(dataset={"scale": 10}), experiment(dataset={"scale": 1000})
    by_block = experiment(dataset={"scale": 1000}, design={"restore": "each-block"})
    never = experiment(dataset={"scale": 1000}, design={"restore": "never"})

    assert estimate_run(large, resolve_arms(large)).restore > 10 * estimate_run(small, resolve_arms(small)).restore
    assert estimate_run(by_block, resolve_arms(by_block)).restore == pytest.approx(
        estimate_run(large, resolve_arms(large)).restore / 2
    )
    assert estimate_run(never, resolve_arms(never)).restore == 0
    assert estimate_data_size(large, resolve_arms(large)) == pytest.approx(15e9, rel=0.1)


@pytest.mark.parametrize(
    ("warmup", "duration", "cap"),
    [("auto", "10s", 5), ("auto", "60s", 12), ("auto", "2h", 300), ({"cap": "9s"}, "60s", 9), (0, "60s", 0)],
)
def test_the_warm_up_has_a_cap(warmup: object, duration: str, cap: float) -> None:
    made = experiment(workload={"mix": "olap", "warmup": warmup, "duration": duration})

    assert warmup_cap(made.workload) == pytest.approx(cap)


def test_a_budget_becomes_the_blocks_that_fit_into_it() -> None:
    made = experiment(design={"budget": "1h"})

    blocks = blocks_of(made, resolve_arms(made))

    assert (
        estimate_total(made, resolve_arms(made), blocks=blocks).total
        <= 3600
        < estimate_total(made, resolve_arms(made), blocks=blocks + 1).total
    )


def test_a_budget_too_short_for_two_blocks_is_refused_with_what_is_needed() -> None:
    with pytest.raises(SpecError, match="a budget of 1 min is too short for 2 blocks") as caught:
        blocks_for_budget(experiment(), resolve_arms(experiment()), 60)

    assert caught.value.problems[0].path == "design.budget"
    assert "take about" in caught.value.hint


def test_without_a_number_or_a_budget_there_are_six_blocks() -> None:
    assert blocks_of(experiment(), resolve_arms(experiment())) == 6
    assert blocks_of(experiment(design={"blocks": 3}), resolve_arms(experiment())) == 3


def test_arms_that_share_a_block_have_equal_parts_of_it() -> None:
    made = experiment(workload={"mix": "olap", "clients": [10, 100], "duration": "60s", "warmup": 0})
    interleaved = estimate_run(
        made, resolve_arms(made), MethodChoice(method="interleaved", reason="", guard=0.1, slice=1.0)
    )
    duet = estimate_run(made, resolve_arms(made), MethodChoice(method="duet", reason="", guard=1.0, slice=31.0))

    # 66 slices of a second hold 59.4 s of counted time, the nearest that whole rounds come to 60 s.
    assert interleaved.measure == pytest.approx((1 + 2 * 66 + 2 + 2 * 66) / 2)
    assert duet.measure == pytest.approx((1 + 2 * 31 + 2 + 2 * 31) / 2)
    assert interleaved.warmup == duet.warmup == 0


def test_blocks_whose_slices_are_twice_as_long_take_their_own_time() -> None:
    made = experiment(workload={"mix": "olap", "duration": "30s", "warmup": 0}, arms={"a": {}, "b": {}, "c": {}})
    choice = MethodChoice(method="interleaved", reason="", guard=0.1, slice=5.0, doubled=True)

    # A balanced sequence of three arms has six slices of each: 30 s in the odd blocks, 60 s in the even ones.
    assert estimate_run(made, resolve_arms(made), choice).measure == pytest.approx(1 / 3 + (30 + 60) / 2)
    blocks = blocks_for_budget(made, resolve_arms(made), 3600, choice)
    assert blocks < blocks_for_budget(made, resolve_arms(made), 3600, replace(choice, doubled=False))


def test_twins_are_all_put_back_in_each_block() -> None:
    choice = MethodChoice(method="interleaved", reason="", guard=0.1, slice=1.0)
    by_block, never = (experiment(design={"restore": restore}) for restore in ("each-block", "never"))

    assert estimate_run(by_block, resolve_arms(by_block), choice).restore == pytest.approx(
        estimate_run(by_block, resolve_arms(by_block)).restore * 2
    )
    assert estimate_run(never, resolve_arms(never), choice).restore == 0


def test_a_duet_has_more_blocks_in_the_same_time() -> None:
    made = experiment(design={"budget": "1h"})

    duet = MethodChoice(method="duet", reason="", guard=1.0, slice=16.0)
    assert blocks_of(made, resolve_arms(made), duet) > 1.5 * blocks_of(made, resolve_arms(made))
    assert (
        estimate_total(made, resolve_arms(made), blocks=blocks_of(made, resolve_arms(made), duet), choice=duet).total
        <= 3600
    )
