import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.model.histogram import (
    FINE,
    GAMMA,
    RELATIVE_ERROR,
    bucket_bounds,
    bucket_of,
    bucket_value,
    row_bounds,
    row_of,
)

ROUNDING = 1e-9


@given(st.floats(min_value=1.0001, max_value=1e11))
def test_latency_lies_between_the_bounds_of_its_bucket(microseconds):
    low, high = bucket_bounds(bucket_of(microseconds))

    assert low * (1 - ROUNDING) < microseconds * 1e-6 <= high * (1 + ROUNDING)


@given(st.floats(min_value=1, max_value=1e11))
def test_value_of_a_bucket_is_within_the_relative_error(microseconds):
    assert bucket_value(bucket_of(microseconds)) == pytest.approx(microseconds * 1e-6, rel=RELATIVE_ERROR + ROUNDING)


def test_relative_error_is_at_most_one_percent():
    assert round(RELATIVE_ERROR, 9) <= 0.01


@given(st.integers(min_value=1, max_value=1300))
def test_buckets_join_without_gap_and_their_value_is_equally_far_from_both_ends(bucket):
    low, high = bucket_bounds(bucket)
    value = bucket_value(bucket)

    assert bucket_bounds(bucket + 1)[0] == pytest.approx(high)
    assert high / low == pytest.approx(GAMMA)
    assert value / low - 1 == pytest.approx(1 - value / high)
    assert value / low - 1 == pytest.approx(RELATIVE_ERROR / 2, rel=0.02)


@given(st.floats(min_value=0, max_value=1e11), st.floats(min_value=0, max_value=1e11))
def test_longer_latencies_are_never_in_lower_buckets(one, other):
    shorter, longer = sorted((one, other))

    assert bucket_of(shorter) <= bucket_of(longer)


@pytest.mark.parametrize("microseconds", [0, 0.5, 1])
def test_everything_up_to_the_resolution_of_the_clock_is_one_bucket(microseconds):
    bucket = bucket_of(microseconds)

    assert bucket == 0
    assert bucket_value(bucket) == 1e-6
    assert bucket_bounds(bucket) == (0, 1e-6)


def test_an_hour_needs_fewer_than_2300_buckets():
    assert bucket_of(3600e6) == math.ceil(math.log(3.6e9) / math.log(1.01)) < 2300


@given(st.one_of(st.integers(min_value=1, max_value=1300), st.integers(min_value=FINE + 700, max_value=FINE + 2000)))
def test_a_row_holds_the_value_of_each_of_its_buckets(bucket):
    low, high = row_bounds(row_of(bucket))

    assert low * (1 - ROUNDING) < bucket_value(bucket) <= high * (1 + ROUNDING)


@given(st.integers(min_value=0, max_value=60))
def test_two_rows_are_a_doubling_and_join_without_a_gap(row):
    assert row_bounds(row)[1] == row_bounds(row + 1)[0]
    assert row_bounds(row + 2)[0] == pytest.approx(2 * row_bounds(row)[0])


def test_what_is_shorter_than_the_first_row_is_in_it():
    assert row_of(0) == row_of(-5) == row_of(FINE + 1) == 0
