"""Latencies that are told in steps, and what a percentile of them leaves unsaid."""

import math

import numpy as np
import pytest

from pgtrial.model.histogram import FINE, bucket_of
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.steps import bound_steps, find_step, step_reach

GAMMA_DRAWS = np.random.default_rng(1).gamma(4, 0.25, 4000)


def buckets_of(latencies):
    return [bucket_of(each * 1e6) for each in latencies]


@pytest.mark.parametrize(("step", "mean"), [(1e-3, 3e-3), (1e-2, 0.1), (1e-4, 5e-4), (1e-6, 2e-5), (1.0, 8.0)])
def test_the_step_of_rounded_latencies_is_found(step: float, mean: float) -> None:
    rounded = np.maximum(1, np.round(mean * GAMMA_DRAWS / step)) * step

    assert find_step(buckets_of(rounded)) == pytest.approx(step)


@pytest.mark.parametrize("mean", [1.5e-3, 4.2e-3, 0.08, 3.0])
def test_latencies_of_any_length_have_no_step(mean: float) -> None:
    assert find_step(buckets_of(mean * GAMMA_DRAWS)) == 0.0


def test_nothing_is_said_of_few_latencies_of_long_ones_and_of_the_buckets_of_fio() -> None:
    assert find_step([]) == 0.0
    assert find_step(buckets_of([0.003])) == 0.0
    assert find_step(buckets_of([0.0, 0.003, 0.004])) == 0.0
    # In whole milliseconds: a bucket of 1 % is as wide as that.
    assert step_reach(1e-3, 0.12) == 0.0
    assert find_step([FINE + 700, FINE + 900]) == 0.0


def test_a_percentile_of_3_ms_in_whole_milliseconds_may_be_off_by_a_third() -> None:
    assert math.exp(step_reach(1e-3, 3e-3)) == pytest.approx(4 / 3)


def test_the_interval_is_wider_by_the_step_where_an_arms_runs_are_rounded_alike() -> None:
    # The arms lie a step apart, but each arm's runs hardly differ.
    control, treated = 3e-3 * np.exp(np.array([1, -1, 2, -2, 1, -1]) / 1000), np.full(6, 4e-3)
    plain = compare_blocks(control, treated)
    found = bound_steps(plain, (control, treated), reach=math.log(4 / 3))
    assert plain.low is not None
    assert found.low is not None

    assert found.ratio == plain.ratio
    assert found.low == pytest.approx(plain.low * 3 / 4)
    assert found.step == pytest.approx(math.log(4 / 3))
    assert "coarse-latencies" in [each.code for each in found.caveats]


def test_what_is_rounded_another_way_in_each_block_is_noise_like_any_other() -> None:
    control, treated = np.array([3, 4, 3, 2, 4, 3]) * 1e-3, np.array([4, 3, 3, 4, 2, 4]) * 1e-3
    plain = compare_blocks(control, treated)

    assert bound_steps(plain, (control, treated), reach=math.log(4 / 3)) == plain
    assert bound_steps(plain, (control, treated), reach=0.0) == plain
