import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgtrial.stats.equivalence import Region, find_region
from pgtrial.stats.paired import compare_blocks

# Additional sleep in hours under two drugs. Student, Biometrika 6 (1908) 20; R's data set "sleep".
SLEEP_1 = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SLEEP_2 = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])

observations = st.lists(
    st.tuples(st.floats(min_value=1, max_value=1000), st.floats(min_value=1, max_value=1000)), min_size=2, max_size=14
)


def codes(comparison):
    return [caveat.code for caveat in comparison.caveats]


def numbers(comparison):
    return [getattr(comparison, name) for name in ("ratio", "low", "high", "hodges_lehmann", "hl_low", "hl_high")]


def test_t_of_students_sleep_data():
    # R: t.test(extra ~ group, sleep, paired = TRUE) gives t = -4.0621, df = 9, p-value = 0.002833,
    # interval -2.4598858 to -0.7001142, mean of the differences -1.58.
    comparison = compare_blocks(np.exp(SLEEP_2), np.exp(SLEEP_1))

    assert comparison.p_value == pytest.approx(0.002833, abs=5e-7)
    assert math.log(comparison.ratio) == pytest.approx(-1.58)
    assert math.log(comparison.low) == pytest.approx(-2.4598858, abs=5e-8)
    assert math.log(comparison.high) == pytest.approx(-0.7001142, abs=5e-8)
    t = math.log(comparison.ratio) / (comparison.sd_log_ratio / math.sqrt(comparison.blocks))
    assert t == pytest.approx(-4.0621, abs=5e-5)


def test_p_value_and_interval_agree_with_scipy():
    rng = np.random.default_rng(3)
    control, treated = np.exp(rng.normal(3, 0.2, (2, 7)))
    oracle = stats.ttest_rel(np.log(treated), np.log(control))
    low, high = oracle.confidence_interval(0.9)

    comparison = compare_blocks(control, treated, confidence=0.9)

    assert comparison.p_value == pytest.approx(oracle.pvalue)
    assert (comparison.low, comparison.high) == pytest.approx((math.exp(low), math.exp(high)))


@given(observations, st.floats(min_value=0.01, max_value=100))
def test_scaling_an_arm_scales_the_ratio_and_scaling_both_changes_nothing(pairs, factor):
    control, treated = np.array(pairs).T
    plain = compare_blocks(control, treated)

    scaled = compare_blocks(control, treated * factor)
    both = compare_blocks(control * factor, treated * factor)

    for one, other, same in zip(numbers(plain), numbers(scaled), numbers(both), strict=True):
        assert (one is None) == (other is None) == (same is None)
        if one is not None:
            assert other == pytest.approx(one * factor, rel=1e-7)
            assert same == pytest.approx(one, rel=1e-7)


@given(observations)
def test_swapping_the_arms_inverts_the_ratio(pairs):
    control, treated = np.array(pairs).T

    there, back = compare_blocks(control, treated), compare_blocks(treated, control)

    assert back.ratio == pytest.approx(1 / there.ratio)
    assert back.hodges_lehmann == pytest.approx(1 / there.hodges_lehmann)
    assert back.p_sign_flip == there.p_sign_flip
    assert back.p_value == (None if there.p_value is None else pytest.approx(there.p_value))
    for low, high in ((there.low, back.high), (there.high, back.low), (there.hl_low, back.hl_high)):
        assert high == (None if low is None else pytest.approx(1 / low))


@given(observations, st.randoms(use_true_random=False))
def test_the_order_of_the_blocks_changes_no_number(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)

    one, other = (compare_blocks(*np.array(rows).T) for rows in (pairs, shuffled))

    assert numbers(one) == numbers(other)
    assert (one.p_value, one.p_sign_flip, one.sd_log_ratio) == (other.p_value, other.p_sign_flip, other.sd_log_ratio)


@given(observations)
def test_estimate_lies_in_its_interval_and_more_confidence_widens_it(pairs):
    control, treated = np.array(pairs).T
    plain, wide = compare_blocks(control, treated), compare_blocks(control, treated, comparisons=3)

    if plain.low is not None:
        assert wide.low < plain.low <= plain.ratio <= plain.high < wide.high
    if wide.hl_low is not None:
        assert wide.hl_low <= plain.hl_low <= plain.hodges_lehmann <= plain.hl_high <= wide.hl_high


