import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.signal import lfilter

from pgtrial.stats.dips import FALSE_ALARM, FEWEST, SHALLOWEST, Evenness, find_dips, find_evenness


def steady(seconds=600, rate=1000, noise=30, seed=1):
    return np.random.default_rng(seed).normal(rate, noise, seconds)


def slow(phi, count, seconds, rng):
    shocks = rng.normal(size=(count, seconds + 300)) * math.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], shocks)[:, 300:]


def test_a_dip_has_start_length_depth_and_recoveries():
    values = np.full(300, 1000.0)
    values[100:110] = 200
    values[110:114] = [400, 600, 800, 950]

    (dip,) = find_dips(values).dips

    # Half of the threshold of a fifth, a tenth below the usual, is where it begins and ends.
    assert (dip.start, dip.length, dip.lowest_at) == (100, 13, 100)
    assert dip.depth == pytest.approx(0.8)
    assert dip.half_recovery == 11  # 600 is half of the way from 200 to 1000
    assert dip.recovery == 13  # 920 is nine tenths of it
    assert dip.stalled == 0


def test_the_rest_of_the_numbers_are_plain_counts():
    values = np.full(300, 1000.0)
    values[50:53] = 0
    values[200:210] = 500

    found = find_dips(values)

    assert [dip.start for dip in found.dips] == [50, 200]
    assert found.usual == 1000
    even = find_evenness(values)
    assert even.stalled_share == pytest.approx(3 / 300)
    assert found.dip_share == pytest.approx(13 / 300)
    assert found.dips[0].stalled == 3
    assert found.dips[0].depth == 1
    assert even.lowest == pytest.approx(np.percentile(values, 1))
    assert even.highest == pytest.approx(np.percentile(values, 99))
    assert even.coefficient_of_variation == pytest.approx(values.std(ddof=1) / values.mean())
    assert (found.threshold, found.resolution) == (SHALLOWEST, 1)


def test_a_dip_at_the_end_has_no_recovery():
    values = steady()
    values[590:] = 300

    (dip,) = find_dips(values).dips

    assert (dip.start, dip.length) == (590, 10)
    assert (dip.half_recovery, dip.recovery) == (None, None)


def test_noise_inside_a_dip_does_not_split_it():
    values = steady()
    values[100:120] = np.where(
        np.arange(20) % 3 == 0, 850, 500
    )  # 850 is within the threshold of a fifth, not of a tenth

    assert [(dip.start, dip.length) for dip in find_dips(values).dips] == [(100, 20)]


def test_missing_seconds_neither_begin_nor_end_a_dip():
    values = np.full(300, 1000.0)
    values[100:110] = 300
    values[[50, 104, 105, 110, 111]] = math.nan

    (dip,) = find_dips(values).dips

    assert (dip.start, dip.length) == (100, 10)


def test_a_slow_decline_is_no_dip():
    assert find_dips(steady(1800) * np.linspace(1, 0.4, 1800)).dips == ()


def test_dips_at_a_rate_of_a_few_per_second_are_found_when_they_last():
    values = np.random.default_rng(2).poisson(3, 600).astype(float)
    values[200:240] = 0

    found = find_dips(values)
    (dip,) = found.dips

    assert found.resolution > 1
    assert abs(dip.start - 200) <= found.resolution
    assert abs(dip.length - 40) <= found.resolution
    assert dip.stalled == pytest.approx(40, abs=2)
    assert dip.depth == 1


def test_dips_in_much_noise_are_found_when_they_last():
    values = np.maximum(0, steady(noise=250))
    values[300:320] *= 0.2

    found = find_dips(values)

    assert found.resolution > 1
    assert [abs(dip.start - 300) <= found.resolution for dip in found.dips] == [True]


@pytest.mark.parametrize("seed", range(5))
def test_what_breaks_in_again_and_again_is_found_although_little_is_usual(seed):
    # As after checkpoints: a fall to a tenth within a second, a slow recovery, then slow swings.
    recovering = np.minimum(1, 0.1 * 1.15 ** np.arange(30))
    swings = 1 + 0.1 * slow(0.9, 1, 120, np.random.default_rng(seed))[0]
    values = 2000 * np.concatenate((np.ones(15), np.tile(recovering, 4)[:105])) * swings

    found = find_dips(values)

    assert [dip.start for dip in found.dips] == [15, 45, 75, 105]
    assert all(5 <= dip.length <= 15 and dip.depth > 0.75 for dip in found.dips)


