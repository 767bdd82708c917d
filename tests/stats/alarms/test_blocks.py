import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.stats.alarms.blocks import MINUTES, Aspect, Scale, Signal, blocks_of, learn_floors, streams_of

RATIO = (Signal(name="throughput", scale=Scale.RATIO, columns=(0,)),)
DIFFERENCE = (Signal(name="balance", scale=Scale.DIFFERENCE, columns=(0,)),)
MIX = (Signal(name="statements", scale=Scale.MIX, columns=(0, 1, 2)),)
minutes = st.lists(st.floats(1, 1000), min_size=20, max_size=40, unique=True).map(lambda values: np.array([values]))


def blocks(values, signals):
    return blocks_of(values, signals, learn_floors(values, signals))


@given(minutes, st.floats(1e-6, 1e6))
def test_another_unit_moves_a_ratio_and_nothing_else(values, factor):
    before, after = blocks(values, RATIO), blocks(values * factor, RATIO)

    assert after[0] - before[0] == pytest.approx(np.full(before.shape[1], math.log(factor)), abs=1e-9)
    assert after[1] == pytest.approx(before[1], abs=1e-6)


@given(minutes, st.floats(-1e4, 1e4))
def test_another_zero_moves_a_difference_and_nothing_else(values, shift):
    values = np.round(values, 3)
    before, after = blocks(values, DIFFERENCE), blocks(values + shift, DIFFERENCE)

    assert after[0] - before[0] == pytest.approx(np.full(before.shape[1], shift), abs=1e-6)
    wide = before[1] > math.log(1e-2)  # otherwise what is left of a sum is rounding
    assert after[1][wide] == pytest.approx(before[1][wide], abs=1e-3)


@given(st.floats(1e-3, 1e3))
def test_a_mix_knows_shares_only(factor):
    values = np.random.default_rng(1).gamma(5, size=(3, 30))
    values /= values.sum(axis=0)

    assert blocks(values * factor, MIX) == pytest.approx(blocks(values, MIX))
    assert blocks(values, MIX).sum(axis=0) == pytest.approx(np.zeros(6), abs=1e-12)


def test_a_level_is_the_mean_logarithm_and_a_spread_that_of_the_mean_difference():
    found = blocks(np.array([[1.0, 2, 4, 2, 1, 8, 8, 16, 16, 8]]), RATIO)

    # Logarithms to base 2 are 0 1 2 1 0 and 3 3 4 4 3: means 4/5 and 17/5, mean differences 1 and 1/2.
    assert found[0] == pytest.approx(np.array([0.8, 3.4]) * math.log(2))
    assert found[1] == pytest.approx(np.log(np.array([1.0, 0.5]) * math.log(2)))


def test_two_minutes_of_a_block_are_a_gap_and_three_are_not():
    values = np.array([[1.0, 2, math.nan, math.nan, math.nan, 1, 2, 3, math.nan, math.nan, 1, 1, 1, 1, 1]])
    level, spread = blocks(values, DIFFERENCE)

    assert np.isnan(level).tolist() == [True, False, False]
    assert level[1:].tolist() == [2.0, 1.0]
    assert np.isnan(spread).tolist() == [True, True, False]


def test_what_stops_is_a_low_level_and_no_gap():
    calm = np.full((1, 50), 100.0)
    floors = learn_floors(calm, RATIO)

    assert blocks_of(np.zeros((1, MINUTES)), RATIO, floors)[0] == pytest.approx(np.log([10.0]))


def test_a_mix_of_nothing_is_a_gap():
    assert np.isnan(blocks(np.zeros((3, MINUTES)), MIX)).all()


def test_streams_are_in_the_order_of_blocks():
    both = (*RATIO, Signal(name="statements", scale=Scale.MIX, columns=(1, 2)))

    assert [(each.aspect, each.column) for each in streams_of(both)] == [
        (Aspect.LEVEL, 0),
        (Aspect.SPREAD, 0),
        (Aspect.SHARE, 1),
        (Aspect.SHARE, 2),
    ]
    assert blocks(np.ones((3, 2 * MINUTES)), both).shape == (4, 2)


@pytest.mark.parametrize(("scale", "columns"), [(Scale.MIX, (0,)), (Scale.RATIO, (0, 1)), (Scale.DIFFERENCE, ())])
def test_a_mix_has_several_columns_and_others_have_one(scale, columns):
    with pytest.raises(ValueError, match="expected one column"):
        streams_of([Signal(name="x", scale=scale, columns=columns)])