def test_comparisons_make_the_interval_simultaneous():
    control, treated = np.array([100.0, 104, 98, 101, 99, 103]), np.array([105.0, 107, 101, 109, 103, 104])

    third = compare_blocks(control, treated, confidence=0.94, comparisons=3)
    alone = compare_blocks(control, treated, confidence=0.98)

    assert (third.low, third.high) == pytest.approx((alone.low, alone.high))
    assert third.alpha == pytest.approx(alone.alpha)
    assert third.p_value == alone.p_value


def test_a_block_without_one_of_its_observations_is_left_out_and_named():
    comparison = compare_blocks([100, math.nan, 102, 98, math.nan], [101, 103, 107, 99, math.nan])
    without = compare_blocks([100, 102, 98], [101, 107, 99])

    assert comparison.blocks == 3
    assert numbers(comparison) == numbers(without)
    assert codes(comparison) == ["missing-blocks", "few-blocks"]
    assert "observation: 1." in comparison.caveats[0].text


def test_blocks_that_were_not_run_are_no_caveat():
    comparison = compare_blocks([*range(100, 108), math.nan], [*range(101, 109), math.nan])

    assert "missing-blocks" not in codes(comparison)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf])
def test_an_observation_without_logarithm_is_not_dropped_but_stops_the_comparison(bad):
    comparison = compare_blocks([100, 101, 102], [100, bad, 102])

    assert codes(comparison) == ["no-log-ratio"]
    assert "1 of 3" in comparison.caveats[0].text
    assert numbers(comparison) == [None] * 6
    assert comparison.blocks == 3


def test_one_block_has_a_ratio_but_no_interval():
    comparison = compare_blocks([100], [110])

    assert comparison.ratio == pytest.approx(1.1)
    assert comparison.hodges_lehmann == pytest.approx(1.1)
    assert (comparison.low, comparison.p_value, comparison.p_sign_flip, comparison.sd_log_ratio) == (None,) * 4
    assert codes(comparison) == ["no-interval"]


def test_no_block_has_no_ratio():
    comparison = compare_blocks([], [])

    assert comparison.ratio is None
    assert comparison.blocks == 0
    assert codes(comparison) == ["no-interval"]


def test_equal_ratios_in_all_blocks_give_no_interval():
    comparison = compare_blocks([100, 110, 121, 90, 80, 70], [200, 220, 242, 180, 160, 140])

    assert comparison.ratio == pytest.approx(2)
    assert (comparison.low, comparison.high, comparison.p_value) == (None, None, None)
    assert comparison.p_sign_flip == 2 / 64
    assert codes(comparison) == ["zero-variance"]


@pytest.mark.parametrize(("blocks", "expected"), [(5, ["few-blocks"]), (6, [])])
def test_few_blocks_are_a_caveat(blocks, expected):
    treated = [101, 104, 99, 103, 100, 105][:blocks]

    assert codes(compare_blocks([100] * blocks, treated)) == expected


def test_an_outlier_that_hides_a_consistent_effect_is_a_disagreement():
    treated = [105, 106, 104, 105, 107, 106, 104, 300]
    comparison = compare_blocks([100] * 8, treated)

    assert comparison.p_value > 0.05 > comparison.p_sign_flip
    assert "methods-disagree" in codes(comparison)


def test_with_so_few_blocks_that_only_t_can_decide_there_is_no_disagreement():
    comparison = compare_blocks([100] * 5, [110, 111, 109, 110, 112])

    assert comparison.p_value < 0.05 < comparison.p_sign_flip
    assert codes(comparison) == ["few-blocks"]


@pytest.mark.parametrize(("treated", "confidence", "comparisons"), [([1, 1e5], 0.99, 4), ([1e-6, 1], 0.999, 1)])
def test_an_interval_that_is_wider_than_numbers_reach_decides_nothing(treated, confidence, comparisons):
    comparison = compare_blocks([1, 1], treated, confidence=confidence, comparisons=comparisons)

    assert 0 < comparison.low < 1e-300
    assert 1e300 < comparison.high < math.inf
    assert find_region(comparison, bounds=(-0.03, 0.03)) is Region.UNCLEAR


def test_caveats_of_the_order_travel_with_the_comparison():
    comparison = compare_blocks(np.full(10, 100.0), 100 * 1.01 ** np.arange(10))

    assert {"drift", "autocorrelated-blocks"} <= set(codes(comparison))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: compare_blocks([1, 2], [1, 2, 3]),
        lambda: compare_blocks([[1, 2]], [[1, 2]]),
        lambda: compare_blocks([1, 2], [1, 2], confidence=95),
        lambda: compare_blocks([1, 2], [1, 2], comparisons=0),
    ],
)
def test_wrong_arguments_are_errors(wrong):
    with pytest.raises(ValueError, match="expected"):
        wrong()
