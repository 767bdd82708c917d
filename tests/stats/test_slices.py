import math

import numpy as np
import pytest
from scipy import stats

from pgtrial.findings.record import Estimate
from pgtrial.stats.interval import t_quantile
from pgtrial.stats.power import detectable_ratio
from pgtrial.stats.slices import (
    carry_over,
    compare_spread,
    detectable_in,
    growth_with_length,
    pair_autocorrelation,
    sd_per_minute,
)


def test_carry_over_by_hand():
    control = np.array([[10, 10, 10, 10], [20, 20, 20, 20], [10, 30, 20, 20]], dtype=float)
    treated = np.array([[10, 10, 15, 15], [20, 20, 25, 25], [20, 20, 20, 20]], dtype=float)
    changes = np.log([1.5, 1.25, 1.0])
    half = t_quantile(0.975, 2) * changes.std(ddof=1) / math.sqrt(3)
    found = carry_over(control, treated)

    assert found.value == pytest.approx(math.exp(changes.mean()))
    assert found.low == pytest.approx(math.exp(changes.mean() - half))
    assert found.high == pytest.approx(math.exp(changes.mean() + half))


def test_carry_over_leaves_out_blocks_without_counts():
    control = np.array([[10, 10, 10, 10], [np.nan, 1, 1, 1], [0, 0, 5, 5]])

    assert carry_over(control, control) == Estimate(value=1.0)
    assert carry_over(control[1:], control[1:]) is None
    with pytest.raises(ValueError, match="one shape"):
        carry_over(control, control[:, :3])


def test_a_known_leak_is_recovered_and_its_interval_covers():
    rng, covered = np.random.default_rng(1), 0
    growth = np.array([0.9, 0.95, 1.0, 1.0])
    truth = growth[2:].sum() / growth[:2].sum()
    for _ in range(400):
        common = rng.normal(0, 0.3, (8, 1))
        control, treated = np.exp(common + rng.normal(0, 0.02, (2, 8, 4)))
        found = carry_over(control, treated * growth)
        covered += found.low <= truth <= found.high

    assert stats.binom.ppf(0.0005, 400, 0.95) <= covered <= stats.binom.ppf(0.9995, 400, 0.95)


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.4])
def test_autocorrelation_of_pairs_is_recovered_without_bias(rho):
    rng = np.random.default_rng(2)
    noise = rng.normal(size=(400, 30))
    for place in range(1, 30):
        noise[:, place] = rho * noise[:, place - 1] + math.sqrt(1 - rho**2) * noise[:, place]
    found = pair_autocorrelation(noise + rng.normal(size=(400, 1)))

    assert found == pytest.approx(rho, abs=0.04)


def test_short_blocks_tell_no_autocorrelation():
    few = np.random.default_rng(3).normal(size=(5, 7))
    gaps = np.full((5, 12), np.nan)

    assert pair_autocorrelation(few) is None
    assert pair_autocorrelation(gaps) is None


def test_spread_agrees_with_scipy_analysis_of_variance():
    values = np.random.default_rng(4).normal(size=(5, 9)) + np.arange(5)[:, None] / 4
    values[1, 3] = values[4, 8] = np.nan
    found = compare_spread(values)

    assert found is not None
    assert found.p_value == pytest.approx(stats.f_oneway(*(row[~np.isnan(row)] for row in values)).pvalue)
    assert found.observed == pytest.approx(np.nanmean(values, axis=1).std(ddof=1))


def test_equal_blocks_differ_as_much_as_their_slices_make_them():
    rng = np.random.default_rng(5)
    alarms = [compare_spread(rng.normal(0, 0.1, (6, 20))).p_value <= 0.05 for _ in range(1000)]
    many = compare_spread(rng.normal(0, 0.1, (500, 20)))

    assert stats.binom.ppf(0.0005, 1000, 0.05) <= sum(alarms) <= stats.binom.ppf(0.9995, 1000, 0.05)
    assert many.expected == pytest.approx(0.1 / math.sqrt(20), rel=0.03)
    assert many.observed == pytest.approx(many.expected, rel=0.1)


def test_spread_needs_blocks_pairs_and_noise():
    assert compare_spread(np.ones((1, 9))) is None
    assert compare_spread(np.ones((3, 1))) is None
    assert compare_spread(np.ones((3, 9))) is None


def test_noise_per_minute_and_what_a_budget_finds():
    # Half the noise in a quarter of the time is worth the same.
    assert sd_per_minute(0.1, 60) == pytest.approx(0.1)
    assert sd_per_minute(0.1, 15) == pytest.approx(sd_per_minute(0.05, 60))
    assert detectable_in(0.05, 60, 600) == detectable_ratio(0.05, 10)
    assert detectable_in(0.05, 59.99999999999, 10 * 59.99999999999) == detectable_ratio(0.05, 10)
    assert detectable_in(0.05, 60, 119, comparisons=2) is None
    with pytest.raises(ValueError, match="positive"):
        sd_per_minute(0.1, 0)


def test_growth_with_length_is_welchs_interval():
    rng = np.random.default_rng(4)
    short, long = rng.normal(0.05, 0.02, 7), rng.normal(0.09, 0.05, 5)

    found = growth_with_length(short, long, confidence=0.9)

    expected = stats.ttest_ind(long, short, equal_var=False).confidence_interval(0.9)
    assert found.value == pytest.approx(math.exp(long.mean() - short.mean()))
    assert (found.low, found.high) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))


@pytest.mark.parametrize(
    ("short", "long", "value"),
    [([0.1, math.nan], [0.3, 0.5], math.exp(0.3)), ([0.1, 0.1], [0.2, 0.2], math.exp(0.1))],
)
def test_growth_with_length_without_an_interval(short, long, value):
    found = growth_with_length(np.array(short), np.array(long))
    assert found.value == pytest.approx(value)
    assert (found.low, found.high) == (None, None)


def test_growth_with_length_needs_slices_of_both_lengths():
    assert growth_with_length(np.array([]), np.array([0.1, 0.2])) is None