def test_short_dips_of_a_level_that_drifts_are_found_beside_what_is_usual_at_that_time():
    # As where a disk is busy for half of the time: the upper half of the series says nothing of the noise.
    level = np.where(np.arange(360) // 60 % 2 == 0, 2000, 1600)
    values = level * (1 + 0.05 * np.random.default_rng(3).normal(size=360))
    starts = [35, 95, 155, 215, 275, 335]
    for start in starts:
        values[start : start + 3] *= 0.58

    assert [(dip.start, dip.length) for dip in find_dips(values).dips] == [(start, 3) for start in starts]


@pytest.mark.parametrize("values", [[], [100.0] * (FEWEST - 1), [math.nan] * 100, [0.0] * 60 + [1000.0] * 30])
def test_without_a_usual_there_are_no_dips(values):
    assert find_dips(values) is None


def test_equal_seconds_have_no_dips():
    found = find_dips([250.0] * 60)

    assert found.dips == ()
    assert find_evenness([250.0] * 60) == Evenness(lowest=250, highest=250, coefficient_of_variation=0, stalled_share=0)


def test_a_standstill_of_most_seconds_leaves_evenness_defined():
    found, nothing = find_evenness([0.0] * 60 + [1000.0] * 30), find_evenness([0.0] * 60)

    assert (found.lowest, found.highest, found.stalled_share) == (0, 1000, pytest.approx(2 / 3))
    assert found.coefficient_of_variation == pytest.approx(math.sqrt(2 * 90 / 89))
    assert nothing == Evenness(lowest=0, highest=0, coefficient_of_variation=None, stalled_share=1)
    assert find_evenness([100.0] * (FEWEST - 1)) is None


@given(st.floats(5, 100), st.integers(0, 1000))
def test_faster_machines_with_the_same_shape_have_the_same_dips(factor, seed):
    values = steady(200, seed=seed)
    values[100:105] = 100
    one, other = find_dips(values), find_dips(values * factor)

    assert [dip.start for dip in one.dips] == [dip.start for dip in other.dips]
    assert other.usual == pytest.approx(one.usual * factor)


NOISE = {
    "white": lambda count, seconds, rng: 1000 * (1 + 0.05 * rng.normal(size=(count, seconds))),
    "white, much": lambda count, seconds, rng: 1000 * np.maximum(0, 1 + 0.25 * rng.normal(size=(count, seconds))),
    "slow": lambda count, seconds, rng: 1000 * (1 + 0.07 * slow(0.8, count, seconds, rng)),
    "very slow": lambda count, seconds, rng: 1000 * (1 + 0.07 * slow(0.95, count, seconds, rng)),
    "very slow, much": lambda count, seconds, rng: 1000 * np.maximum(0, 1 + 0.2 * slow(0.95, count, seconds, rng)),
    "one per second": lambda count, seconds, rng: rng.poisson(1, (count, seconds)),
    "four per second": lambda count, seconds, rng: rng.poisson(4, (count, seconds)),
    "thirty per second": lambda count, seconds, rng: rng.poisson(30, (count, seconds)),
    "skewed upwards": lambda count, seconds, rng: 1000 * np.exp(0.15 * rng.normal(size=(count, seconds))),
}


def false_alarms(kind, count, seconds):
    rng = np.random.default_rng([count, seconds, len(kind)])
    found = map(find_dips, NOISE[kind](count, seconds, rng).astype(float))
    return sum(bool(each.dips) for each in found if each is not None)  # where most seconds have none, none can dip


@pytest.mark.simulated
@pytest.mark.parametrize("kind", ["white", "very slow", "four per second"])
def test_noise_has_hardly_any_dips(kind):
    assert false_alarms(kind, 100, 300) <= stats.binom.ppf(0.9995, 100, FALSE_ALARM)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [60, 90, 300, 1800])
@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_dips_no_more_often_than_stated(kind, seconds):
    assert false_alarms(kind, 1000, seconds) <= stats.binom.ppf(0.9995, 1000, FALSE_ALARM)


@pytest.mark.simulated
def test_dips_of_a_third_are_found_in_usual_noise():
    found = 0
    for seed in range(50):
        values = steady(seed=seed, noise=60)
        values[250:256] *= 0.6
        found += any(dip.start in range(248, 253) for dip in find_dips(values).dips)

    assert found >= 48
