import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgtrial.stats.dependence import autocorrelation, drift, lag1, order_caveats

series = st.lists(st.floats(-100, 100), min_size=3, max_size=25, unique=True)
VALUES = [3.2, 1.1, 4.5, 2.2, 5.9, 6.1, 4.4, 8.0]


def codes(values):
    return [caveat.code for caveat in order_caveats(values)]


@given(series)
def test_drift_agrees_with_scipy(values):
    trend = drift(values)

    assert trend.slope_per_block == pytest.approx(stats.theilslopes(values).slope)
    assert trend.p_value == pytest.approx(stats.kendalltau(range(len(values)), values, method="exact").pvalue)


def test_ties_are_corrected_in_the_mann_kendall_test():
    # Worked by hand in J. Little, "A Mann-Kendall Example" (College of the Holy Cross):
    # S = 54, V = 14·13·33/18 - 2·1·9/18, Z = (S - 1)/sqrt(V) = 2.9058.
    values = [12.9, 14.8, 13.2, 15.7, 13.8, 15.6, 12.9, 11.0, 17.3, 15.9, 19.0, 18.3, 20.1, 21.7]

    assert drift(values).p_value == pytest.approx(2 * stats.norm.sf(2.9058), abs=1e-6)


def test_long_series_use_the_normal_distribution_close_to_the_exact_one():
    values = np.random.default_rng(5).normal(0.01 * np.arange(51), 1)
    exact = stats.kendalltau(range(51), values, method="exact").pvalue

    assert drift(values).p_value == pytest.approx(exact, abs=0.002)


def test_slope_counts_blocks_that_are_missing():
    assert drift([1.0, math.nan, 3.0, 4.0, math.nan, 6.0]).slope_per_block == pytest.approx(1)


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, 2.0]])
def test_fewer_than_two_values_have_no_drift(values):
    assert (drift(values).slope_per_block, drift(values).p_value) == (None, None)


def test_equal_values_have_no_trend():
    assert (drift([5.0] * 4).slope_per_block, drift([5.0] * 4).p_value) == (0, 1)


@given(series, st.floats(0.1, 10), st.floats(-5, 5))
def test_drift_follows_scale_and_sign(values, factor, shift):
    one, other, back = drift(values), drift(np.array(values) * factor + shift), drift(values[::-1])

    if np.unique(np.array(values) * factor + shift).size == len(values):
        assert other.slope_per_block == pytest.approx(one.slope_per_block * factor, abs=1e-9)
    assert back.slope_per_block == pytest.approx(-one.slope_per_block)
    assert back.p_value == one.p_value


def test_autocorrelation_agrees_with_statsmodels():
    # statsmodels 0.15: acf(VALUES, nlags=2, fft=False) = [1, 0.07694897, 0.2733168]
    assert autocorrelation(VALUES, 1) == pytest.approx(0.07694897, abs=1e-8)
    assert autocorrelation(VALUES, 2) == pytest.approx(0.2733168, abs=1e-7)
    assert lag1(VALUES) == autocorrelation(VALUES, 1)


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [1.0, math.nan, 2.0], [7.1] * 9])
def test_without_enough_values_or_spread_there_is_no_autocorrelation(values):
    assert lag1(values) is None


def test_gaps_leave_out_their_pairs_only():
    values = np.sin(np.arange(40) / 3)
    gapped = values.copy()
    gapped[[5, 20]] = math.nan

    assert lag1(gapped) == pytest.approx(lag1(values), abs=0.12)


def test_an_effect_that_moves_is_a_caveat_with_its_size():
    noise = np.random.default_rng(1).normal(0, 0.005, 7)
    caveats = order_caveats(np.arange(7) * math.log(1.02) + noise)

    assert [caveat.code for caveat in caveats] == ["drift"]
    assert "+2.0 % per block" in caveats[0].text


def test_slow_waves_are_autocorrelated_blocks():
    assert codes(np.sin(np.arange(16) * 2 * math.pi / 8)) == ["autocorrelated-blocks"]


def test_alternating_and_short_series_are_no_caveat():
    assert codes([0.1, -0.1] * 6) == []
    assert codes([0.1, 0.1, 0.1, -0.1, -0.1, -0.1, -0.1]) == []
    assert codes([0.1]) == []


@pytest.mark.simulated
def test_independent_blocks_seldom_raise_a_caveat_of_order():
    rng = np.random.default_rng(8)
    rounds, bound = 600, stats.binom.ppf(0.9995, 600, 0.01)
    for blocks in (5, 8, 12, 20):
        raised = [code for _ in range(rounds) for code in codes(rng.normal(size=blocks))]
        assert raised.count("drift") <= bound
        assert raised.count("autocorrelated-blocks") <= bound


def test_strong_autocorrelation_is_usually_noticed():
    rng = np.random.default_rng(9)
    noticed = 0
    for _ in range(200):
        values = np.zeros(20)
        for i in range(1, 20):
            values[i] = 0.8 * values[i - 1] + rng.normal()
        noticed += "autocorrelated-blocks" in codes(values)

    assert noticed > 120
