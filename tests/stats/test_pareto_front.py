import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from pgtrial.stats.pareto_front import pareto_optimal, rank_arms

tables = st.integers(1, 4).flatmap(
    lambda criteria: st.lists(
        st.lists(st.integers(0, 4).map(float), min_size=criteria, max_size=criteria), min_size=1, max_size=6
    )
)


def seeded():
    return np.random.default_rng(5)


def blocks(means, noise, count=8):
    means = np.array(means, float)
    return means + seeded().normal(0, noise, (count, *means.shape))


@given(tables)
def test_an_arm_is_optimal_if_no_other_dominates_it(values):
    def dominates(one, other):
        return all(a >= b for a, b in zip(one, other, strict=True)) and one != other

    expected = tuple(not any(dominates(other, one) for other in values) for one in values)

    assert pareto_optimal(values, [True] * len(values[0])) == expected
    assert pareto_optimal(-np.array(values), [False] * len(values[0])) == expected


def test_each_criterion_has_its_own_direction():
    # throughput and latency: the second is dominated by the first
    assert pareto_optimal([[100, 5], [90, 6], [80, 3]], [True, False]) == (True, False, True)


def test_an_arm_with_an_unknown_value_is_neither_optimal_nor_dominates():
    assert pareto_optimal([[9, math.nan], [5, 5], [4, 4]], [True, True]) == (False, True, False)


def test_the_score_is_the_weighted_mean_of_the_log_ratios_better_being_positive():
    table = blocks([[0, 0], [0.2, 0.1]], 0)

    control, arm = rank_arms(table, [True, False], [3, 1], rng=seeded())

    assert control.score == 0
    assert arm.score == pytest.approx((3 * 0.2 - 0.1) / 4)


def test_clear_winners_are_certain_and_equal_arms_share():
    table = blocks([[0, 0], [0.5, -0.5]], 0.01)
    table = np.concatenate((table, table[:, :1]), axis=1)

    first, second, third = rank_arms(table, [True, True], [1, 1], rng=seeded())

    assert second.best_in == (1, 0)
    assert first.best_in == third.best_in == (0, 0.5)
    assert first.best_share == third.best_share
    assert first.best_share + second.best_share + third.best_share == pytest.approx(1)


@pytest.mark.parametrize("seen", [[0.3, -0.1, 0.1], [0.1, 0.2], [0.02, 0.05, -0.03, 0.04, 0.0, 0.03]])
def test_with_one_comparison_the_probability_is_that_of_students_t(seen):
    table = np.array(seen)[:, None, None] * np.array([0, 1])[:, None]
    exact = 1 - ttest_1samp(seen, 0, alternative="greater").pvalue

    arm = rank_arms(table, [True], [1], rng=seeded())[1]

    assert arm.best_in[0] == pytest.approx(exact, abs=0.03)
    assert arm.best_share == arm.best_in[0]


def test_two_blocks_that_agree_are_not_sure():
    table = np.array([0.04, 0.2])[:, None, None] * np.array([0, 1])[:, None]

    assert rank_arms(table, [True], [1], rng=seeded())[1].best_share < 0.95


def test_shares_are_close_to_the_probability_that_the_arm_is_better():
    # With noise 0.1 per block and 10 blocks the difference has a standard error of 0.032; the truth is on either side
    # of what was seen as often as the draws say.
    rng, hits, said = seeded(), 0, []
    for _ in range(300):
        true = rng.normal(0, 0.05)
        seen = rng.normal(true, 0.1, 10)
        table = np.stack((np.zeros(10), seen), axis=1)[:, :, None]
        said.append(rank_arms(table, [True], [1], rng=rng, draws=400)[1].best_share)
        hits += true > 0
    assert np.mean(said) == pytest.approx(hits / 300, abs=0.08)


def test_missing_observations_are_left_out_and_unknown_criteria_have_no_winner():
    table = blocks([[0, 0], [0.3, 0.3]], 0.01)
    table[0, 1, 0] = math.nan
    table[:, :, 1] = math.nan

    _, arm = rank_arms(table, [True, True], [1, 0], rng=seeded())

    assert arm.best_in == (1, None)
    assert arm.score == pytest.approx(0.3, abs=0.02)
    assert not arm.is_pareto
    assert rank_arms(table, [True, True], [1, 1], rng=seeded())[1].score is None


def test_one_block_ranks_without_saying_how_sure_it_is():
    found = rank_arms([[[0.0], [0.2]]], [True], [1], rng=seeded())

    assert [one.is_pareto for one in found] == [False, True]
    assert found[1].score == pytest.approx(0.2)
    assert (found[1].best_in, found[1].best_share) == ((None,), None)


@pytest.mark.parametrize("weights", [[0, 0], [1, -1]])
def test_weights_that_are_none_are_an_error(weights):
    with pytest.raises(ValueError, match="weights"):
        rank_arms(blocks([[0, 0]], 0.1), [True, True], weights, rng=seeded())
