"""The methods before are those of the commit that was audited: numbers that its own code gave."""

import math
import random

import numpy as np
import pytest

from calibration.before import blocks_needed_before, combine_before, planned_as_before, turns_before
from calibration.trials import plan_trial
from pgtrial.stats.paired import compare_blocks


def test_the_order_was_that_which_the_audit_found() -> None:
    slots = planned_as_before(plan_trial(random.Random(2), blocks=40)).slots
    first = "".join(slot.arm for slot in slots if slot.position == 1)

    assert first.startswith("baabbb")
    assert (first.count("b"), first.count("a")) == (26, 14)
    assert "b" * 13 in first


def test_the_turns_of_a_block_were_these() -> None:
    evidence = plan_trial(random.Random(2), method="interleaved", duration=10)

    found = ["".join(step.arms[0] for step in turns_before(evidence, block)) for block in (1, 2)]

    assert found == ["abbaabbaabbaabbaabbaabba", "abbabaababbaabbabaababba"]


@pytest.mark.parametrize(
    ("ratios", "needed"),
    [
        ([1.02, 0.97, 1.05, 0.99, 1.03, 0.96], 6),
        ([0.93, 0.99, 0.96, 1.01, 0.95, 0.98], None),  # so near to the bound that 1,000 would not do
    ],
)
def test_so_many_blocks_were_named(ratios: list[float], needed: int | None) -> None:
    comparison = compare_blocks(np.ones(6), ratios)

    assert blocks_needed_before(comparison, bound=math.log1p(-0.03)) == needed


@pytest.mark.parametrize(
    ("effects", "errors", "interval", "prediction"),
    [
        (
            [0.08, 0.1, 0.13, 0.09],
            [0.01, 0.02, 0.015, 0.012],
            (0.0631797097966412, 0.13288965406556352),
            (0.01137767386438665, 0.18469168999781807),
        ),
        (
            [0.101, 0.1, 0.099],
            [0.01, 0.02, 0.015],
            (0.06727397499534626, 0.13338176270957175),
            (0.002716100239955402, 0.19793963746496263),
        ),
    ],
)
def test_experiments_were_combined_to_these_intervals(
    effects: list[float], errors: list[float], interval: tuple[float, float], prediction: tuple[float, float]
) -> None:
    found = combine_before(effects, errors)

    assert (found.interval.low, found.interval.high) == pytest.approx(interval, rel=1e-8)
    assert (found.prediction.low, found.prediction.high) == pytest.approx(prediction, rel=1e-8)
