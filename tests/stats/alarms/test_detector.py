"""Servers watched beside each other: alike but for the unit, one that stands still, one that is lost now and then."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pgtrial.stats.alarms.blocks import DAY, MINUTES, Aspect, Scale, Signal, blocks_of
from pgtrial.stats.alarms.detector import FEWEST_DAYS, LEARNING, advance, begin, learn
from pgtrial.stats.alarms.feed import FORMAT, from_plain, open_feed, take, to_plain

SIGNALS = (
    Signal(name="throughput", scale=Scale.RATIO, columns=(0,)),
    Signal(name="balance", scale=Scale.DIFFERENCE, columns=(1,)),
    Signal(name="statements", scale=Scale.MIX, columns=(2, 3, 4)),
)
PLAIN, UNIT, STILL, GAPS, LATE = range(5)
_LEARNED, _WATCHED = FEWEST_DAYS * 1440, 3 * 1440


@pytest.fixture(scope="module")
def minutes():
    noise = np.random.default_rng(28).normal(size=(5, _LEARNED + _WATCHED))
    plain = np.stack(
        [
            1000 * np.exp(0.05 * noise[0]),
            20 * noise[1],
            *(share * np.exp(0.1 * part) for share, part in zip((0.5, 0.3, 0.2), noise[2:], strict=True)),
        ]
    )
    sets = np.repeat(plain[None], 5, axis=0)
    sets[UNIT] *= 4.0
    sets[UNIT, 1] += 64.0
    sets[STILL] = np.array([1000.0, 3.3, 0.1, 0.2, 0.7])[:, None]
    sets[GAPS, :, 3 * 1440 : 3 * 1440 + 500] = np.nan
    sets[GAPS, :, _LEARNED + 100 : _LEARNED + 1700] = np.nan
    return sets


@pytest.fixture(scope="module")
def learned(minutes):
    return learn(minutes[..., :_LEARNED], SIGNALS, first=0, resample=False)


def watch(learned, minutes, *, state=None):
    state = begin(learned, FEWEST_DAYS * DAY) if state is None else state
    found = []
    for values in np.moveaxis(blocks_of(minutes[..., _LEARNED:], SIGNALS, learned.floors), -1, 0):
        state, alarms = advance(learned, state, values)
        found += alarms
    return state, found


def of(found, one):
    return [alarm for alarm in found if alarm.set == one]


def test_calm_constant_and_lost_minutes_are_silent(minutes, learned):
    _, found = watch(learned, minutes)

    assert found == []


def test_constants_and_gaps_collect_nothing_however_long(learned):
    state = begin(learned, FEWEST_DAYS * DAY)
    still = blocks_of(
        np.broadcast_to(np.array([1000.0, 3.3, 0.1, 0.2, 0.7])[:, None], (5, 5, MINUTES)), SIGNALS, learned.floors
    )[..., 0]
    for _ in range(40 * DAY // 8):
        state, alarms = advance(learned, state, np.where(np.arange(5)[:, None] == STILL, still, np.nan))
        assert alarms == ()

    assert not state.collected.any()


@pytest.mark.parametrize(
    ("column", "change", "about"),
    [
        (0, lambda values: values * 0.9, ("throughput", Aspect.LEVEL, math.log(0.9))),
        (0, lambda values: values * 1.1, ("throughput", Aspect.LEVEL, math.log(1.1))),
        (0, lambda values: 1000 * (values / 1000) ** 3, ("throughput", Aspect.SPREAD, math.log(3))),
        (1, lambda values: values + 15, ("balance", Aspect.LEVEL, 15.0)),
        # A logarithm of one share of three moves by two thirds of its ratio.
        (2, lambda values: values * 1.5, ("statements", Aspect.SHARE, math.log(1.5) * 2 / 3)),
    ],
)
def test_a_shift_is_named_with_its_time_direction_and_size(minutes, learned, column, change, about):
    name, aspect, size = about
    at = _LEARNED + 1000
    shifted = minutes.copy()
    shifted[PLAIN, column, at:] = change(shifted[PLAIN, column, at:])
    _, found = watch(learned, shifted)
    first = of(found, PLAIN)[0]
    # A louder signal may raise the alarm by two far blocks in a row; that it is louder is in the same alarm.
    named = {(each.stream.signal, each.stream.aspect, each.stream.column): each for each in first.changes}
    change_ = named[name, aspect, column]

    assert aspect is Aspect.SPREAD or change_ is first.changes[0]
    assert abs(change_.onset - at // MINUTES) <= 3
    assert at // MINUTES <= first.block <= at // MINUTES + DAY // 2
    # An interval of a stretch that was chosen for its evidence; four standard errors leave no doubt on which side.
    assert abs(change_.size - size) <= 4 / 1.96 * (change_.high - change_.low) / 2
    assert change_.direction == np.sign(size)
    assert len(of(found, PLAIN)) == 1  # it stays, and is told once
    assert found == of(found, PLAIN)


def test_the_end_of_an_incident_is_an_alarm_of_its_own_once_the_new_state_is_learned(minutes, learned):
    start = _LEARNED + 500
    end = start + (LEARNING + DAY // 2) * MINUTES
    shifted = minutes.copy()
    shifted[PLAIN, 0, start:end] *= 0.8
    _, found = watch(learned, shifted)

    assert [np.sign(alarm.changes[0].size) for alarm in found] == [-1, 1]


def test_units_and_zeros_change_no_alarm(minutes, learned):
    shifted = minutes.copy()
    for one in (PLAIN, UNIT):
        shifted[one, 0, _LEARNED + 700 :] *= 0.93
    _, found = watch(learned, shifted)
    one, other = of(found, PLAIN), of(found, UNIT)

    assert [alarm.block for alarm in one] == [alarm.block for alarm in other] != []
    assert one[0].evidence == pytest.approx(other[0].evidence, rel=1e-6)
    assert one[0].changes[0].size == pytest.approx(other[0].changes[0].size)


def test_what_never_moved_and_moves_is_an_alarm(minutes, learned):
    shifted = minutes.copy()
    shifted[STILL, 1, _LEARNED + 700 :] += 1.0
    _, found = watch(learned, shifted)

    assert [change.stream.signal for change in of(found, STILL)[0].changes] == ["balance"]
    assert of(found, STILL)[0].block <= (_LEARNED + 700) // MINUTES + 3


def only(learned, one):
    """The set as the only one."""

    def cut(value):
        return value[one : one + 1]

    return replace(
        learned,
        **{name: cut(getattr(learned, name)) for name in ("floors", "profile", "ahead", "means", "usual", "threshold")},
        predictor=replace(
            learned.predictor, weights=cut(learned.predictor.weights), scale=cut(learned.predictor.scale)
        ),
        stakes=replace(
            learned.stakes,
            calm=cut(learned.stakes.calm),
            blocks=cut(learned.stakes.blocks),
            trust=cut(learned.stakes.trust),
        ),
    )


def test_minute_by_minute_and_put_down_in_between_the_alarms_are_the_same(minutes, learned):
    shifted = minutes.copy()
    shifted[PLAIN, 0, _LEARNED + 700 :] *= 0.9
    _, together = watch(learned, shifted)
    feed, found = open_feed(only(learned, PLAIN), _LEARNED), []
    for place in range(1200):
        if place % 97 == 0:
            feed = from_plain(json.loads(json.dumps(to_plain(feed), allow_nan=False)))
        feed, alarms = take(feed, _LEARNED + place, shifted[PLAIN, :, _LEARNED + place])
        found += alarms

    assert found == of(together, PLAIN) != []


def test_minutes_that_do_not_come_are_gaps_and_minutes_that_are_over_are_left_out(minutes, learned):
    feed = open_feed(only(learned, PLAIN), _LEARNED)
    for place in range(300):
        feed, _ = take(feed, _LEARNED + place, minutes[PLAIN, :, _LEARNED + place])
    before = feed.state
    feed, alarms = take(feed, _LEARNED + 100, np.zeros(5))

    assert alarms == ()
    assert feed.state is before

    feed, alarms = take(feed, _LEARNED + 3000, minutes[PLAIN, :, _LEARNED + 3000])

    assert alarms == ()
    assert feed.state.block == (_LEARNED + 3000) // MINUTES
    assert (feed.state.collected == before.collected).all()


def test_what_a_signal_is_outlasts_being_put_down(learned):
    signals = (Signal(name="rollbacks", scale=Scale.RATIO, columns=(0,), group="errors", has_spread=False),)
    feed = open_feed(replace(only(learned, PLAIN), signals=signals), _LEARNED)

    assert from_plain(to_plain(feed)).learned.signals == signals


def test_other_formats_are_refused(learned):
    plain = to_plain(open_feed(only(learned, PLAIN), _LEARNED))

    with pytest.raises(ValueError, match=f"expected format {FORMAT}, got 0"):
        from_plain({**plain, "format": 0})


@pytest.mark.parametrize(("length", "first"), [(_LEARNED - 1, 0), (_LEARNED, 3)])
def test_less_than_two_weeks_or_part_of_a_block_are_refused(minutes, length, first):
    with pytest.raises(ValueError, match="expected whole blocks of 14 days or more"):
        learn(minutes[..., :length], SIGNALS, first=first)
