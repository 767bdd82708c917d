import numpy as np
import pytest

from pgtrial.stats.alarms.blocks import DAY, WEEK
from pgtrial.stats.alarms.seasons import BINS, at_blocks, days_of, learn_profile, learn_shrinkage


def learned(blocks, first=0):
    days = days_of(blocks, first)
    return learn_profile(days, learn_shrinkage(days))


def test_noise_has_no_rhythm():
    noise = np.random.default_rng(1).normal(size=(1, 14 * DAY))
    profile = learned(noise)

    # Unshrunk, means of twelve blocks have a standard deviation of 0.29, those of a half hour of all days one of 0.11.
    assert profile.std() < 0.06


def test_a_rhythm_of_the_day_and_the_weekend_is_kept():
    at = np.arange(28 * DAY)
    hour = at % DAY * 24 / DAY
    weekend = at // DAY % 7 >= 5
    truth = np.sin(2 * np.pi * hour / 24) * np.where(weekend, 0.4, 1.0) - weekend
    noise = np.random.default_rng(2).normal(size=at.size) * 0.3
    found = at_blocks(learned((truth + noise)[None]), at)[0]
    error = (found - found.mean()) - (truth - truth.mean())

    assert error.std() < 0.12
    assert np.corrcoef(found, truth)[0, 1] > 0.99


def test_it_may_begin_on_any_day_at_any_time():
    truth = np.arange(WEEK) % DAY / DAY
    week = np.tile(truth, 3)
    first = 3 * DAY + 77
    shifted = np.roll(week, -first)[None]
    at = np.arange(WEEK)
    inside = (at % DAY > 20) & (at % DAY < DAY - 20)  # between days the line turns
    found = at_blocks(learned(shifted, first), at)[0]

    assert (found - found.mean())[inside] == pytest.approx((truth - truth.mean())[inside], abs=0.02)


def test_a_bad_day_counts_little():
    noise = np.random.default_rng(3).normal(size=(1, 21 * DAY)) * 0.1
    worse = noise.copy()
    worse[:, 8 * DAY : 8 * DAY + DAY // 2] += 5

    assert np.abs(learned(worse) - learned(noise)).max() < 0.5


def test_gaps_and_constants_have_no_rhythm():
    constant = np.full((1, 14 * DAY), 7.0)
    gappy = constant.copy()
    gappy[:, DAY : 3 * DAY] = np.nan

    assert learned(constant).tolist() == np.zeros((1, 7 * BINS)).tolist()
    assert learned(gappy).tolist() == np.zeros((1, 7 * BINS)).tolist()
    assert learned(np.full((1, 14 * DAY), np.nan)).tolist() == np.zeros((1, 7 * BINS)).tolist()
