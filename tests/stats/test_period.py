import math

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pgtrial.stats.period import CYCLES, FEWEST, SHORTEST, given_period, strongest_period


def slow(phi, count, seconds, rng):
    shocks = rng.normal(size=(count, seconds + 300)) * math.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], shocks)[:, 300:]


def wave(seconds, period, phase=0.7):
    return np.sin(2 * math.pi * np.arange(seconds) / period + phase)


def test_a_sine_wave_is_found_with_its_period_and_share():
    noise = np.random.default_rng(1).normal(size=600)

    found = strongest_period(1000 + 30 * wave(600, 40) + 30 * noise)

    assert found.period == pytest.approx(40, rel=0.02)
    assert found.share == pytest.approx(1 / 3, abs=0.06)  # variances of 1/2 and 1
    assert found.false_alarm < 1e-6


@pytest.mark.parametrize("period", [15, 30, 47, 60])
def test_short_dips_at_a_regular_beat_have_the_period_of_the_beat_and_not_of_a_harmonic(period):
    rng = np.random.default_rng(period)
    values = 1000 + 100 * slow(0.6, 1, 600, rng)[0]
    values[np.arange(600) % period < 4] -= 300

    found = strongest_period(values)

    assert found.period == pytest.approx(period, rel=0.02)
    assert found.false_alarm < 0.01


def test_gaps_do_not_hide_a_rhythm():
    rng = np.random.default_rng(3)
    values = 2 * wave(600, 30) + rng.normal(size=600)
    values[rng.random(600) < 0.2] = math.nan
    values[200:250] = math.nan

    assert strongest_period(values).period == pytest.approx(30, rel=0.02)
    assert given_period(values, 30).false_alarm < 1e-6


@pytest.mark.simulated
def test_a_given_period_is_found_where_a_search_is_not_sure():
    rng = np.random.default_rng(4)
    searched = given = 0
    for noise in slow(0.5, 100, 600, rng):
        values = noise.copy()
        values[(np.arange(600) + 11) % 60 < 4] -= 2
        searched += strongest_period(values).false_alarm < 0.01
        given += given_period(values, 60).false_alarm < 0.01

    assert given > 80
    assert given > searched + 20


def test_a_given_period_may_be_off_by_a_hundredth():
    values = 0.3 * wave(3000, 30.4) + np.random.default_rng(5).normal(size=3000)

    assert given_period(values, 30.2).period == pytest.approx(30.4, abs=0.1)
    assert given_period(values, 29.8).false_alarm > 0.01


@pytest.mark.parametrize(
    "values", [[], np.arange(FEWEST - 1.0), np.full(300, 5.0), np.full(300, math.nan), np.arange(99.0)]
)
def test_without_values_that_vary_there_is_no_rhythm(values):
    assert strongest_period(values) is None
    assert given_period(values, 10) is None


def test_a_period_that_the_series_cannot_tell_is_not_tested():
    values = np.random.default_rng(6).normal(size=120)

    assert given_period(values, 120 / CYCLES) is not None
    assert given_period(values, 120 / CYCLES + 1) is None
    assert given_period(values, SHORTEST - 0.5) is None


def test_scale_and_trend_do_not_matter():
    values = wave(400, 25) + np.random.default_rng(7).normal(size=400)
    one, other = strongest_period(values), strongest_period(7 - 3 * values + 0.5 * np.arange(400))

    assert (other.period, other.share) == pytest.approx((one.period, one.share))


def false_alarms(kind, count, seconds):
    """Numbers of series that are said to have a rhythm at 5 and 1 %: searched, and at 30 s."""
    rng = np.random.default_rng([seconds, len(kind)])
    name, _, phi = kind.partition(" ")
    values = slow(float(phi), count, seconds, rng)
    if name == "both":
        values = values + rng.normal(size=values.shape)
    searched = np.array([strongest_period(one).false_alarm for one in values])
    given = np.array([given_period(one, 30).false_alarm for one in values])
    return [(p < level).sum() for p in (searched, given) for level in (0.05, 0.01)]


@pytest.mark.simulated
@pytest.mark.parametrize("kind", ["ar 0", "ar 0.9"])
def test_noise_however_slow_has_hardly_any_rhythm(kind):
    for alarms, level in zip(false_alarms(kind, 150, 300), (0.05, 0.01) * 2, strict=True):
        assert alarms <= stats.binom.ppf(0.9995, 150, level)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [120, 300, 600, 1800])
@pytest.mark.parametrize("kind", ["ar 0", "ar 0.5", "ar 0.8", "ar 0.9", "ar 0.95", "ar 0.99", "both 0.95"])
def test_noise_has_a_rhythm_no_more_often_than_stated(kind, seconds):
    for alarms, level in zip(false_alarms(kind, 1000, seconds), (0.05, 0.01) * 2, strict=True):
        assert alarms <= stats.binom.ppf(0.9995, 1000, level)
