import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.model.histogram import FINE, RELATIVE_ERROR, bucket_bounds, bucket_of, bucket_value, standing_bounds

LAST = 29 * 64 - 1  # fio's stat.h: FIO_IO_U_PLAT_GROUP_NR groups of FIO_IO_U_PLAT_VAL


def fio_index(nanoseconds: int) -> int:
    """As fio finds the bucket of a latency: the highest six bits after the first (stat.c, plat_val_to_idx)."""
    if nanoseconds < 128:
        return nanoseconds
    shift = nanoseconds.bit_length() - 7
    return (shift + 1) * 64 + (nanoseconds >> shift) - 64


@given(st.integers(min_value=64, max_value=17_000_000_000))
def test_a_latency_lies_in_the_bucket_that_fio_counts_it_in(nanoseconds: int) -> None:
    low, high = bucket_bounds(FINE + fio_index(nanoseconds))

    assert low - 1e-18 <= nanoseconds * 1e-9 < high + 1e-15


@given(st.integers(min_value=64, max_value=17_000_000_000))
def test_whatever_stands_for_a_latency_is_within_one_percent_of_it(nanoseconds: int) -> None:
    bucket = FINE + fio_index(nanoseconds)

    for value in (*standing_bounds(bucket), bucket_value(bucket)):
        assert value == pytest.approx(nanoseconds * 1e-9, rel=RELATIVE_ERROR * 1.03)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 191, 192, 1000, LAST - 1])
def test_buckets_follow_each_other_without_a_gap(number: int) -> None:
    assert bucket_bounds(FINE + number)[1] == pytest.approx(bucket_bounds(FINE + number + 1)[0])


# Worked out by hand: group 2 begins at 128 ns with steps of 2 ns; 1 µs is in steps of 8 ns from 512 ns on.
@pytest.mark.parametrize(("number", "low", "high"), [(64, 64, 65), (128, 128, 130), (129, 130, 132), (316, 992, 1000)])
def test_bounds_are_those_of_fio(number: int, low: float, high: float) -> None:
    assert bucket_bounds(FINE + number) == pytest.approx((low * 1e-9, high * 1e-9))


def test_no_latency_in_microseconds_has_an_index_of_fio() -> None:
    assert bucket_of(1e6 * 86400 * 365) < FINE


def test_buckets_of_equal_ratios_stand_for_themselves() -> None:
    assert standing_bounds(300) == bucket_bounds(300)
