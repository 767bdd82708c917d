"""Signals that are zero for weeks: an event now and then is no alarm, many are one, and their noise stays the same."""

import numpy as np
import pytest

from pgtrial.stats.alarms.blocks import DAY, Scale, Signal, blocks_of
from pgtrial.stats.alarms.detector import FEWEST_DAYS, advance, begin, learn
from pgtrial.stats.alarms.zeros import NOISE, lift, share_background, share_of

_MINUTES = 1440
_LEARNED, _WATCHED = FEWEST_DAYS * _MINUTES, 10 * _MINUTES
_SIGNALS = (Signal(name="rolled back", scale=Scale.RATIO, columns=(0,), has_spread=False),)
_USUAL = 6000.0  # transactions in a minute
ONE_A_DAY, MANY, ONE_IN_A_THOUSAND = range(3)


def test_a_minute_has_the_same_noise_whatever_comes_before_it():
    whole = lift(np.zeros(5 * _MINUTES), 2.0, server="db1", name="rollbacks", first=28_000_000)
    later = lift(np.zeros(_MINUTES), 2.0, server="db1", name="rollbacks", first=28_000_000 + 777)

    assert (later == whole[777 : 777 + _MINUTES]).all()
    assert np.std(np.log(whole / 2.0)) == pytest.approx(NOISE, rel=0.05)
    for server, name in (("db1", "deadlocks"), ("db2", "rollbacks")):
        other = lift(np.zeros(whole.size), 2.0, server=server, name=name, first=28_000_000)
        assert abs(np.corrcoef(whole, other)[0, 1]) < 0.05


def test_a_gap_stays_one_and_what_is_large_is_kept():
    lifted = lift(np.array([np.nan, 0.0, 1e6]), 1.0, server="db1", name="x", first=0)

    assert np.isnan(lifted).tolist() == [True, False, False]
    assert lifted[2] == pytest.approx(1e6, rel=1e-5)
    assert lift(np.empty(0), 1.0, server="db1", name="x", first=1440).size == 0


def test_one_event_of_a_quiet_minute_is_no_large_share():
    shares = share_of(np.array([1.0, 60.0, 0.0]), np.array([2.0, 6000.0, 0.0]), _USUAL)

    assert shares.tolist() == [1 / 3000, 0.01, 0.0]


@pytest.mark.parametrize(("usual", "background"), [(100_000.0, 0.001), (1000.0, 0.005), (50.0, 0.1)])
def test_the_background_is_a_thousandth_or_a_few_events(usual, background):
    assert share_background(usual) == background


def test_after_weeks_of_zeros_few_events_are_silent_and_many_are_an_alarm():
    rng = np.random.default_rng(7)
    among = _USUAL * np.exp(0.05 * rng.normal(size=(3, _LEARNED + _WATCHED)))
    events = np.zeros(among.shape)
    at = _LEARNED + 2 * _MINUTES
    events[ONE_A_DAY, rng.integers(_LEARNED, _LEARNED + _WATCHED, size=10)] = 1.0
    events[MANY, at:] = rng.poisson(0.02 * among[MANY, at:])
    events[ONE_IN_A_THOUSAND, at:] = rng.poisson(0.001 * among[ONE_IN_A_THOUSAND, at:])
    shares = share_of(events, among, _USUAL)
    values = np.stack(
        [lift(each, share_background(_USUAL), server="db1", name="rolled back", first=0) for each in shares]
    )[:, None]
    learned = learn(values[..., :_LEARNED], _SIGNALS, first=0, resample=False)
    state, found = begin(learned, FEWEST_DAYS * DAY), []
    for block in np.moveaxis(blocks_of(values[..., _LEARNED:], _SIGNALS, learned.floors), -1, 0):
        state, alarms = advance(learned, state, block)
        found += alarms

    # What has begun has noise of its own, of which more alarms may come.
    first = {alarm.set: alarm for alarm in reversed(found)}
    assert sorted(first) == [MANY, ONE_IN_A_THOUSAND]
    for alarm in first.values():
        assert at // 5 <= alarm.block <= at // 5 + 6
        assert alarm.changes[0].direction == 1
