import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.signal import lfilter

from pgtrial.stats.trend import FEWEST, MOST, trend

series = st.lists(st.floats(-100, 100), min_size=FEWEST, max_size=MOST, unique=True)


def noise(phi, count, length, rng):
    shocks = rng.normal(size=(count, length + 300)) * math.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], shocks)[:, 300:]


@given(series)
def test_the_slope_is_that_of_scipy(values):
    found = trend(values)

    assert found.slope == pytest.approx(stats.theilslopes(values).slope)
    assert found.low <= found.slope <= found.high


def test_the_slope_is_per_unit_of_time():
    per_second = 1000 - 0.5 * np.arange(40)

    assert trend(per_second, spacing=1 / 60).slope == pytest.approx(-30)


def test_missing_values_leave_their_time():
    assert trend([0.0, 1, math.nan, 3, 4, math.nan, math.nan, 7, 8, 9, 10]).slope == pytest.approx(1)


def test_a_line_without_noise_has_an_interval_without_width():
    found = trend(3 + 2 * np.arange(20))

    assert (found.low, found.high) == pytest.approx((2, 2))


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [math.nan] * 30, [1.0] * (FEWEST - 1)])
def test_too_few_values_have_no_trend(values):
    assert trend(values) is None


@given(series, st.floats(0.1, 10), st.floats(-5, 5))
def test_the_interval_follows_scale_and_sign(values, factor, shift):
    one, other = trend(values), trend(np.array(values) * factor + shift)
    turned = trend(-np.array(values))

    assert (other.slope, other.low, other.high) == pytest.approx(
        (one.slope * factor, one.low * factor, one.high * factor), abs=1e-6
    )
    assert (turned.low, turned.high) == pytest.approx((-one.high, -one.low))


def test_long_series_are_averaged_and_keep_slope_and_time():
    rng = np.random.default_rng(2)
    values = 500 + 0.02 * np.arange(3600) + rng.normal(0, 5, 3600)
    values[100:130] = math.nan

    found = trend(values, spacing=1 / 60)

    assert found.count <= MOST
    assert found.low <= 1.2 <= found.high
    assert found.slope == pytest.approx(1.2, abs=0.03)


def test_a_few_stalls_do_not_move_the_slope():
    rng = np.random.default_rng(3)
    values = 1000 + rng.normal(0, 10, 48)
    stalled = values.copy()
    stalled[[40, 44, 46]] = 0

    assert abs(trend(stalled).slope - trend(values).slope) < 0.3
    assert np.polyfit(np.arange(48), stalled, 1)[0] < -4


def test_kendalls_s_strays_as_all_pairs_of_rises_say():
    # With as few values as here S has a standard deviation that can be added up pair by pair.
    from pgtrial.stats.trend import _coefficients, _spread_of_s

    count = 9
    rises = list(itertools.combinations(range(count), 2))
    for phi, spread in list(zip(_coefficients(), _spread_of_s(count), strict=True))[::6]:
        variance = 0.0
        for (i, j), (k, m) in itertools.product(rises, rises):
            covariance = phi ** abs(j - m) - phi ** abs(j - k) - phi ** abs(i - m) + phi ** abs(i - k)
            scale = 2 * math.sqrt((1 - phi ** (j - i)) * (1 - phi ** (m - k)))
            variance += 2 / math.pi * math.asin(max(-1, min(1, covariance / scale)))
        assert spread == pytest.approx(math.sqrt(variance))


def test_kendalls_s_strays_as_in_simulated_noise():
    from pgtrial.stats.trend import _coefficients, _spread_of_s

    phi = _coefficients()[18]
    values = noise(phi, 3000, 20, np.random.default_rng(4))
    first, second = np.triu_indices(20, k=1)
    scores = np.sign(values[:, second] - values[:, first]).sum(axis=1)

    assert _spread_of_s(20)[18] == pytest.approx(scores.std(), rel=0.05)


def coverage(values, true=0.0):
    found = [trend(one) for one in values]
    return np.mean([one.low <= true <= one.high for one in found])


@pytest.mark.parametrize(("phi", "length", "least"), [(0.0, 30, 0.93), (0.9, 30, 0.88), (0.9, 120, 0.91)])
def test_the_interval_of_slow_noise_contains_zero(phi, length, least):
    assert coverage(noise(phi, 200, length, np.random.default_rng(5))) >= least


@pytest.mark.slow
@pytest.mark.parametrize("length", [30, 60, 120, 300, 600])
@pytest.mark.parametrize("phi", [0, 0.3, 0.6, 0.8, 0.9])
def test_the_interval_contains_the_truth_whatever_the_autocorrelation(phi, length):
    rng = np.random.default_rng([6, length])
    values = noise(phi, 1000, length, rng) + 0.01 * np.arange(length)
    # Thirty values with 0.9 are worth less than two independent ones.
    least = 0.89 if (phi, length) == (0.9, 30) else 0.93

    assert least <= coverage(values, true=0.01) <= 0.995


@pytest.mark.slow
@pytest.mark.parametrize(("length", "least"), [(60, 0.92), (300, 0.94)])
def test_the_interval_holds_for_noise_that_is_slow_and_white_at_once(length, least):
    # White noise hides the slow one, of which a minute has three independent values.
    rng = np.random.default_rng([7, length])
    values = noise(0.95, 1000, length, rng) + rng.normal(size=(1000, length))

    assert coverage(values) >= least


@pytest.mark.slow
@pytest.mark.parametrize("length", [60, 300])
def test_the_interval_holds_for_heavy_tails_and_dips(length):
    rng = np.random.default_rng([8, length])
    values = noise(0.6, 1000, length, rng) - 10 * (rng.random((1000, length)) < 0.05)

    assert coverage(values) >= 0.93
    assert coverage(rng.standard_t(2, (1000, length))) >= 0.93


def test_a_trend_that_stands_out_is_found():
    rng = np.random.default_rng(9)
    values = 1000 + noise(0.5, 100, 300, rng) * 50 - 0.5 * np.arange(300)

    assert sum(trend(one).high < 0 for one in values) >= 95
