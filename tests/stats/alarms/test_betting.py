"""Gains against independent arithmetic, integration and simulation: nothing is won where nothing has changed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from pgtrial.stats.alarms.betting import (
    BETS,
    BURNING,
    CLASSES,
    COOL,
    COOLING,
    HEATS,
    LIT,
    WARM,
    Stakes,
    class_of,
    classes_before,
    gains,
    learn_stakes,
    raise_threshold,
    tell,
    warm,
)
from pgtrial.stats.alarms.blocks import DAY
from pgtrial.stats.alarms.prediction import FARTHEST

FIRST = np.full((1, 1), COOL)

errors = st.lists(st.floats(-20, 20), min_size=2, max_size=40)


def stakes(calm, blocks):
    return Stakes(
        calm=np.asarray([calm] * CLASSES)[None, None], blocks=np.array([[float(blocks)]]), trust=np.ones((1, 1))
    )


@given(errors)
def test_over_all_values_that_could_have_been_the_new_one_the_mean_gain_is_one(values):
    cut = np.clip(values, -FARTHEST, FARTHEST)
    gained = []
    for place in range(len(values)):
        others = np.delete(cut, place)
        calm = np.exp(BETS[..., None] * others).mean(axis=-1)
        gained.append(gains(np.array([[values[place]]]), stakes(calm, others.size), FIRST)[0, 0])

    assert np.mean(gained, axis=0) == pytest.approx(np.ones(BETS.shape))


@pytest.mark.parametrize("one", range(CLASSES), ids=["cool", "warm", "lit", "burning"])
@pytest.mark.parametrize("noise", [stats.norm(), stats.t(3), stats.gamma(2, loc=-2)], ids=["normal", "t3", "skew"])
def test_the_expected_gain_is_at_most_one_by_integration(noise, one):
    calm = noise.rvs(size=(1, 1, 14 * DAY), random_state=np.random.default_rng(5))
    learned = learn_stakes(calm)
    for direction, size in np.ndindex(BETS.shape):

        def weighted(z, at=(direction, size)):
            return gains(np.array([[z]]), learned, np.full((1, 1), one))[0, 0][at] * noise.pdf(z)

        expected = integrate.quad(weighted, -60, 60, points=[-5, -2, 0, 5], limit=200)[0]
        # Beyond 60 the gain is that of 5, and the probability at most 1e-5 for any of them.
        assert expected <= 1 + 1e-3


def test_a_gap_gains_nothing_and_takes_no_time():
    learned = learn_stakes(np.random.default_rng(1).normal(size=(1, 1, 14 * DAY)))

    assert gains(np.array([[math.nan]]), learned, FIRST).tolist() == np.ones((1, 1, *BETS.shape)).tolist()
    assert tell(np.array([math.nan, 0.0, 1e-9, 0.1])).tolist() == [False, False, False, True]


def test_more_calm_days_cost_less_margin():
    normal = np.random.default_rng(2).normal(size=(40, 1, 28 * DAY))
    few, many = learn_stakes(normal[..., : 14 * DAY]), learn_stakes(normal)
    few_cool, many_cool = few.calm[..., 0, :, :], many.calm[..., 0, :, :]
    moments = np.exp(BETS**2 / 2)  # of an uncut normal value; the cut matters for the largest bets alone

    assert (many_cool[..., :4].mean(axis=(0, 1)) < few_cool[..., :4].mean(axis=(0, 1))).all()
    assert many_cool[..., :4].mean(axis=(0, 1)) == pytest.approx(moments[:, :4], rel=0.05)


@pytest.mark.simulated
def test_the_mean_time_to_a_false_alarm_is_at_least_what_was_asked_for():
    """The definition, written down anew: independent values, one that only follows the other, and a gain of each."""
    rng = np.random.default_rng(2203)
    sets, asked = 300, 150
    learned = learn_stakes(rng.normal(size=(sets, 2, 14 * DAY)))
    collected, heat = np.zeros((sets, 2, *BETS.shape)), np.zeros((sets, 2, HEATS))
    ended = np.zeros(sets)
    for block in range(1, 60 * asked):
        value = rng.normal(size=sets)
        both = np.stack([value, -value], axis=1)
        collected = (collected + 1) * gains(both, learned, class_of(heat))
        heat = warm(heat, both)
        hit = (collected.mean(axis=(1, 2, 3)) >= asked) & (ended == 0)
        ended[hit] = block
        if ended.all():
            break
    ended[ended == 0] = 60 * asked  # what is cut off makes the mean smaller, never larger
    error = ended.std(ddof=1) / math.sqrt(sets)

    assert ended.mean() + 3 * error >= asked
    assert ended.mean() <= 20 * asked  # and it does alarm


def test_heat_fades_and_gaps_and_constants_leave_it():
    heat, met = np.zeros((1, 1, HEATS)), []
    for error in (0.0, -4.0, math.nan, 0.0, 1.0, 0.1, 9.0):
        heat = warm(heat, np.array([[error]]))
        met.append(heat[0, 0].tolist())
    after = 4 * COOLING
    expected = [
        *([0, 0, 0], [0, 4, 4], [0, 4, 4], [0, 4, 4]),
        *([1, 1, after], [0.1, 0.1, after * COOLING], [0.1, FARTHEST, FARTHEST]),
    ]

    assert met == [pytest.approx(each) for each in expected]


def test_a_block_is_held_against_those_right_after_far_ones_soon_after_one_or_all_others():
    errors = np.array([[[0.0, -4.0, math.nan, 0.5, 1.0, 0.1, 0.1, 2.6, 3.0, 0.1]]])

    assert classes_before(errors)[0, 0].tolist() == [COOL, COOL, LIT, LIT, WARM, WARM, COOL, COOL, LIT, BURNING]


def test_after_a_burst_a_far_block_is_held_against_others_after_bursts():
    """Pairs of far blocks, as often in calm time as later: the first gains, the second as good as nothing."""
    rng = np.random.default_rng(4)

    def noise(days):
        found = rng.normal(size=(1, 1, days * DAY))
        begins = np.flatnonzero(rng.random(days * DAY - 1) < 4 / DAY)
        found[..., begins] = found[..., begins + 1] = 4.0
        return found

    learned = learn_stakes(noise(14))
    new = noise(200)
    classes = classes_before(new)
    gained = gains(new.reshape(-1, 1), learned, classes.reshape(-1, 1))[:, 0]
    hot = classes.ravel() != COOL

    assert (gained[~hot].mean(axis=0) <= 1).all()
    assert (gained[hot].mean(axis=0) <= 1).all()

    one_class = replace(learned, calm=np.repeat(learned.calm[..., :1, :, :], CLASSES, axis=-3))
    taken = gains(new.reshape(-1, 1), one_class, classes.reshape(-1, 1))[:, 0]

    assert taken[hot][:, 0, -1].mean() > 2  # what the second of a pair would gain without classes


def test_bursts_that_stay_gain_nothing_while_they_do():
    """What stays with the same probability at each block has a mean gain of at most 1 after any of them."""
    rng = np.random.default_rng(7)
    days = 100
    noise = rng.normal(size=(1, 1, days * DAY))
    begins = np.flatnonzero(rng.random(days * DAY) < 3 / DAY)
    for first, length in zip(begins, rng.geometric(0.25, begins.size), strict=True):
        noise[..., first : first + length] += 4.5
    learned = learn_stakes(noise[..., : 14 * DAY])
    new = noise[..., 14 * DAY :]
    classes = classes_before(new)
    gained = gains(new.reshape(-1, 1), learned, classes.reshape(-1, 1))[:, 0]
    is_long = np.zeros(new.size, dtype=bool)
    is_long[3:] = (new[0, 0, :-3] > 2.5) & (new[0, 0, 1:-2] > 2.5) & (new[0, 0, 2:-1] > 2.5)

    assert gained[is_long].mean(axis=0).max() <= 1.05


def test_small_bursts_of_many_lengths_cost_a_stream_its_trust_and_noise_does_not():
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(1, 8, 14 * DAY))
    bursts = noise.copy()
    for begin, length in zip(rng.integers(0, 13 * DAY, 14), rng.geometric(0.1, 14), strict=True):
        bursts[:, 0, begin : begin + length] += 1.5  # too small to be known as bursts

    assert learn_stakes(noise).trust.tolist() == np.ones((1, 8)).tolist()
    assert learn_stakes(bursts).trust[0, 0] < 1


def test_days_unlike_each_other_raise_the_threshold_and_alike_ones_do_not():
    rng = np.random.default_rng(3)
    alike = rng.normal(size=(14, DAY))
    unlike = alike + np.where(np.arange(14) % 2, 0.7, -0.7)[:, None]
    both = np.stack([alike.ravel(), unlike.ravel()])[:, None]
    learned = learn_stakes(both)
    # As if the two had been learned elsewhere, where days were alike.
    known = replace(learned, calm=np.repeat(learned.calm[:1], 2, axis=0), trust=np.ones((2, 1)))
    threshold = raise_threshold(30.0 * DAY, both, known, seed=1)

    assert threshold[0] == pytest.approx(30 * DAY)
    assert threshold[1] > 300 * DAY


def test_bursts_of_one_group_cost_another_nothing_and_their_own_as_before():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(1, 3, 14 * DAY))
    bursts = np.zeros(14 * DAY)
    for start in range(100, 14 * DAY, 300):
        bursts[start : start + 8] = 6.0
    noise[:, 2] += bursts
    apart = learn_stakes(noise, ["load", "load", "devices"]).calm

    assert apart[:, :2].tolist() == learn_stakes(noise[:, :2]).calm.tolist()
    assert apart[:, 2:].tolist() == learn_stakes(noise[:, 2:]).calm.tolist()
    together = learn_stakes(noise).calm
    assert (together[:, :, BURNING] == together[:, 2:, BURNING]).all()
    assert (together[:, :2, BURNING] > apart[:, :2, BURNING]).all()
